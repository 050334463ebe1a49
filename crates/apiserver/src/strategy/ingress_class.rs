//! IngressClass of `networking.k8s.io`: stored only.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{Strategy, on_writes};
use crate::lookup::{newest_default, objects};
use crate::object::text;
use crate::request::Verb;
use crate::server::Server;
use crate::table::{age_cell, name_cell, or_none};

/// Marks the class that ingresses get which name none.
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// The class for ingresses that name none; of several the newest.
pub(super) fn default_class(server: &Arc<Server>) -> Option<String> {
    newest_default(&objects(server, "networking.k8s.io", "ingressclasses", None), DEFAULT)
}

pub(crate) struct IngressClasses;

impl Strategy for IngressClasses {
    fn has_generation(&self) -> bool {
        true
    }

    fn notice(&self, verb: Verb) -> Option<&'static str> {
        on_writes(verb, "IngressClasses are stored only: there is no ingress controller")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let of = |field: &str| text(object, &["spec", "parameters", field]);
        let mut parameters = of("kind").to_owned();
        if !of("apiGroup").is_empty() {
            parameters = format!("{parameters}.{}", of("apiGroup"));
        }
        if !parameters.is_empty() {
            parameters = format!("{parameters}/{}", of("name"));
        }
        Some(vec![
            name_cell(object),
            text(object, &["spec", "controller"]).into(),
            or_none(parameters).into(),
            age_cell(object, now),
        ])
    }
}
