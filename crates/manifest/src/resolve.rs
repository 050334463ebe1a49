//! What a scalar means, by the rules of the YAML library that kubectl uses (YAML 1.1, mostly).
//!
//! Only a plain scalar, or one with an explicit tag, can be anything but a string.

use base64::Engine;

use crate::{Mark, NodeValue, ParseError};

/// The tags of YAML's core that this crate obeys; every other tag leaves the text a string.
const RESOLVABLE: [&str; 7] = ["str", "bool", "int", "float", "null", "binary", "timestamp"];

/// Resolves a scalar. `tag` is the core schema's suffix (`int` of `!!int`), or empty for a tag of another kind.
pub(crate) fn scalar(
    text: &str,
    is_plain: bool,
    tag: Option<&str>,
    mark: Mark,
) -> Result<NodeValue, ParseError> {
    match tag {
        None if is_plain => plain(text, mark),
        None | Some("str" | "timestamp") => Ok(NodeValue::String(text.to_owned())),
        Some("binary") => binary(text, mark),
        Some(tag) if RESOLVABLE.contains(&tag) => {
            let value = plain(text, mark)?;
            match (tag, value) {
                ("bool", value @ NodeValue::Bool(_))
                | ("int", value @ NodeValue::Int(_))
                | ("float", value @ NodeValue::Float(_))
                | ("null", value @ NodeValue::Null) => Ok(value),
                ("float", NodeValue::Int(number)) => Ok(NodeValue::Float(number as f64)),
                (_, value) => {
                    Err(ParseError::WrongTag { mark, tag: format!("!!{tag}"), found: tag_of(&value) })
                }
            }
        }
        Some(_) => Ok(NodeValue::String(text.to_owned())),
    }
}

fn tag_of(value: &NodeValue) -> &'static str {
    match value {
        NodeValue::Null => "!!null",
        NodeValue::Bool(_) => "!!bool",
        NodeValue::Int(_) => "!!int",
        NodeValue::Float(_) => "!!float",
        NodeValue::String(_) => "!!str",
        NodeValue::List(_) => "!!seq",
        NodeValue::Map(_) => "!!map",
    }
}

fn binary(text: &str, mark: Mark) -> Result<NodeValue, ParseError> {
    let packed: String = text.chars().filter(|character| !matches!(character, '\n' | '\r')).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(packed)
        .map_err(|_| ParseError::InvalidBinary { mark })?;
    // JSON holds text only; upstream's encoder replaces what is none.
    Ok(NodeValue::String(String::from_utf8_lossy(&bytes).into_owned()))
}

fn plain(text: &str, mark: Mark) -> Result<NodeValue, ParseError> {
    let Some(first) = text.bytes().next() else {
        return Ok(NodeValue::Null);
    };
    let value = match first {
        b'~' | b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' => word(text),
        b'.' | b'+' | b'-' if is_not_finite(text) => return Err(ParseError::NotFinite { mark }),
        b'.' => dotted_float(text),
        b'0'..=b'9' | b'+' | b'-' => number(text),
        _ => None,
    };
    Ok(value.unwrap_or_else(|| NodeValue::String(text.to_owned())))
}

/// A float that fits; one that does not stays text, as upstream has it.
fn float(text: &str) -> Option<NodeValue> {
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(NodeValue::Float)
}

fn word(text: &str) -> Option<NodeValue> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(NodeValue::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(NodeValue::Bool(false))
        }
        "~" | "null" | "Null" | "NULL" => Some(NodeValue::Null),
        _ => None,
    }
}

fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// A text that begins with a dot: a float if the whole of it is one, underscores not taken away.
fn dotted_float(text: &str) -> Option<NodeValue> {
    is_float(text).then(|| float(text)).flatten()
}

/// A text that begins with a digit or a sign.
fn number(text: &str) -> Option<NodeValue> {
    let without_underscores;
    let text = if text.contains('_') {
        without_underscores = text.replace('_', "");
        without_underscores.as_str()
    } else {
        text
    };
    if let Some(value) = integer(text) {
        return Some(value);
    }
    if is_float(text) {
        return float(text);
    }
    None
}

/// An integer in any of the bases that a prefix can name.
fn integer(text: &str) -> Option<NodeValue> {
    let (is_negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) | None => (false, text),
    };
    let (digits, radix) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&unsigned[2..], 16),
        [b'0', b'o' | b'O', ..] => (&unsigned[2..], 8),
        [b'0', b'b' | b'B', ..] => (&unsigned[2..], 2),
        [b'0', _, ..] => (&unsigned[1..], 8),
        _ => (unsigned, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let amount = u64::from_str_radix(digits, radix).ok()?;
    if is_negative {
        return 0_i64.checked_sub_unsigned(amount).map(NodeValue::Int);
    }
    match i64::try_from(amount) {
        Ok(number) => Some(NodeValue::Int(number)),
        // A sign is only read with 64 signed bits; without one, JSON's conversion makes it a float.
        Err(_) if text.starts_with('+') => None,
        Err(_) => Some(NodeValue::Float(amount as f64)),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(behind_point) => behind_point.split_at(digits(behind_point)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        None => rest.is_empty(),
        Some(exponent) => {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
    }
}

/// A resolved scalar as a map key: numbers and booleans become their text; `Err` names what cannot be a key.
pub(crate) fn key(value: NodeValue) -> Result<String, &'static str> {
    match value {
        NodeValue::String(text) => Ok(text),
        NodeValue::Int(number) => Ok(number.to_string()),
        NodeValue::Bool(value) => Ok(value.to_string()),
        NodeValue::Float(number) if number >= 9_223_372_036_854_775_808.0 && number.fract() == 0.0 => {
            Err("a number of more than 63 bits")
        }
        NodeValue::Float(number) => Ok(float_key(number)),
        NodeValue::Null => Err("null"),
        NodeValue::List(_) => Err("a list"),
        NodeValue::Map(_) => Err("a map"),
    }
}

/// Upstream writes float keys with 32-bit precision in the shorter of two notations.
fn float_key(number: f64) -> String {
    let narrow = number as f32;
    let scientific = format!("{narrow:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let power: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&power) {
        return format!("{narrow}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.abs())
}
