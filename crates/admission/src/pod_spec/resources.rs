//! Validation of resource requests and limits.

use names::QualifiedName;
use quantity::Quantity;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::messages;
use crate::tree::{entries, is_set, items, text};

/// Resources that a pod can have for its containers together, besides huge pages.
const POD_LEVEL: [&str; 2] = ["cpu", "memory"];

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

/// Checks `resources` of a pod, and those of its containers against it.
pub(super) fn validate_pod(errors: &mut FieldErrors, spec_path: &Path, spec: &Value) {
    let (path, own) = (spec_path.child("resources"), &spec["resources"]);
    if !is_set(own) {
        return;
    }
    validate(errors, &path, own);
    for list in ["limits", "requests"] {
        for (name, _) in entries(&own[list]) {
            if !POD_LEVEL.contains(&name.as_str()) && !name.starts_with("hugepages-") {
                errors.not_supported(&path.child(list).key(name), name, &POD_LEVEL);
            }
        }
    }
    for name in POD_LEVEL {
        let containers: Vec<_> = ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| {
                items(&spec[list]).iter().enumerate().map(move |(index, one)| (list, index, one))
            })
            .collect();
        if let Ok(limit) = Quantity::parse(text(&own["limits"][name])) {
            for (list, index, container) in &containers {
                let amount = text(&container["resources"]["limits"][name]);
                if Quantity::parse(amount).is_ok_and(|amount| amount > limit) {
                    let at = spec_path.child(list).index(*index).child("resources").child("limits").key(name);
                    errors.invalid(
                        &at,
                        amount,
                        format!("must be less than or equal to pod limits of {limit}"),
                    );
                }
            }
        }
        let Ok(request) = Quantity::parse(text(&own["requests"][name])) else { continue };
        let app = containers.iter().filter(|(list, _, _)| *list == "containers");
        let requested = app
            .filter_map(|(_, _, container)| {
                Quantity::parse(text(&container["resources"]["requests"][name])).ok()
            })
            .map(|amount| amount.millis())
            .fold(0_i128, i128::saturating_add);
        if requested > request.millis() {
            let sum = i64::try_from(requested).map(Quantity::from_millis).unwrap_or(request);
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(&path.child("requests").key(name), text(&own["requests"][name]), detail);
        }
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
