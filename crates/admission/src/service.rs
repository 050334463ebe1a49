//! Services: ports, types, addresses.

mod addresses;
mod families;
mod type_change;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::errors::FieldErrors;
use crate::ip_family::ClusterFamilies;
use crate::path::Path;
use crate::scalars::{
    in_range, ip_address, labels, one_of, optional_one_of, port, port_number, required_label, subdomain,
};
use crate::tree::{is_set, items, text};

use type_change::needs_health_check;

const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameNode", "PreferSameZone"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// The kubelet's own port must not be taken from outside.
const KUBELET_PORT: i64 = 10_250;

/// Settles which addresses and ports a new service, or one that replaces `old`, keeps and asks for.
///
/// # Errors
///
/// What of its addresses and families it may not have in this cluster. Upstream tells this before it looks at anything else.
pub(crate) fn settle(
    old: Option<&Value>,
    new: &mut Value,
    cluster: ClusterFamilies,
) -> Result<(), FieldErrors> {
    let (before, after) = (old.map(|old| &old["spec"]), &mut new["spec"]);
    if !after.is_object() {
        return Ok(());
    }
    if let Some(before) = before {
        type_change::keep_allocations(before, after);
    }
    families::normalise(before, after);
    families::settle(before, after, cluster)?;
    if let Some(before) = before {
        type_change::drop_unneeded(before, after);
    }
    Ok(())
}

/// Checks a service.
pub(crate) fn validate(errors: &mut FieldErrors, service: &Value) {
    let path = Path::root("spec");
    let spec = &service["spec"];
    let kind = text(&spec["type"]);
    let is_headless =
        text(&spec["clusterIP"]) == "None" || items(&spec["clusterIPs"]).first() == Some(&json!("None"));
    let ports = items(&spec["ports"]);
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        errors.required(&path.child("ports"), "");
    }
    by_type(errors, &path, spec, kind, is_headless);
    let mut names = BTreeSet::new();
    for (index, one) in ports.iter().enumerate() {
        service_port(errors, &path.child("ports").index(index), one, ports.len() > 1, &mut names);
    }
    labels(errors, &path.child("selector"), &spec["selector"]);
    one_of(errors, &path.child("sessionAffinity"), &spec["sessionAffinity"], &["ClientIP", "None"]);
    let timeout = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    let at = path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
    in_range(errors, &at, timeout, 1, 86_400);
    if kind == "ExternalName" {
        addresses::validate_without(errors, &path, spec);
    } else {
        addresses::validate_related(errors, &path, spec);
    }
    for (index, address) in items(&spec["externalIPs"]).iter().enumerate() {
        ip_address(errors, &path.child("externalIPs").index(index), text(address));
    }
    one_of(errors, &path.child("type"), &spec["type"], &TYPES);
    if kind == "ClusterIP" {
        for (index, one) in ports.iter().enumerate() {
            if one["nodePort"].as_i64().unwrap_or(0) != 0 {
                let at = path.child("ports").index(index).child("nodePort");
                errors.forbidden(&at, "may not be used when `type` is 'ClusterIP'");
            }
        }
    }
    unique_ports(errors, &path.child("ports"), ports);
    let policies = ["Cluster", "Local"];
    if matches!(kind, "NodePort" | "LoadBalancer") {
        optional_one_of(
            errors,
            &path.child("externalTrafficPolicy"),
            &spec["externalTrafficPolicy"],
            &policies,
        );
    } else if is_set(&spec["externalTrafficPolicy"])
        && (kind != "ClusterIP" || items(&spec["externalIPs"]).is_empty())
    {
        let detail = "may only be set for externally-accessible services";
        errors.invalid(&path.child("externalTrafficPolicy"), text(&spec["externalTrafficPolicy"]), detail);
    }
    optional_one_of(errors, &path.child("internalTrafficPolicy"), &spec["internalTrafficPolicy"], &policies);
    let health_check = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    if health_check != 0 && !needs_health_check(spec) {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&path.child("healthCheckNodePort"), health_check, detail);
    }
    for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges"] {
        let is_given = is_set(&spec[name]) && spec[name] != json!([]);
        if is_given && kind != "LoadBalancer" {
            errors.forbidden(&path.child(name), "may only be used when `type` is 'LoadBalancer'");
        }
    }
    let distribution = path.child("trafficDistribution");
    optional_one_of(errors, &distribution, &spec["trafficDistribution"], &DISTRIBUTIONS);
}

