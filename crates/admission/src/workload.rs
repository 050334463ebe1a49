//! Kinds that hold pod templates, and what belongs to them, one file each.
//!
//! What all of them share stands here: where the template is, how it is checked, and the counts of a status.

pub(crate) mod controller_revision;
pub(crate) mod cron_job;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
mod index_list;
pub(crate) mod job;
mod job_policies;
mod job_status;
pub(crate) mod pod_template;
pub(crate) mod replica_set;
pub(crate) mod replication_controller;
mod rollout;
pub(crate) mod stateful_set;
mod time_zone;

use serde_json::Value;

use crate::defaults::pod::template_spec;
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::pod_spec::{self, SpecRules};
use crate::request::{AdmissionRequest, Warning};
use crate::scalars::{labels, messages, not_negative};
use crate::selector::{label_selector, selects};
use crate::tree::{entries, field, is_set, items, text};
use crate::{hooks, metadata};

/// Where a pod template stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// As a JSON pointer.
    pub(crate) pointer: &'static str,
    /// As a field path.
    pub(crate) path: &'static str,
}

pub(crate) const SPEC_TEMPLATE: Place = Place { pointer: "/spec/template", path: "spec.template" };

/// Counts of the status of a kind that keeps a number of equal pods.
const EQUAL_PODS: [&str; 3] = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

/// The specification of an object whose pod template stands in it and now has its defaults.
fn with_template_defaults(object: &mut Value) -> Option<&mut Value> {
    let spec = field(object, "spec")?;
    if let Some(template) = field(spec, "template").and_then(|template| field(template, "spec")) {
        template_spec(template);
    }
    Some(spec)
}

/// What a new object starts with, whatever its creator wrote: its status, and its first generation.
fn start(object: &mut Value, status: Value) {
    object["status"] = status;
    object["metadata"]["generation"] = 1.into();
}

/// One look at one object.
pub(crate) struct Review<'a> {
    pub(crate) errors: &'a mut FieldErrors,
    pub(crate) warnings: &'a mut Vec<Warning>,
    /// What the object replaces.
    pub(crate) old: Option<&'a Value>,
    pub(crate) request: &'a AdmissionRequest,
    /// Where the pod template stands.
    pub(crate) template: Option<Place>,
}

impl Review<'_> {
    /// Checks the pod template. `claims` are volumes that each pod gets besides those of the template.
    fn pod_template(&mut self, object: &Value, claims: &[Value]) {
        let Some(place) = self.template else { return };
        let template = object.pointer(place.pointer).unwrap_or(&Value::Null);
        let (path, spec) = (Path::root(place.path), &template["spec"]);
        labels(self.errors, &path.child("labels"), &template["metadata"]["labels"]);
        let annotations = &template["metadata"]["annotations"];
        metadata::annotations(self.errors, &path.child("annotations"), annotations);
        let handlers = path.child("metadata").child("annotations");
        hooks::validate(self.errors, &handlers, annotations, spec);
        let old_spec =
            self.old.and_then(|old| old.pointer(place.pointer)).map(|old_template| &old_template["spec"]);
        let rules = SpecRules::new(spec, old_spec, self.request, false).with_claims(claims);
        let at = path.child("spec");
        let mut warnings = Vec::new();
        pod_spec::validate(self.errors, &mut warnings, &at, spec, rules, self.request);
        // What was said of a template is not said again when something else changes.
        if old_spec != Some(spec) {
            self.warnings.append(&mut warnings);
        }
        if !items(&spec["ephemeralContainers"]).is_empty() {
            let detail = "ephemeral containers not allowed in pod template";
            self.errors.forbidden(&at.child("ephemeralContainers"), detail);
        }
    }

    /// Checks the template of a kind whose pods live until they are deleted.
    fn lasting_template(&mut self, object: &Value, kind: &str, claims: &[Value]) {
        self.pod_template(object, claims);
        self.lasting(object, kind);
    }

    /// Pods that live until they are deleted restart always and have no deadline.
    fn lasting(&mut self, object: &Value, kind: &str) {
        let Some(place) = self.template else { return };
        let spec = object.pointer(place.pointer).map_or(&Value::Null, |template| &template["spec"]);
        let path = Path::root(place.path).child("spec");
        let policy = text(&spec["restartPolicy"]);
        if policy != "Always" {
            self.errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
        }
        if is_set(&spec["activeDeadlineSeconds"]) {
            let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
            self.errors.forbidden(&path.child("activeDeadlineSeconds"), detail);
        }
    }

    /// Checks a selector that must be there; tells whether it can select anything.
    fn selector(&mut self, spec: &Value, kind: &str) -> bool {
        let (path, selector) = (Path::root("spec").child("selector"), &spec["selector"]);
        if !is_set(selector) {
            self.errors.required(&path, "");
            return true;
        }
        let before = self.errors.0.len();
        label_selector(self.errors, &path, selector);
        let is_sound = self.errors.0.len() == before;
        if is_empty(selector) {
            let detail = format!("empty selector is invalid for {kind}");
            self.errors.invalid(&path, selector.clone(), detail);
        }
        is_sound
    }

    /// The selector must select the pods that the template makes.
    fn selected(&mut self, object: &Value) {
        let Some(place) = self.template else { return };
        let labels =
            object.pointer(place.pointer).map_or(&Value::Null, |template| &template["metadata"]["labels"]);
        if !selects(&object["spec"]["selector"], labels) {
            mismatch(self.errors, place, labels);
        }
    }

    /// A new name that is no label makes host names that surprise.
    fn name(&mut self, object: &Value) {
        let told = messages(names::DnsLabel::parse(text(&object["metadata"]["name"])));
        if self.old.is_none() && !told.is_empty() {
            self.warnings.push(Warning(format!(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
                 a DNS label is recommended: [{}]",
                told.join(" ")
            )));
        }
    }

    /// Counts that may be zero but not less.
    fn not_negative(&mut self, spec: &Value, names: &[&str]) {
        counts(self.errors, &Path::root("spec"), spec, names);
    }
}

