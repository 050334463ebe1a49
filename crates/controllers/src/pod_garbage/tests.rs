use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::decision::{Decision, decide};
use super::*;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("readable")
}

fn pod(name: &str, extra: Value) -> Arc<Pod> {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "one", "containers": []}, "status": {"phase": "Running"}});
    json_patch::merge(&mut pod, &extra);
    Arc::new(read(pod))
}

fn node(value: Value) -> Arc<Node> {
    let mut node = json!({"metadata": {"name": "one"}});
    json_patch::merge(&mut node, &value);
    Arc::new(read(node))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a time")
}

fn names(decision: &Decision) -> Vec<(String, Reason)> {
    decision
        .remove
        .iter()
        .map(|(pod, reason)| (pod.metadata.name.clone().unwrap_or_default(), *reason))
        .collect()
}

const GOING: &str = "2026-01-01T00:00:00Z";

#[test]
fn a_pod_that_was_deleted_before_it_had_a_node_goes_at_once() {
    let pods = [
        pod("a", json!({"metadata": {"deletionTimestamp": GOING}, "spec": {"nodeName": null}})),
        pod("b", json!({"spec": {"nodeName": null}})),
        pod("c", json!({"metadata": {"deletionTimestamp": GOING}})),
    ];
    let decision = decide(&pods, &[node(json!({}))], &BTreeMap::new(), 10, at(0));
    assert_eq!(names(&decision), [("a".to_owned(), Reason::NeverScheduled)]);
    assert_eq!(decision.again, None);
}

#[test]
fn pods_of_a_node_that_is_gone_go_when_it_has_not_come_back_for_a_while() {
    let pods = [pod("a", json!({"spec": {"nodeName": "gone"}})), pod("b", json!({}))];
    let first = decide(&pods, &[node(json!({}))], &BTreeMap::new(), 10, at(0));
    assert_eq!((names(&first), first.again), (Vec::new(), Some(at(40))));
    let early = decide(&pods, &[node(json!({}))], &first.missing, 10, at(39));
    assert_eq!((names(&early), early.again), (Vec::new(), Some(at(40))));
    let due = decide(&pods, &[node(json!({}))], &early.missing, 10, at(40));
    assert_eq!(names(&due), [("a".to_owned(), Reason::NodeGone)]);
    let back = decide(
        &pods,
        &[node(json!({})), node(json!({"metadata": {"name": "gone"}}))],
        &early.missing,
        10,
        at(60),
    );
    assert_eq!((names(&back), back.missing.len()), (Vec::new(), 0));
}

#[test]
fn of_the_pods_that_have_ended_the_oldest_go_beyond_the_limit_and_evicted_ones_first() {
    let ended = |name: &str, created: &str, phase: &str, reason: &str| {
        pod(
            name,
            json!({"metadata": {"creationTimestamp": created}, "status": {"phase": phase, "reason": reason}}),
        )
    };
    let pods = [
        ended("young", "2026-01-01T00:00:09Z", "Succeeded", ""),
        ended("old", "2026-01-01T00:00:01Z", "Failed", ""),
        ended("evicted", "2026-01-01T00:00:10Z", "Failed", "Evicted"),
        ended("runs", "2025-01-01T00:00:00Z", "Running", ""),
        ended("middle", "2026-01-01T00:00:05Z", "Succeeded", ""),
    ];
    let of = |kept: usize| names(&decide(&pods, &[node(json!({}))], &BTreeMap::new(), kept, at(0)));
    assert_eq!(of(4), []);
    assert_eq!(of(2), [("evicted".to_owned(), Reason::Ended), ("old".to_owned(), Reason::Ended)]);
}

#[test]
fn pods_that_are_to_end_on_a_node_out_of_service_go() {
    let taint =
        json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}});
    let mut ready = taint.clone();
    ready["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let pods = [pod("going", json!({"metadata": {"deletionTimestamp": GOING}})), pod("stays", json!({}))];
    let of = |node: Arc<Node>| names(&decide(&pods, &[node], &BTreeMap::new(), 10, at(0)));
    assert_eq!(of(node(taint)), [("going".to_owned(), Reason::OutOfService)]);
    assert_eq!(of(node(ready)), [], "it runs");
    assert_eq!(of(node(json!({}))), []);
}
