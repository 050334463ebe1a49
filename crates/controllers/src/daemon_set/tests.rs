//! Tables of what a DaemonSet needs done.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::decision::{Decision, Known, decide};
use super::placement::{Suits, new_pod, node_of, suits};
use crate::deletion::Why;

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().expect("a time")
}

/// `change` is merged into the spec.
fn set(change: Value) -> DaemonSet {
    let mut object = json!({
        "metadata": {"name": "agent", "namespace": "n", "uid": "set", "generation": 3},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    for (field, value) in change.as_object().expect("fields") {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).expect("a set")
}

fn pod_spec(spec: Value) -> Value {
    json!({"template": {"metadata": {"labels": {"app": "agent"}}, "spec": spec}})
}

/// A node by its description: `a disk=ssd taint:key=NoSchedule`.
fn node(text: &str) -> Arc<Node> {
    let mut words = text.split(' ');
    let name = words.next().expect("a name");
    let (mut labels, mut taints) = (serde_json::Map::new(), Vec::new());
    for word in words {
        if let Some(taint) = word.strip_prefix("taint:") {
            let (key, effect) = taint.split_once('=').expect("an effect");
            taints.push(json!({"key": key, "effect": effect}));
        } else {
            let (key, value) = word.split_once('=').expect("a value");
            labels.insert(key.to_owned(), value.into());
        }
    }
    Arc::new(
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}),
        )
        .expect("a node"),
    )
}

/// A pod by its description: `p@a old unready`: name and node, then `old`, `unready`, `failed`, `succeeded`, `leaving`,
/// `unbound`, `ready=SECONDS`.
fn pod(text: &str) -> Arc<Pod> {
    let mut words = text.split(' ');
    let (name, node) = words.next().and_then(|word| word.split_once('@')).expect("name and node");
    let (mut hash, mut phase, mut ready, mut since) = ("new", "Running", "True", 60);
    let (mut leaving, mut bound) = (false, true);
    for word in words {
        match word {
            "old" => hash = "old",
            "unready" => ready = "False",
            "failed" => (phase, ready) = ("Failed", "False"),
            "succeeded" => (phase, ready) = ("Succeeded", "False"),
            "leaving" => leaving = true,
            "unbound" => bound = false,
            other => {
                since = other.strip_prefix("ready=").expect("a word that is known").parse().expect("seconds")
            }
        }
    }
    let mut pod = new_pod(&set(json!({})), hash, node);
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("uid-{name}"));
    if bound {
        pod.spec.as_mut().expect("a spec").node_name = Some(node.to_owned());
    }
    let transition = now() - SignedDuration::from_secs(since);
    pod.status = serde_json::from_value(json!({"phase": phase, "conditions": [
        {"type": "Ready", "status": ready, "lastTransitionTime": transition.to_string()},
    ]}))
    .expect("a status");
    if leaving {
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    }
    Arc::new(pod)
}

fn decided(set: &DaemonSet, nodes: &[&str], pods: &[&str]) -> Decision {
    let nodes: Vec<_> = nodes.iter().map(|text| node(text)).collect();
    let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
    decide(&Known { set, hash: "new", collisions: None, pods: &pods, nodes: &nodes, now: now() })
}

