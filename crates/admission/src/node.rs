//! Nodes: taints, addresses, what stays.

use std::collections::BTreeSet;

use names::{LabelValue, QualifiedName};
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::messages;
use crate::tree::{is_set, items, text};

/// Checks a node.
pub(crate) fn validate(errors: &mut FieldErrors, node: &Value) {
    let path = Path::root("spec").child("taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in items(&node["spec"]["taints"]).iter().enumerate() {
        let at = path.index(index);
        let (key, value, effect) = (text(&taint["key"]), text(&taint["value"]), text(&taint["effect"]));
        errors.invalid_each(&at.child("key"), key, messages(QualifiedName::parse(key)));
        errors.invalid_each(&at.child("value"), value, messages(LabelValue::parse(value)));
        if effect.is_empty() {
            errors.required(&at.child("effect"), "");
        } else if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            errors.not_supported(
                &at.child("effect"),
                effect,
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            );
        }
        if !seen.insert((key, effect)) {
            errors.duplicate(&at, taint.clone());
        }
    }
    let (cidrs, all) = (Path::root("spec").child("podCIDRs"), items(&node["spec"]["podCIDRs"]));
    for (index, cidr) in all.iter().enumerate() {
        if !is_cidr(text(cidr)) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.invalid(&cidrs.index(index), text(cidr), detail);
        }
    }
    let families: BTreeSet<bool> = all.iter().map(|cidr| text(cidr).contains(':')).collect();
    if all.len() > 1 && (families.len() < 2 || all.len() > 2) {
        errors.invalid(&cidrs, all.to_vec(), "may specify no more than one CIDR for each IP family");
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let longest = match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= longest)
}

/// Addresses of pods and the provider's name for a node are given once.
pub(crate) fn validate_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let path = Path::root("spec");
    for (name, words) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let before = &old["spec"][name];
        if is_set(before) && *before != new["spec"][name] {
            let detail = format!("node updates may not change {words} except from \"\" to valid");
            errors.forbidden(&path.child(name), detail);
        }
    }
}
