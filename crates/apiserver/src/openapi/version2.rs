//! The document of OpenAPI 2: one for all groups.

use schema::openapi::OpenApi;
use serde_json::{Value, json};

use super::frame::{Frame, frame};
use super::operations::{Operation, Parameter};
use crate::kinds::Kind;
use crate::media::media_types;

/// The patches that are understood.
pub(super) const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// The document about `kinds`.
pub(super) fn document(kinds: &[&Kind]) -> Value {
    let Frame { schemas, paths } = frame(kinds, OpenApi::V2, of_variable, of_operation);
    json!({"swagger": "2.0", "info": super::info(), "paths": paths, "definitions": schemas})
}

fn of_variable(parameter: Parameter) -> Value {
    json!({"name": parameter.name, "in": "path", "required": true, "type": parameter.form,
        "uniqueItems": true, "description": parameter.description})
}

fn of_operation(operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if let Some(ty) = operation.body {
        parameters.push(json!({"name": "body", "in": "body", "required": operation.method != "delete",
            "schema": OpenApi::V2.reference(ty)}));
    }
    parameters.extend(operation.parameters.iter().map(|own| {
        json!({"name": own.name, "in": "query", "type": own.form, "uniqueItems": true,
            "description": own.description})
    }));
    let answer = match operation.answer {
        Some(ty) => json!({"description": "OK", "schema": OpenApi::V2.reference(ty)}),
        None => json!({"description": "OK", "schema": {"type": "string"}}),
    };
    let consumes: Vec<String> = match operation.method {
        "patch" => PATCHES.map(str::to_owned).to_vec(),
        _ => vec!["*/*".to_owned()],
    };
    let group = if operation.kind.group.is_empty() { "core" } else { operation.kind.group };
    json!({
        "operationId": operation.id,
        "description": operation.description,
        "tags": [format!("{group}_{}", operation.kind.version)],
        "consumes": consumes,
        "produces": media_types(),
        "parameters": parameters,
        "responses": {"200": answer},
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.kind.to_value(),
    })
}
