//! ControllerRevision: what a controller has noted of a former state; it never changes.

use serde_json::Value;

use super::Review;
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::scalars::not_negative;
use crate::tree::is_set;

pub(crate) struct ControllerRevisions;

impl KindRules for ControllerRevisions {
    fn is_new_generation(&self, _old: &Value, _new: &Value) -> bool {
        false
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        if !is_set(&object["data"]) {
            review.errors.required(&Path::root("data"), "data is mandatory");
        }
        not_negative(review.errors, &Path::root("revision"), &object["revision"]);
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        if old["data"] != new["data"] {
            // It may hold a template with an environment, and it may be large.
            errors.invalid_unseen(&Path::root("data"), "field is immutable");
        }
    }
}
