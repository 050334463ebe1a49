//! PriorityClasses: names for the priorities of pods, two of them the system's own.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::optional_one_of;
use crate::tree::{default_pointer, text};

/// Names with this prefix are the system's.
const SYSTEM: &str = "system-";
/// The highest priority that a user may give.
const HIGHEST_OF_USERS: i64 = 1_000_000_000;

/// The classes that every cluster has: name, value, description.
pub const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

pub(crate) struct PriorityClass;

impl KindRules for PriorityClass {
    fn default(&self, object: &mut Value) {
        default_pointer(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn start(&self, object: &mut Value) {
        object["metadata"]["generation"] = 1.into();
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let name = text(&object["metadata"]["name"]);
        if name.starts_with(SYSTEM) {
            if let Some(problem) = not_the_systems(name, object) {
                let detail = format!(
                    "priority class names with '{SYSTEM}' prefix are reserved for system use only. error: {problem}"
                );
                errors.forbidden(&Path::root("metadata").child("name"), detail);
            }
        } else if object["value"].as_i64().is_some_and(|value| value > HIGHEST_OF_USERS) {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
            errors.forbidden(&Path::root("value"), detail);
        }
        let policies = ["Never", "PreemptLowerPriority"];
        optional_one_of(errors, &Path::root("preemptionPolicy"), &object["preemptionPolicy"], &policies);
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        if old["value"] != new["value"] {
            errors.forbidden(&Path::root("value"), "may not be changed in an update.");
        }
        if old["preemptionPolicy"] != new["preemptionPolicy"] {
            let value = text(&new["preemptionPolicy"]);
            errors.invalid(&Path::root("preemptionPolicy"), value, "field is immutable");
        }
    }
}

fn not_the_systems(name: &str, object: &Value) -> Option<String> {
    let Some((_, value, _)) = SYSTEM_CLASSES.iter().find(|(own, ..)| *own == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if object["value"].as_i64() != Some(*value) {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    (object["globalDefault"] == true).then(|| format!("globalDefault of {name} PriorityClass must be false"))
}
