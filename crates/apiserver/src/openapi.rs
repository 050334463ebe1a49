//! `/openapi/v2` and `/openapi/v3`: what clients explain, validate and look up parameters with.
//!
//! The documents follow from the table of kinds and the schema's table. They are made when somebody asks for them, not
//! kept: only the hashes stay, by which clients know that what they have is still right.

mod frame;
mod operations;
mod version2;
mod version3;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::media::accepted;
use crate::query::Query;
use crate::responses::{Answer, JSON, answer as typed_answer, failure, json as json_answer, whole};
use crate::server::Server;
use crate::workshop::Workshop;

/// A media type with an `@` breaks old clients; this one is what they accept.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// What is kept of the documents.
#[derive(Debug)]
pub(crate) struct Documents {
    /// The hashes of version 3, by group and version; found when they are asked for first.
    hashes: OnceLock<BTreeMap<String, String>>,
    /// Where documents are made, one at a time: the tree of the largest takes some megabytes.
    making: Workshop,
}

impl Default for Documents {
    fn default() -> Documents {
        Documents { hashes: OnceLock::new(), making: Workshop::new(1) }
    }
}

impl Documents {
    fn hashes(&self, server: &Server) -> &BTreeMap<String, String> {
        self.hashes.get_or_init(|| {
            roots(server)
                .into_iter()
                .filter_map(|root| {
                    let hash = hash(document(server, &root)?.as_ref());
                    Some((root, hash))
                })
                .collect()
        })
    }
}

fn hash(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:016X}", hasher.finish())
}

/// Answers if the path is one of these: one document at a time, and not by the threads that answer requests.
pub(crate) async fn answer(
    server: &Arc<Server>,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Option<Answer> {
    if !path.starts_with("/openapi/") {
        return None;
    }
    let own = (server.clone(), path.to_owned(), query.clone(), headers.clone());
    let work = move || make(&own.0, &own.1, &own.2, &own.3);
    server.openapi.making.run(work).await.unwrap_or_else(|error| Some(failure(&error)))
}

fn make(server: &Server, path: &str, query: &Query, headers: &HeaderMap) -> Option<Answer> {
    match path {
        "/openapi/v2" => Some(version_2(server, headers)),
        "/openapi/v3" => Some(json_answer(StatusCode::OK, &index(server))),
        _ => {
            let root = path.strip_prefix("/openapi/v3/")?;
            let hash = server.openapi.hashes(server).get(root)?;
            let mut response = typed_answer(StatusCode::OK, JSON, whole(document(server, root)?));
            let own = response.headers_mut();
            own.extend(HeaderValue::from_str(&format!("\"{hash}\"")).ok().map(|value| (ETAG, value)));
            if query.get("hash") == Some(hash) {
                // Another document would have another address.
                own.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            }
            Some(response)
        }
    }
}

fn version_2(server: &Server, headers: &HeaderMap) -> Answer {
    let kinds: Vec<&Kind> = server.kinds.iter().map(AsRef::as_ref).collect();
    let document = version2::document(&kinds);
    let best =
        accepted(headers).into_iter().find(|range| range.name.contains("protobuf") || range.takes_json());
    if best.is_some_and(|range| range.name.contains("protobuf")) {
        let bytes = schema::openapi::document_to_protobuf(&document);
        return typed_answer(StatusCode::OK, V2_PROTOBUF, whole(bytes));
    }
    json_answer(StatusCode::OK, &document)
}

/// `api/v1`, `apis/coordination.k8s.io/v1`.
fn root(kind: &Kind) -> String {
    if kind.group().is_empty() {
        format!("api/{}", kind.resource().version)
    } else {
        format!("apis/{}", kind.group_version())
    }
}

fn roots(server: &Server) -> BTreeSet<String> {
    server.kinds.iter().map(|kind| root(kind)).collect()
}

fn index(server: &Server) -> Value {
    let paths: Map<String, Value> = server
        .openapi
        .hashes(server)
        .iter()
        .map(|(root, hash)| {
            let url = format!("/openapi/v3/{root}?hash={hash}");
            (root.clone(), json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

fn document(server: &Server, wanted: &str) -> Option<Bytes> {
    let kinds: Vec<&Kind> =
        server.kinds.iter().map(AsRef::as_ref).filter(|kind| root(kind) == wanted).collect();
    (!kinds.is_empty()).then(|| Bytes::from(version3::document(&kinds).to_string()))
}

/// What both versions say about themselves.
fn info() -> Value {
    json!({"title": "Coracle", "version": "v1.36.0"})
}
