//! Events: they live in the namespace of the object that they are about; those that say when they happened to the
//! microsecond say who reports them too.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{messages, required_text};
use crate::tree::{is_set, text};

/// Longest reason, action and reporting instance of an event.
const NAME: usize = 128;
/// Longest message of a new event.
const NOTE: usize = 1024;

/// Checks an event of the core group.
pub(crate) fn validate(errors: &mut FieldErrors, event: &Value) {
    validate_as(errors, event, "reportingComponent");
}

fn validate_as(errors: &mut FieldErrors, event: &Value, controller_field: &str) {
    let (own, about) = (text(&event["metadata"]["namespace"]), text(&event["involvedObject"]["namespace"]));
    let is_new = is_set(&event["eventTime"]);
    let fits = match (about.is_empty(), is_new) {
        // Objects of the whole cluster have their events in `default`, newer ones in `kube-system` too.
        (true, true) => matches!(own, "default" | "kube-system"),
        (true, false) => own == "default",
        (false, true) => true,
        (false, false) => own == about,
    };
    if !fits {
        let at = Path::root("involvedObject").child("namespace");
        errors.invalid(&at, about, "does not match event.namespace");
    }
    if !is_new {
        return;
    }
    let (at, controller) = (Path::root(controller_field), text(&event["reportingComponent"]));
    required_text(errors, &at, controller);
    errors.invalid_each(&at, controller, messages(names::QualifiedName::parse(controller)));
    for name in ["reportingInstance", "action", "reason"] {
        let at = Path::root(name);
        if required_text(errors, &at, text(&event[name])) {
            no_longer_than(errors, &at, text(&event[name]), NAME);
        }
    }
    no_longer_than(errors, &Path::root("message"), text(&event["message"]), NOTE);
}

fn no_longer_than(errors: &mut FieldErrors, path: &Path, value: &str, limit: usize) {
    if value.len() > limit {
        errors.invalid(path, "", format!("can have at most {limit} characters"));
    }
}

/// An event that came by its newer names; the tree is the stored form.
pub(crate) struct RegardingEvent;

impl KindRules for RegardingEvent {
    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, event: &Value) {
        validate_as(errors, event, "reportingController");
    }

    fn validate_create(&self, errors: &mut FieldErrors, event: &Value) {
        series(errors, event);
        if !is_set(&event["eventTime"]) {
            errors.required(&Path::root("eventTime"), "");
        }
        let kind = text(&event["type"]);
        if !matches!(kind, "Normal" | "Warning") {
            errors.invalid(&Path::root("type"), "", format!("has invalid value: {kind}"));
        }
        for name in ["firstTimestamp", "lastTimestamp", "count", "source"] {
            let value = &event[name];
            let is_unset = value.is_null()
                || *value == 0
                || value
                    .as_object()
                    .is_some_and(|fields| fields.values().all(|field| text(field).is_empty()));
            if !is_unset {
                errors.invalid(&Path::root(name), "", "needs to be unset");
            }
        }
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        series(errors, new);
        const FIXED: [&str; 13] = [
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingComponent",
            "reportingInstance",
        ];
        for name in FIXED {
            if old[name] != new[name] {
                let shown = if name == "reportingComponent" { "reportingController" } else { name };
                errors.invalid(&Path::root(shown), new[name].clone(), "field is immutable");
            }
        }
    }
}

fn series(errors: &mut FieldErrors, event: &Value) {
    let series = &event["series"];
    if !is_set(series) {
        return;
    }
    let path = Path::root("series");
    if series["count"].as_i64().unwrap_or(0) < 2 {
        errors.invalid(&path.child("count"), "", "should be at least 2");
    }
    if !is_set(&series["lastObservedTime"]) {
        errors.required(&path.child("lastObservedTime"), "");
    }
}
