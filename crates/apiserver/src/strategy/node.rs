//! Node.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::{at, list, text};
use crate::selector::SelectableField;
use crate::table::{age_cell, name_cell, or_none};

const ROLE_LABEL: &str = "node-role.kubernetes.io/";

pub(crate) struct Nodes;

impl Strategy for Nodes {
    fn subresources(&self) -> &'static [&'static str] {
        &["proxy", "status"]
    }

    fn fields(&self) -> &'static [SelectableField] {
        &[SelectableField {
            label: "spec.unschedulable",
            paths: &[&["spec", "unschedulable"]],
            absent: "false",
        }]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let address = |kind: &str| {
            list(object, &["status", "addresses"])
                .iter()
                .find(|address| text(address, &["type"]) == kind)
                .map_or("<none>", |address| text(address, &["address"]))
        };
        let node_info = |field: &str| {
            let found = text(object, &["status", "nodeInfo", field]);
            if found.is_empty() { "<unknown>" } else { found }
        };
        Some(vec![
            name_cell(object),
            status(object).into(),
            roles(object).into(),
            age_cell(object, now),
            text(object, &["status", "nodeInfo", "kubeletVersion"]).into(),
            address("InternalIP").into(),
            address("ExternalIP").into(),
            node_info("osImage").into(),
            node_info("kernelVersion").into(),
            node_info("containerRuntimeVersion").into(),
        ])
    }
}

fn status(node: &Value) -> String {
    let ready = list(node, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == "Ready");
    let mut words = vec![match ready.map(|condition| text(condition, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if at(node, &["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or(false) {
        words.push("SchedulingDisabled");
    }
    words.join(",")
}

fn roles(node: &Value) -> String {
    let mut roles: Vec<String> = Vec::new();
    for (label, value) in at(node, &["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten() {
        if let Some(role) = label.strip_prefix(ROLE_LABEL) {
            roles.push(role.to_owned());
        } else if label == "kubernetes.io/role" {
            roles.extend(value.as_str().map(str::to_owned));
        }
    }
    roles.retain(|role| !role.is_empty());
    roles.sort();
    roles.dedup();
    or_none(roles.join(","))
}
