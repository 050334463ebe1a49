//! StorageClass of `storage.k8s.io`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::lookup::{newest_default, objects};
use crate::object::{at, name, text};
use crate::server::Server;
use crate::table::{age_cell, name_cell};

/// Marks the class that claims get which name none.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// The class for claims that name none; of several the newest.
pub(super) fn default_class(server: &Arc<Server>) -> Option<String> {
    newest_default(&objects(server, "storage.k8s.io", "storageclasses", None), DEFAULT)
}

pub(crate) struct StorageClasses;

impl Strategy for StorageClasses {
    fn returns_deleted(&self) -> bool {
        true
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let is_default = text(object, &["metadata", "annotations", DEFAULT]) == "true";
        let shown = format!("{}{}", name(object), if is_default { " (default)" } else { "" });
        Some(vec![
            if is_default { shown.into() } else { name_cell(object) },
            text(object, &["provisioner"]).into(),
            text(object, &["reclaimPolicy"]).into(),
            text(object, &["volumeBindingMode"]).into(),
            at(object, &["allowVolumeExpansion"]).and_then(Value::as_bool).unwrap_or(false).into(),
            age_cell(object, now),
        ])
    }
}
