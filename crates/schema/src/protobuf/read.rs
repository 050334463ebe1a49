//! Protobuf to JSON trees.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::plan::{Form, Planned, plan};
use super::wire::{Fields, Wire};
use super::{DEPTH, Envelope, MAGIC, ProtobufError, VALUES, forms, has_form};
use crate::decode::zero;
use crate::table::{Shape, Special, Type, builtin};

/// Opens an envelope.
pub(super) fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let bytes = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let mut envelope = Envelope::default();
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Bytes(meta)) => {
                for field in Fields(meta) {
                    match field? {
                        (1, Wire::Bytes(text)) => envelope.api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => envelope.kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Ok(envelope)
}

pub(super) fn object(bytes: &[u8]) -> Result<Value, ProtobufError> {
    Reader { left: VALUES }.object(bytes, 0)
}

pub(super) fn message(ty: Type, bytes: &[u8]) -> Result<Value, ProtobufError> {
    formed(ty)?;
    let mut object = Map::new();
    Reader { left: VALUES }.message(ty, bytes, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// Refuses types that do not travel.
pub(super) fn formed(ty: Type) -> Result<(), ProtobufError> {
    if has_form(ty) { Ok(()) } else { Err(ProtobufError::NoForm { type_name: ty.go_name() }) }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::Text)
}

/// The rest of what one object may cost.
pub(super) struct Reader {
    left: usize,
}

impl Reader {
    pub(super) fn object(&mut self, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
        let Envelope { api_version, kind, raw } = envelope(bytes)?;
        let ty = builtin().type_for(api_version, kind).ok_or_else(|| ProtobufError::Kind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })?;
        formed(ty)?;
        let mut object = Map::new();
        self.message(ty, raw, &mut object, depth)?;
        object.insert("apiVersion".to_owned(), json!(api_version));
        object.insert("kind".to_owned(), json!(kind));
        Ok(Value::Object(object))
    }

    fn count(&mut self) -> Result<(), ProtobufError> {
        self.left = self.left.checked_sub(1).ok_or(ProtobufError::TooMany)?;
        Ok(())
    }

    /// Reads the fields of a struct into a JSON object, which may hold earlier parts of the same message.
    fn message(
        &mut self,
        ty: Type,
        bytes: &[u8],
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if depth > DEPTH {
            return Err(ProtobufError::Depth);
        }
        let plan = plan(ty);
        for field in Fields(bytes) {
            let (number, wire) = field?;
            // Fields that the table does not have come from newer clients and are dropped, as Go drops them.
            if let Some(field) = plan.field(number) {
                self.field(field, wire, object, depth)?;
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Planned,
        wire: Wire<'_>,
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let name = field.json;
        let wrong = || ProtobufError::WireType { field: name };
        match field.form {
            Form::Inlined(inner) => {
                let Wire::Bytes(bytes) = wire else { return Err(ProtobufError::Malformed) };
                self.message(inner, bytes, object, depth + 1)?;
            }
            Form::Map(value) => {
                let Wire::Bytes(bytes) = wire else { return Err(wrong()) };
                let (key, value) = self.entry(value, bytes, name, depth)?;
                if let Value::Object(map) = object.entry(name).or_insert_with(|| json!({})) {
                    map.insert(key, value);
                }
            }
            Form::Repeated(item) => {
                let Value::Array(list) = object.entry(name).or_insert_with(|| json!([])) else {
                    return Ok(());
                };
                match (wire, item) {
                    // Numbers may be packed.
                    (Wire::Bytes(bytes), Shape::Int32 | Shape::Int64 | Shape::Bool | Shape::Float64) => {
                        let mut packed = Fields(bytes);
                        while !packed.0.is_empty() {
                            let wire = if item == Shape::Float64 {
                                packed.eight().map(Wire::Eight)
                            } else {
                                packed.number().map(Wire::Number)
                            };
                            let wire = wire.ok_or(ProtobufError::Malformed)?;
                            list.push(self.value(item, wire, name, depth)?);
                        }
                    }
                    (wire, _) => list.push(self.value(item, wire, name, depth)?),
                }
            }
            Form::Plain(Shape::Named(ty)) | Form::Optional(Shape::Named(ty)) if ty.special().is_none() => {
                let Wire::Bytes(bytes) = wire else { return Err(wrong()) };
                self.count()?;
                // A message that comes in parts is one message.
                if let Value::Object(map) = object.entry(name).or_insert_with(|| json!({})) {
                    self.message(ty, bytes, map, depth + 1)?;
                }
            }
            Form::Plain(shape) | Form::Optional(shape) => {
                let value = self.value(shape, wire, name, depth)?;
                object.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// One entry of a map.
    fn entry(
        &mut self,
        shape: Shape,
        bytes: &[u8],
        name: &'static str,
        depth: usize,
    ) -> Result<(String, Value), ProtobufError> {
        let (mut key, mut value) = ("", None);
        for field in Fields(bytes) {
            match field? {
                (1, Wire::Bytes(text)) => key = utf8(text)?,
                (2, wire) => value = Some(self.value(shape, wire, name, depth + 1)?),
                _ => {}
            }
        }
        let value = match (value, shape) {
            (Some(value), _) => value,
            // An absent value is the empty one.
            (None, Shape::Bytes) => json!(""),
            (None, shape) => zero(shape),
        };
        Ok((key.to_owned(), value))
    }

    /// One value; `name` is the field that it belongs to.
    pub(super) fn value(
        &mut self,
        shape: Shape,
        wire: Wire<'_>,
        name: &'static str,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        self.count()?;
        Ok(match (shape, wire) {
            (Shape::String, Wire::Bytes(bytes)) => Value::from(utf8(bytes)?),
            (Shape::Bytes, Wire::Bytes(bytes)) => Value::String(BASE64_STANDARD.encode(bytes)),
            (Shape::Bool, Wire::Number(number)) => Value::Bool(number != 0),
            // Negative numbers travel as their two's complement, in 32 bits or in 64.
            #[allow(clippy::cast_possible_truncation, reason = "Go cuts what is too long, too")]
            (Shape::Int32, Wire::Number(number)) => Value::from(number as u32 as i32),
            (Shape::Int64, Wire::Number(number)) => Value::from(number.cast_signed()),
            (Shape::Float64, Wire::Eight(bytes)) => json!(f64::from_le_bytes(bytes)),
            (Shape::Named(ty), wire) => match (ty.special(), wire) {
                (
                    Some(Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings),
                    Wire::Bytes(bytes),
                ) => self.schema_or(ty, bytes, depth + 1)?,
                (Some(special), Wire::Bytes(bytes)) => forms::read(self, special, bytes, depth)?,
                (None, Wire::Bytes(bytes)) => {
                    let mut object = Map::new();
                    self.message(ty, bytes, &mut object, depth + 1)?;
                    Value::Object(object)
                }
                (_, Wire::Number(_) | Wire::Eight(_) | Wire::Four) => {
                    return Err(ProtobufError::WireType { field: name });
                }
            },
            // A list with a name is a message with the field `items`.
            (Shape::List(item), Wire::Bytes(bytes)) => {
                let mut list = Vec::new();
                for field in Fields(bytes) {
                    if let (1, wire) = field? {
                        list.push(self.value(item.shape().resolved(), wire, name, depth + 1)?);
                    }
                }
                Value::Array(list)
            }
            _ => return Err(ProtobufError::WireType { field: name }),
        })
    }

    /// A schema (field 1, or field 2 beside a boolean) or what stands in its place in a schema for custom resources.
    fn schema_or(&mut self, ty: Type, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
        if depth > DEPTH {
            return Err(ProtobufError::Depth);
        }
        let schema = forms::schema_type(ty);
        let (mut alone, mut list, mut allows) = (None, Vec::new(), false);
        for field in Fields(bytes) {
            match (field?, ty.special()) {
                ((1, Wire::Number(number)), Some(Special::SchemaOrBool)) => allows = number != 0,
                ((2, wire), Some(Special::SchemaOrBool)) | ((1, wire), _) => {
                    alone = Some(self.value(schema, wire, "schema", depth)?);
                }
                ((2, wire), Some(Special::SchemaOrArray)) => {
                    list.push(self.value(schema, wire, "schemas", depth)?);
                }
                ((2, wire), _) => list.push(self.value(Shape::String, wire, "property", depth)?),
                _ => {}
            }
        }
        Ok(match alone {
            Some(schema) => schema,
            None if ty.special() == Some(Special::SchemaOrBool) => Value::Bool(allows),
            None => Value::Array(list),
        })
    }
}
