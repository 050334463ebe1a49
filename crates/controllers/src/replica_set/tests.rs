//! Tables of what is created, deleted and said.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decision::{Failure, Status, Step, Wanted, next_look, status, step, wait_after};
use super::kind::Replicated;
use super::ranking::victims;
use crate::selector::Labels;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A time, so many seconds after the start.
fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

fn wanted(replicas: usize) -> Wanted<'static> {
    Wanted { replicas, min_ready_seconds: 0, template_labels: None, generation: 2, is_leaving: false }
}

/// A pod: name, phase, and what else it is.
fn pod(name: &str, phase: &str, more: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": start().to_string(), "labels": {"app": "web"}},
        "spec": {"containers": []}, "status": {"phase": phase},
    });
    merge(&mut pod, more);
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn ready(since: i64) -> Value {
    json!({
        "spec": {"nodeName": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(since).to_string()}]},
    })
}

fn running(name: &str) -> Arc<Pod> {
    pod(name, "Running", ready(0))
}

fn failed(name: &str, created: i64) -> Arc<Pod> {
    pod(name, "Failed", json!({"metadata": {"creationTimestamp": at(created).to_string()}}))
}

fn leaving(name: &str) -> Arc<Pod> {
    pod(name, "Running", json!({"metadata": {"deletionTimestamp": start().to_string()}}))
}

fn named(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

#[test]
fn what_is_missing_is_created_and_what_is_too_much_is_deleted() {
    let (a, b) = (running("a"), running("b"));
    let rows = [
        ("none of two", 2, vec![], Step::Create(2)),
        ("one of two", 2, vec![a.clone()], Step::Create(1)),
        ("one that leaves does not count", 2, vec![a.clone(), leaving("b")], Step::Create(1)),
        ("one that has ended does not count", 2, vec![a.clone(), failed("b", 0)], Step::Create(1)),
        ("two of two", 2, vec![a.clone(), b.clone()], Step::Nothing),
        ("two of one", 1, vec![a.clone(), b.clone()], Step::Delete(vec![a.clone()])),
        ("two of none", 0, vec![a.clone(), b.clone()], Step::Delete(vec![a.clone(), b.clone()])),
        ("never more than 500 in one look", 2000, vec![], Step::Create(500)),
    ];
    for (name, replicas, pods, expected) in rows {
        assert_eq!(step(&wanted(replicas), &pods, &[], at(10)), expected, "{name}");
    }
    let leaving = Wanted { is_leaving: true, ..wanted(2) };
    assert_eq!(step(&leaving, &[], &[], at(10)), Step::Nothing, "a controller that goes makes no pods");
}

#[test]
fn pods_that_fail_at_once_are_replaced_more_and_more_slowly() {
    let waits: Vec<u64> = [0, 1, 2, 3, 4, 10, 11, 12, 500].map(|n| wait_after(n).as_secs()).into();
    assert_eq!(waits, [0, 0, 1, 2, 4, 256, 300, 300, 300]);
    let all: Vec<_> = (0..6).map(|n| failed(&n.to_string(), n)).collect();
    assert_eq!(step(&wanted(1), &all[..1], &[], at(1)), Step::Create(1), "the first is replaced at once");
    assert_eq!(
        step(&wanted(1), &all[..2], &[], at(1)),
        Step::Wait { until: at(2), failed: 2 },
        "the second a second after it was created"
    );
    assert_eq!(step(&wanted(1), &all[..2], &[], at(2)), Step::Create(1));
    assert_eq!(step(&wanted(1), &all, &[], at(6)), Step::Wait { until: at(5 + 16), failed: 6 });
    assert_eq!(
        step(&wanted(6), &all, &[], at(6)),
        Step::Create(6),
        "each of six failed once: a node that went"
    );
    assert_eq!(step(&wanted(1), &all, &[], at(3605)), Step::Create(1), "after an hour it is forgotten");
    let look = next_look(&wanted(1), &Step::Wait { until: at(21), failed: 6 }, &all, at(6));
    assert_eq!(look, Some(Duration::from_secs(15)));
    let failure = Failure::of(&Step::Wait { until: at(21), failed: 6 }, None).unwrap();
    assert_eq!(
        failure.message,
        "6 pods failed within the last hour; the next is created not before 2026-01-01T00:00:21Z"
    );
}

#[test]
fn an_endless_crash_at_start_makes_few_pods() {
    // A node that refuses each pod at once, looked at whenever there is something to do.
    let (mut pods, mut now) = (Vec::new(), 0);
    while now < 3600 {
        match step(&wanted(1), &pods, &[], at(now)) {
            Step::Create(_) => pods.push(failed(&pods.len().to_string(), now)),
            Step::Wait { until, .. } => now = until.duration_since(start()).as_secs(),
            other => panic!("{other:?}"),
        }
    }
    assert!(pods.len() <= 24, "{} pods in an hour", pods.len());
}

#[test]
fn the_least_useful_pods_go_first() {
    let on = |node: &str| json!({"spec": {"nodeName": node}});
    let with = |mut one: Value, other: Value| {
        merge(&mut one, other);
        one
    };
    let cost = |cost: &str| {
        with(
            ready(0),
            json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}}),
        )
    };
    let restarted = |times: i32| {
        let status = json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": times});
        with(ready(0), json!({"status": {"containerStatuses": [status]}}))
    };
    let created =
        |seconds: i64| with(ready(0), json!({"metadata": {"creationTimestamp": at(seconds).to_string()}}));
    // Each row: who goes first, and who stays.
    let rows = [
        ("unassigned", pod("z", "Pending", json!({})), pod("a", "Pending", on("n"))),
        ("pending", pod("z", "Pending", on("n")), pod("a", "Running", on("n"))),
        ("pending before unknown", pod("z", "Pending", on("n")), pod("a", "Unknown", on("n"))),
        ("unknown before running", pod("z", "Unknown", on("n")), pod("a", "Running", on("n"))),
        ("unready", pod("z", "Running", on("n")), pod("a", "Running", ready(0))),
        (
            "unready, however dear",
            pod("z", "Running", with(cost("9"), json!({"status": {"conditions": []}}))),
            running("a"),
        ),
        ("cheaper", pod("z", "Running", cost("-3")), running("a")),
        ("no number costs nothing", pod("a", "Running", cost("x")), pod("z", "Running", cost("1"))),
        ("ready later", pod("z", "Running", ready(900)), pod("a", "Running", ready(0))),
        ("ready about as long: by uid", pod("a", "Running", ready(0)), pod("z", "Running", ready(40))),
        ("restarted more often", pod("z", "Running", restarted(3)), pod("a", "Running", restarted(2))),
        ("newer", pod("z", "Running", created(900)), pod("a", "Running", created(0))),
    ];
    for (name, first, second) in rows {
        for pods in [[first.clone(), second.clone()], [second.clone(), first.clone()]] {
            assert_eq!(
                named(&victims(&pods, &pods, 1, at(1000))),
                named(std::slice::from_ref(&first)),
                "{name}"
            );
        }
    }
    // Two on one node: one of these goes, though the third became ready later. Siblings of another replica set count.
    let pods = [
        pod("a", "Running", ready(0)),
        pod("b", "Running", ready(0)),
        pod("c", "Running", with(ready(900), on("other"))),
    ];
    assert_eq!(named(&victims(&pods, &pods, 1, at(1000))), ["a"]);
    let siblings: Vec<_> = pods
        .iter()
        .cloned()
        .chain((0..3).map(|n| pod(&format!("s{n}"), "Running", on("other"))))
        .chain([
            pod("gone", "Failed", on("n")),
            pod("gone2", "Failed", on("n")),
            pod("gone3", "Failed", on("n")),
        ])
        .collect();
    assert_eq!(named(&victims(&pods, &siblings, 1, at(1000))), ["c"]);
}

