//! How many pods a change may add or take away at once: counts and percentages.

use serde_json::Value;

use crate::errors::{BadValue, FieldErrors};
use crate::path::Path;
use crate::scalars::not_negative;

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";

/// Checks a count that is not negative, or a percentage.
pub(super) fn count_or_percentage(errors: &mut FieldErrors, path: &Path, value: &Value) {
    match value {
        Value::String(text) if percentage(text).is_none() => errors.invalid(path, text.as_str(), PERCENT),
        Value::String(_) => {}
        number => not_negative(errors, path, number),
    }
}

/// More than all cannot be taken away.
pub(super) fn at_most_all(errors: &mut FieldErrors, path: &Path, value: &Value) {
    if let Value::String(text) = value
        && percentage(text).is_some_and(|percent| percent > 100)
    {
        errors.invalid(path, text.as_str(), "must not be greater than 100%");
    }
}

/// The count, or the number of the percentage; 0 for what is neither.
pub(super) fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => percentage(text).or_else(|| text.parse().ok()).unwrap_or(0),
        number => number.as_i64().unwrap_or(0),
    }
}

fn percentage(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty())?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that has no end is more than all.
        Some(digits.parse().unwrap_or(i64::MAX))
    } else {
        None
    }
}

/// Refuses a strategy of another type; upstream shows it whole, in Go's names.
pub(super) fn unknown_strategy(errors: &mut FieldErrors, path: &Path, strategy: &Value, supported: &[&str]) {
    let rolling = &strategy["rollingUpdate"];
    let shown = if rolling.is_null() {
        "null".to_owned()
    } else {
        format!("{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}", rolling["maxUnavailable"], rolling["maxSurge"])
    };
    let shown = format!("{{\"Type\":{},\"RollingUpdate\":{shown}}}", strategy["type"]);
    errors.not_supported_value(path, BadValue::Shown(shown), supported);
}
