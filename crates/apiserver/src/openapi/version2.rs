//! The document of OpenAPI 2: one for all groups.

use schema::openapi::{OpenApi, schema, schema_name};
use serde_json::{Map, Value, json};

use super::operations::{Operation, Parameter, paths, types};
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
    let all: Vec<_> = kinds.iter().flat_map(|kind| paths(kind)).collect();
    let definitions: Map<String, Value> = types(kinds, &all)
        .into_iter()
        .map(|(ty, named)| {
            let mut value = schema(ty, OpenApi::V2);
            if !named.is_empty() {
                value["x-kubernetes-group-version-kind"] =
                    named.into_iter().map(|gvk| gvk.to_value()).collect();
            }
            (schema_name(ty), value)
        })
        .collect();
    let paths: Map<String, Value> = all
        .into_iter()
        .map(|path| {
            let mut item: Map<String, Value> = path
                .operations
                .iter()
                .map(|operation| (operation.method.to_owned(), of_operation(operation)))
                .collect();
            if !path.variables.is_empty() {
                item.insert(
                    "parameters".to_owned(),
                    path.variables.iter().map(|own| of_variable(*own)).collect(),
                );
            }
            (path.path, Value::Object(item))
        })
        .collect();
    json!({"swagger": "2.0", "info": super::info(), "paths": paths, "definitions": definitions})
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
