//! Validation of affinities and topology spread: a manifest that is refused elsewhere is refused here, too.

use std::collections::BTreeSet;

use names::QualifiedName;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::messages;
use crate::selector::{label_selector, node_term};
use crate::tree::{is_set, items, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks node and pod affinity.
pub(super) fn affinity(errors: &mut FieldErrors, path: &Path, affinity: &Value) {
    let (at, node) = (path.child("nodeAffinity"), &affinity["nodeAffinity"]);
    if is_set(&node[REQUIRED]) {
        let terms = at.child(REQUIRED).child("nodeSelectorTerms");
        let list = items(&node[REQUIRED]["nodeSelectorTerms"]);
        if list.is_empty() {
            errors.required(&terms, "must have at least one node selector term");
        }
        for (index, term) in list.iter().enumerate() {
            node_term(errors, &terms.index(index), term);
        }
    }
    for (index, choice) in items(&node[PREFERRED]).iter().enumerate() {
        let at = at.child(PREFERRED).index(index);
        weight(errors, &at, choice);
        node_term(errors, &at.child("preference"), &choice["preference"]);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let (at, pods) = (path.child(name), &affinity[name]);
        for (index, term) in items(&pods[REQUIRED]).iter().enumerate() {
            pod_term(errors, &at.child(REQUIRED).index(index), term);
        }
        for (index, choice) in items(&pods[PREFERRED]).iter().enumerate() {
            let at = at.child(PREFERRED).index(index);
            weight(errors, &at, choice);
            pod_term(errors, &at.child("podAffinityTerm"), &choice["podAffinityTerm"]);
        }
    }
}

fn weight(errors: &mut FieldErrors, path: &Path, choice: &Value) {
    let weight = choice["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn pod_term(errors: &mut FieldErrors, path: &Path, term: &Value) {
    for name in ["labelSelector", "namespaceSelector"] {
        label_selector(errors, &path.child(name), &term[name]);
    }
    topology_key(errors, path, term);
}

fn topology_key(errors: &mut FieldErrors, path: &Path, term: &Value) {
    let (at, key) = (path.child("topologyKey"), text(&term["topologyKey"]));
    if key.is_empty() {
        errors.required(&at, "can not be empty");
    } else {
        errors.invalid_each(&at, key, messages(QualifiedName::parse(key)));
    }
}

/// Checks topology spread constraints.
pub(super) fn spread(errors: &mut FieldErrors, path: &Path, constraints: &Value) {
    let mut seen = BTreeSet::new();
    for (index, constraint) in items(constraints).iter().enumerate() {
        let at = path.index(index);
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            errors.invalid(&at.child("maxSkew"), skew, "must be greater than zero");
        }
        topology_key(errors, &at, constraint);
        let (key, action) = (text(&constraint["topologyKey"]), text(&constraint["whenUnsatisfiable"]));
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            errors.not_supported(
                &at.child("whenUnsatisfiable"),
                action,
                &["DoNotSchedule", "ScheduleAnyway"],
            );
        }
        if !seen.insert((key, action)) {
            errors.duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), format!("{{{key}, {action}}}"));
        }
        label_selector(errors, &at.child("labelSelector"), &constraint["labelSelector"]);
    }
}
