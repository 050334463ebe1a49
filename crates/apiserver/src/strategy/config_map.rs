//! ConfigMap.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::table::{age_cell, count, name_cell};

pub(crate) struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let keys = count(object, &["data"]) + count(object, &["binaryData"]);
        Some(vec![name_cell(object), keys.into(), age_cell(object, now)])
    }
}
