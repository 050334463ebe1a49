//! What may be special about a kind: defaults, checks, what an update may do.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::request::Warning;
use crate::workload::{Place, Review};

/// The rules of a kind; what is not said here is the same for all.
pub(crate) trait KindRules: Sync {
    /// Where the pod template of the kind stands, if it has one.
    fn template(&self) -> Option<Place> {
        None
    }

    /// Writes into a new object what is made from its uid.
    fn generate(&self, _object: &mut Value) {}

    /// Fills in upstream's defaults. Doing it twice changes nothing.
    fn default(&self, _object: &mut Value) {}

    /// Sets what a new object starts with, whatever its creator wrote.
    fn start(&self, _object: &mut Value) {}

    /// Checks everything but the metadata.
    fn validate(&self, _errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, _object: &Value) {}

    /// Checks that need to know what the object replaces, or how its pod template is to be judged.
    fn review(&self, _review: &mut Review<'_>, _object: &Value) {}

    /// Checks a new object besides.
    fn validate_create(&self, _errors: &mut FieldErrors, _object: &Value) {}

    /// Takes over or sets what an update leaves to the server, before the checks.
    fn keep(&self, _old: &Value, _new: &mut Value) {}

    /// Checks what an update may not change.
    fn validate_update(&self, _errors: &mut FieldErrors, _old: &Value, _new: &Value) {}

    /// Whether an update is a new generation of what the object wants.
    fn is_new_generation(&self, old: &Value, new: &Value) -> bool {
        old["spec"] != new["spec"]
    }

    /// Checks what may be said in a status.
    fn validate_status(&self, _errors: &mut FieldErrors, _old: &Value, _new: &Value) {}
}
