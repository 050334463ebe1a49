//! JSON trees to protobuf.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::plan::{Form, Planned, plan};
use super::read::formed;
use super::wire::{begin_nested, end_nested, put_bytes, put_float, put_number};
use super::{Envelope, MAGIC, ProtobufError, forms};
use crate::json::Json;
use crate::table::{Shape, Special, Type, builtin};

/// The fields of a JSON object.
type Entries<'j> = [(Cow<'j, str>, Json<'j>)];

/// The envelope up to the object's message.
fn put_type(out: &mut Vec<u8>, api_version: &str, kind: &str) {
    out.extend_from_slice(MAGIC);
    let start = begin_nested(out, 1);
    put_bytes(out, 1, api_version.as_bytes());
    put_bytes(out, 2, kind.as_bytes());
    end_nested(out, start);
}

/// What follows the object's message: Go writes the two empty texts.
fn put_end(out: &mut Vec<u8>) {
    put_bytes(out, 3, b"");
    put_bytes(out, 4, b"");
}

pub(super) fn envelope(envelope: &Envelope<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(envelope.raw.len() + 64);
    put_type(&mut out, envelope.api_version, envelope.kind);
    put_bytes(&mut out, 2, envelope.raw);
    put_end(&mut out);
    out
}

pub(super) fn object(tree: &Json<'_>) -> Result<Vec<u8>, ProtobufError> {
    object_as(member(tree, "apiVersion"), member(tree, "kind"), tree)
}

pub(super) fn object_as(api_version: &str, kind: &str, tree: &Json<'_>) -> Result<Vec<u8>, ProtobufError> {
    let ty = type_of(api_version, kind)?;
    let mut out = Vec::new();
    put_type(&mut out, api_version, kind);
    let start = begin_nested(&mut out, 2);
    message_into(&mut out, ty, tree)?;
    end_nested(&mut out, start);
    put_end(&mut out);
    Ok(out)
}

fn type_of(api_version: &str, kind: &str) -> Result<Type, ProtobufError> {
    builtin()
        .type_for(api_version, kind)
        .ok_or_else(|| ProtobufError::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() })
}

/// The text under a key of an object.
fn member<'j>(tree: &'j Json<'_>, key: &str) -> &'j str {
    let Json::Object(entries) = tree else { return "" };
    match find(entries, key) {
        Some(Json::String(text)) => text,
        Some(_) | None => "",
    }
}

/// The last value under a key; null is as good as nothing.
fn find<'j>(entries: &'j Entries<'_>, key: &str) -> Option<&'j Json<'j>> {
    entries.iter().rev().find(|(own, _)| own == key).map(|(_, value)| value).filter(|value| !is_null(value))
}

fn is_null(value: &Json<'_>) -> bool {
    matches!(value, Json::Null)
}

/// Appends the message of an object.
pub(super) fn message_into(out: &mut Vec<u8>, ty: Type, tree: &Json<'_>) -> Result<(), ProtobufError> {
    formed(ty)?;
    match tree {
        Json::Object(entries) => message(out, ty, entries),
        Json::Null => message(out, ty, &[]),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(ProtobufError::Mismatch { field: "" })
        }
    }
}

fn message(out: &mut Vec<u8>, ty: Type, entries: &Entries<'_>) -> Result<(), ProtobufError> {
    plan(ty).fields.iter().try_for_each(|field| put_field(out, field, entries))
}

