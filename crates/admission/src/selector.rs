//! Label and node selectors.

use names::{LabelValue, QualifiedName};
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::{labels, messages};
use crate::tree::{entries, is_set, items, text};

/// Checks a label selector.
pub(crate) fn label_selector(errors: &mut FieldErrors, path: &Path, selector: &Value) {
    labels(errors, &path.child("matchLabels"), &selector["matchLabels"]);
    for (index, expression) in items(&selector["matchExpressions"]).iter().enumerate() {
        requirement(errors, &path.child("matchExpressions").index(index), expression, false);
    }
}

/// Whether a label selector selects an object with these labels. A selector that is not there selects nothing.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    is_set(selector)
        && entries(&selector["matchLabels"]).iter().all(|(key, value)| labels[key.as_str()] == **value)
        && items(&selector["matchExpressions"]).iter().all(|expression| {
            let label = &labels[text(&expression["key"])];
            let is_listed = items(&expression["values"]).contains(label);
            match text(&expression["operator"]) {
                "In" => is_set(label) && is_listed,
                "NotIn" => !is_set(label) || !is_listed,
                "Exists" => is_set(label),
                "DoesNotExist" => !is_set(label),
                _ => true,
            }
        })
}

/// Checks a term of a node selector.
pub(crate) fn node_term(errors: &mut FieldErrors, path: &Path, term: &Value) {
    for list in ["matchExpressions", "matchFields"] {
        for (index, expression) in items(&term[list]).iter().enumerate() {
            requirement(errors, &path.child(list).index(index), expression, true);
        }
    }
}

fn requirement(errors: &mut FieldErrors, path: &Path, expression: &Value, compares: bool) {
    let values = items(&expression["values"]);
    match text(&expression["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), detail);
        }
        "Gt" | "Lt" if compares && values.len() != 1 => {
            errors.required(
                &path.child("values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            );
        }
        "Gt" | "Lt" if compares => {}
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = text(&expression["key"]);
    errors.invalid_each(&path.child("key"), key, messages(QualifiedName::parse(key)));
    if !compares {
        for (index, value) in values.iter().enumerate() {
            let value = text(value);
            errors.invalid_each(
                &path.child("values").index(index),
                value,
                messages(LabelValue::parse(value)),
            );
        }
    }
}
