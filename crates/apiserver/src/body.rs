//! Request bodies: read whole within limits of size and time, decoded by their media type.

use std::error::Error;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use manifest::{Document, Limits as ManifestLimits, Node};
use schema::protobuf::{self, ProtobufError};
use schema::{DecodeError, Decoded, FieldValidation, Type};
use serde_json::Value;
use store::Object;

use crate::field_manager;
use crate::gatekeeper::Call;
use crate::kinds::Kind;
use crate::media::{content_type, media_types, media_types_without_protobuf};
use crate::query::Query;
use crate::server::Server;
use crate::status::ApiError;
use crate::templates;

/// A body with its media type.
#[derive(Clone)]
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    /// Lower case, without parameters; `None` when the client did not say.
    pub(crate) media_type: Option<String>,
}

/// Reads a request's body.
pub(crate) async fn read(server: &Server, request: &mut Request<Incoming>) -> Result<Content, ApiError> {
    let limits = server.limits();
    let limit = limits.body_bytes;
    let media_type = content_type(request.headers());
    let body = request.body_mut();
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::TooLarge { limit });
    }
    match tokio::time::timeout(limits.body_time, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(Content { bytes: collected.to_bytes(), media_type }),
        Ok(Err(error)) if is_length_limit(&*error) => Err(ApiError::TooLarge { limit }),
        Ok(Err(error)) => Err(ApiError::bad_request(format!("the body of the request ended early: {error}"))),
        Err(_) => Err(ApiError::BodyTimeout { seconds: limits.body_time.as_secs() }),
    }
}

