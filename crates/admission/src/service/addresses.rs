//! Addresses, families and policy of a service: what they may be, and what an update may make of them.
//!
//! Source: the behaviour of Kubernetes 1.36.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::errors::FieldErrors;
use crate::ip_family::IpFamily;
use crate::path::Path;
use crate::scalars::ip_address;
use crate::tree::{is_set, items, text};

/// The policies of families, in upstream's order.
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", SINGLE];
/// The policy of a service with one family.
pub(super) const SINGLE: &str = "SingleStack";
const FIXED: &str = "may not change once set";

/// Whether a service has no address of its own by its own wish.
pub(super) fn is_headless(spec: &Value) -> bool {
    items(&spec["clusterIPs"]) == [json!("None")]
}

/// A service that stands for a name of somebody else has no addresses.
pub(super) fn validate_without(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let detail = "may not be set for ExternalName services";
    for name in ["clusterIPs", "ipFamilies"] {
        if !items(&spec[name]).is_empty() {
            errors.forbidden(&path.child(name), detail);
        }
    }
    if is_set(&spec["ipFamilyPolicy"]) {
        errors.forbidden(&path.child("ipFamilyPolicy"), detail);
    }
}

/// Checks addresses, families and policy, each for itself and with each other.
pub(super) fn validate_related(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let (one, all) = (text(&spec["clusterIP"]), items(&spec["clusterIPs"]));
    let families = items(&spec["ipFamilies"]);
    let at = path.child("clusterIPs");
    match all.first() {
        None if one.is_empty() => {}
        None => errors.required(&at, ""),
        Some(_) if one.is_empty() => {
            errors.invalid(&at, all.to_vec(), "must be empty when `clusterIP` is not specified");
        }
        Some(first) if text(first) != one => {
            errors.invalid(&at, all.to_vec(), "first value must match `clusterIP`");
        }
        Some(_) => {}
    }
    let mut seen = BTreeSet::new();
    for (index, family) in families.iter().map(text).enumerate() {
        let at = path.child("ipFamilies").index(index);
        if IpFamily::named(family).is_none() {
            errors.not_supported(&at, family, &["IPv4", "IPv6"]);
        }
        if !seen.insert(family) {
            errors.duplicate(&at, family);
        }
    }
    let policy = &spec["ipFamilyPolicy"];
    if is_set(policy) && !POLICIES.contains(&text(policy)) {
        errors.not_supported(&path.child("ipFamilyPolicy"), text(policy), &POLICIES);
    }
    let before = errors.0.len();
    for (index, address) in all.iter().map(text).enumerate() {
        if index > 0 || address != "None" {
            ip_address(errors, &at.index(index), address);
        } else if all.len() > 1 {
            errors.invalid(&at, all.to_vec(), "'None' must be the first and only value");
        }
    }
    let are_addresses = errors.0.len() == before;
    if all.len() > 2 {
        errors.invalid(&at, all.to_vec(), "may only hold up to 2 values");
    }
    if !are_addresses {
        return;
    }
    let of = |address: &Value| IpFamily::of_text(text(address));
    if all.len() > 1 && all.iter().map(of).collect::<BTreeSet<_>>().len() < 2 {
        errors.invalid(&at, all.to_vec(), "may specify no more than one IP for each IP family");
    }
    for (index, (address, family)) in all.iter().zip(families).enumerate() {
        let (is, wanted) = (of(address), IpFamily::named(text(family)));
        if let (Some(is), Some(wanted)) = (is, wanted)
            && is != wanted
        {
            let detail = format!("expected an {} value as indicated by `ipFamilies[{index}]`", wanted.name());
            errors.invalid(&at.index(index), text(address), detail);
        }
    }
}

/// The first address and the first family stay as long as there are any; the second ones go only with the policy that says so.
pub(super) fn validate_change(errors: &mut FieldErrors, path: &Path, before: &Value, after: &Value) {
    if before["type"] == "ExternalName" || after["type"] == "ExternalName" {
        return;
    }
    let (had_none, has_none) = (is_headless(before), is_headless(after));
    if !(had_none && has_none) {
        change_of(errors, path, before, after, "clusterIPs", "clusterIP");
    }
    if !had_none && !has_none {
        change_of(errors, path, before, after, "ipFamilies", "ipFamily");
    }
}

fn change_of(errors: &mut FieldErrors, path: &Path, before: &Value, after: &Value, name: &str, one: &str) {
    let (was, is) = (items(&before[name]), items(&after[name]));
    let at = |index: usize| path.child(name).index(index);
    if was.len() == is.len() {
        for (index, _) in was.iter().zip(is).enumerate().filter(|(_, (was, is))| was != is) {
            // Upstream names the place of an address, and of a family the first.
            let place = if name == "clusterIPs" { index } else { 0 };
            errors.invalid(&at(place), is.to_vec(), FIXED);
        }
        return;
    }
    if was.len() > is.len() && is.is_empty() {
        errors.invalid(&at(0), is.to_vec(), format!("primary {one} can not be unset"));
    }
    if let (Some(first), Some(now)) = (was.first(), is.first())
        && first != now
    {
        errors.invalid(&at(0), items(&after["clusterIPs"]).to_vec(), FIXED);
    }
    let policy = text(&after["ipFamilyPolicy"]);
    if was.len() > is.len() && is.len() == 1 && policy != SINGLE {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {one}");
        errors.invalid(&path.child("ipFamilyPolicy"), policy, detail);
    }
}
