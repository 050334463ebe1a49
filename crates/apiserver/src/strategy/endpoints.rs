//! Endpoints: superseded by EndpointSlices, and said to be so.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::{list, text};
use crate::request::Verb;
use crate::table::{age_cell, first_three, name_cell, or_none};

pub(crate) struct Endpoints;

impl Strategy for Endpoints {
    fn creates_on_update(&self) -> bool {
        true
    }

    fn notice(&self, _verb: Verb) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let mut shown = Vec::new();
        for subset in list(object, &["subsets"]) {
            let addresses = || list(subset, &["addresses"]).iter().map(|address| text(address, &["ip"]));
            let ports = list(subset, &["ports"]);
            if ports.is_empty() {
                shown.extend(addresses().map(str::to_owned));
            }
            for port in ports {
                shown.extend(addresses().map(|address| joined(address, &port["port"])));
            }
        }
        Some(vec![name_cell(object), or_none(first_three(&shown)).into(), age_cell(object, now)])
    }
}

fn joined(address: &str, port: &Value) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}
