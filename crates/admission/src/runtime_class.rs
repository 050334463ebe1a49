//! RuntimeClasses.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{label, labels};
use crate::tree::text;

pub(crate) struct RuntimeClass;

impl KindRules for RuntimeClass {
    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        label(errors, &Path::root("handler"), text(&object["handler"]));
        let selector = &object["scheduling"]["nodeSelector"];
        labels(errors, &Path::root("scheduling").child("nodeSelector"), selector);
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        if old["handler"] != new["handler"] {
            errors.invalid(&Path::root("handler"), text(&new["handler"]), "field is immutable");
        }
    }
}
