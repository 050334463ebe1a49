//! Deployment.

use jiff::Timestamp;
use serde_json::Value;

use super::{Scalable, Strategy};
use crate::object::at;
use crate::selector::selector_text;
use crate::table::{age_cell, container_cells, name_cell, number, number_cell, selector_cell};

pub(crate) struct Deployments;

impl Strategy for Deployments {
    fn subresources(&self) -> &'static [&'static str] {
        &["scale", "status"]
    }

    fn scalable(&self) -> Option<Scalable> {
        Some(Scalable { selector_text })
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let [names, images] = container_cells(at(object, &["spec", "template"]));
        let (ready, wanted) =
            (number(object, &["status", "readyReplicas"]), number(object, &["spec", "replicas"]));
        Some(vec![
            name_cell(object),
            format!("{ready}/{wanted}").into(),
            number_cell(object, &["status", "updatedReplicas"]),
            number_cell(object, &["status", "availableReplicas"]),
            age_cell(object, now),
            names,
            images,
            selector_cell(at(object, &["spec", "selector"])),
        ])
    }
}
