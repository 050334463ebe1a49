//! DaemonSet.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::at;
use crate::table::{age_cell, container_cells, labels_cell, name_cell, number_cell, selector_cell};

pub(crate) struct DaemonSets;

impl Strategy for DaemonSets {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let [names, images] = container_cells(at(object, &["spec", "template"]));
        Some(vec![
            name_cell(object),
            number_cell(object, &["status", "desiredNumberScheduled"]),
            number_cell(object, &["status", "currentNumberScheduled"]),
            number_cell(object, &["status", "numberReady"]),
            number_cell(object, &["status", "updatedNumberScheduled"]),
            number_cell(object, &["status", "numberAvailable"]),
            labels_cell(at(object, &["spec", "template", "spec", "nodeSelector"])),
            age_cell(object, now),
            names,
            images,
            selector_cell(at(object, &["spec", "selector"])),
        ])
    }
}
