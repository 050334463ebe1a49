//! Lease of `coordination.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::text;
use crate::table::{age_cell, name_cell};

pub(crate) struct Leases;

impl Strategy for Leases {
    fn creates_on_update(&self) -> bool {
        true
    }

    fn needs_resource_version(&self) -> bool {
        true
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![name_cell(object), text(object, &["spec", "holderIdentity"]).into(), age_cell(object, now)])
    }
}
