//! Endpoints: addresses with their ports, by hand or by a controller.

use std::net::IpAddr;

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{ip_address, label, one_of, port_number, required_label, subdomain};
use crate::tree::{default_field, items, items_mut, text};

pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) struct Endpoints;

impl KindRules for Endpoints {
    fn default(&self, object: &mut Value) {
        for subset in items_mut(object, "subsets") {
            for port in items_mut(subset, "ports") {
                default_field(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        for (index, subset) in items(&object["subsets"]).iter().enumerate() {
            let path = Path::root("subsets").index(index);
            if items(&subset["addresses"]).is_empty() && items(&subset["notReadyAddresses"]).is_empty() {
                errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
            }
            for list in ["addresses", "notReadyAddresses"] {
                for (index, one) in items(&subset[list]).iter().enumerate() {
                    address(errors, &path.child(list).index(index), one);
                }
            }
            let ports = items(&subset["ports"]);
            for (index, one) in ports.iter().enumerate() {
                port(errors, &path.child("ports").index(index), one, ports.len() > 1);
            }
        }
    }
}

fn address(errors: &mut FieldErrors, path: &Path, address: &Value) {
    let ip = text(&address["ip"]);
    ip_address(errors, &path.child("ip"), ip);
    ordinary_address(errors, &path.child("ip"), ip);
    if !text(&address["hostname"]).is_empty() {
        label(errors, &path.child("hostname"), text(&address["hostname"]));
    }
    if !text(&address["nodeName"]).is_empty() {
        subdomain(errors, &path.child("nodeName"), text(&address["nodeName"]));
    }
}

/// Refuses addresses that mean the reader's own machine or link.
pub(crate) fn ordinary_address(errors: &mut FieldErrors, path: &Path, text: &str) {
    let Ok(address) = text.parse::<IpAddr>() else { return };
    let (is_link_local, is_link_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] == 0xff02),
    };
    if address.is_unspecified() {
        errors.invalid(path, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if is_link_local {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if is_link_multicast {
        errors.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn port(errors: &mut FieldErrors, path: &Path, port: &Value, needs_name: bool) {
    let name = text(&port["name"]);
    if needs_name || !name.is_empty() {
        required_label(errors, &path.child("name"), name);
    }
    port_number(errors, &path.child("port"), &port["port"]);
    one_of(errors, &path.child("protocol"), &port["protocol"], &PROTOCOLS);
}
