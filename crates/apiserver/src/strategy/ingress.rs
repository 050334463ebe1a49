//! Ingress of `networking.k8s.io`: stored only.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ingress_class::default_class;
use super::{Strategy, on_writes};
use crate::object::{at, list, map_mut, text};
use crate::request::Verb;
use crate::status::ApiError;
use crate::table::{age_cell, first_three, name_cell, or_none};
use crate::writing::Write;

/// Where the class stood before there was a field for it.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(crate) struct Ingresses;

impl Strategy for Ingresses {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn notice(&self, verb: Verb) -> Option<&'static str> {
        on_writes(verb, "Ingresses are stored only: nothing routes to them")
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"loadBalancer": {}});
    }

    fn admit(&self, write: &Write<'_>, object: &mut Value) -> Result<(), ApiError> {
        let says = at(object, &["spec", "ingressClassName"]).is_some_and(|class| !class.is_null())
            || at(object, &["metadata", "annotations", CLASS_ANNOTATION]).is_some();
        if !says && let Some(class) = default_class(write.server) {
            map_mut(object, "spec").insert("ingressClassName".to_owned(), json!(class));
        }
        Ok(())
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let hosts: Vec<String> = list(object, &["spec", "rules"])
            .iter()
            .map(|rule| text(rule, &["host"]).to_owned())
            .filter(|host| !host.is_empty())
            .collect();
        let addresses: Vec<&str> = list(object, &["status", "loadBalancer", "ingress"])
            .iter()
            .map(|one| [text(one, &["ip"]), text(one, &["hostname"])])
            .filter_map(|names| names.into_iter().find(|name| !name.is_empty()))
            .collect();
        let has_tls = !list(object, &["spec", "tls"]).is_empty();
        Some(vec![
            name_cell(object),
            or_none(text(object, &["spec", "ingressClassName"]).to_owned()).into(),
            if hosts.is_empty() { "*".into() } else { first_three(&hosts).into() },
            addresses.join(",").into(),
            if has_tls { "80, 443" } else { "80" }.into(),
            age_cell(object, now),
        ])
    }
}
