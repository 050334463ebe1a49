//! Families of addresses of a service. Pods here have IPv4 addresses only, and so has the cluster; a service whose endpoints are
//! the user's own may have others.
//!
//! Source: <https://kubernetes.io/docs/concepts/services-networking/dual-stack/> and the behaviour of Kubernetes 1.36.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::tree::{default_pointer, is_set, items, text};

const V4: &str = "IPv4";
const V6: &str = "IPv6";
/// The families of the cluster's own addresses, the first one first.
const OF_CLUSTER: [&str; 1] = [V4];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

fn family_of(address: &str) -> Option<&'static str> {
    match address.parse().ok()? {
        IpAddr::V4(_) => Some(V4),
        IpAddr::V6(_) => Some(V6),
    }
}

fn is_headless(spec: &Value) -> bool {
    text(&spec["clusterIP"]) == "None" || items(&spec["clusterIPs"]).first() == Some(&json!("None"))
}

/// Whether nothing says what addresses the endpoints of a service have: it may have any.
fn may_have_any(spec: &Value) -> bool {
    is_headless(spec) && spec["selector"].as_object().is_none_or(serde_json::Map::is_empty)
}

/// Fills in addresses, families and policy of a service that is not of type ExternalName.
pub(crate) fn default_families(spec: &mut Value) {
    let address = text(&spec["clusterIP"]).to_owned();
    if !address.is_empty() {
        default_pointer(spec, "clusterIPs", json!([address]));
    }
    let addresses = items(&spec["clusterIPs"]);
    let mut families: Vec<Value> = items(&spec["ipFamilies"]).to_vec();
    let given = families.len();
    families.extend(addresses.iter().skip(given).filter_map(|one| family_of(text(one)).map(Value::from)));
    let any = may_have_any(spec);
    let is_dual = addresses.len() > 1 || families.len() > 1;
    let policy = if any || is_dual { "RequireDualStack" } else { "SingleStack" };
    default_pointer(spec, "ipFamilyPolicy", policy);
    if families.is_empty() {
        families.push(OF_CLUSTER[0].into());
    }
    if any && spec["ipFamilyPolicy"] != "SingleStack" && families.len() == 1 {
        families.push(if families[0] == V4 { V6.into() } else { V4.into() });
    }
    spec["ipFamilies"] = families.into();
}

/// Checks addresses, families and policy.
pub(crate) fn validate_families(errors: &mut FieldErrors, path: &Path, spec: &Value, kind: &str) {
    let (families, policy) = (items(&spec["ipFamilies"]), &spec["ipFamilyPolicy"]);
    if kind == "ExternalName" {
        let detail = "may not be set for ExternalName services";
        if !families.is_empty() {
            errors.forbidden(&path.child("ipFamilies"), detail);
        }
        if is_set(policy) {
            errors.forbidden(&path.child("ipFamilyPolicy"), detail);
        }
        return;
    }
    let before = errors.0.len();
    let at = path.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in families.iter().enumerate() {
        let family = text(family);
        if ![V4, V6].contains(&family) {
            errors.not_supported(&at.index(index), family, &[V4, V6]);
        } else if !seen.insert(family) {
            errors.duplicate(&at.index(index), family);
        }
    }
    let at = path.child("ipFamilyPolicy");
    if is_set(policy) && !POLICIES.contains(&text(policy)) {
        errors.not_supported(&at, text(policy), &POLICIES);
    }
    validate_addresses(errors, path, spec);
    if errors.0.len() > before {
        return;
    }
    if text(policy) == "SingleStack" {
        for name in ["clusterIPs", "ipFamilies"] {
            if items(&spec[name]).len() > 1 {
                let detail = format!(
                    "must be RequireDualStack or PreferDualStack when multiple '{name}' are specified"
                );
                errors.invalid(&at, text(policy), detail);
            }
        }
    }
    if may_have_any(spec) {
        return;
    }
    if text(policy) == "RequireDualStack" && OF_CLUSTER.len() < 2 {
        errors.invalid(&at, text(policy), "this cluster is not configured for dual-stack services");
    }
    for (index, family) in families.iter().enumerate() {
        if !OF_CLUSTER.contains(&text(family)) {
            let at = path.child("ipFamilies").index(index);
            errors.invalid(&at, text(family), "not configured on this cluster");
        }
    }
}

fn validate_addresses(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let (at, addresses) = (path.child("clusterIPs"), items(&spec["clusterIPs"]));
    if addresses.len() > 1 && addresses[0] == "None" {
        errors.invalid(&at, addresses.to_vec(), "'None' must be the first and only value");
    } else if addresses.len() > 2 {
        errors.invalid(&at, addresses.to_vec(), "may only hold up to 2 values");
    } else if let [one, other] = addresses
        && family_of(text(one)).is_some()
        && family_of(text(one)) == family_of(text(other))
    {
        errors.invalid(&at, addresses.to_vec(), "may specify no more than one IP for each IP family");
    }
    for (index, (address, family)) in addresses.iter().zip(items(&spec["ipFamilies"])).enumerate() {
        let (address, wanted) = (text(address), text(family));
        if let Some(family) = family_of(address)
            && family != wanted
            && [V4, V6].contains(&wanted)
        {
            let detail = format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&at.index(index), address, detail);
        }
    }
}
