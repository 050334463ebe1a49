//! Scale of `autoscaling`: never stored, only shown of other objects and written into them.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::table::{age_cell, name_cell, number_cell};

pub(crate) struct Scales;

impl Strategy for Scales {
    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(object),
            number_cell(object, &["spec", "replicas"]),
            number_cell(object, &["status", "replicas"]),
            age_cell(object, now),
        ])
    }
}
