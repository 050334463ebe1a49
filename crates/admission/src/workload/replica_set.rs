//! ReplicaSet.

use serde_json::{Value, json};

use super::{
    EQUAL_PODS, Place, Review, SPEC_TEMPLATE, fixed, is_empty, replica_counts, start, with_template_defaults,
};
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::tree::{default_pointer, is_set};

pub(crate) struct ReplicaSets;

impl KindRules for ReplicaSets {
    fn template(&self) -> Option<Place> {
        Some(SPEC_TEMPLATE)
    }

    fn default(&self, object: &mut Value) {
        let Some(spec) = with_template_defaults(object) else { return };
        default_pointer(spec, "replicas", 1);
    }

    fn start(&self, object: &mut Value) {
        start(object, json!({"replicas": 0}));
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        review.name(object);
        review.not_negative(&object["spec"], &["replicas", "minReadySeconds"]);
        // The word is upstream's.
        replicated_template(review, object, "deployment");
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        fixed(errors, "selector", old, new);
    }

    fn validate_status(&self, errors: &mut FieldErrors, _old: &Value, new: &Value) {
        replica_counts(errors, &new["status"], &EQUAL_PODS, "readyReplicas");
    }
}

/// Selector and template of a kind that makes equal pods: what a ReplicaSet and a Deployment share.
pub(super) fn replicated_template(review: &mut Review<'_>, object: &Value, kind: &str) {
    let selector = &object["spec"]["selector"];
    if !review.selector(&object["spec"], kind) {
        let at = Path::root("spec").child("selector");
        return review.errors.invalid(&at, selector.clone(), "invalid label selector");
    }
    if !is_set(selector) || !is_empty(selector) {
        review.selected(object);
    }
    review.lasting_template(object, "ReplicaSet", &[]);
}