fn by_type(errors: &mut FieldErrors, path: &Path, spec: &Value, kind: &str, is_headless: bool) {
    match kind {
        "NodePort" | "LoadBalancer" => {
            for (index, one) in items(&spec["ports"]).iter().enumerate() {
                if kind == "LoadBalancer" && one["port"].as_i64() == Some(KUBELET_PORT) {
                    let detail = "may not expose port 10250 externally since it is used by kubelet";
                    errors.invalid(&path.child("ports").index(index), KUBELET_PORT, detail);
                }
            }
            if is_headless {
                let detail = format!("may not be set to 'None' for {kind} services");
                errors.invalid(&path.child("clusterIPs").index(0), "None", detail);
            }
        }
        "ExternalName" => {
            let name = text(&spec["externalName"]);
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                errors.required(&path.child("externalName"), "");
            } else {
                subdomain(errors, &path.child("externalName"), name);
            }
        }
        _ => {}
    }
}

fn service_port<'a>(
    errors: &mut FieldErrors,
    path: &Path,
    one: &'a Value,
    needs_name: bool,
    names: &mut BTreeSet<&'a str>,
) {
    let name = text(&one["name"]);
    if needs_name || !name.is_empty() {
        required_label(errors, &path.child("name"), name);
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
    }
    port_number(errors, &path.child("port"), &one["port"]);
    one_of(errors, &path.child("protocol"), &one["protocol"], &["SCTP", "TCP", "UDP"]);
    port(errors, &path.child("targetPort"), &one["targetPort"]);
    let protocol = text(&one["appProtocol"]);
    if !protocol.is_empty() {
        let parsed = names::QualifiedName::parse(protocol);
        errors.invalid_each(&path.child("appProtocol"), protocol, crate::scalars::messages(parsed));
    }
}

fn unique_ports(errors: &mut FieldErrors, path: &Path, ports: &[Value]) {
    let (mut node_ports, mut service_ports) = (BTreeSet::new(), BTreeSet::new());
    for (index, one) in ports.iter().enumerate() {
        let protocol = text(&one["protocol"]);
        let node_port = one["nodePort"].as_i64().unwrap_or(0);
        if node_port != 0 && !node_ports.insert((protocol, node_port)) {
            errors.duplicate(&path.index(index).child("nodePort"), node_port);
        }
    }
    for (index, one) in ports.iter().enumerate() {
        let (protocol, number) = (text(&one["protocol"]), one["port"].as_i64().unwrap_or(0));
        if !service_ports.insert((protocol, number)) {
            // Upstream shows the key that it compares, in Go's names.
            let key = json!({
                "Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number, "TargetPort": 0, "NodePort": 0
            });
            errors.duplicate(&path.index(index), key);
        }
    }
}

/// The first cluster address stays as long as the service has one, and the class of a load balancer always.
pub(crate) fn validate_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let (before, after) = (&old["spec"], &new["spec"]);
    let is_balancer = |spec: &Value| spec["type"] == "LoadBalancer";
    if is_balancer(before) && is_balancer(after) && before["loadBalancerClass"] != after["loadBalancerClass"]
    {
        let at = Path::root("spec").child("loadBalancerClass");
        errors.invalid(&at, after["loadBalancerClass"].clone(), "may not change once set");
    }
    if needs_health_check(before)
        && needs_health_check(after)
        && before["healthCheckNodePort"] != after["healthCheckNodePort"]
    {
        let at = Path::root("spec").child("healthCheckNodePort");
        errors.invalid(&at, after["healthCheckNodePort"].clone(), "field is immutable");
    }
    addresses::validate_change(errors, &Path::root("spec"), before, after);
}
