//! PriorityClass of `scheduling.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::lookup::objects;
use crate::object::{at, name, text};
use crate::status::ApiError;
use crate::table::{age_cell, name_cell};
use crate::writing::Write;

pub(crate) struct PriorityClasses;

fn is_global_default(class: &Value) -> bool {
    at(class, &["globalDefault"]).and_then(Value::as_bool).unwrap_or(false)
}

impl Strategy for PriorityClasses {
    /// At most one class is the default one.
    fn check(&self, write: &Write<'_>, _old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        if !is_global_default(new) {
            return Ok(());
        }
        let classes = objects(write.server, "scheduling.k8s.io", "priorityclasses", None);
        match classes.iter().find(|class| is_global_default(class) && name(class) != name(new)) {
            Some(other) => Err(ApiError::forbidden(
                write.kind,
                name(new),
                format!(
                    "PriorityClass {} is already marked as default. Only one default can exist",
                    name(other)
                ),
            )),
            None => Ok(()),
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(object),
            at(object, &["value"]).and_then(Value::as_i64).unwrap_or(0).into(),
            is_global_default(object).into(),
            age_cell(object, now),
            text(object, &["preemptionPolicy"]).into(),
        ])
    }
}
