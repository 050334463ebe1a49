//! Secret.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::text;
use crate::selector::SelectableField;
use crate::table::{age_cell, count, name_cell};

pub(crate) struct Secrets;

impl Strategy for Secrets {
    fn fields(&self) -> &'static [SelectableField] {
        &[SelectableField { label: "type", paths: &[&["type"]], absent: "" }]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(object),
            text(object, &["type"]).into(),
            count(object, &["data"]).into(),
            age_cell(object, now),
        ])
    }
}
