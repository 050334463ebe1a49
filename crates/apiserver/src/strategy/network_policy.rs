//! NetworkPolicy of `networking.k8s.io`: stored only.

use jiff::Timestamp;
use serde_json::Value;

use super::{Strategy, on_writes};
use crate::request::Verb;
use crate::table::{age_cell, label_selector, name_cell};

pub(crate) struct NetworkPolicies;

impl Strategy for NetworkPolicies {
    fn has_generation(&self) -> bool {
        true
    }

    fn notice(&self, verb: Verb) -> Option<&'static str> {
        on_writes(verb, "NetworkPolicies are stored only: nothing enforces them")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let selector = label_selector(&object["spec"]["podSelector"]);
        Some(vec![name_cell(object), selector.into(), age_cell(object, now)])
    }
}
