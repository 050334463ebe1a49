//! The zero values of shapes as Go writes them, and which values count as empty.

use serde_json::{Map, Value};

use crate::table::{Shape, Special, Type};

/// What Go writes for a value that was never set.
pub(crate) fn zero(shape: Shape) -> Value {
    match shape {
        Shape::String => Value::String(String::new()),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Value::from(0),
        Shape::Bytes | Shape::Any | Shape::Pointer(_) | Shape::List(_) | Shape::Map { .. } => Value::Null,
        Shape::Named(ty) => zero_named(ty),
    }
}

fn zero_named(ty: Type) -> Value {
    if let Some(special) = ty.special() {
        return match special {
            Special::Quantity => Value::from("0"),
            Special::IntOrString => Value::from(0),
            Special::Duration => Value::from("0s"),
            Special::Time
            | Special::MicroTime
            | Special::RawExtension
            | Special::FieldsV1
            | Special::SchemaJson
            | Special::SchemaOrArray
            | Special::SchemaOrBool
            | Special::SchemaOrStrings => Value::Null,
        };
    }
    if let Some(underlying) = ty.underlying() {
        return zero(underlying);
    }
    let mut object = Map::new();
    for field in ty.fields() {
        let value = zero(field.shape());
        let omitted = (field.omits_zero() && value.is_null())
            || (field.omits_empty() && is_empty(field.shape(), &value));
        if !omitted {
            object.insert(field.json().to_owned(), value);
        }
    }
    Value::Object(object)
}

/// Whether `omitempty` leaves the value out: zero scalars, nil pointers, empty lists and maps; never structs.
pub(crate) fn is_empty(shape: Shape, value: &Value) -> bool {
    match shape {
        Shape::Pointer(_) | Shape::Any => value.is_null(),
        Shape::String => value.as_str() == Some(""),
        Shape::Bool => value.as_bool() == Some(false),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => value.as_f64() == Some(0.0),
        Shape::Bytes => value.is_null() || value.as_str() == Some(""),
        Shape::List(_) => value.as_array().is_none_or(Vec::is_empty),
        Shape::Map { .. } => value.as_object().is_none_or(Map::is_empty),
        Shape::Named(ty) => match (ty.special(), ty.underlying()) {
            (None, Some(underlying)) => is_empty(underlying, value),
            _ => false,
        },
    }
}