fn put_field(out: &mut Vec<u8>, field: &Planned, entries: &Entries<'_>) -> Result<(), ProtobufError> {
    let number = field.number;
    if let Form::Inlined(inner) = field.form {
        let start = begin_nested(out, number);
        message(out, inner, entries)?;
        end_nested(out, start);
        return Ok(());
    }
    let given = find(entries, field.json);
    match (field.form, given) {
        (Form::Plain(shape), given) => put_value(out, number, shape, given, field.json),
        (Form::Optional(shape), Some(given)) => put_value(out, number, shape, Some(given), field.json),
        (Form::Repeated(item), Some(Json::Array(items))) => {
            items.iter().try_for_each(|given| put_value(out, number, item, present(given), field.json))
        }
        (Form::Map(value), Some(Json::Object(entries))) => {
            let sorted: BTreeMap<&str, &Json<'_>> =
                entries.iter().map(|(key, given)| (key.as_ref(), given)).collect();
            for (key, given) in sorted {
                let start = begin_nested(out, number);
                put_bytes(out, 1, key.as_bytes());
                put_value(out, 2, value, present(given), field.json)?;
                end_nested(out, start);
            }
            Ok(())
        }
        (Form::Optional(_) | Form::Repeated(_) | Form::Map(_), None) => Ok(()),
        (Form::Repeated(_) | Form::Map(_) | Form::Inlined(_), Some(_)) | (Form::Inlined(_), None) => {
            Err(ProtobufError::Mismatch { field: field.json })
        }
    }
}

fn present<'j>(given: &'j Json<'j>) -> Option<&'j Json<'j>> {
    Some(given).filter(|given| !is_null(given))
}

/// Appends one value; nothing given is Go's zero value. `field` is the field that it belongs to.
fn put_value(
    out: &mut Vec<u8>,
    number: u16,
    shape: Shape,
    given: Option<&Json<'_>>,
    field: &'static str,
) -> Result<(), ProtobufError> {
    let mismatch = || ProtobufError::Mismatch { field };
    match (shape, given) {
        (Shape::String, None) => put_bytes(out, number, b""),
        (Shape::String, Some(Json::String(text))) => put_bytes(out, number, text.as_bytes()),
        (Shape::Bool, None) => put_number(out, number, 0),
        (Shape::Bool, Some(Json::Bool(flag))) => put_number(out, number, (*flag).into()),
        (Shape::Int32 | Shape::Int64, None) => put_number(out, number, 0),
        (Shape::Int32 | Shape::Int64, Some(Json::Number(text))) => {
            put_number(out, number, text.parse().map_err(|_| mismatch())?);
        }
        (Shape::Float64, None) => put_float(out, number, 0.0),
        (Shape::Float64, Some(Json::Number(text))) => {
            put_float(out, number, text.parse().map_err(|_| mismatch())?);
        }
        (Shape::Bytes, None) => {}
        (Shape::Bytes, Some(Json::String(text))) => {
            let bytes = BASE64_STANDARD.decode(text.as_bytes()).map_err(|_| mismatch())?;
            put_bytes(out, number, &bytes);
        }
        (Shape::Named(ty), given) => {
            let start = begin_nested(out, number);
            match (ty.special(), given) {
                (
                    Some(Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings),
                    Some(given),
                ) => put_schema_or(out, ty, given, field)?,
                (Some(special), given) => forms::write(out, special, given, field)?,
                (None, None) => message(out, ty, &[])?,
                (None, Some(Json::Object(entries))) => message(out, ty, entries)?,
                (None, Some(_)) => return Err(mismatch()),
            }
            end_nested(out, start);
        }
        // A list with a name is a message with the field `items`.
        (Shape::List(item), given) => {
            let start = begin_nested(out, number);
            match given {
                None => {}
                Some(Json::Array(items)) => {
                    let item = item.shape().resolved();
                    items.iter().try_for_each(|given| put_value(out, 1, item, present(given), field))?;
                }
                Some(_) => return Err(mismatch()),
            }
            end_nested(out, start);
        }
        (
            Shape::String
            | Shape::Bool
            | Shape::Int32
            | Shape::Int64
            | Shape::Float64
            | Shape::Bytes
            | Shape::Any
            | Shape::Pointer(_)
            | Shape::Map { .. },
            _,
        ) => return Err(mismatch()),
    }
    Ok(())
}

