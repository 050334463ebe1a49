//! ReplicationController.

use jiff::Timestamp;
use serde_json::Value;

use super::{DefaultPropagation, Scalable, Strategy};
use crate::object::at;
use crate::selector::{SelectableField, labels_text};
use crate::table::{age_cell, container_cells, labels_cell, name_cell, number_cell};

pub(crate) struct ReplicationControllers;

impl Strategy for ReplicationControllers {
    fn subresources(&self) -> &'static [&'static str] {
        &["scale", "status"]
    }

    fn fields(&self) -> &'static [SelectableField] {
        &[SelectableField { label: "status.replicas", paths: &[&["status", "replicas"]], absent: "0" }]
    }

    fn scalable(&self) -> Option<Scalable> {
        Some(Scalable { selector_text: labels_text })
    }

    fn propagation(&self) -> DefaultPropagation {
        DefaultPropagation::Orphan
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
            labels_cell(at(object, &["spec", "selector"])),
        ])
    }
}
