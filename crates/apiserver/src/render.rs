//! Objects and lists as clients asked for them: as they are, as tables, or their metadata only.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use jiff::Timestamp;
use schema::protobuf::{ListWriter, ProtobufError};
use serde_json::{Value, json};
use store::Object;

use crate::kinds::Kind;
use crate::media::{Format, MetaVersion, Notation};
use crate::notation::aside;
use crate::object::tree;
use crate::pagination::Page;
use crate::query::Query;
use crate::responses::{Answer, JSON, answer, json as json_answer, whole};
use crate::status::ApiError;
use crate::table::{Include, column_definitions, partial_metadata, row, table};
use crate::workshop::Workshop;

/// An object that is to be shown.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// As it is stored.
    Stored(Arc<Object>),
    /// As it would be stored.
    Tree(Value),
}

impl Shown {
    /// As a tree.
    pub(crate) fn to_tree(&self) -> Value {
        match self {
            Shown::Stored(object) => tree(object),
            Shown::Tree(value) => value.clone(),
        }
    }

    fn bytes(&self, kind: &Kind) -> Bytes {
        match self {
            Shown::Stored(object) => kind.shown_bytes(object.value()),
            Shown::Tree(value) if kind.is_alias() => Bytes::from(kind.shown(value.clone()).to_string()),
            Shown::Tree(value) => Bytes::from(value.to_string()),
        }
    }
}

/// `includeObject`.
pub(crate) fn include(query: &Query) -> Result<Include, ApiError> {
    Include::parse(query.get("includeObject")).ok_or_else(|| {
        ApiError::bad_request(
            "includeObject: unsupported value; supported values: \"None\", \"Metadata\", \"Object\"",
        )
    })
}

/// One object.
pub(crate) fn object(
    kind: &Kind,
    format: Format,
    query: &Query,
    shown: &Shown,
    code: StatusCode,
) -> Result<Answer, ApiError> {
    match format {
        Format::Object => Ok(answer(code, JSON, whole(shown.bytes(kind)))),
        Format::Metadata(version) => Ok(json_answer(code, &partial_metadata(&shown.to_tree(), version))),
        Format::Table(version) => {
            let object = shown.to_tree();
            let row = row(kind, &object, include(query)?, version, Timestamp::now());
            let resource_version = crate::object::text(&object, &["metadata", "resourceVersion"]);
            let metadata = json!({"resourceVersion": resource_version});
            Ok(json_answer(code, &table(metadata, Some(column_definitions(kind)), vec![row], version)))
        }
    }
}

/// A list.
pub(crate) fn list(kind: &Kind, format: Format, query: &Query, page: &Page) -> Result<Answer, ApiError> {
    match format {
        Format::Object => Ok(answer(StatusCode::OK, JSON, whole(list_bytes(kind, page)))),
        Format::Metadata(version) => {
            let items: Vec<Value> =
                page.objects.iter().map(|object| partial_metadata(&tree(object), version)).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": version.api_version(),
                "metadata": page.metadata(),
                "items": items,
            });
            Ok(json_answer(StatusCode::OK, &list))
        }
        Format::Table(version) => {
            let (include, now) = (include(query)?, Timestamp::now());
            let rows =
                page.objects.iter().map(|object| row(kind, &tree(object), include, version, now)).collect();
            let table = table(page.metadata(), Some(column_definitions(kind)), rows, version);
            Ok(json_answer(StatusCode::OK, &table))
        }
    }
}

/// A list in protobuf, written item by item: only one of its objects is a tree at a time.
///
/// With a version of `meta.k8s.io` the list is of the objects' metadata only.
pub(crate) async fn protobuf_list(
    room: &Workshop,
    kind: &Arc<Kind>,
    metadata_only: Option<MetaVersion>,
    page: Page,
) -> Result<Answer, ApiError> {
    let size: usize = page.objects.iter().map(|object| object.value().len()).sum();
    let kind = kind.clone();
    let work = move || {
        let metadata = page.metadata().to_string();
        let (version, name) = match metadata_only {
            Some(version) => (version.api_version(), "PartialObjectMetadataList"),
            None => (kind.group_version(), kind.list_kind()),
        };
        // Protobuf is shorter than JSON, unless most fields are empty.
        let mut list = ListWriter::begin(version, name, metadata.as_bytes(), size)?;
        page.objects.iter().try_for_each(|object| list.push(&kind.shown_bytes(object.value())))?;
        Ok::<_, ProtobufError>(list.finish())
    };
    let written = aside(room, size, move || Some(work())).await;
    match written {
        Some(Ok(bytes)) => Ok(answer(StatusCode::OK, Notation::Protobuf.media_type(), whole(bytes))),
        Some(Err(error)) => Err(ApiError::Internal { message: error.to_string() }),
        None => Err(ApiError::Internal { message: "the list could not be written".to_owned() }),
    }
}

/// The list as JSON: its items are the stored bytes.
fn list_bytes(kind: &Kind, page: &Page) -> Bytes {
    let size: usize = page.objects.iter().map(|object| object.value().len() + 1).sum();
    let mut bytes = BytesMut::with_capacity(size + 256);
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
        kind.list_kind(),
        kind.group_version(),
        page.metadata()
    );
    bytes.put_slice(head.as_bytes());
    for (index, object) in page.objects.iter().enumerate() {
        if index > 0 {
            bytes.put_u8(b',');
        }
        bytes.put_slice(&kind.shown_bytes(object.value()));
    }
    bytes.put_slice(b"]}");
    bytes.freeze()
}
