//! PodTemplate.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::at;
use crate::table::{container_cells, labels_cell, name_cell};

pub(crate) struct PodTemplates;

impl Strategy for PodTemplates {
    fn creates_on_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        let [names, images] = container_cells(object.get("template"));
        let labels = at(object, &["template", "metadata", "labels"]);
        Some(vec![name_cell(object), names, images, labels_cell(labels)])
    }
}
