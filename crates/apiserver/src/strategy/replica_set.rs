//! ReplicaSet.

use jiff::Timestamp;
use serde_json::Value;

use super::{Scalable, Strategy};
use crate::object::at;
use crate::selector::{SelectableField, selector_text};
use crate::table::{age_cell, container_cells, name_cell, number_cell, selector_cell};

pub(crate) struct ReplicaSets;

impl Strategy for ReplicaSets {
    fn subresources(&self) -> &'static [&'static str] {
        &["scale", "status"]
    }

    fn fields(&self) -> &'static [SelectableField] {
        &[SelectableField { label: "status.replicas", paths: &[&["status", "replicas"]], absent: "0" }]
    }

    fn scalable(&self) -> Option<Scalable> {
        Some(Scalable { selector_text })
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let [names, images] = container_cells(at(object, &["spec", "template"]));
        Some(vec![
            name_cell(object),
            number_cell(object, &["spec", "replicas"]),
            number_cell(object, &["status", "replicas"]),
            number_cell(object, &["status", "readyReplicas"]),
            age_cell(object, now),
            names,
            images,
            selector_cell(at(object, &["spec", "selector"])),
        ])
    }
}