fn is_length_limit(error: &(dyn Error + 'static)) -> bool {
    error.is::<LengthLimitError>()
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The body as bytes of JSON or as a tree that was read from YAML.
enum Notation {
    Json,
    Tree(Value),
}

fn notation(content: &Content) -> Result<Notation, ApiError> {
    match content.media_type.as_deref() {
        // Old kubectl posts JSON without saying so.
        None | Some("application/json") => Ok(Notation::Json),
        Some("application/yaml") => yaml_tree(&content.bytes).map(Notation::Tree),
        Some(PROTOBUF) => {
            protobuf::read_object(&content.bytes).map(Notation::Tree).map_err(|error| match error {
                ProtobufError::NoForm { .. } => {
                    ApiError::UnsupportedMediaType { accepted: media_types_without_protobuf() }
                }
                error => ApiError::bad_request(format!("the protobuf body cannot be decoded: {error}")),
            })
        }
        Some(_) => Err(ApiError::UnsupportedMediaType { accepted: media_types() }),
    }
}

/// The tree of a YAML body: one document, within a parse budget.
pub(crate) fn yaml_tree(bytes: &[u8]) -> Result<Value, ApiError> {
    let documents = manifest::parse_stream(bytes, &ManifestLimits::default())
        .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: {error}")))?;
    match documents.as_slice() {
        [] => Ok(Value::Null),
        [document, ..] => Ok(document.root.to_json()),
    }
}

/// The tree of a body that may be of any kind (options, bindings); an empty body is null.
pub(crate) fn tree(content: &Content) -> Result<Value, ApiError> {
    if content.bytes.is_empty() {
        return Ok(Value::Null);
    }
    match notation(content)? {
        Notation::Tree(value) => Ok(value),
        Notation::Json => serde_json::from_slice(&content.bytes).map_err(|error| {
            ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        }),
    }
}

/// The tree of a body with its keys in their order, for kinds that keep it.
fn key_order(kind: &Kind, content: &Content) -> Result<Option<Node>, ApiError> {
    let is_text = !matches!(content.media_type.as_deref(), Some(PROTOBUF));
    if !kind.strategy().keeps_order() || !is_text {
        return Ok(None);
    }
    let Some(Document { root, notices }) = first_document(&content.bytes) else { return Ok(None) };
    // What keeps its order is a template, and a key that stands twice in one is a mistake.
    template::check_keys(&root, &notices).map_err(|refusal| templates::refuse(kind, &root, &refusal))?;
    Ok(Some(root))
}

/// The tree of a stored object with its keys in their order, for kinds that keep it.
pub(crate) fn stored_order(kind: &Kind, stored: &Object) -> Option<Node> {
    if kind.strategy().keeps_order() {
        first_document(stored.value()).map(|document| document.root)
    } else {
        None
    }
}

fn first_document(bytes: &[u8]) -> Option<Document> {
    let documents = manifest::parse_stream(bytes, &ManifestLimits::default()).ok()?;
    documents.into_iter().next()
}

/// `fieldValidation`.
pub(crate) fn field_validation(query: &Query) -> Result<FieldValidation, ApiError> {
    match query.text("fieldValidation") {
        None | Some("Warn") => Ok(FieldValidation::Warn),
        Some("Ignore") => Ok(FieldValidation::Ignore),
        Some("Strict") => Ok(FieldValidation::Strict),
        Some(other) => Err(ApiError::bad_request(format!(
            "fieldValidation: Unsupported value: \"{other}\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
        ))),
    }
}

/// Decodes an object of `kind`, or says in upstream's words why it is none.
pub(crate) fn decode(kind: &Kind, content: &Content, query: &Query) -> Result<Decoded, ApiError> {
    let mut decoded = decode_as(kind, kind.kind(), kind.ty(), content, query)?;
    set_type(kind, &mut decoded.value);
    if field_manager::may_reset(&content.bytes) {
        field_manager::keep_reset(&tree(content)?, &mut decoded.value);
    }
    Ok(decoded)
}

/// An object of the kind that a request is about, and its keys in their order where the kind keeps it. Templates are
/// large, and looked at twice: that is not done on the thread that answers requests.
pub(crate) async fn decode_whole(call: &Call, content: Content) -> Result<(Decoded, Option<Node>), ApiError> {
    let (kind, query) = (call.kind.clone(), call.query.clone());
    let is_large = kind.strategy().keeps_order();
    let work = move || Ok((decode(&kind, &content, &query)?, key_order(&kind, &content)?));
    if is_large { call.server.workshop.run(work).await? } else { work() }
}

/// Decodes the values for a stored template; no body is no value.
pub(crate) fn decode_parameters(kind: &Kind, content: &Content, query: &Query) -> Result<Decoded, ApiError> {
    const PARAMETERS: &str = "TemplateParameters";
    if content.bytes.is_empty() {
        return Ok(Decoded { value: Value::Null, warnings: Vec::new() });
    }
    let ty = schema::builtin().type_for(kind.group_version(), PARAMETERS).ok_or(ApiError::NoSuchPath)?;
    decode_as(kind, PARAMETERS, ty, content, query)
}

fn decode_as(
    kind: &Kind,
    name: &str,
    ty: Type,
    content: &Content,
    query: &Query,
) -> Result<Decoded, ApiError> {
    let validation = field_validation(query)?;
    let (decoded, told) = match notation(content)? {
        Notation::Json => {
            let told = schema::peek_type_meta(&content.bytes).map_err(|error| {
                ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
            })?;
            check_type(kind, name, &told.api_version, &told.kind)?;
            (schema::decode(ty, &content.bytes, validation), told.kind)
        }
        Notation::Tree(value) => {
            let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            check_type(kind, name, &field("apiVersion"), &field("kind"))?;
            (schema::decode_value(ty, &value, validation), field("kind"))
        }
    };
    decoded.map_err(|error| ApiError::bad_request(explain(kind, name, &told, &error)))
}

fn explain(kind: &Kind, name: &str, told: &str, error: &DecodeError) -> String {
    let told = if told.is_empty() { name } else { told };
    format!("{told} in version \"{}\" cannot be handled as a {name}: {error}", kind.resource().version)
}

fn check_type(kind: &Kind, name: &str, api_version: &str, told: &str) -> Result<(), ApiError> {
    let own = [kind.group_version(), kind.stored_group_version()];
    if !api_version.is_empty() && !own.contains(&api_version) {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            kind.group_version()
        )));
    }
    if !told.is_empty() && told != name {
        let version = kind.resource().version;
        return Err(ApiError::bad_request(format!(
            "{told} in version \"{version}\" cannot be handled as a {name}: converting ({version}.{told}) to ({version}.{name}): unknown conversion"
        )));
    }
    Ok(())
}

/// Says in the object itself what it is.
pub(crate) fn set_type(kind: &Kind, object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert("kind".to_owned(), kind.kind().into());
        map.insert("apiVersion".to_owned(), kind.group_version().into());
    }
}
