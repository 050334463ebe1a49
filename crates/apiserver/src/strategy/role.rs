//! Role and ClusterRole.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::text;
use crate::table::name_cell;

pub(crate) struct Roles;

impl Strategy for Roles {
    fn creates_on_update(&self) -> bool {
        true
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        // A date, not an age: kubectl makes one of it.
        Some(vec![name_cell(object), text(object, &["metadata", "creationTimestamp"]).into()])
    }
}
