//! EndpointSlice of `discovery.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::{list, text};
use crate::table::{age_cell, first_three, name_cell};

pub(crate) struct EndpointSlices;

impl Strategy for EndpointSlices {
    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let ports: Vec<String> = list(object, &["ports"])
            .iter()
            .map(|port| port["port"].as_i64().map_or_else(|| "*".to_owned(), |number| number.to_string()))
            .collect();
        let addresses: Vec<String> = list(object, &["endpoints"])
            .iter()
            .flat_map(|endpoint| list(endpoint, &["addresses"]))
            .filter_map(|address| address.as_str().map(str::to_owned))
            .collect();
        let or_unset = |shown: String| if shown.is_empty() { "<unset>".to_owned() } else { shown };
        Some(vec![
            name_cell(object),
            text(object, &["addressType"]).into(),
            or_unset(first_three(&ports)).into(),
            or_unset(first_three(&addresses)).into(),
            age_cell(object, now),
        ])
    }
}
