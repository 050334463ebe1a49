//! ResourceQuotas: which amounts and counts a namespace may have, of which pods.

use quantity::Quantity;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::messages;
use crate::tree::{entries, is_set, items, text};

mod usage;

pub use usage::{add_usage, count_name, quota_limits, quota_names, quota_selects, quota_usage, unspecified};

/// Resources that quotas know without a group: what is counted.
const COUNTS: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Resources of pods that are summed up.
const COMPUTE: [&str; 9] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

pub(crate) struct ResourceQuota;

impl KindRules for ResourceQuota {
    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        for (name, amount) in entries(&spec["hard"]) {
            hard(errors, &path.child("hard").key(name), name, text(amount));
        }
        scopes(errors, &path.child("scopes"), spec);
        let expressions = path.child("scopeSelector").child("matchExpressions");
        for (index, one) in items(&spec["scopeSelector"]["matchExpressions"]).iter().enumerate() {
            expression(errors, &expressions.index(index), one);
        }
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        for name in ["scopes", "scopeSelector"] {
            let (before, after) = (&old["spec"][name], &new["spec"][name]);
            if before != after {
                errors.invalid(&Path::root("spec").child(name), after.clone(), "field is immutable");
            }
        }
    }
}

fn hard(errors: &mut FieldErrors, path: &Path, name: &str, amount: &str) {
    errors.invalid_each(path, name, messages(names::QualifiedName::parse(name)));
    let is_pages = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    let is_standard =
        COUNTS.contains(&name) || COMPUTE.contains(&name) || name == "requests.storage" || is_pages;
    if !name.contains('/') && !is_standard {
        errors.invalid(path, name, "must be a standard resource for quota");
    }
    let Ok(parsed) = Quantity::parse(amount) else { return };
    if parsed.is_negative() {
        errors.invalid(path, amount, "must be greater than or equal to 0");
    }
    let is_extended =
        name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.");
    if (COUNTS.contains(&name) || is_extended) && !parsed.is_whole() {
        errors.invalid(path, amount, "must be an integer");
    }
}

fn scopes(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let scopes = items(&spec["scopes"]);
    let names: Vec<&str> = scopes.iter().map(text).collect();
    for name in &names {
        if !SCOPES.contains(name) {
            errors.invalid(path, scopes.to_vec(), "unsupported scope");
        }
        for (resource, _) in entries(&spec["hard"]) {
            let resource = resource.as_str();
            let is_standard = COUNTS.contains(&resource) || COMPUTE.contains(&resource);
            let fits = match *name {
                "BestEffort" => resource == "pods",
                "VolumeAttributesClass" => resource == "persistentvolumeclaims",
                _ => resource == "pods" || COMPUTE.contains(&resource),
            };
            if is_standard && !fits {
                errors.invalid(path, scopes.to_vec(), "unsupported scope applied to resource");
            }
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|name| names.contains(name)) {
            errors.invalid(path, scopes.to_vec(), "conflicting scopes");
        }
    }
}

fn expression(errors: &mut FieldErrors, path: &Path, one: &Value) {
    let (scope, operator, values) = (text(&one["scopeName"]), text(&one["operator"]), items(&one["values"]));
    if !SCOPES.contains(&scope) {
        errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
    }
    if !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && operator != "Exists" {
        let detail = "must be 'Exist' only operator when scope is any of ResourceQuotaScopeTerminating, \
                      ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                      ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(&path.child("operator"), operator, detail);
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be atleast one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(&path.child("values"), detail);
        }
        "Exists" | "DoesNotExist" if is_set(&one["values"]) && !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(&path.child("values"), values.to_vec(), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
}
