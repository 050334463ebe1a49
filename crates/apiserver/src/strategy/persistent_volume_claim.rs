//! PersistentVolumeClaim: limits and quotas hold, and the default class is filled in.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Strategy;
use super::persistent_volume::access_modes;
use super::storage_class::default_class;
use crate::lookup::objects;
use crate::object::{at, list, map_mut, name, text};
use crate::status::ApiError;
use crate::table::{age_cell, is_going, name_cell, or_unset};
use crate::writing::Write;

/// Where the class stood before there was a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(crate) struct PersistentVolumeClaims;

impl Strategy for PersistentVolumeClaims {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Pending"});
    }

    fn admit(&self, write: &Write<'_>, object: &mut Value) -> Result<(), ApiError> {
        let says = at(object, &["spec", "storageClassName"]).is_some_and(|class| !class.is_null())
            || at(object, &["metadata", "annotations", CLASS_ANNOTATION]).is_some();
        if !says && let Some(class) = default_class(write.server) {
            map_mut(object, "spec").insert("storageClassName".to_owned(), json!(class));
        }
        Ok(())
    }

    fn check(&self, write: &Write<'_>, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        // What leads a claim out of the store is never too much.
        if old.is_some_and(is_going) {
            return Ok(());
        }
        let ranges = objects(write.server, "", "limitranges", Some(write.namespace));
        match admission::claim_refusal(&ranges, new) {
            Some(refusal) => Err(ApiError::forbidden(write.kind, name(new), refusal)),
            None => Ok(()),
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let spec = |field: &str| text(object, &["spec", field]);
        let status = if is_going(object) { "Terminating" } else { text(object, &["status", "phase"]) };
        let (mut capacity, mut modes) = ("", String::new());
        if !spec("volumeName").is_empty() {
            capacity = text(object, &["status", "capacity", "storage"]);
            modes = access_modes(list(object, &["status", "accessModes"]));
        }
        Some(vec![
            name_cell(object),
            status.into(),
            spec("volumeName").into(),
            capacity.into(),
            modes.into(),
            spec("storageClassName").into(),
            or_unset(spec("volumeAttributesClassName")).into(),
            age_cell(object, now),
            or_unset(spec("volumeMode")).into(),
        ])
    }
}
