//! Namespace.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Hooks, Strategy};
use crate::object::{list, map_mut, text};
use crate::selector::SelectableField;
use crate::status::ApiError;
use crate::table::{age_cell, name_cell};
use crate::writing::Write;

/// What keeps a namespace until it is empty.
pub(crate) const FINALIZER: &str = "kubernetes";

/// Namespaces that nobody may delete.
const PROTECTED: [&str; 3] = ["default", "kube-public", "kube-system"];

pub(crate) struct Namespaces;

impl Strategy for Namespaces {
    fn subresources(&self) -> &'static [&'static str] {
        &["finalize", "status"]
    }

    fn fields(&self) -> &'static [SelectableField] {
        &[
            SelectableField { label: "status.phase", paths: &[&["status", "phase"]], absent: "" },
            SelectableField { label: "name", paths: &[&["metadata", "name"]], absent: "" },
        ]
    }

    fn hooks(&self) -> Hooks {
        Hooks::Namespaces
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Active"});
        let name = crate::object::name(object).to_owned();
        if !list(object, &["spec", "finalizers"]).iter().any(|own| own == FINALIZER) {
            let spec = map_mut(object, "spec");
            match spec.get_mut("finalizers").and_then(Value::as_array_mut) {
                Some(finalizers) => finalizers.push(json!(FINALIZER)),
                None => {
                    spec.insert("finalizers".to_owned(), json!([FINALIZER]));
                }
            }
        }
        if !name.is_empty() {
            let metadata = crate::object::metadata_mut(object);
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
            }
        }
    }

    fn check_deletion(&self, write: &Write<'_>, object: &Value) -> Result<(), ApiError> {
        let name = crate::object::name(object);
        if PROTECTED.contains(&name) {
            return Err(ApiError::forbidden(write.kind, name, "this namespace may not be deleted"));
        }
        Ok(())
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![name_cell(object), text(object, &["status", "phase"]).into(), age_cell(object, now)])
    }
}