#[test]
fn a_status_counts_what_lives() {
    let labels: Labels = [("app".to_owned(), "web".to_owned())].into();
    let wanted = Wanted { min_ready_seconds: 30, template_labels: Some(&labels), ..wanted(3) };
    let pods = [
        running("long"),
        pod("short", "Running", ready(50)),
        pod("pending", "Pending", json!({})),
        pod("relabelled", "Running", json!({"metadata": {"labels": {"app": "other"}}})),
        leaving("leaving"),
        failed("failed", 0),
    ];
    let said = status(&wanted, &pods, None, &Status::default(), at(60));
    assert_eq!(
        said,
        Status {
            replicas: 4,
            fully_labeled: 3,
            ready: 2,
            available: 1,
            terminating: Some(1),
            observed_generation: 2,
            conditions: Vec::new(),
        }
    );
    assert_eq!(next_look(&wanted, &Step::Nothing, &pods, at(60)), Some(Duration::from_secs(20)));
    assert_eq!(next_look(&wanted, &Step::Nothing, &pods[2..], at(60)), None, "nothing to wait for");
}

#[test]
fn a_failure_is_said_once_and_taken_back() {
    let create = Step::Create(1);
    let failure = |said: &str| Failure::of(&create, Some(said.to_owned()));
    let wanted = wanted(1);
    let first = status(&wanted, &[], failure("pods \"web-1\" is forbidden"), &Status::default(), at(0));
    assert_eq!(first.conditions.len(), 1);
    assert_eq!(first.conditions[0].type_, "ReplicaFailure");
    assert_eq!(first.conditions[0].reason.as_deref(), Some("FailedCreate"));
    let second = status(&wanted, &[], failure("pods \"web-2\" is forbidden"), &first, at(9));
    assert_eq!(second, first, "the same again is no news, so nothing is written");
    let other = Failure::of(&Step::Delete(Vec::new()), Some("no".to_owned()));
    let third = status(&wanted, &[], other, &first, at(9));
    assert_eq!(third.conditions[0].reason.as_deref(), Some("FailedDelete"));
    assert_eq!(status(&wanted, &[], None, &third, at(10)).conditions, []);
    assert_eq!(Failure::of(&create, None), None);
}

#[test]
fn both_kinds_say_what_they_have_in_their_own_status() {
    let said = Status {
        replicas: 2,
        fully_labeled: 2,
        ready: 1,
        available: 0,
        terminating: Some(1),
        observed_generation: 7,
        conditions: Vec::new(),
    };
    let set = ReplicaSet::default().with_status(said.clone());
    assert_eq!(set.status(), said);
    assert_eq!(
        serde_json::to_value(&set).unwrap()["status"],
        json!({
            "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "terminatingReplicas": 1, "observedGeneration": 7
        })
    );
    let controller = ReplicationController::default().with_status(said.clone());
    assert_eq!(controller.status(), Status { terminating: None, ..said });
}