/// A schema, or what stands in its place in a schema for custom resources.
fn put_schema_or(
    out: &mut Vec<u8>,
    ty: Type,
    given: &Json<'_>,
    field: &'static str,
) -> Result<(), ProtobufError> {
    let schema = forms::schema_type(ty);
    match (ty.special(), given) {
        (Some(Special::SchemaOrBool), Json::Bool(allows)) => {
            put_number(out, 1, (*allows).into());
            Ok(())
        }
        (Some(Special::SchemaOrBool), Json::Object(_)) => {
            put_number(out, 1, 1);
            put_value(out, 2, schema, Some(given), field)
        }
        (Some(Special::SchemaOrArray | Special::SchemaOrStrings), Json::Object(_)) => {
            put_value(out, 1, schema, Some(given), field)
        }
        (Some(Special::SchemaOrArray), Json::Array(items)) => {
            items.iter().try_for_each(|item| put_value(out, 2, schema, Some(item), field))
        }
        (Some(Special::SchemaOrStrings), Json::Array(items)) => {
            items.iter().try_for_each(|item| put_value(out, 2, Shape::String, Some(item), field))
        }
        _ => Err(ProtobufError::Mismatch { field }),
    }
}

/// A list that is written item by item, so that its items are never in memory as trees at the same time.
#[derive(Debug)]
pub struct ListWriter {
    out: Vec<u8>,
    start: usize,
    items: u16,
    item: Type,
    /// The metadata as a field, where it follows the items: in `meta.k8s.io/v1beta1`.
    metadata: Vec<u8>,
}

impl ListWriter {
    /// Begins a list; `metadata` is the JSON of its `ListMeta`, `size` about how many bytes it will have.
    ///
    /// # Errors
    ///
    /// A kind that is no list, and items without a form in protobuf.
    pub fn begin(api_version: &str, kind: &str, metadata: &[u8], size: usize) -> Result<Self, ProtobufError> {
        let ty = type_of(api_version, kind)?;
        let no_form = || ProtobufError::NoForm { type_name: ty.go_name() };
        formed(ty)?;
        let (Some(meta), Some(items)) = (ty.field("metadata"), ty.field("items")) else {
            return Err(no_form());
        };
        let (Shape::List(item), Some(number)) = (items.shape().resolved(), items.wire_number()) else {
            return Err(no_form());
        };
        let first = meta.wire_number().ok_or_else(no_form)?;
        let item = item.shape().named().ok_or_else(no_form)?;
        formed(item)?;
        let tree = Json::parse(metadata).map_err(|message| ProtobufError::Syntax { message })?;
        let mut metadata = Vec::new();
        put_value(&mut metadata, first, meta.shape().resolved(), Some(&tree), "metadata")?;
        let mut out = Vec::with_capacity(size);
        put_type(&mut out, api_version, kind);
        let start = begin_nested(&mut out, 2);
        if first < number {
            out.append(&mut metadata);
        }
        Ok(Self { out, start, items: number, item, metadata })
    }

    /// Appends an item.
    ///
    /// # Errors
    ///
    /// Bytes that are not JSON of the item's type.
    pub fn push(&mut self, json: &[u8]) -> Result<(), ProtobufError> {
        let tree = Json::parse(json).map_err(|message| ProtobufError::Syntax { message })?;
        put_value(&mut self.out, self.items, Shape::Named(self.item), Some(&tree), "items")
    }

    /// The whole list in its envelope.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.out.append(&mut self.metadata);
        end_nested(&mut self.out, self.start);
        put_end(&mut self.out);
        self.out
    }
}

pub(super) fn put_event(out: &mut Vec<u8>, kind: &str, object: &[u8]) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    put_bytes(out, 1, kind.as_bytes());
    let start = begin_nested(out, 2);
    put_bytes(out, 1, object);
    end_nested(out, start);
    // Objects are limited to a few megabytes.
    let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}
