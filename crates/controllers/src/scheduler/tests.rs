//! What the scheduler decides, in tables: pods and nodes in, places and messages out.

mod affinities;
mod spreads;
mod turns;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::board::{Act, Board};

/// A cluster in which everything that is decided comes about.
pub(super) struct Desk {
    pub(super) board: Board,
    pub(super) now: Instant,
}

pub(super) fn node(name: &str, changes: Value) -> Value {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    merge(&mut node, &changes);
    node
}

pub(super) fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {}},
        "spec": {"containers": [{"name": "c"}]},
    });
    merge(&mut pod, &json!({"spec": spec}));
    pod
}

pub(super) fn labelled(mut pod: Value, labels: Value) -> Value {
    pod["metadata"]["labels"] = labels;
    pod
}

pub(super) fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod
}

pub(super) fn asks(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (name, value) in changes {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value.clone(),
    }
}

impl Desk {
    pub(super) fn new(nodes: &[Value]) -> Self {
        let mut desk = Self { board: Board::default(), now: Instant::now() };
        for node in nodes {
            desk.node(node);
        }
        desk
    }

    pub(super) fn node(&mut self, node: &Value) {
        let node: Node = serde_json::from_value(node.clone()).expect("a node");
        self.board.see_node(Arc::new(node));
    }

    pub(super) fn see(&mut self, pod: &Value) {
        let pod: Pod = serde_json::from_value(pod.clone()).expect("a pod");
        self.board.see_pod(Arc::new(pod));
    }

    /// Everything that is to be done now, and done: `pod: node`, or `pod: message`.
    pub(super) fn turn(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        while let Some(act) = self.board.next(self.now) {
            done.push(match act {
                Act::Bind { wish, node } => {
                    self.board.bound(wish.uid());
                    format!("{}: {node}", wish.name())
                }
                Act::Prepare { wish, node, claims } => {
                    format!("{}: {node} after {claims:?}", wish.name())
                }
                Act::Tell { wish, message } => format!("{}: {message}", wish.name()),
            });
        }
        done
    }

    /// What comes of one pod; a message without its end.
    pub(super) fn outcome(&mut self, pod: &Value) -> String {
        self.see(pod);
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let of_pod = |done: Vec<String>| {
            done.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned))
        };
        let own = of_pod(self.turn()).or_else(|| {
            // What may pass by itself is said a second later.
            self.later(1);
            of_pod(self.turn())
        });
        own.unwrap_or_default().split(". no new claims").next().unwrap_or_default().to_owned()
    }

    pub(super) fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

#[test]
fn the_message_counts_the_nodes_of_each_reason() {
    let mut desk = Desk::new(&[
        node("a", json!({"spec": {"unschedulable": true}})),
        node("b", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
        node("c", json!({"status": {"allocatable": {"cpu": "1", "memory": "1"}}})),
        node("d", json!({"status": {"allocatable": {"cpu": "1"}}})),
    ]);
    let mut wish = asks("2");
    wish["containers"][0]["resources"]["requests"]["memory"] = json!("2");
    desk.see(&pod("p", wish));
    let message = "p: 0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), 1 node(s) were \
         unschedulable, 2 Insufficient cpu. no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is \
         not helpful for scheduling.";
    assert_eq!(desk.turn(), [message]);
}

#[test]
fn preemption_is_said_to_be_of_no_use_or_not_done() {
    let full = json!({"status": {"allocatable": {"cpu": "1"}}});
    let rows = [
        (
            json!({"priority": 0}),
            0,
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (json!({"priority": 10}), 0, "0/1 nodes are available: 1 Preemption is not done by this scheduler."),
        (
            json!({"priority": 10, "preemptionPolicy": "Never"}),
            0,
            "not eligible due to preemptionPolicy=Never.",
        ),
        (
            json!({"priority": 10}),
            10,
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
    ];
    for (fields, other, expected) in rows {
        let mut desk = Desk::new(&[node("a", full.clone())]);
        let mut first = on(pod("first", asks("1")), "a");
        first["spec"]["priority"] = json!(other);
        desk.see(&first);
        let mut spec = asks("1");
        merge(&mut spec, &fields);
        desk.see(&pod("p", spec));
        let said = desk.turn().remove(0);
        assert_eq!(said.split("preemption: ").nth(1), Some(expected), "{fields}");
    }
}

#[test]
fn without_nodes_that_is_said_but_not_at_once() {
    let mut desk = Desk::new(&[]);
    desk.board = Board::beginning(desk.now);
    desk.see(&pod("p", json!({})));
    assert!(desk.turn().is_empty(), "the first node may come soon");
    assert_eq!(desk.board.due(desk.now), Some(desk.now + Duration::from_secs(10)));
    desk.later(10);
    assert_eq!(desk.turn(), ["p: no nodes available to schedule pods"]);
    assert_eq!(desk.board.due(desk.now), None);
    desk.node(&node("a", json!({})));
    assert_eq!(desk.turn(), ["p: a"]);
}

#[test]
fn a_pod_that_names_its_nodes_by_affinity_hears_of_the_others_what_kubernetes_says() {
    let mut desk = Desk::new(&[
        node("a", json!({})),
        node("b", json!({})),
        node("c", json!({"spec": {"unschedulable": true}})),
    ]);
    let terms = |name: &str| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}}})
    };
    assert_eq!(desk.outcome(&pod("p", terms("b"))), "b");
    assert_eq!(
        desk.outcome(&pod("q", terms("c"))),
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    );
}

#[test]
fn the_better_of_the_nodes_that_fit_is_taken() {
    let prefer = |key: &str| {
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}]}}})
    };
    let plain = || [node("a", json!({})), node("b", json!({"metadata": {"labels": {"ssd": "yes"}}}))];
    let avoided = json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}});
    let small = json!({"status": {"allocatable": {"cpu": "1", "memory": "2Gi"}}});
    let rows = [
        ("a preference", plain().into(), vec![], prefer("ssd"), "b"),
        ("nobody's preference", plain().into(), vec![], prefer("tape"), "a"),
        ("a taint", vec![node("a", avoided.clone()), node("b", json!({}))], vec![], json!({}), "b"),
        (
            "a taint that the pod bears",
            vec![node("a", avoided), node("b", json!({}))],
            vec![],
            json!({"tolerations": [{"operator": "Exists"}]}),
            "a",
        ),
        ("room", vec![node("a", small), node("b", json!({}))], vec![], asks("500m"), "b"),
        ("load", plain().into(), vec![on(pod("x", asks("2")), "a")], asks("1"), "b"),
        ("number of pods", plain().into(), vec![on(pod("x", json!({})), "a")], json!({}), "b"),
    ];
    for (what, nodes, others, spec, expected) in rows {
        let mut desk = Desk::new(&nodes);
        for other in &others {
            desk.see(other);
        }
        assert_eq!(desk.outcome(&pod("p", spec)), expected, "{what}");
    }
}

#[test]
fn pods_of_one_controller_go_to_different_nodes_and_all_pods_are_spread() {
    let mut desk = Desk::new(&["a", "b", "c"].map(|name| node(name, json!({}))));
    for number in 0..9 {
        let mut pod = pod(&format!("p{number}"), json!({}));
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
        desk.see(&pod);
    }
    let mut nodes: Vec<String> =
        desk.turn().iter().filter_map(|line| line.split(": ").nth(1).map(str::to_owned)).collect();
    nodes.sort();
    assert_eq!(nodes, ["a", "a", "a", "b", "b", "b", "c", "c", "c"]);
}
