//! Validation of the smaller settings of a pod: resolver, tolerations, host aliases, gates.

use names::{DnsSubdomain, LabelValue, QualifiedName};
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::{ip_address, messages, required_text};
use crate::tree::{is_set, items, text};

const NAMESERVERS: usize = 3;
const SEARCH_PATHS: usize = 32;
const SEARCH_CHARACTERS: usize = 2048;

/// Checks the resolver's settings.
pub(super) fn dns_config(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let config = &spec["dnsConfig"];
    let nameservers = items(&config["nameservers"]);
    if spec["dnsPolicy"] == "None" {
        if !is_set(config) {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if nameservers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&path.child("nameservers"), detail);
        }
    }
    if nameservers.len() > NAMESERVERS {
        let detail = format!("must not have more than {NAMESERVERS} nameservers");
        errors.invalid(&path.child("nameservers"), nameservers.to_vec(), detail);
    }
    for (index, server) in nameservers.iter().enumerate() {
        ip_address(errors, &path.child("nameservers").index(index), text(server));
    }
    let searches = items(&config["searches"]);
    if searches.len() > SEARCH_PATHS {
        let detail = format!("must not have more than {SEARCH_PATHS} search paths");
        errors.invalid(&path.child("searches"), searches.to_vec(), detail);
    }
    let total =
        searches.iter().map(|search| text(search).len()).sum::<usize>() + searches.len().saturating_sub(1);
    if total > SEARCH_CHARACTERS {
        let detail = format!(
            "must not have more than {SEARCH_CHARACTERS} characters (including spaces) in the search list"
        );
        errors.invalid(&path.child("searches"), searches.to_vec(), detail);
    }
    for (index, search) in searches.iter().enumerate() {
        let search = text(search);
        let relative = search.strip_suffix('.').unwrap_or(search);
        // The root, and names that begin with an underscore, are fine for resolvers.
        let plain = relative.replace('_', "a");
        if search != "." {
            errors.invalid_each(
                &path.child("searches").index(index),
                search,
                messages(DnsSubdomain::parse(&plain)),
            );
        }
    }
    for (index, option) in items(&config["options"]).iter().enumerate() {
        if text(&option["name"]).is_empty() {
            errors.required(&path.child("options").index(index), "must not be empty");
        }
    }
}

/// Checks readiness and scheduling gates.
pub(super) fn gates(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    for (index, gate) in items(&spec["readinessGates"]).iter().enumerate() {
        let at = path.child("readinessGates").index(index).child("conditionType");
        let condition = text(&gate["conditionType"]);
        errors.invalid_each(&at, condition, messages(QualifiedName::parse(condition)));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, gate) in items(&spec["schedulingGates"]).iter().enumerate() {
        let at = path.child("schedulingGates").index(index);
        let name = text(&gate["name"]);
        errors.invalid_each(&at, name, messages(QualifiedName::parse(name)));
        if !seen.insert(name) {
            errors.duplicate(&at, name);
        }
    }
}

/// Checks tolerations.
pub(super) fn tolerations(errors: &mut FieldErrors, path: &Path, tolerations: &Value) {
    for (index, toleration) in items(tolerations).iter().enumerate() {
        let at = path.index(index);
        let (key, operator) = (text(&toleration["key"]), text(&toleration["operator"]));
        let (value, effect) = (text(&toleration["value"]), text(&toleration["effect"]));
        if !key.is_empty() {
            errors.invalid_each(&at.child("key"), key, messages(QualifiedName::parse(key)));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&at.child("operator"), operator, detail);
        }
        if is_set(&toleration["tolerationSeconds"]) && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&at.child("effect"), effect, detail);
        }
        match operator {
            "" | "Equal" => {
                errors.invalid_each(&at.child("operator"), value, messages(LabelValue::parse(value)));
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.invalid(&at.child("operator"), toleration.clone(), detail);
            }
            "Exists" => {}
            other => errors.not_supported(&at.child("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.not_supported(&at.child("effect"), effect, &supported);
        }
    }
}

/// Checks lines of the hosts file.
pub(super) fn host_aliases(errors: &mut FieldErrors, path: &Path, aliases: &Value) {
    for (index, alias) in items(aliases).iter().enumerate() {
        let at = path.index(index);
        if required_text(errors, &at.child("ip"), text(&alias["ip"])) {
            ip_address(errors, &at.child("ip"), text(&alias["ip"]));
        }
        for name in items(&alias["hostnames"]) {
            let name = text(name);
            errors.invalid_each(&path.child("hostnames"), name, messages(DnsSubdomain::parse(name)));
        }
    }
}
