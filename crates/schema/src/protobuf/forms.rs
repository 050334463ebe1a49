//! The messages whose JSON form is not an object with their fields: quantities, times, durations, numbers or texts,
//! embedded JSON.

use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::{Value, json};

use super::read::{Reader, utf8};
use super::wire::{Fields, Wire, put_bytes, put_number};
use super::{MAGIC, ProtobufError};
use crate::json::Json;
use crate::table::{Shape, Special, Type, builtin};
use crate::{goduration, gotime};

/// The schema that the alternatives in a JSON schema hold.
pub(super) fn schema_type(alternative: Type) -> Shape {
    Shape::Named(
        builtin()
            .type_named(alternative.package(), "JSONSchemaProps")
            .expect("the table has the type whose alternatives it has"),
    )
}

/// Reads one of them.
pub(super) fn read(
    reader: &mut Reader,
    special: Special,
    bytes: &[u8],
    depth: usize,
) -> Result<Value, ProtobufError> {
    let (mut one, mut two, mut text) = (0, 0, &[][..]);
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Number(number)) => one = number.cast_signed(),
            (2, Wire::Number(number)) => two = number.cast_signed(),
            (1 | 3, Wire::Bytes(inner)) => text = inner,
            _ => {}
        }
    }
    match special {
        Special::Quantity => Ok(Value::from(utf8(text)?)),
        // Go's zero time is null in JSON; on the wire it is an empty message.
        Special::Time | Special::MicroTime if bytes.is_empty() => Ok(Value::Null),
        Special::Time => time(one, 0, "%Y-%m-%dT%H:%M:%SZ"),
        Special::MicroTime => time(one, two, "%Y-%m-%dT%H:%M:%S.%6fZ"),
        Special::IntOrString if one == 1 => Ok(Value::from(utf8(text)?)),
        #[allow(clippy::cast_possible_truncation, reason = "Go cuts what is too long, too")]
        Special::IntOrString => Ok(json!(two as i32)),
        Special::Duration => Ok(json!(goduration::format(one))),
        Special::RawExtension
        | Special::FieldsV1
        | Special::SchemaJson
        | Special::SchemaOrArray
        | Special::SchemaOrBool
        | Special::SchemaOrStrings => {
            if text.is_empty() {
                return Ok(Value::Null);
            }
            if special == Special::RawExtension && text.starts_with(MAGIC) {
                return reader.object(text, depth + 1);
            }
            let tree = Json::parse(text).map_err(|_| ProtobufError::Embedded)?;
            tree.to_value().map_err(|_| ProtobufError::Embedded)
        }
    }
}

fn time(seconds: i64, nanoseconds: i64, form: &str) -> Result<Value, ProtobufError> {
    const SECOND: i64 = 1_000_000_000;
    let (carry, rest) = (nanoseconds.div_euclid(SECOND), nanoseconds.rem_euclid(SECOND));
    let at = seconds
        .checked_add(carry)
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .and_then(|at| at.checked_add(jiff::SignedDuration::from_nanos(rest)).ok())
        .map(|at| Offset::UTC.to_datetime(at))
        .filter(|at| at.year() >= 0)
        .ok_or(ProtobufError::Time)?;
    Ok(json!(at.strftime(form).to_string()))
}

/// Writes the content of one of them; without a value the content of Go's zero value. `field` is the field that holds
/// it.
pub(super) fn write(
    out: &mut Vec<u8>,
    special: Special,
    given: Option<&Json<'_>>,
    field: &'static str,
) -> Result<(), ProtobufError> {
    let mismatch = || ProtobufError::Mismatch { field };
    let text = |given: &Json<'_>| match given {
        Json::String(text) => Ok(text.clone().into_owned()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => Err(mismatch()),
    };
    match special {
        Special::Quantity => match given {
            None => put_bytes(out, 1, b"0"),
            Some(Json::String(text) | Json::Number(text)) => put_bytes(out, 1, text.as_bytes()),
            Some(Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_)) => return Err(mismatch()),
        },
        Special::Time | Special::MicroTime => {
            let Some(given) = given else { return Ok(()) };
            let at = gotime::timestamp(&text(given)?).ok_or_else(mismatch)?;
            // The zero time of Go is in the year 1.
            if at.as_second() == -62_135_596_800 && at.subsec_nanosecond() == 0 {
                return Ok(());
            }
            // Before 1970 the fraction counts backwards there, and forwards on the wire.
            let (mut seconds, mut nanoseconds) = (at.as_second(), i64::from(at.subsec_nanosecond()));
            if nanoseconds < 0 {
                (seconds, nanoseconds) = (seconds - 1, nanoseconds + 1_000_000_000);
            }
            let kept = if special == Special::Time { 0 } else { nanoseconds / 1000 * 1000 };
            put_number(out, 1, seconds);
            put_number(out, 2, kept);
        }
        Special::IntOrString => {
            let (kind, number, text) = match given {
                None => (0, 0, ""),
                Some(Json::Number(number)) => (0, number.parse::<i32>().map_err(|_| mismatch())?, ""),
                Some(Json::String(text)) => (1, 0, text.as_ref()),
                Some(Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_)) => return Err(mismatch()),
            };
            put_number(out, 1, kind);
            put_number(out, 2, number.into());
            put_bytes(out, 3, text.as_bytes());
        }
        Special::Duration => {
            let length = match given {
                None => 0,
                Some(given) => goduration::parse(&text(given)?).ok_or_else(mismatch)?,
            };
            put_number(out, 1, length);
        }
        Special::RawExtension
        | Special::FieldsV1
        | Special::SchemaJson
        | Special::SchemaOrArray
        | Special::SchemaOrBool
        | Special::SchemaOrStrings => {
            if let Some(given) = given {
                put_bytes(out, 1, given.to_text().as_bytes());
            }
        }
    }
    Ok(())
}
