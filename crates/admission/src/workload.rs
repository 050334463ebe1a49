//! Kinds that hold pod templates: counts, selectors, the template itself.

use schema::Resource;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::metadata;
use crate::path::Path;
use crate::scalars::{labels, not_negative};
use crate::selector::label_selector;
use crate::tree::{entries, is_set, items, text};

/// Where the template of a kind stands: as a JSON pointer and as a field path.
pub(crate) fn template_place(resource: &Resource) -> Option<(&'static str, &'static str)> {
    Some(match (resource.group, resource.kind) {
        ("", "PodTemplate") => ("/template", "template"),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet")
        | ("batch", "Job") => ("/spec/template", "spec.template"),
        ("batch", "CronJob") => ("/spec/jobTemplate/spec/template", "spec.jobTemplate.spec.template"),
        _ => return None,
    })
}

/// Checks everything but the spec of the template.
pub(crate) fn validate(errors: &mut FieldErrors, resource: &Resource, object: &Value) {
    let Some((pointer, template_path)) = template_place(resource) else { return };
    let spec = &object["spec"];
    let path = Path::root("spec");
    for name in
        ["replicas", "minReadySeconds", "revisionHistoryLimit", "parallelism", "completions", "backoffLimit"]
    {
        not_negative(errors, &path.child(name), &spec[name]);
    }
    let template = object.pointer(pointer).unwrap_or(&Value::Null);
    let is_controller = resource.kind == "ReplicationController";
    if is_controller && !is_set(template) {
        return errors.required(&path.child("template"), "");
    }
    if resource.group == "apps" {
        if is_set(&spec["selector"]) {
            selector(errors, resource, &path.child("selector"), &spec["selector"]);
        } else {
            errors.required(&path.child("selector"), "");
        }
    } else if is_controller && entries(&spec["selector"]).is_empty() {
        errors.required(&path.child("selector"), "");
    }
    if resource.kind == "CronJob" && text(&spec["schedule"]).is_empty() {
        errors.required(&path.child("schedule"), "");
    }
    let at = Path::root(template_path);
    let template_labels = &template["metadata"]["labels"];
    let is_matched = match (resource.group, is_controller) {
        ("apps", _) => matches_labels(&spec["selector"], template_labels),
        (_, true) => {
            entries(&spec["selector"]).iter().all(|(key, value)| template_labels[key.as_str()] == **value)
        }
        _ => true,
    };
    if !is_matched {
        let shown = if template_labels.is_null() { Value::Null } else { template_labels.clone() };
        errors.invalid(
            &at.child("metadata").child("labels"),
            shown,
            "`selector` does not match template `labels`",
        );
    }
    labels(errors, &at.child("labels"), template_labels);
    metadata::annotations(errors, &at.child("annotations"), &template["metadata"]["annotations"]);
}

/// The restart policies that a kind's pods may have, told after the template.
pub(crate) fn validate_restart_policy(errors: &mut FieldErrors, resource: &Resource, object: &Value) {
    let Some((pointer, template_path)) = template_place(resource) else { return };
    let policy = object.pointer(pointer).map_or("", |template| text(&template["spec"]["restartPolicy"]));
    let supported: &[&str] = match resource.group {
        "batch" => &["OnFailure", "Never"],
        _ if resource.kind == "PodTemplate" => return,
        _ => &["Always"],
    };
    if !policy.is_empty() && !supported.contains(&policy) {
        errors.not_supported(
            &Path::root(template_path).child("spec").child("restartPolicy"),
            policy,
            supported,
        );
    }
}

fn selector(errors: &mut FieldErrors, resource: &Resource, path: &Path, selector: &Value) {
    label_selector(errors, path, selector);
    if entries(&selector["matchLabels"]).is_empty() && items(&selector["matchExpressions"]).is_empty() {
        let detail = format!("empty selector is invalid for {}", resource.singular);
        errors.invalid(path, selector.clone(), detail);
    }
}

fn matches_labels(selector: &Value, labels: &Value) -> bool {
    entries(&selector["matchLabels"]).iter().all(|(key, value)| labels[key.as_str()] == **value)
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

/// Selectors of most workloads are given once.
pub(crate) fn validate_update(errors: &mut FieldErrors, resource: &Resource, old: &Value, new: &Value) {
    let is_fixed = matches!(
        (resource.group, resource.kind),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") | ("batch", "Job")
    );
    let path = Path::root("spec");
    if is_fixed && old["spec"]["selector"] != new["spec"]["selector"] {
        errors.invalid(&path.child("selector"), new["spec"]["selector"].clone(), "field is immutable");
    }
    if resource.kind == "Job" && old["spec"]["template"] != new["spec"]["template"] {
        errors.invalid(&path.child("template"), new["spec"]["template"].clone(), "field is immutable");
    }
}
