//! What becomes of nodes, in a table.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::decision::{Signs, decide};

const OLD: &str = "2026-01-01T00:00:00Z";

fn node(spec: Value, conditions: &[(&str, &str)]) -> Node {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, status)| json!({"type": type_, "status": status, "lastHeartbeatTime": OLD}))
        .collect();
    let node = json!({"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}});
    serde_json::from_value(node).expect("a node")
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().expect("a time")
}

/// `key:effect` of all taints, or `-` where nothing changes.
fn taints(node: &Node, is_silent: bool, nobody_is_ready: bool) -> String {
    let decision = decide(node, &Signs { is_silent, nobody_is_ready, now: now() });
    let Some(taints) = decision.taints else { return "-".to_owned() };
    let short = |key: &str| key.replace("node.kubernetes.io/", "");
    let words: Vec<String> =
        taints.iter().map(|taint| format!("{}:{}", short(&taint.key), taint.effect)).collect();
    words.join(" ")
}

#[test]
fn a_node_has_the_taints_of_its_state_and_keeps_those_of_its_users() {
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect, "timeAdded": OLD});
    let own = taint("own", "NoExecute");
    let not_ready = |effect: &str| taint("node.kubernetes.io/not-ready", effect);
    let unreachable = |effect: &str| taint("node.kubernetes.io/unreachable", effect);
    let ready = [("Ready", "True")];
    let rows = [
        (json!({}), &ready[..], false, false, "-"),
        (json!({}), &[("Ready", "False")], false, false, "not-ready:NoSchedule not-ready:NoExecute"),
        (json!({}), &[("Ready", "Unknown")], false, false, "unreachable:NoSchedule unreachable:NoExecute"),
        (json!({}), &[], false, false, "not-ready:NoSchedule not-ready:NoExecute"),
        (json!({}), &ready, true, false, "unreachable:NoSchedule unreachable:NoExecute"),
        // When nobody is ready, nobody is driven away, unless that has begun.
        (json!({}), &ready, true, true, "unreachable:NoSchedule"),
        (json!({"taints": [unreachable("NoSchedule"), unreachable("NoExecute")]}), &ready, true, true, "-"),
        // From one to the other, and back.
        (
            json!({"taints": [not_ready("NoSchedule"), own, not_ready("NoExecute")]}),
            &[("Ready", "Unknown")],
            false,
            false,
            "own:NoExecute unreachable:NoSchedule unreachable:NoExecute",
        ),
        (
            json!({"taints": [unreachable("NoSchedule"), own, unreachable("NoExecute")]}),
            &ready,
            false,
            false,
            "own:NoExecute",
        ),
        (json!({"unschedulable": true}), &ready, false, false, "unschedulable:NoSchedule"),
        (
            json!({"taints": [taint("node.kubernetes.io/unschedulable", "NoSchedule")]}),
            &ready,
            false,
            false,
            "",
        ),
        (
            json!({}),
            &[("Ready", "True"), ("MemoryPressure", "True"), ("DiskPressure", "False")],
            false,
            false,
            "memory-pressure:NoSchedule",
        ),
        (
            json!({}),
            &[("Ready", "True"), ("NetworkUnavailable", "True")],
            false,
            false,
            "network-unavailable:NoSchedule",
        ),
    ];
    for (spec, conditions, is_silent, nobody_is_ready, expected) in rows {
        let node = node(spec.clone(), conditions);
        assert_eq!(taints(&node, is_silent, nobody_is_ready), expected, "{spec} {conditions:?}");
    }
}

#[test]
fn the_conditions_of_a_silent_node_become_unknown_once() {
    let silent = Signs { is_silent: true, nobody_is_ready: false, now: now() };
    let said = |node: &Node| {
        let conditions = decide(node, &silent).conditions.unwrap_or_default();
        conditions
            .into_iter()
            .map(|one| {
                format!(
                    "{}={} {}: {}",
                    one.type_,
                    one.status,
                    one.reason.unwrap_or_default(),
                    one.message.unwrap_or_default()
                )
            })
            .collect::<Vec<_>>()
    };
    let stopped = "NodeStatusUnknown: Kubelet stopped posting node status.";
    let never = "NodeStatusNeverUpdated: Kubelet never posted node status.";
    let expected = [
        format!("Ready=Unknown {stopped}"),
        format!("MemoryPressure=Unknown {stopped}"),
        format!("DiskPressure=Unknown {never}"),
        format!("PIDPressure=Unknown {never}"),
    ];
    assert_eq!(said(&node(json!({}), &[("Ready", "True"), ("MemoryPressure", "False")])), expected);
    let all = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(|type_| (type_, "Unknown"));
    assert!(said(&node(json!({}), &all)).is_empty());
    let heard = Signs { is_silent: false, ..silent };
    assert_eq!(
        decide(&node(json!({}), &all), &heard).conditions,
        None,
        "only the node itself says that it is well"
    );
}
