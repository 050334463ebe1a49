//! Request bodies in Kubernetes' protobuf, read into trees by the schema's field numbers; no code per kind.
//!
//! The generator commands of kubectl 1.32 and later send nothing else. Answers stay JSON, which these clients accept.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schema::{Shape, Special, Type};
use serde_json::{Map, Value, json};

/// What every message begins with.
const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may be nested.
const DEPTH: usize = 64;

/// Bytes that are no object in protobuf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error("the body does not begin as Kubernetes' protobuf does")]
    Magic,
    #[error("the body ends in the middle of a field, or a field has an impossible form")]
    Malformed,
    #[error("a text is not UTF-8")]
    Text,
    #[error("messages are nested deeper than {DEPTH} levels")]
    Depth,
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    Kind { api_version: String, kind: String },
    #[error("the embedded object is not JSON")]
    Embedded,
}

/// Reads an object, with `apiVersion` and `kind` as the envelope has them.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields(envelope) {
        match field? {
            (1, Wire::Bytes(meta)) => {
                for field in Fields(meta) {
                    match field? {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(inner)) => raw = inner,
            _ => {}
        }
    }
    let ty = schema::builtin()
        .type_for(&api_version, &kind)
        .ok_or_else(|| ProtobufError::Kind { api_version: api_version.clone(), kind: kind.clone() })?;
    let mut object = Map::new();
    read_message(ty, raw, &mut object, 0)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

/// The value of one field on the wire.
#[derive(Clone, Copy, Debug)]
enum Wire<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    Eight([u8; 8]),
    Four([u8; 4]),
}

/// The fields of a message, in order.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u64, Wire<'b>)> {
        let tag = self.number()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.number()?),
            1 => Wire::Eight(self.take(8)?.try_into().ok()?),
            2 => {
                let len = usize::try_from(self.number()?).ok()?;
                Wire::Bytes(self.take(len)?)
            }
            5 => Wire::Four(self.take(4)?.try_into().ok()?),
            _ => return None,
        };
        Some((tag >> 3, wire))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Wire<'b>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field().ok_or(ProtobufError::Malformed);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn utf8(bytes: &[u8]) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtobufError::Text)
}

/// Reads the fields of a struct into a JSON object.
fn read_message(
    ty: Type,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > DEPTH {
        return Err(ProtobufError::Depth);
    }
    for field in Fields(bytes) {
        let (number, wire) = field?;
        // Fields that the schema does not know come from newer clients and are dropped, as Go drops them.
        let Some(field) =
            ty.declared_fields().find(|own| own.wire_number().is_some_and(|own| u64::from(own) == number))
        else {
            continue;
        };
        if let Some(inner) = field.inlined() {
            // A message of its own on the wire, but part of its parent in JSON.
            let Wire::Bytes(bytes) = wire else { return Err(ProtobufError::Malformed) };
            read_message(inner, bytes, object, depth + 1)?;
            continue;
        }
        let name = field.json();
        if name.is_empty() {
            continue;
        }
        match field.shape().resolved() {
            Shape::Map { value, .. } => {
                let (key, value) = read_entry(value.shape(), wire, depth)?;
                if let Value::Object(map) = object.entry(name).or_insert_with(|| json!({})) {
                    map.insert(key, value);
                }
            }
            Shape::List(item) => {
                let Value::Array(list) = object.entry(name).or_insert_with(|| json!([])) else { continue };
                match (wire, item.shape().resolved()) {
                    // Numbers may be packed.
                    (Wire::Bytes(bytes), Shape::Int32 | Shape::Int64 | Shape::Bool) => {
                        let mut packed = Fields(bytes);
                        while !packed.0.is_empty() {
                            let number = packed.number().ok_or(ProtobufError::Malformed)?;
                            list.push(read_value(item.shape(), Wire::Number(number), depth)?);
                        }
                    }
                    (wire, _) => list.push(read_value(item.shape(), wire, depth)?),
                }
            }
            shape => {
                let value = read_value(shape, wire, depth)?;
                // A message that comes in parts is one message.
                match (object.get_mut(name), value) {
                    (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
                    (_, value) => {
                        object.insert(name.to_owned(), value);
                    }
                }
            }
        }
    }
    Ok(())
}

fn read_entry(value_shape: Shape, wire: Wire<'_>, depth: usize) -> Result<(String, Value), ProtobufError> {
    let Wire::Bytes(bytes) = wire else { return Err(ProtobufError::Malformed) };
    let (mut key, mut value) = (String::new(), None);
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => value = Some(read_value(value_shape, wire, depth + 1)?),
            _ => {}
        }
    }
    // An absent value is the empty one.
    let value = match (value, value_shape.resolved()) {
        (Some(value), _) => value,
        (None, Shape::String | Shape::Bytes) => json!(""),
        (None, _) => Value::Null,
    };
    Ok((key, value))
}

