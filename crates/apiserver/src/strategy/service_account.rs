//! ServiceAccount.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::table::{age_cell, name_cell};

pub(crate) struct ServiceAccounts;

impl Strategy for ServiceAccounts {
    fn subresources(&self) -> &'static [&'static str] {
        &["token"]
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![name_cell(object), age_cell(object, now)])
    }
}
