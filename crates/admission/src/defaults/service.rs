//! Defaults of services. Families are settled afterwards (`service::families`), addresses and ports
//! allocated by the API server.

use serde_json::{Value, json};

use crate::tree::{default_field, default_pointer, is_set, items_mut, object_field, remove, text};

pub(super) fn service(object: &mut Value) {
    object_field(object, "spec");
    let spec = &mut object["spec"];
    default_field(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        let config = object_field(spec, "sessionAffinityConfig");
        let client = config.entry("clientIP").or_insert_with(|| json!({}));
        default_pointer(client, "timeoutSeconds", 10_800);
    } else {
        remove(spec, "sessionAffinityConfig");
    }
    default_field(spec, "type", "ClusterIP");
    let kind = text(&spec["type"]).to_owned();
    for port in items_mut(spec, "ports") {
        default_field(port, "protocol", "TCP");
        let number = port["port"].clone();
        if port["targetPort"] == 0 || port["targetPort"] == "" || !is_set(&port["targetPort"]) {
            port["targetPort"] = number;
        }
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        default_field(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        default_pointer(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default_pointer(spec, "allocateLoadBalancerNodePorts", true);
    }
}
