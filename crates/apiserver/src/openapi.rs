//! `/openapi/v2` and `/openapi/v3`: as much as clients need to see that the server validates fields itself.

use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::media::accepted;
use crate::responses::{Answer, answer as typed_answer, json as json_answer, whole};
use crate::server::Server;

/// A media type with an `@` breaks old clients; this one is what they accept.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The smallest document of version 2: the field that says `2.0`.
const V2_DOCUMENT: &[u8] = b"\x0a\x032.0";

/// Answers if the path is one of these.
pub(crate) fn answer(server: &Server, path: &str, headers: &HeaderMap) -> Option<Answer> {
    match path {
        "/openapi/v2" => Some(version_2(headers)),
        "/openapi/v3" => Some(json_answer(StatusCode::OK, &index(server))),
        _ => {
            let group_version = path.strip_prefix("/openapi/v3/")?;
            document(server, group_version).map(|value| json_answer(StatusCode::OK, &value))
        }
    }
}

fn version_2(headers: &HeaderMap) -> Answer {
    let wants_protobuf = accepted(headers).iter().any(|range| range.name.contains("protobuf"));
    if wants_protobuf {
        return typed_answer(StatusCode::OK, V2_PROTOBUF, whole(V2_DOCUMENT));
    }
    let document = json!({"swagger": "2.0", "info": {"title": "Coracle", "version": "v1.36.0"}, "paths": {}, "definitions": {}});
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

fn index(server: &Server) -> Value {
    let mut paths = Map::new();
    for kind in server.kinds.iter() {
        let root = root(kind);
        let url = format!("/openapi/v3/{root}?hash={}", env!("CARGO_PKG_VERSION"));
        paths.insert(root, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn document(server: &Server, group_version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in server.kinds.iter().filter(|kind| root(kind) == group_version) {
        let collection = if kind.namespaced() {
            format!("/{group_version}/namespaces/{{namespace}}/{}", kind.plural())
        } else {
            format!("/{group_version}/{}", kind.plural())
        };
        let name = schema_name(kind);
        paths.insert(collection.clone(), json!({"post": operation(kind, "post", &name)}));
        paths.insert(
            format!("{collection}/{{name}}"),
            json!({
                "get": operation(kind, "get", &name),
                "put": operation(kind, "put", &name),
                "patch": operation(kind, "patch", &name),
                "delete": operation(kind, "delete", &name),
            }),
        );
        schemas.insert(
            name,
            json!({
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "x-kubernetes-group-version-kind": [group_version_kind(kind)],
            }),
        );
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Coracle", "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn schema_name(kind: &Kind) -> String {
    let group =
        if kind.group().is_empty() { "core" } else { kind.group().split('.').next().unwrap_or_default() };
    format!("io.k8s.api.{group}.{}.{}", kind.resource().version, kind.kind())
}

fn group_version_kind(kind: &Kind) -> Value {
    json!({"group": kind.group(), "version": kind.resource().version, "kind": kind.kind()})
}

fn operation(kind: &Kind, method: &str, schema: &str) -> Value {
    let text =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters = match method {
        "post" | "put" | "patch" => vec![text("dryRun"), text("fieldManager"), text("fieldValidation")],
        "delete" => vec![text("dryRun"), text("gracePeriodSeconds"), text("propagationPolicy")],
        _ => Vec::new(),
    };
    json!({
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": group_version_kind(kind),
        "parameters": parameters,
        "responses": {"200": {
            "description": "OK",
            "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}},
        }},
    })
}
