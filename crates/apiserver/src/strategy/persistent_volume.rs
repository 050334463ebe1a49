//! PersistentVolume.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Strategy;
use crate::object::{list, text};
use crate::table::{age_cell, is_going, name_cell, or_unset};

pub(crate) struct PersistentVolumes;

impl Strategy for PersistentVolumes {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Pending"});
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let spec = |field: &str| text(object, &["spec", field]);
        let claim = |field: &str| text(object, &["spec", "claimRef", field]);
        let status = if is_going(object) { "Terminating" } else { text(object, &["status", "phase"]) };
        Some(vec![
            name_cell(object),
            text(object, &["spec", "capacity", "storage"]).into(),
            access_modes(list(object, &["spec", "accessModes"])).into(),
            spec("persistentVolumeReclaimPolicy").into(),
            status.into(),
            if claim("name").is_empty() {
                "".into()
            } else {
                format!("{}/{}", claim("namespace"), claim("name")).into()
            },
            spec("storageClassName").into(),
            or_unset(spec("volumeAttributesClassName")).into(),
            text(object, &["status", "reason"]).into(),
            age_cell(object, now),
            or_unset(spec("volumeMode")).into(),
        ])
    }
}

/// `RWO,ROX`: in this order, each once.
pub(super) fn access_modes(modes: &[Value]) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown: Vec<&str> = SHORT
        .into_iter()
        .filter(|(mode, _)| modes.iter().any(|own| own == mode))
        .map(|(_, short)| short)
        .collect();
    shown.join(",")
}
