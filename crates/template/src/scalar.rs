//! What a text becomes without its quotes, and whether it fits a declared type.
//!
//! The grammar yields scalars only: nothing that a parameter holds can become a list, a map or null.

use base64::Engine;
use manifest::NodeValue;

use crate::ParameterType;
use crate::limits::MAX_VALUE_BYTES;

/// The scalar of a whole text: a whole number of 64 bits, a finite decimal, `true` or `false`; otherwise the text.
///
/// Numbers are JSON's: no blanks, no sign `+`, no leading zeros, no other base. A whole number that does not fit stays
/// text, because as a decimal it would lose digits.
pub(crate) fn resolve(text: String) -> NodeValue {
    match text.as_str() {
        "true" => return NodeValue::Bool(true),
        "false" => return NodeValue::Bool(false),
        _ => {}
    }
    match number(&text) {
        Some(number) => number,
        None => NodeValue::String(text),
    }
}

/// `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`
fn number(text: &str) -> Option<NodeValue> {
    // The longest finite decimal that says anything is shorter than this.
    const LONGEST: usize = 1_100;
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) || text.len() > LONGEST {
        return None;
    }
    if rest.is_empty() {
        return text.parse().ok().map(NodeValue::Int);
    }
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let length = digits(fraction);
            if length == 0 {
                return None;
            }
            &fraction[length..]
        }
        None => rest,
    };
    let is_complete = match rest.strip_prefix(['e', 'E']) {
        None => rest.is_empty(),
        Some(exponent) => {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
    };
    if !is_complete {
        return None;
    }
    // What is too near to zero for a float would become zero: it stays text, as what is too large does.
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let is_kept = |number: &f64| number.is_finite() && (is_zero || *number != 0.0);
    text.parse::<f64>().ok().filter(is_kept).map(NodeValue::Float)
}

/// Whether a text is a value of the type.
pub(crate) fn fits(text: &str, kind: ParameterType) -> bool {
    match kind {
        ParameterType::String => true,
        ParameterType::Int => matches!(resolve(text.to_owned()), NodeValue::Int(_)),
        ParameterType::Bool => matches!(text, "true" | "false"),
        ParameterType::Base64 => {
            text.len() <= MAX_VALUE_BYTES.div_ceil(3) * 4
                && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
        }
    }
}
