//! RuntimeClass of `node.k8s.io`: stored only.

use jiff::Timestamp;
use serde_json::Value;

use super::{Strategy, on_writes};
use crate::object::text;
use crate::request::Verb;
use crate::table::{age_cell, name_cell};

pub(crate) struct RuntimeClasses;

impl Strategy for RuntimeClasses {
    fn creates_on_update(&self) -> bool {
        true
    }

    fn notice(&self, verb: Verb) -> Option<&'static str> {
        on_writes(verb, "RuntimeClasses are stored only: pods cannot name one")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![name_cell(object), text(object, &["handler"]).into(), age_cell(object, now)])
    }
}
