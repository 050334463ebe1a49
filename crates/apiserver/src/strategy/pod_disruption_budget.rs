//! PodDisruptionBudget of `policy`: its status is the server's, evictions respect it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Strategy;
use crate::object::at;
use crate::table::{age_cell, name_cell};

pub(crate) struct PodDisruptionBudgets;

impl Strategy for PodDisruptionBudgets {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] =
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let bound = |field: &str| match at(object, &["spec", field]) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => "N/A".to_owned(),
        };
        Some(vec![
            name_cell(object),
            bound("minAvailable").into(),
            bound("maxUnavailable").into(),
            at(object, &["status", "disruptionsAllowed"]).and_then(Value::as_i64).unwrap_or(0).into(),
            age_cell(object, now),
        ])
    }
}
