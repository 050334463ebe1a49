//! Validation of resource requests and limits.

use names::QualifiedName;
use quantity::Quantity;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::messages;
use crate::tree::{entries, is_set, text};

/// Resources of containers that Kubernetes itself knows.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Checks `resources` of a container.
pub(super) fn validate(errors: &mut FieldErrors, path: &Path, resources: &Value) {
    let limits = &resources["limits"];
    for (name, amount) in entries(limits) {
        let at = path.child("limits").key(name);
        resource_name(errors, &at, name);
        amount_value(errors, &at, name, text(amount));
    }
    for (name, amount) in entries(&resources["requests"]) {
        let at = path.child("requests").key(name);
        resource_name(errors, &at, name);
        amount_value(errors, &at, name, text(amount));
        within_limit(errors, path, name, text(amount), limits);
    }
}

fn within_limit(errors: &mut FieldErrors, path: &Path, name: &str, amount: &str, limits: &Value) {
    let limit = &limits[name];
    let may_overcommit = !name.contains('/') && !name.starts_with("hugepages-");
    if !is_set(limit) {
        if !may_overcommit {
            errors.required(&path.child("limits"), "Limit must be set for non overcommitable resources");
        }
        return;
    }
    let (Ok(request), Ok(allowed)) = (Quantity::parse(amount), Quantity::parse(text(limit))) else { return };
    let relation = if request != allowed && !may_overcommit {
        "must be equal to"
    } else if request > allowed {
        "must be less than or equal to"
    } else {
        return;
    };
    let detail = format!("{relation} {name} limit of {}", text(limit));
    errors.invalid(&path.child("requests"), amount, detail);
}

fn resource_name(errors: &mut FieldErrors, path: &Path, name: &str) {
    let problems = messages(QualifiedName::parse(name));
    if !problems.is_empty() {
        return errors.invalid_each(path, name, problems);
    }
    if !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with("hugepages-") {
        errors.invalid(path, name, "must be a standard resource for containers");
    } else if name.starts_with("kubernetes.io/")
        || name.contains(".kubernetes.io/")
        || name.starts_with("requests.")
    {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn amount_value(errors: &mut FieldErrors, path: &Path, name: &str, amount: &str) {
    let Ok(amount) = Quantity::parse(amount) else { return };
    if amount.is_negative() {
        errors.invalid(path, amount.to_string(), "must be greater than or equal to 0");
    }
    if !STANDARD.contains(&name) && !amount.is_whole() {
        errors.invalid(path, amount.to_string(), "must be an integer");
    }
}
