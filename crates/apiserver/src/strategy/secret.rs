//! Secret.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::text;
use crate::selector::SelectableField;
use crate::status::ApiError;
use crate::table::{age_cell, count, name_cell};
use crate::tokens;
use crate::writing::Write;

pub(crate) struct Secrets;

impl Strategy for Secrets {
    fn fields(&self) -> &'static [SelectableField] {
        &[SelectableField { label: "type", paths: &[&["type"]], absent: "" }]
    }

    fn admit(&self, write: &Write<'_>, object: &mut Value) -> Result<(), ApiError> {
        tokens::fill_secret(write, object)
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
