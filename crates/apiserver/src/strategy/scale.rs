//! Scale of `autoscaling`: never stored, only shown of other objects and written into them.

use jiff::Timestamp;
use schema::Column;
use serde_json::Value;

use super::Strategy;
use crate::table::{age_cell, name_cell, number_cell};

pub(crate) struct Scales;

impl Strategy for Scales {
    fn columns(&self) -> &'static [Column] {
        const fn column(name: &'static str, kind: &'static str, format: &'static str) -> Column {
            Column { name, kind, format, priority: 0 }
        }
        const COLUMNS: [Column; 4] = [
            column("Name", "string", "name"),
            column("Desired", "integer", ""),
            column("Available", "integer", ""),
            column("Age", "string", ""),
        ];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(object),
            number_cell(object, &["spec", "replicas"]),
            number_cell(object, &["status", "replicas"]),
            age_cell(object, now),
        ])
    }
}
