//! Topology spread constraints.

use serde_json::{Value, json};

use super::{Desk, labelled, node, on, pod};

const SPREAD: &str = "node(s) didn't match pod topology spread constraints";

fn constraint(changes: Value) -> Value {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}}});
    for (field, value) in changes.as_object().expect("fields") {
        constraint[field] = value.clone();
    }
    json!({"topologySpreadConstraints": [constraint]})
}

fn of_app(name: &str, spec: Value) -> Value {
    labelled(pod(name, spec), json!({"app": "s"}))
}

/// Zones 1 (a, b), 2 (c) and none (d); pods of the app: two in zone 1, one in zone 2.
fn desk() -> Desk {
    let zone = |name: &str, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let mut desk = Desk::new(&[zone("a", "1"), zone("b", "1"), zone("c", "2"), node("d", json!({}))]);
    for (name, node) in [("1", "a"), ("2", "b"), ("3", "c")] {
        desk.see(&on(of_app(name, json!({})), node));
    }
    desk
}

#[test]
fn pods_are_spread_as_the_constraint_says() {
    let rows = [
        (constraint(json!({})), "c"),
        // Two may be one too many.
        (constraint(json!({"maxSkew": 2, "topologyKey": "kubernetes.io/hostname"})), "d"),
        // With at least three domains asked for and only two there, the third counts as empty.
        (
            constraint(json!({"minDomains": 3})),
            "0/4 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label), 3 SPREAD",
        ),
        (constraint(json!({"minDomains": 2})), "c"),
        (
            constraint(json!({"topologyKey": "rack"})),
            "0/4 nodes are available: 4 node(s) didn't match pod topology spread constraints (missing required label)",
        ),
        // Nobody is counted: every domain is as empty as the others.
        (constraint(json!({"labelSelector": {"matchLabels": {"app": "none"}}})), "a"),
        (constraint(json!({"whenUnsatisfiable": "ScheduleAnyway"})), "c"),
        (
            constraint(
                json!({"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "kubernetes.io/hostname"}),
            ),
            "d",
        ),
    ];
    for (spec, expected) in rows {
        let expected = expected.replace("SPREAD", SPREAD);
        assert_eq!(desk().outcome(&of_app("p", spec.clone())), expected, "{spec}");
    }
}

#[test]
fn pods_that_are_going_and_pods_of_other_namespaces_do_not_count() {
    for change in ["namespace", "deletionTimestamp"] {
        let mut desk = desk();
        for (name, node) in [("1", "a"), ("2", "b")] {
            desk.board.forget_pod(name);
            let mut other = on(of_app(name, json!({})), node);
            other["metadata"][change] = json!("2026-01-01T00:00:00Z");
            desk.see(&other);
        }
        assert_eq!(desk.outcome(&of_app("p", constraint(json!({})))), "a", "{change}");
    }
}

#[test]
fn nodes_that_the_pod_cannot_be_on_count_or_not_as_the_policies_say() {
    let rows = [
        // Zone 2 is empty, but the pod may not be there.
        (json!({}), "a"),
        (json!({"nodeAffinityPolicy": "Ignore"}), "SPREAD and selector"),
    ];
    for (policy, expected) in rows {
        let mut desk = desk();
        desk.board.forget_pod("3");
        let mut spec = constraint(policy.clone());
        spec["nodeSelector"] = json!({"zone": "1"});
        let found = desk.outcome(&of_app("p", spec));
        if expected == "a" {
            assert_eq!(found, "a");
        } else {
            assert_eq!(
                found,
                format!(
                    "0/4 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 2 {SPREAD}"
                )
            );
        }
    }
    let rows = [(json!({}), SPREAD), (json!({"nodeTaintsPolicy": "Honor"}), "")];
    for (policy, expected) in rows {
        let mut desk = desk();
        desk.board.forget_pod("3");
        desk.node(&node("c", json!({"metadata": {"labels": {"zone": "2"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})));
        let found = desk.outcome(&of_app("p", constraint(policy)));
        if expected.is_empty() {
            assert_eq!(found, "a");
        } else {
            assert!(found.contains(expected), "{found}");
        }
    }
}

#[test]
fn many_pods_are_spread_one_after_the_other() {
    let zone = |name: &str, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let mut desk = Desk::new(&[zone("a", "1"), zone("b", "2"), zone("c", "3")]);
    for number in 0..30 {
        desk.see(&of_app(&format!("p{number}"), constraint(json!({}))));
    }
    let done = desk.turn();
    for zone in ["a", "b", "c"] {
        assert_eq!(done.iter().filter(|line| line.ends_with(&format!(": {zone}"))).count(), 10, "{done:?}");
    }
}
