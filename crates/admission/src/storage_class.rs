//! StorageClasses.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{messages, one_of, required_text};
use crate::tree::{default_pointer, text};

pub(crate) struct StorageClass;

impl KindRules for StorageClass {
    fn default(&self, object: &mut Value) {
        default_pointer(object, "reclaimPolicy", "Delete");
        default_pointer(object, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let (at, provisioner) = (Path::root("provisioner"), text(&object["provisioner"]));
        if required_text(errors, &at, provisioner) {
            let lower = provisioner.to_lowercase();
            errors.invalid_each(&at, provisioner, messages(names::QualifiedName::parse(&lower)));
        }
        one_of(errors, &Path::root("reclaimPolicy"), &object["reclaimPolicy"], &["Delete", "Retain"]);
        let modes = ["Immediate", "WaitForFirstConsumer"];
        one_of(errors, &Path::root("volumeBindingMode"), &object["volumeBindingMode"], &modes);
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        for name in ["parameters", "provisioner", "reclaimPolicy"] {
            if old[name] != new[name] {
                errors.forbidden(&Path::root(name), format!("updates to {name} are forbidden."));
            }
        }
        if old["volumeBindingMode"] != new["volumeBindingMode"] {
            let value = text(&new["volumeBindingMode"]);
            errors.invalid(&Path::root("volumeBindingMode"), value, "field is immutable");
        }
    }
}
