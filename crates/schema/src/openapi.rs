//! Walker 7: the JSON schema of every type, as OpenAPI 2 and 3 have it; and a document of version 2 as protobuf.
//!
//! Names, forms and extensions are those of Kubernetes. Descriptions are our own: a line for what people ask for most,
//! otherwise the name in words, with known values, default and feature gate where the table has them.

mod description;
mod gnostic;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::table::{Field, ListType, Shape, Special, Type};

pub use gnostic::document_to_protobuf;

/// Which OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApi {
    /// `/openapi/v2`.
    V2,
    /// `/openapi/v3`.
    V3,
}

impl OpenApi {
    /// A reference to the schema of a struct type.
    #[must_use]
    pub fn reference(self, ty: Type) -> Value {
        let place = match self {
            Self::V2 => "definitions",
            Self::V3 => "components/schemas",
        };
        json!({"$ref": format!("#/{place}/{}", schema_name(ty))})
    }
}

/// The name of a type's schema: `io.k8s.api.core.v1.Pod`.
#[must_use]
pub fn schema_name(ty: Type) -> String {
    let ty = Shape::Named(ty).named().unwrap_or(ty);
    let package = ty.package().replace('/', ".");
    match package.strip_prefix("coracle.") {
        Some(own) => format!("dev.coracle.{own}.{}", ty.name()),
        None => format!("io.k8s.{package}.{}", ty.name()),
    }
}

/// Adds a type and every type that its schema refers to.
pub fn collect(ty: Type, found: &mut BTreeSet<Type>) {
    let ty = Shape::Named(ty).named().unwrap_or(ty);
    if !found.insert(ty) || ty.special().is_some() {
        return;
    }
    for field in ty.fields() {
        let mut shape = field.shape().resolved();
        while let Shape::List(inner) | Shape::Map { value: inner, .. } = shape {
            shape = inner.shape().resolved();
        }
        if let Shape::Named(inner) = shape {
            collect(inner, found);
        }
    }
}

/// The schema of a type, without what depends on the server: which groups, versions and kinds it is.
#[must_use]
pub fn schema(ty: Type, version: OpenApi) -> Value {
    let ty = Shape::Named(ty).named().unwrap_or(ty);
    let mut schema = match ty.special() {
        Some(special) => special_schema(special, version),
        None => struct_schema(ty, version),
    };
    schema["description"] = json!(description::of_type(ty));
    schema
}

fn special_schema(special: Special, version: OpenApi) -> Value {
    match (special, version) {
        (Special::Quantity, OpenApi::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        (Special::IntOrString, OpenApi::V3) => {
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
        }
        (Special::IntOrString, OpenApi::V2) => json!({"type": "string", "format": "int-or-string"}),
        (Special::Quantity, OpenApi::V2) | (Special::Duration, _) => json!({"type": "string"}),
        (Special::Time | Special::MicroTime, _) => json!({"type": "string", "format": "date-time"}),
        (Special::RawExtension | Special::FieldsV1, _) => json!({"type": "object"}),
        (
            Special::SchemaJson | Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings,
            _,
        ) => json!({}),
    }
}

fn struct_schema(ty: Type, version: OpenApi) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in ty.fields() {
        properties.insert(field.json().to_owned(), property(ty, field, version));
        if !field.is_optional() && !field.omits_empty() && !field.omits_zero() {
            required.push(field.json());
        }
    }
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = Value::Object(properties);
    }
    if !required.is_empty() {
        required.sort_unstable();
        schema["required"] = json!(required);
    }
    if ty.is_atomic() {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    schema
}

fn property(ty: Type, field: Field, version: OpenApi) -> Value {
    let mut value = value_schema(field.shape(), version);
    if let (OpenApi::V3, Some(reference)) = (version, value.get("$ref").cloned()) {
        // Beside a reference version 3 lets nothing else stand.
        value = json!({"allOf": [{"$ref": reference}]});
        if matches!(field.shape(), Shape::Named(inner) if inner.special().is_none()) {
            value["default"] = json!({});
        }
    }
    value["description"] = json!(description::of_field(ty, field));
    if let Some(default) = field.declared_default().and_then(|text| serde_json::from_str::<Value>(text).ok())
    {
        value["default"] = default;
    }
    match field.list_type() {
        None => {}
        Some(ListType::Atomic) => value["x-kubernetes-list-type"] = json!("atomic"),
        Some(ListType::Set) => value["x-kubernetes-list-type"] = json!("set"),
        Some(ListType::Map) => {
            value["x-kubernetes-list-type"] = json!("map");
            value["x-kubernetes-list-map-keys"] = json!(field.list_keys().collect::<Vec<_>>());
        }
    }
    if field.is_atomic() == Some(true) {
        value["x-kubernetes-map-type"] = json!("atomic");
    }
    let strategies: Vec<&str> =
        [(field.merges(), "merge"), (field.replaces(), "replace"), (field.retains_keys(), "retainKeys")]
            .into_iter()
            .filter_map(|(is_meant, name)| is_meant.then_some(name))
            .collect();
    if !strategies.is_empty() {
        value["x-kubernetes-patch-strategy"] = json!(strategies.join(","));
    }
    if let Some(key) = field.merge_key() {
        value["x-kubernetes-patch-merge-key"] = json!(key);
    }
    value
}

fn value_schema(shape: Shape, version: OpenApi) -> Value {
    match shape.resolved() {
        Shape::String => json!({"type": "string"}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int32 => json!({"type": "integer", "format": "int32"}),
        Shape::Int64 => json!({"type": "integer", "format": "int64"}),
        Shape::Float64 => json!({"type": "number", "format": "double"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::Any | Shape::Pointer(_) => json!({}),
        Shape::List(item) => json!({"type": "array", "items": value_schema(item.shape(), version)}),
        Shape::Map { value, .. } => {
            json!({"type": "object", "additionalProperties": value_schema(value.shape(), version)})
        }
        Shape::Named(ty) => version.reference(ty),
    }
}

#[cfg(test)]
mod tests;