/// In short: `-p1 outdated +b`.
fn shown(decision: &Decision) -> String {
    let gone = decision.deletions.iter().map(|(pod, why)| {
        let why = match why {
            Why::Unwanted => "",
            Why::Outdated => " outdated",
            Why::Failed => " failed",
            Why::Ended => " ended",
        };
        format!("-{}{why}", pod.metadata.name.as_deref().expect("a name"))
    });
    gone.chain(decision.creations.iter().map(|node| format!("+{node}"))).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_done_about_pods() {
    let rolling =
        |fields: Value| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}});
    let surge = || rolling(json!({"maxUnavailable": 0, "maxSurge": 1}));
    type Row<'r> = (&'r str, Value, &'r [&'r str], &'r [&'r str], &'r str);
    let rows: Vec<Row<'_>> = vec![
        ("one pod a node", json!({}), &["a", "b"], &["p@a"], "+b"),
        ("all is there", json!({}), &["a", "b"], &["p@a", "q@b unready"], ""),
        ("one that is not bound yet is there too", json!({}), &["a"], &["p@a unbound"], ""),
        ("one on its way out is waited for", json!({}), &["a"], &["p@a leaving"], ""),
        ("two on a node", json!({}), &["a"], &["p@a unbound", "q@a"], "-p"),
        ("one that failed", json!({}), &["a"], &["p@a failed"], "-p failed"),
        ("one that ended", json!({}), &["a"], &["p@a succeeded"], "-p ended"),
        ("the node is gone: a pod that waits for it goes", json!({}), &["a"], &["p@a", "q@b unbound"], "-q"),
        (
            "the node is gone: who clears up after nodes removes its pods",
            json!({}),
            &["a"],
            &["p@a", "q@b"],
            "",
        ),
        (
            "a selector of nodes",
            pod_spec(json!({"containers": [], "nodeSelector": {"disk": "ssd"}})),
            &["a disk=ssd", "b"],
            &["q@b"],
            "-q +a",
        ),
        ("a taint keeps new pods out", json!({}), &["a taint:mine=NoSchedule"], &[], ""),
        ("a taint lets old pods stay", json!({}), &["a taint:mine=NoSchedule"], &["p@a"], ""),
        ("a taint drives pods away", json!({}), &["a taint:mine=NoExecute"], &["p@a"], "-p"),
        ("a cordon is borne", json!({}), &["a taint:node.kubernetes.io/unschedulable=NoSchedule"], &[], "+a"),
        (
            "a node that is lost keeps its pod",
            json!({}),
            &["a taint:node.kubernetes.io/unreachable=NoExecute"],
            &["p@a"],
            "",
        ),
        (
            "no network: only for pods of the node's",
            json!({}),
            &["a taint:node.kubernetes.io/network-unavailable=NoSchedule"],
            &[],
            "",
        ),
        (
            "no network: pods of the node's network come",
            pod_spec(json!({"containers": [], "hostNetwork": true})),
            &["a taint:node.kubernetes.io/network-unavailable=NoSchedule"],
            &[],
            "+a",
        ),
        (
            "an update, one at a time",
            json!({}),
            &["a", "b", "c"],
            &["p@a old", "q@b old", "r@c"],
            "-p outdated",
        ),
        ("the next waits", json!({}), &["a", "b", "c"], &["p@a unready", "q@b old", "r@c old"], ""),
        (
            "what does not work is replaced at once",
            json!({}),
            &["a", "b", "c"],
            &["p@a unready", "q@b old unready", "r@c old"],
            "-q outdated",
        ),
        (
            "half of them",
            rolling(json!({"maxUnavailable": "50%"})),
            &["a", "b", "c"],
            &["p@a old", "q@b old", "r@c old"],
            "-p outdated -q outdated",
        ),
        ("on delete: nothing", json!({"updateStrategy": {"type": "OnDelete"}}), &["a"], &["p@a old"], ""),
        ("an old pod where no new one may come", json!({}), &["a taint:mine=NoSchedule"], &["p@a old"], ""),
        ("surge: the new one comes first", surge(), &["a", "b"], &["p@a old", "q@b old"], "+a"),
        ("surge: it is waited for", surge(), &["a", "b"], &["p@a old", "n@a unready", "q@b old"], ""),
        (
            "surge: then the old one goes, and the next comes",
            surge(),
            &["a", "b"],
            &["p@a old", "n@a", "q@b old"],
            "-p +b",
        ),
        (
            "surge: an old one that does not work goes first",
            surge(),
            &["a"],
            &["p@a old unready", "n@a unready"],
            "-p",
        ),
    ];
    for (what, change, nodes, pods, expected) in rows {
        assert_eq!(shown(&decided(&set(change), nodes, pods)), expected, "{what}");
    }
}

#[test]
fn a_set_that_goes_or_selects_nothing_does_nothing() {
    let mut leaving = set(json!({}));
    leaving.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    assert_eq!(shown(&decided(&leaving, &["a"], &[])), "");
    assert_eq!(shown(&decided(&set(json!({"selector": {}})), &["a"], &[])), "");
}

#[test]
fn the_status_counts_nodes() {
    let set = set(json!({"minReadySeconds": 10}));
    let nodes = ["a", "b", "c", "d", "e taint:mine=NoSchedule"];
    let decision = decided(&set, &nodes, &["p@a", "q@b old ready=4", "r@c unready", "s@e"]);
    assert_eq!(
        serde_json::to_value(&decision.status).expect("JSON"),
        json!({
            "desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberMisscheduled": 1, "numberReady": 2,
            "updatedNumberScheduled": 2, "numberAvailable": 1, "numberUnavailable": 3, "observedGeneration": 3,
        })
    );
    assert_eq!(decision.look_again, Some(Duration::from_secs(6)));
}

#[test]
fn a_pod_asks_for_its_node_and_bears_its_troubles() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
    ]}}});
    let mut set = set(pod_spec(json!({"containers": [], "affinity": affinity})));
    assert_eq!(suits(&set, &node("a disk=ssd")), Suits::Yes);
    assert_eq!(suits(&set, &node("a")), Suits::No);
    set.metadata.annotations =
        Some([("deprecated.daemonset.template.generation".to_owned(), "7".to_owned())].into());
    let pod = new_pod(&set, "hash", "a");
    assert_eq!(node_of(&pod), Some("a"));
    let object = serde_json::to_value(&pod).expect("JSON");
    assert_eq!(object["metadata"]["generateName"], "agent-");
    assert_eq!(
        object["metadata"]["labels"],
        json!({"app": "agent", "controller-revision-hash": "hash", "pod-template-generation": "7"})
    );
    assert_eq!(
        object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
        json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]})
    );
    let tolerations: Vec<String> = object["spec"]["tolerations"]
        .as_array()
        .expect("tolerations")
        .iter()
        .map(|one| {
            format!(
                "{}:{}",
                one["key"].as_str().unwrap_or_default(),
                one["effect"].as_str().unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        tolerations,
        [
            "node.kubernetes.io/not-ready:NoExecute",
            "node.kubernetes.io/unreachable:NoExecute",
            "node.kubernetes.io/disk-pressure:NoSchedule",
            "node.kubernetes.io/memory-pressure:NoSchedule",
            "node.kubernetes.io/pid-pressure:NoSchedule",
            "node.kubernetes.io/unschedulable:NoSchedule",
        ]
    );
}
