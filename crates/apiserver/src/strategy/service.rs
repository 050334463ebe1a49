//! Service.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Hooks, Strategy};
use crate::object::{at, list, text};
use crate::selector::SelectableField;
use crate::table::{age_cell, labels_cell, name_cell, or_none};

pub(crate) struct Services;

impl Strategy for Services {
    fn creates_on_update(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [&'static str] {
        &["proxy", "status"]
    }

    fn fields(&self) -> &'static [SelectableField] {
        &[
            SelectableField { label: "spec.clusterIP", paths: &[&["spec", "clusterIP"]], absent: "" },
            SelectableField { label: "spec.type", paths: &[&["spec", "type"]], absent: "" },
        ]
    }

    fn hooks(&self) -> Hooks {
        Hooks::Services
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"loadBalancer": {}});
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(object),
            text(object, &["spec", "type"]).into(),
            or_none(text(object, &["spec", "clusterIP"]).to_owned()).into(),
            external_address(object).into(),
            ports(object).into(),
            age_cell(object, now),
            labels_cell(at(object, &["spec", "selector"])),
        ])
    }
}

fn external_address(service: &Value) -> String {
    let mut addresses: Vec<&str> =
        list(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match text(service, &["spec", "type"]) {
        "ExternalName" => return text(service, &["spec", "externalName"]).to_owned(),
        "LoadBalancer" => {
            let assigned = list(service, &["status", "loadBalancer", "ingress"]).iter().map(|ingress| {
                let address = text(ingress, &["ip"]);
                if address.is_empty() { text(ingress, &["hostname"]) } else { address }
            });
            addresses.splice(0..0, assigned);
            if addresses.is_empty() {
                return "<pending>".to_owned();
            }
        }
        _ => {}
    }
    or_none(addresses.join(","))
}

fn ports(service: &Value) -> String {
    let shown: Vec<String> = list(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            let node_port = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
            let protocol = text(port, &["protocol"]);
            if node_port > 0 {
                format!("{number}:{node_port}/{protocol}")
            } else {
                format!("{number}/{protocol}")
            }
        })
        .collect();
    or_none(shown.join(","))
}
