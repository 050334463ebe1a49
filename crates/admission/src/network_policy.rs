//! NetworkPolicies.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::endpoints::PROTOCOLS;
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{optional_one_of, port};
use crate::selector::label_selector;
use crate::tree::{default_field, is_set, items, items_mut, text};

const TYPES: [&str; 2] = ["Egress", "Ingress"];

pub(crate) struct NetworkPolicy;

impl KindRules for NetworkPolicy {
    fn default(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        if !spec.is_object() {
            return;
        }
        if items(&spec["policyTypes"]).is_empty() {
            let has_egress = !items(&spec["egress"]).is_empty();
            spec["policyTypes"] = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        }
        for direction in ["ingress", "egress"] {
            for rule in items_mut(spec, direction) {
                for port in items_mut(rule, "ports") {
                    default_field(port, "protocol", "TCP");
                }
            }
        }
    }

    fn start(&self, object: &mut Value) {
        object["metadata"]["generation"] = 1.into();
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        label_selector(errors, &path.child("podSelector"), &spec["podSelector"]);
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for (index, rule) in items(&spec[direction]).iter().enumerate() {
                let at = path.child(direction).index(index);
                for (index, one) in items(&rule["ports"]).iter().enumerate() {
                    policy_port(errors, &at.child("ports").index(index), one);
                }
                for (index, one) in items(&rule[peers]).iter().enumerate() {
                    peer(errors, &at.child(peers).index(index), one);
                }
            }
        }
        let (at, types) = (path.child("policyTypes"), items(&spec["policyTypes"]));
        if types.len() > TYPES.len() {
            return errors.invalid(&at, types.to_vec(), "may not specify more than two policyTypes");
        }
        for (index, one) in types.iter().enumerate() {
            if !TYPES.contains(&text(one)) {
                errors.not_supported(&at.index(index), text(one), &TYPES);
            }
        }
    }
}

fn policy_port(errors: &mut FieldErrors, path: &Path, one: &Value) {
    optional_one_of(errors, &path.child("protocol"), &one["protocol"], &PROTOCOLS);
    if is_set(&one["port"]) {
        port(errors, &path.child("port"), &one["port"]);
    }
    let Some(end) = one["endPort"].as_i64() else { return };
    let at = path.child("endPort");
    match one["port"].as_i64() {
        Some(first) if end < first => errors.invalid(&at, end, "must be greater than or equal to `port`"),
        Some(_) if !(1..=65_535).contains(&end) => {
            errors.invalid(&at, end, "must be between 1 and 65535, inclusive");
        }
        Some(_) => {}
        None if is_set(&one["port"]) => {
            errors.invalid(&at, end, "may not be specified when `port` is non-numeric");
        }
        None => errors.invalid(&at, end, "may not be specified when `port` is not specified"),
    }
}

fn peer(errors: &mut FieldErrors, path: &Path, peer: &Value) {
    let selectors = ["podSelector", "namespaceSelector"];
    let count = selectors.iter().filter(|name| is_set(&peer[**name])).count();
    for name in selectors.into_iter().filter(|name| is_set(&peer[*name])) {
        label_selector(errors, &path.child(name), &peer[name]);
    }
    let block = &peer["ipBlock"];
    if is_set(block) {
        ip_block(errors, &path.child("ipBlock"), block);
        if count > 0 {
            errors.forbidden(path, "may not specify both ipBlock and another peer");
        }
    } else if count == 0 {
        errors.required(path, "must specify a peer");
    }
}

fn ip_block(errors: &mut FieldErrors, path: &Path, block: &Value) {
    let whole = text(&block["cidr"]);
    if whole.is_empty() {
        return errors.required(&path.child("cidr"), "");
    }
    let Some(range) = cidr(whole) else {
        return errors.invalid(&path.child("cidr"), whole, CIDR);
    };
    for (index, except) in items(&block["except"]).iter().enumerate() {
        let at = path.child("except").index(index);
        match cidr(text(except)) {
            None => errors.invalid(&at, text(except), CIDR),
            Some(part) if !is_part(part, range) => {
                errors.invalid(&at, text(except), "must be a strict subset of `cidr`");
            }
            Some(_) => {}
        }
    }
}

const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// The address as bits from the left, the length, and whether it is of version 6.
fn cidr(text: &str) -> Option<(u128, u32, bool)> {
    let (address, length) = text.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(v4) if length <= 32 => Some((u128::from(u32::from(v4)) << 96, length, false)),
        IpAddr::V6(v6) if length <= 128 => Some((u128::from(v6), length, true)),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

fn is_part((part, part_length, part_v6): (u128, u32, bool), (whole, length, v6): (u128, u32, bool)) -> bool {
    let mask = if length == 0 { 0 } else { u128::MAX << (128 - length) };
    part_v6 == v6 && part_length > length && part & mask == whole & mask
}