fn read_value(shape: Shape, wire: Wire<'_>, depth: usize) -> Result<Value, ProtobufError> {
    match (shape.resolved(), wire) {
        (Shape::String, Wire::Bytes(bytes)) => Ok(Value::String(utf8(bytes)?)),
        (Shape::Bytes, Wire::Bytes(bytes)) => Ok(Value::String(BASE64_STANDARD.encode(bytes))),
        (Shape::Bool, Wire::Number(number)) => Ok(Value::Bool(number != 0)),
        // Negative numbers travel as their two's complement.
        (Shape::Int32 | Shape::Int64, Wire::Number(number)) => Ok(json!(number.cast_signed())),
        (Shape::Float64, Wire::Eight(bytes)) => Ok(json!(f64::from_le_bytes(bytes))),
        (Shape::Float64, Wire::Four(bytes)) => Ok(json!(f32::from_le_bytes(bytes))),
        (Shape::Named(ty), wire) => match (ty.special(), wire) {
            (
                Some(Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings),
                Wire::Bytes(bytes),
            ) => read_schema_or(ty, bytes, depth + 1),
            (Some(special), wire) => read_special(special, wire),
            (None, Wire::Bytes(bytes)) => {
                let mut object = Map::new();
                read_message(ty, bytes, &mut object, depth + 1)?;
                Ok(Value::Object(object))
            }
            (None, _) => Err(ProtobufError::Malformed),
        },
        // A named list inside a map is a message with the field `items`.
        (Shape::List(item), Wire::Bytes(bytes)) => {
            let mut list = Vec::new();
            for field in Fields(bytes) {
                if let (1, wire) = field? {
                    list.push(read_value(item.shape(), wire, depth + 1)?);
                }
            }
            Ok(Value::Array(list))
        }
        _ => Err(ProtobufError::Malformed),
    }
}

/// A schema (field 1, or field 2 beside a boolean) or what stands in its place in a schema for custom resources.
fn read_schema_or(ty: Type, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let schema = |wire| {
        let schema = schema::builtin()
            .type_named(ty.package(), "JSONSchemaProps")
            .expect("the table has the type whose alternatives it has");
        read_value(Shape::Named(schema), wire, depth)
    };
    let (mut alone, mut list, mut allows) = (None, Vec::new(), false);
    for field in Fields(bytes) {
        match (field?, ty.special()) {
            ((1, Wire::Number(number)), Some(Special::SchemaOrBool)) => allows = number != 0,
            ((2, wire), Some(Special::SchemaOrBool)) | ((1, wire), _) => alone = Some(schema(wire)?),
            ((2, wire), Some(Special::SchemaOrArray)) => list.push(schema(wire)?),
            ((2, wire), _) => list.push(read_value(Shape::String, wire, depth)?),
            _ => {}
        }
    }
    Ok(match alone {
        Some(schema) => schema,
        None if ty.special() == Some(Special::SchemaOrBool) => Value::Bool(allows),
        None => Value::Array(list),
    })
}

fn read_special(special: Special, wire: Wire<'_>) -> Result<Value, ProtobufError> {
    if let (Special::Duration, Wire::Number(nanoseconds)) = (special, wire) {
        return Ok(json!(format!("{}ns", nanoseconds.cast_signed())));
    }
    let Wire::Bytes(bytes) = wire else { return Err(ProtobufError::Malformed) };
    let (mut one, mut two, mut text) = (0u64, 0u64, &[][..]);
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Number(number)) => one = number,
            (2, Wire::Number(number)) => two = number,
            (1 | 3, Wire::Bytes(inner)) => text = inner,
            _ => {}
        }
    }
    match special {
        Special::Quantity => Ok(Value::String(utf8(text)?)),
        Special::Time | Special::MicroTime => Ok(time(special, one.cast_signed(), two.cast_signed())),
        Special::IntOrString if one == 1 => Ok(Value::String(utf8(text)?)),
        Special::IntOrString => Ok(json!(two.cast_signed())),
        Special::Duration => Ok(json!(format!("{}ns", one.cast_signed()))),
        Special::RawExtension
        | Special::FieldsV1
        | Special::SchemaJson
        | Special::SchemaOrArray
        | Special::SchemaOrBool
        | Special::SchemaOrStrings => {
            if text.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(text).map_err(|_| ProtobufError::Embedded)
        }
    }
}

/// Go's zero time is null in JSON; on the wire it is an empty message.
fn time(special: Special, seconds: i64, nanoseconds: i64) -> Value {
    if seconds == 0 && nanoseconds == 0 {
        return Value::Null;
    }
    let nanoseconds = i32::try_from(nanoseconds).unwrap_or(0);
    let Ok(time) = jiff::Timestamp::new(seconds, nanoseconds) else { return Value::Null };
    let form = if special == Special::MicroTime { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    json!(time.strftime(form).to_string())
}

#[cfg(test)]
mod every_field;
#[cfg(test)]
mod tests;
