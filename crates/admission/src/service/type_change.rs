//! What an update of a service takes over of what was allocated, and what it gives back because its type no longer has it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::families;
use crate::tree::{is_set, items, items_mut, remove, text};

/// What a type brings with it.
struct Needs {
    address: bool,
    node_ports: bool,
    balancer: bool,
    health_check: bool,
}

impl Needs {
    fn of(spec: &Value) -> Needs {
        let kind = text(&spec["type"]);
        let balancer = kind == "LoadBalancer";
        Needs {
            address: kind != "ExternalName",
            node_ports: matches!(kind, "NodePort" | "LoadBalancer"),
            balancer,
            health_check: needs_health_check(spec),
        }
    }
}

/// Whether a service has a port at which nodes tell whether they have endpoints of it.
pub(crate) fn needs_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Takes over allocated addresses and ports that the new object leaves out.
pub(super) fn keep_allocations(before: &Value, after: &mut Value) {
    let (had, has) = (Needs::of(before), Needs::of(after));
    if had.address && has.address {
        if text(&after["clusterIP"]).is_empty() {
            copy(before, after, "clusterIP");
        }
        if items(&after["clusterIPs"]).is_empty() {
            copy(before, after, "clusterIPs");
        }
    }
    if had.node_ports && has.node_ports {
        keep_node_ports(before, after);
    }
    if had.health_check && has.health_check && after["healthCheckNodePort"].as_i64().unwrap_or(0) == 0 {
        copy(before, after, "healthCheckNodePort");
    }
}

/// Drops what only the old type had, unless the client has changed it.
pub(super) fn drop_unneeded(before: &Value, after: &mut Value) {
    let (had, has) = (Needs::of(before), Needs::of(after));
    if had.address && !has.address {
        families::drop_unneeded(before, after);
        drop_same(before, after, &["internalTrafficPolicy"]);
    }
    if had.node_ports && !has.node_ports {
        let known = node_ports(before);
        if node_ports(after).is_subset(&known) {
            for port in items_mut(after, "ports") {
                remove(port, "nodePort");
            }
        }
        drop_same(before, after, &["externalTrafficPolicy"]);
    }
    if had.health_check && !has.health_check {
        drop_same(before, after, &["healthCheckNodePort"]);
    }
    if had.balancer && !has.balancer {
        drop_same(before, after, &["allocateLoadBalancerNodePorts"]);
        drop_same(before, after, &["loadBalancerClass"]);
    }
}

fn copy(before: &Value, after: &mut Value, name: &str) {
    if is_set(&before[name]) {
        after[name] = before[name].clone();
    }
}

/// Removes fields that stand as they stood.
fn drop_same(before: &Value, after: &mut Value, together: &[&str]) {
    if together.iter().all(|name| after[*name] == before[*name]) {
        for name in together {
            remove(after, name);
        }
    }
}

fn node_ports(spec: &Value) -> BTreeSet<i64> {
    items(&spec["ports"])
        .iter()
        .filter_map(|port| port["nodePort"].as_i64())
        .filter(|port| *port != 0)
        .collect()
}

/// A port keeps its number by its name, whatever else of it changes, unless another port has that number now.
fn keep_node_ports(before: &Value, after: &mut Value) {
    let mut used: BTreeSet<i64> = node_ports(before).intersection(&node_ports(after)).copied().collect();
    for port in items_mut(after, "ports") {
        if port["nodePort"].as_i64().unwrap_or(0) != 0 {
            continue;
        }
        let same = items(&before["ports"]).iter().find(|other| text(&other["name"]) == text(&port["name"]));
        if let Some(number) = same.and_then(|same| same["nodePort"].as_i64()).filter(|number| *number != 0)
            && used.insert(number)
        {
            port["nodePort"] = number.into();
        }
    }
}
