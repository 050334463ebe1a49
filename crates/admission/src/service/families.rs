//! Which families of addresses a service has, and which of its addresses are still to be given. What the cluster has is told.
//!
//! A service never gets or loses a family by itself: only its `ipFamilyPolicy`, or who names families or addresses, changes that.
//!
//! Source: <https://kubernetes.io/docs/concepts/services-networking/dual-stack/> and the behaviour of Kubernetes 1.36.

use serde_json::{Value, json};

use super::addresses::{self, SINGLE};
use crate::errors::FieldErrors;
use crate::ip_family::{ClusterFamilies, IpFamily};
use crate::path::Path;
use crate::tree::{default_pointer, is_set, items, remove, text};

const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Whether nothing says what addresses the endpoints of a service have: it may have any.
fn may_have_any(spec: &Value) -> bool {
    text(&spec["clusterIP"]) == "None" && spec["selector"].as_object().is_none_or(serde_json::Map::is_empty)
}

/// Makes `clusterIP` and `clusterIPs` agree, where it is clear which of them was meant.
pub(super) fn normalise(old: Option<&Value>, spec: &mut Value) {
    let one = text(&spec["clusterIP"]).to_owned();
    let Some(old) = old else {
        if !one.is_empty() && items(&spec["clusterIPs"]).is_empty() {
            spec["clusterIPs"] = json!([one]);
        }
        return;
    };
    let before = text(&old["clusterIP"]);
    let is_same = items(&old["clusterIPs"]) == items(&spec["clusterIPs"]);
    if before == one {
        if items(&spec["clusterIPs"]).is_empty() && !items(&old["clusterIPs"]).is_empty() {
            spec["clusterIPs"] = old["clusterIPs"].clone();
        }
    } else if one.is_empty() {
        if is_same {
            remove(spec, "clusterIPs");
        }
    } else if is_same {
        spec["clusterIPs"] = json!([one]);
    }
}

/// Whether a service prefers both families as it did, and asks for nothing else: then it keeps what it has, whatever the cluster
/// has by now.
fn stays_as_it_is(old: &Value, spec: &Value) -> bool {
    let prefers = |policy: &Value| !is_set(policy) || *policy == PREFER;
    spec["ipFamilyPolicy"] == PREFER
        && prefers(&old["ipFamilyPolicy"])
        && old["type"] == spec["type"]
        && items(&old["clusterIPs"]) == items(&spec["clusterIPs"])
        && items(&old["ipFamilies"]) == items(&spec["ipFamilies"])
}

/// Settles policy, families and addresses of a service whose spec replaces `old`, as far as the cluster's families decide them.
///
/// # Errors
///
/// What of them the service may not have here; the rest of the service is not looked at then.
pub(super) fn settle(
    old: Option<&Value>,
    spec: &mut Value,
    cluster: ClusterFamilies,
) -> Result<(), FieldErrors> {
    if spec["type"] == "ExternalName" || old.is_some_and(|old| stays_as_it_is(old, spec)) {
        return Ok(());
    }
    let policy = match old.map(|old| &old["ipFamilyPolicy"]).filter(|policy| is_set(policy)) {
        Some(before) => before.clone(),
        None if may_have_any(spec) => REQUIRE.into(),
        None => SINGLE.into(),
    };
    default_pointer(spec, "ipFamilyPolicy", policy);
    let path = Path::root("spec");
    let mut errors = FieldErrors::default();
    addresses::validate_related(&mut errors, &path, spec);
    let mut errors = errors.into_result(FieldErrors::default())?;
    if let Some(old) = old {
        follow_policy(&mut errors, &path, old, spec);
    }
    fit_policy(&mut errors, &path, spec);
    infer_families(&mut errors, &path, spec, cluster);
    let mut errors = errors.into_result(FieldErrors::default())?;
    if may_have_any(spec) {
        complete(spec, cluster.first, true);
        return Ok(());
    }
    if spec["ipFamilyPolicy"] == REQUIRE && !cluster.has_both {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&path.child("ipFamilyPolicy"), REQUIRE, detail);
    }
    for (index, family) in items(&spec["ipFamilies"]).iter().map(text).enumerate() {
        if !IpFamily::named(family).is_some_and(|family| cluster.has(family)) {
            let at = path.child("ipFamilies").index(index);
            errors.invalid(&at, family, "not configured on this cluster");
        }
    }
    errors.into_result(())?;
    complete(spec, cluster.first, cluster.has_both);
    Ok(())
}

/// A service that is to have one family only gives up the second one; no other gives up anything.
fn follow_policy(errors: &mut FieldErrors, path: &Path, old: &Value, spec: &mut Value) {
    let policy = text(&spec["ipFamilyPolicy"]).to_owned();
    for (name, what) in [("clusterIPs", "secondary cluster IP"), ("ipFamilies", "secondary IP family")] {
        let (before, after) = (items(&old[name]), items(&spec[name]));
        if policy == SINGLE {
            // The first is never another, so that it is clear which one stays.
            if before == after && after.len() > 1 {
                spec[name] = json!([after[0]]);
            }
        } else if !after.is_empty() && after.len() < before.len() {
            let detail = format!("must be 'SingleStack' to release the {what}");
            errors.invalid(&path.child("ipFamilyPolicy"), policy.as_str(), detail);
        }
    }
}

fn fit_policy(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    if spec["ipFamilyPolicy"] != SINGLE {
        return;
    }
    for (name, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if items(&spec[name]).len() > 1 {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.invalid(&path.child("ipFamilyPolicy"), SINGLE, detail);
        }
    }
}

/// An address whose family is not named names it.
fn infer_families(errors: &mut FieldErrors, path: &Path, spec: &mut Value, cluster: ClusterFamilies) {
    let mut families = items(&spec["ipFamilies"]).to_vec();
    for (index, address) in items(&spec["clusterIPs"]).iter().enumerate().skip(families.len()) {
        // Other text than an address was refused before, but for `None`.
        let Some(family) = IpFamily::of_text(text(address)) else { break };
        if cluster.has(family) {
            families.push(family.name().into());
        } else {
            let detail = format!("{} is not configured on this cluster", family.name());
            errors.invalid(&path.child("clusterIPs").index(index), spec["clusterIPs"].clone(), detail);
        }
    }
    if !families.is_empty() {
        spec["ipFamilies"] = families.into();
    }
}

/// Names the families that are not named: the cluster's first one, and the other one where the policy wants both and `may_have_both`.
fn complete(spec: &mut Value, first: IpFamily, may_have_both: bool) {
    let mut families = items(&spec["ipFamilies"]).to_vec();
    if families.is_empty() {
        families.push(first.name().into());
    }
    if may_have_both
        && spec["ipFamilyPolicy"] != SINGLE
        && let [one] = families.as_slice()
        && let Some(family) = IpFamily::named(text(one))
    {
        families.push(family.other().name().into());
    }
    spec["ipFamilies"] = families.into();
}

/// What a service that is to have no address any more takes along of what it was given, unless its client has changed it.
pub(super) fn drop_unneeded(old: &Value, spec: &mut Value) {
    let is_same = |name: &str, spec: &Value| items(&old[name]) == items(&spec[name]);
    if is_same("clusterIPs", spec) {
        remove(spec, "clusterIP");
        remove(spec, "clusterIPs");
    }
    if is_same("ipFamilies", spec) {
        remove(spec, "ipFamilies");
    }
    if old["ipFamilyPolicy"] == spec["ipFamilyPolicy"] {
        remove(spec, "ipFamilyPolicy");
    }
    if text(&spec["clusterIP"]).is_empty() {
        remove(spec, "clusterIP");
    }
}
