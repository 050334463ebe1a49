//! The documents of OpenAPI 3: one for each group and version.

use schema::openapi::OpenApi;
use serde_json::{Map, Value, json};

use super::frame::{Frame, frame};
use super::operations::{Operation, Parameter};
use super::version2::PATCHES;
use crate::kinds::Kind;
use crate::media::media_types;

/// The document about `kinds`, which are those of one group and version.
pub(super) fn document(kinds: &[&Kind]) -> Value {
    let variable = |own| of_parameter(own, "path");
    let Frame { schemas, paths } = frame(kinds, OpenApi::V3, variable, of_operation);
    json!({"openapi": "3.0.0", "info": super::info(), "paths": paths, "components": {"schemas": schemas}})
}

fn of_parameter(parameter: Parameter, place: &str) -> Value {
    let mut value = json!({"name": parameter.name, "in": place, "description": parameter.description,
        "schema": {"type": parameter.form, "uniqueItems": true}});
    if place == "path" {
        value["required"] = json!(true);
    }
    value
}

/// The same schema for each media type.
fn content(types: impl IntoIterator<Item = impl Into<String>>, schema: &Value) -> Value {
    types.into_iter().map(|name| (name.into(), json!({"schema": schema}))).collect::<Map<_, _>>().into()
}

fn of_operation(operation: &Operation) -> Value {
    let answer = operation.answer.map_or_else(|| json!({"type": "string"}), |ty| OpenApi::V3.reference(ty));
    let group = if operation.kind.group.is_empty() { "core" } else { operation.kind.group };
    let parameters: Vec<Value> = operation.parameters.iter().map(|own| of_parameter(*own, "query")).collect();
    let mut value = json!({
        "operationId": operation.id,
        "description": operation.description,
        "tags": [format!("{group}_{}", operation.kind.version)],
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": content(media_types(), &answer)}},
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.kind.to_value(),
    });
    if let Some(ty) = operation.body {
        let body = OpenApi::V3.reference(ty);
        value["requestBody"] = match operation.method {
            "patch" => json!({"content": content(PATCHES, &body), "required": true}),
            method => json!({"content": content(["*/*"], &body), "required": method != "delete"}),
        };
    }
    value
}
