//! ReplicaSet and ReplicationController: kinds that keep a number of equal pods.

use jiff::Timestamp;
use serde_json::Value;

use super::{DefaultPropagation, Scalable, Strategy};
use crate::object::at;
use crate::selector::{SelectableField, labels_text, selector_text};
use crate::table::{age_cell, container_cells, labels_cell, name_cell, number_cell, selector_cell};

/// What differs between the two.
pub(crate) struct ReplicaKeepers {
    /// The selector as text, for autoscalers.
    selector_text: fn(&Value) -> String,
    /// The selector as people see it.
    selector_cell: fn(Option<&Value>) -> Value,
    propagation: DefaultPropagation,
}

pub(crate) const REPLICA_SETS: ReplicaKeepers =
    ReplicaKeepers { selector_text, selector_cell, propagation: DefaultPropagation::Background };

/// The older kind selects by labels alone, and leaves its pods behind unless told otherwise.
pub(crate) const REPLICATION_CONTROLLERS: ReplicaKeepers = ReplicaKeepers {
    selector_text: labels_text,
    selector_cell: labels_cell,
    propagation: DefaultPropagation::Orphan,
};

impl Strategy for ReplicaKeepers {
    fn subresources(&self) -> &'static [&'static str] {
        &["scale", "status"]
    }

    fn fields(&self) -> &'static [SelectableField] {
        &[SelectableField { label: "status.replicas", paths: &[&["status", "replicas"]], absent: "0" }]
    }

    fn scalable(&self) -> Option<Scalable> {
        Some(Scalable { selector_text: self.selector_text })
    }

    fn propagation(&self) -> DefaultPropagation {
        self.propagation
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
            (self.selector_cell)(at(object, &["spec", "selector"])),
        ])
    }
}
