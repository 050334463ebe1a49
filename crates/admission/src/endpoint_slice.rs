//! EndpointSlices: addresses of one family with their ports.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use crate::endpoints::{PROTOCOLS, ordinary_address};
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{label, one_of, subdomain};
use crate::tree::{default_pointer, is_set, items, items_mut, text};

/// Most endpoints of a slice.
const ENDPOINTS: usize = 1000;
/// Most addresses of an endpoint.
const ADDRESSES: usize = 100;
/// Most ports of a slice.
const PORTS: usize = 20_000;

pub(crate) struct EndpointSlice;

impl KindRules for EndpointSlice {
    fn default(&self, object: &mut Value) {
        for port in items_mut(object, "ports") {
            default_pointer(port, "name", "");
            default_pointer(port, "protocol", "TCP");
        }
    }

    fn start(&self, object: &mut Value) {
        object["metadata"]["generation"] = 1.into();
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, slice: &Value) {
        let family = text(&slice["addressType"]);
        one_of(errors, &Path::root("addressType"), &slice["addressType"], &["FQDN", "IPv4", "IPv6"]);
        let (path, endpoints) = (Path::root("endpoints"), items(&slice["endpoints"]));
        if endpoints.len() > ENDPOINTS {
            return errors.too_many(&path, endpoints.len(), ENDPOINTS);
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            validate_endpoint(errors, &path.index(index), endpoint, family);
        }
        ports(errors, &Path::root("ports"), items(&slice["ports"]));
    }

    fn keep(&self, old: &Value, new: &mut Value) {
        // Everything but the metadata counts as the spec.
        let is_same = ["addressType", "endpoints", "ports"].iter().all(|name| old[*name] == new[*name])
            && old["metadata"]["labels"] == new["metadata"]["labels"];
        if let Some(generation) = old["metadata"]["generation"].as_i64().filter(|_| !is_same) {
            new["metadata"]["generation"] = (generation + 1).into();
        }
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        if old["addressType"] != new["addressType"] {
            errors.invalid(&Path::root("addressType"), text(&new["addressType"]), "field is immutable");
        }
    }
}

fn validate_endpoint(errors: &mut FieldErrors, path: &Path, endpoint: &Value, family: &str) {
    let (at, addresses) = (path.child("addresses"), items(&endpoint["addresses"]));
    if addresses.is_empty() {
        errors.required(&at, "must contain at least 1 address");
    } else if addresses.len() > ADDRESSES {
        errors.too_many(&at, addresses.len(), ADDRESSES);
    }
    for (index, address) in addresses.iter().enumerate() {
        let (at, address) = (at.index(index), text(address));
        let parsed = address.parse::<IpAddr>();
        match family {
            "IPv4" if !matches!(parsed, Ok(IpAddr::V4(_))) => {
                errors.invalid(&at, address, "must be a valid IPv4 address");
            }
            "IPv6" if !matches!(parsed, Ok(IpAddr::V6(_))) => {
                errors.invalid(&at, address, "must be a valid IPv6 address");
            }
            "IPv4" | "IPv6" => ordinary_address(errors, &at, address),
            "FQDN" => subdomain(errors, &at, address.strip_suffix('.').unwrap_or(address)),
            _ => {}
        }
    }
    if is_set(&endpoint["hostname"]) {
        label(errors, &path.child("hostname"), text(&endpoint["hostname"]));
    }
    if is_set(&endpoint["nodeName"]) {
        subdomain(errors, &path.child("nodeName"), text(&endpoint["nodeName"]));
    }
}

fn ports(errors: &mut FieldErrors, path: &Path, ports: &[Value]) {
    if ports.len() > PORTS {
        return errors.too_many(path, ports.len(), PORTS);
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = path.index(index);
        let name = text(&port["name"]);
        if !name.is_empty() {
            label(errors, &at.child("name"), name);
        }
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        one_of(errors, &at.child("protocol"), &port["protocol"], &PROTOCOLS);
    }
}
