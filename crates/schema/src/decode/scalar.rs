//! Scalars and the types with a text form of their own: numbers, bytes, quantities, times.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError as Base64Error, alphabet};
use quantity::Quantity;
use serde_json::Value;

use super::{Walker, Words, described};
use crate::gotime::{Precision, canonical};
use crate::json::{Json, number};
use crate::table::{Shape, Special};

/// Go's standard encoding: padding required, trailing bits ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

impl Walker<'_> {
    /// Decodes a scalar, or tells that something else stands there.
    pub(super) fn scalar(
        &mut self,
        shape: Shape,
        declared: Shape,
        given: &Json<'_>,
    ) -> Result<Value, String> {
        match (shape, given) {
            // Null leaves a scalar at its zero value.
            (_, Json::Null) => Ok(Value::Null),
            (Shape::String, Json::String(text)) => Ok(Value::String(text.clone().into_owned())),
            (Shape::Bool, Json::Bool(flag)) => Ok(Value::Bool(*flag)),
            (Shape::Bytes, Json::String(text)) => bytes(text),
            (Shape::Int32 | Shape::Int64 | Shape::Float64, Json::Number(text)) => {
                self.number(shape, declared, text)
            }
            (_, given) => Err(self.mismatch(given, declared)),
        }
    }

    fn number(&self, shape: Shape, declared: Shape, text: &str) -> Result<Value, String> {
        let fitting = match shape {
            Shape::Int32 => {
                integer(text, self.words).filter(|value| i32::try_from(*value).is_ok()).map(Value::from)
            }
            Shape::Int64 => integer(text, self.words).map(Value::from),
            _ => number(text).map(Value::Number),
        };
        fitting.ok_or_else(|| match self.words {
            Words::Json => self.json_mismatch(&format!("number {text}"), &declared.go_name()),
            Words::Unstructured => format!("unrecognized type: {}", shape.go_name()),
        })
    }
}

/// Go's decoder takes integers only as they are written; generic trees may hold a whole number as a float.
fn integer(text: &str, words: Words) -> Option<i64> {
    text.parse().ok().or_else(|| {
        let float: f64 = text.parse().ok()?;
        // Exact for every whole float below 2^53.
        #[allow(clippy::cast_possible_truncation)]
        (words == Words::Unstructured && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0)
            .then_some(float as i64)
    })
}

/// The canonical form of base64 text; line breaks inside are allowed, as in Go.
fn bytes(text: &str) -> Result<Value, String> {
    let compact: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
    let decoded = BASE64.decode(&compact).map_err(|error| {
        let at = match error {
            Base64Error::InvalidByte(at, _) | Base64Error::InvalidLastSymbol(at, _) => at,
            Base64Error::InvalidLength(length) => length,
            Base64Error::InvalidPadding => compact.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })?;
    Ok(Value::String(BASE64.encode(decoded)))
}

/// Decodes a type with a text form of its own.
pub(super) fn special(special: Special, given: &Json<'_>) -> Result<Value, String> {
    if *given == Json::Null {
        return Ok(Value::Null);
    }
    match special {
        Special::Quantity => {
            let text = match given {
                Json::String(text) | Json::Number(text) => text.as_ref(),
                Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => "x",
            };
            Quantity::parse(text.trim())
                .map(|quantity| Value::String(quantity.to_string()))
                .map_err(|error| error.to_string())
        }
        Special::Time | Special::MicroTime => {
            let precision =
                if special == Special::Time { Precision::Seconds } else { Precision::Microseconds };
            canonical(text_of(given)?, precision).map(Value::String)
        }
        Special::IntOrString => match given {
            Json::String(text) => Ok(Value::String(text.clone().into_owned())),
            Json::Number(text) => text
                .parse::<i32>()
                .map(Value::from)
                .map_err(|_| format!("json: cannot unmarshal number {text} into Go value of type int32")),
            other => Err(format!("json: cannot unmarshal {} into Go value of type int32", described(other))),
        },
        _ => text_of(given).map(Value::from),
    }
}

fn text_of<'a>(given: &'a Json<'_>) -> Result<&'a str, String> {
    match given {
        Json::String(text) => Ok(text),
        other => Err(format!("json: cannot unmarshal {} into Go value of type string", described(other))),
    }
}
