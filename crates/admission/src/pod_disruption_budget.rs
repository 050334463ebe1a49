//! PodDisruptionBudgets: how many pods must stay, or may go, at once.

use serde_json::{Value, json};

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::optional_one_of;
use crate::selector::label_selector;
use crate::tree::is_set;

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                       '93%', regex used for validation is '[0-9]+%')";

pub(crate) struct PodDisruptionBudget;

impl KindRules for PodDisruptionBudget {
    fn start(&self, object: &mut Value) {
        object["metadata"]["generation"] = 1.into();
        object["status"] =
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        if is_set(&spec["minAvailable"]) && is_set(&spec["maxUnavailable"]) {
            errors.invalid(&path, spec.clone(), "minAvailable and maxUnavailable cannot be both set");
        }
        for name in ["minAvailable", "maxUnavailable"] {
            count_or_percent(errors, &path.child(name), &spec[name]);
        }
        if is_set(&spec["selector"]) {
            label_selector(errors, &path.child("selector"), &spec["selector"]);
        }
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        let at = path.child("unhealthyPodEvictionPolicy");
        optional_one_of(errors, &at, &spec["unhealthyPodEvictionPolicy"], &policies);
    }
}

fn count_or_percent(errors: &mut FieldErrors, path: &Path, value: &Value) {
    match value {
        Value::String(text) => {
            let number = text
                .strip_suffix('%')
                .filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
            match number.map(str::parse::<u32>) {
                None => errors.invalid(path, text.as_str(), PERCENT),
                Some(Ok(number)) if number <= 100 => {}
                Some(_) => errors.invalid(path, text.as_str(), "must not be greater than 100%"),
            }
        }
        number if number.as_i64().is_some_and(|number| number < 0) => {
            errors.invalid(path, number.clone(), "must be greater than or equal to 0");
        }
        _ => {}
    }
}
