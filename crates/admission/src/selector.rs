//! Label and node selectors.

use names::QualifiedName;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::{labels, messages};
use crate::tree::{items, text};

/// Checks a label selector.
pub(crate) fn label_selector(errors: &mut FieldErrors, path: &Path, selector: &Value) {
    labels(errors, &path.child("matchLabels"), &selector["matchLabels"]);
    for (index, expression) in items(&selector["matchExpressions"]).iter().enumerate() {
        requirement(errors, &path.child("matchExpressions").index(index), expression, false);
    }
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
}
