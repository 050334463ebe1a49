//! PersistentVolumes: size, access modes, and one source.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{one_of, optional_one_of, subdomain};
use crate::tree::{default_field, default_pointer, entries, is_set, items, text};

pub(crate) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(crate) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Fields of the spec that are no volume source.
const OTHER_FIELDS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(crate) struct PersistentVolume;

impl KindRules for PersistentVolume {
    fn default(&self, object: &mut Value) {
        default_field(&mut object["spec"], "persistentVolumeReclaimPolicy", "Retain");
        default_pointer(&mut object["spec"], "volumeMode", "Filesystem");
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        access_modes(errors, &path.child("accessModes"), &spec["accessModes"], "");
        let (at, capacity) = (path.child("capacity"), entries(&spec["capacity"]));
        if capacity.is_empty() {
            errors.required(&at, "");
        }
        if !is_set(&spec["capacity"]["storage"]) || capacity.len() > 1 {
            errors.not_supported(&at, &spec["capacity"].to_string(), &["storage"]);
        }
        let policies = ["Delete", "Recycle", "Retain"];
        let policy = path.child("persistentVolumeReclaimPolicy");
        one_of(errors, &policy, &spec["persistentVolumeReclaimPolicy"], &policies);
        let sources = sources(spec);
        match sources.as_slice() {
            [] => errors.required(&path, "must specify a volume type"),
            [_] => {}
            [_, more @ ..] => {
                for name in more {
                    errors.forbidden(&path.child(name), "may not specify more than 1 volume type");
                }
            }
        }
        if !text(&spec["storageClassName"]).is_empty() {
            subdomain(errors, &path.child("storageClassName"), text(&spec["storageClassName"]));
        }
        optional_one_of(errors, &path.child("volumeMode"), &spec["volumeMode"], &VOLUME_MODES);
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        let (path, before, after) = (Path::root("spec"), &old["spec"], &new["spec"]);
        let is_moved = sources(before) != sources(after)
            || sources(before).iter().any(|name| before[name.as_str()] != after[name.as_str()]);
        if is_moved {
            errors.forbidden(
                &path.child("persistentvolumesource"),
                "spec.persistentvolumesource is immutable after creation",
            );
        }
        if before["volumeMode"] != after["volumeMode"] {
            errors.invalid(&path.child("volumeMode"), text(&after["volumeMode"]), "field is immutable");
        }
    }
}

fn sources(spec: &Value) -> Vec<String> {
    entries(spec)
        .into_iter()
        .filter(|(name, value)| !OTHER_FIELDS.contains(&name.as_str()) && is_set(value))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Checks access modes; there must be one.
pub(crate) fn access_modes(errors: &mut FieldErrors, path: &Path, modes: &Value, missing: &str) {
    let modes: Vec<&str> = items(modes).iter().map(text).collect();
    if modes.is_empty() {
        errors.required(path, missing);
    }
    for mode in &modes {
        if !ACCESS_MODES.contains(mode) {
            errors.not_supported(path, mode, &ACCESS_MODES);
        }
    }
    if modes.contains(&"ReadWriteOncePod") && modes.len() > 1 {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}
