//! ControllerRevision.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::{list, text};
use crate::table::{age_cell, name_cell, number_cell, or_none};

pub(crate) struct ControllerRevisions;

impl Strategy for ControllerRevisions {
    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(object),
            or_none(controller(object)).into(),
            number_cell(object, &["revision"]),
            age_cell(object, now),
        ])
    }
}

/// The owner that controls it: `statefulset.apps/web`.
fn controller(object: &Value) -> String {
    let owners = list(object, &["metadata", "ownerReferences"]);
    let Some(owner) =
        owners.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
    else {
        return String::new();
    };
    let kind = text(owner, &["kind"]).to_lowercase();
    let name = text(owner, &["name"]);
    match text(owner, &["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
