//! ReplicationController.

use serde_json::{Value, json};

use super::{
    EQUAL_PODS, Place, Review, SPEC_TEMPLATE, mismatch, replica_counts, start, with_template_defaults,
};
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::tree::{default_pointer, entries, is_set};

pub(crate) struct ReplicationControllers;

impl KindRules for ReplicationControllers {
    fn template(&self) -> Option<Place> {
        Some(SPEC_TEMPLATE)
    }

    fn default(&self, object: &mut Value) {
        let Some(spec) = with_template_defaults(object) else { return };
        default_pointer(spec, "replicas", 1);
        let labels = spec["template"]["metadata"]["labels"].clone();
        if !entries(&labels).is_empty() {
            if entries(&spec["selector"]).is_empty() {
                spec["selector"] = labels.clone();
            }
            if entries(&object["metadata"]["labels"]).is_empty() {
                object["metadata"]["labels"] = labels;
            }
        }
    }

    fn start(&self, object: &mut Value) {
        start(object, json!({"replicas": 0}));
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        review.name(object);
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        review.not_negative(spec, &["minReadySeconds"]);
        if entries(&spec["selector"]).is_empty() {
            review.errors.required(&path.child("selector"), "");
        }
        review.not_negative(spec, &["replicas"]);
        if !is_set(&spec["template"]) {
            return review.errors.required(&path.child("template"), "");
        }
        let labels = &spec["template"]["metadata"]["labels"];
        if !entries(&spec["selector"]).iter().all(|(key, value)| labels[key.as_str()] == **value) {
            mismatch(review.errors, SPEC_TEMPLATE, labels);
        }
        review.lasting_template(object, "ReplicationController", &[]);
    }

    fn validate_status(&self, errors: &mut FieldErrors, _old: &Value, new: &Value) {
        replica_counts(errors, &new["status"], &EQUAL_PODS, "readyReplicas");
    }
}
