//! PersistentVolumeClaims: how much of which storage is wanted.

use quantity::Quantity;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::persistent_volume::{VOLUME_MODES, access_modes};
use crate::request::Warning;
use crate::scalars::{optional_one_of, subdomain};
use crate::selector::label_selector;
use crate::tree::{default_pointer, is_set, remove, text};

pub(crate) struct PersistentVolumeClaim;

impl KindRules for PersistentVolumeClaim {
    fn default(&self, object: &mut Value) {
        default_pointer(&mut object["spec"], "volumeMode", "Filesystem");
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        validate_spec(errors, &Path::root("spec"), &object["spec"]);
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        let may_change = |object: &Value| {
            let mut spec = object["spec"].clone();
            let is_bound = text(&old["status"]["phase"]) == "Bound";
            if is_bound {
                remove(&mut spec["resources"], "requests");
                remove(&mut spec, "volumeAttributesClassName");
            }
            // A binder names the volume once.
            if text(&old["spec"]["volumeName"]).is_empty() {
                remove(&mut spec, "volumeName");
            }
            spec
        };
        if may_change(old) != may_change(new) {
            let detail = "spec is immutable after creation except resources.requests and \
                          volumeAttributesClassName for bound claims";
            errors.forbidden(&Path::root("spec"), detail);
        }
        let amount = |value: &Value| Quantity::parse(text(value)).ok();
        let wanted = amount(&new["spec"]["resources"]["requests"]["storage"]);
        let before = amount(&old["spec"]["resources"]["requests"]["storage"]);
        // A volume that holds more than was asked for is no reason to refuse what asks for the same as before.
        if let (Some(wanted), Some(has)) = (wanted, amount(&new["status"]["capacity"]["storage"]))
            && wanted < has
            && before.is_none_or(|before| wanted < before)
        {
            let at = Path::root("spec").child("resources").child("requests").child("storage");
            errors.forbidden(&at, "field can not be less than status.capacity");
        }
    }
}

/// Checks what a claim, or one that a StatefulSet makes for each pod, wants.
pub(crate) fn validate_spec(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let at = path.child("accessModes");
    access_modes(errors, &at, &spec["accessModes"], "at least 1 access mode is required");
    if is_set(&spec["selector"]) {
        label_selector(errors, &path.child("selector"), &spec["selector"]);
    }
    let (at, wanted) =
        (path.child("resources").key("storage"), text(&spec["resources"]["requests"]["storage"]));
    match Quantity::parse(wanted) {
        Err(_) => errors.required(&at, ""),
        Ok(amount) if amount.is_zero() || amount.is_negative() => {
            errors.invalid(&at, wanted, "must be greater than zero");
        }
        Ok(_) => {}
    }
    if !text(&spec["storageClassName"]).is_empty() {
        subdomain(errors, &path.child("storageClassName"), text(&spec["storageClassName"]));
    }
    optional_one_of(errors, &path.child("volumeMode"), &spec["volumeMode"], &VOLUME_MODES);
}
