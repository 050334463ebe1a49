//! What the documents of both versions have in common: schemas by name, and paths with their operations.

use schema::openapi::{OpenApi, schema, schema_name};
use serde_json::{Map, Value};

use super::operations::{Operation, Parameter, paths, types};
use crate::kinds::Kind;

/// The parts of a document.
pub(super) struct Frame {
    /// Each type by its name.
    pub(super) schemas: Map<String, Value>,
    /// Each path with its operations.
    pub(super) paths: Map<String, Value>,
}

/// The parts of a document about `kinds`, as a version writes variables of paths and operations.
pub(super) fn frame(
    kinds: &[&Kind],
    version: OpenApi,
    variable: impl Fn(Parameter) -> Value,
    operation: impl Fn(&Operation) -> Value,
) -> Frame {
    let all: Vec<_> = kinds.iter().flat_map(|kind| paths(kind)).collect();
    let schemas = types(kinds, &all)
        .into_iter()
        .map(|(ty, named)| {
            let mut value = schema(ty, version);
            if !named.is_empty() {
                value["x-kubernetes-group-version-kind"] =
                    named.into_iter().map(|gvk| gvk.to_value()).collect();
            }
            (schema_name(ty), value)
        })
        .collect();
    let paths = all
        .into_iter()
        .map(|path| {
            let mut item: Map<String, Value> =
                path.operations.iter().map(|own| (own.method.to_owned(), operation(own))).collect();
            if !path.variables.is_empty() {
                let variables = path.variables.iter().map(|own| variable(*own)).collect();
                item.insert("parameters".to_owned(), variables);
            }
            (path.path, Value::Object(item))
        })
        .collect();
    Frame { schemas, paths }
}