/// A selector that everything fits.
fn is_empty(selector: &Value) -> bool {
    entries(&selector["matchLabels"]).is_empty() && items(&selector["matchExpressions"]).is_empty()
}

fn mismatch(errors: &mut FieldErrors, place: Place, labels: &Value) {
    let at = Path::root(place.path).child("metadata").child("labels");
    errors.invalid(&at, labels.clone(), "`selector` does not match template `labels`");
}

/// Counts that may be zero but not less.
fn counts(errors: &mut FieldErrors, path: &Path, fields: &Value, names: &[&str]) {
    for name in names {
        not_negative(errors, &path.child(name), &fields[*name]);
    }
}

/// A field that is set once.
fn fixed(errors: &mut FieldErrors, name: &str, old: &Value, new: &Value) {
    if old["spec"][name] != new["spec"][name] {
        let at = Path::root("spec").child(name);
        errors.invalid(&at, new["spec"][name].clone(), "field is immutable");
    }
}

/// Counts of a status: none below zero, none of `parts` above `status.replicas`, and what is available is ready. `ready` is
/// how the last sentence names that count.
fn replica_counts(errors: &mut FieldErrors, status: &Value, parts: &[&str], ready: &str) {
    let path = Path::root("status");
    let count = |name: &str| status[name].as_i64().unwrap_or(0);
    counts(errors, &path, status, &["replicas"]);
    counts(errors, &path, status, parts);
    counts(errors, &path, status, &["observedGeneration", "collisionCount"]);
    for name in parts.iter().filter(|name| count(name) > count("replicas")) {
        errors.invalid(&path.child(name), count(name), "cannot be greater than status.replicas");
    }
    if count("availableReplicas") > count("readyReplicas") {
        let detail = format!("cannot be greater than {ready}");
        errors.invalid(&path.child("availableReplicas"), count("availableReplicas"), detail);
    }
}

/// A count that only grows.
fn never_less(errors: &mut FieldErrors, old: &Value, new: &Value, name: &str) {
    let before = old["status"][name].as_i64();
    let after = new["status"][name].as_i64();
    if before.is_some_and(|before| after.is_none_or(|after| after < before)) {
        errors.invalid(&Path::root("status").child(name), after.unwrap_or(0), "cannot be decremented");
    }
}
