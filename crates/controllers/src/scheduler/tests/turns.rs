//! Whose turn it is, and when.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::board::Act;
use super::{Desk, asks, labelled, node, on, pod};

fn small(name: &str) -> Value {
    node(name, json!({"status": {"allocatable": {"cpu": "1"}}}))
}

const FULL: &str = "0/1 nodes are available: 1 Insufficient cpu";

#[test]
fn only_pods_that_wait_for_this_scheduler_are_bound() {
    let rows = [
        (json!({}), "n"),
        (json!({"schedulerName": "default-scheduler"}), "n"),
        (json!({"schedulerName": "mine"}), ""),
        (json!({"nodeName": "elsewhere"}), ""),
        (json!({"schedulingGates": [{"name": "g"}]}), ""),
    ];
    for (spec, expected) in rows {
        assert_eq!(Desk::new(&[small("n")]).outcome(&pod("p", spec.clone())), expected, "{spec}");
    }
    let mut going = pod("p", json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(Desk::new(&[small("n")]).outcome(&going), "");
}

#[test]
fn a_pod_that_does_not_fit_is_told_once_and_bound_when_another_goes() {
    let mut desk = Desk::new(&[small("n")]);
    desk.see(&pod("a", asks("700m")));
    assert_eq!(desk.turn(), ["a: n"]);
    assert_eq!(desk.outcome(&pod("b", asks("700m"))), FULL);
    desk.see(&pod("a", asks("700m")));
    assert!(desk.turn().is_empty(), "an old version of a bound pod is not bound again");
    desk.see(&on(pod("a", asks("700m")), "n"));
    desk.see(&labelled(pod("b", asks("700m")), json!({"new": "label"})));
    assert!(desk.turn().is_empty(), "nothing new is to be said");
    let mut ended = on(pod("a", asks("700m")), "n");
    ended["status"] = json!({"phase": "Succeeded"});
    desk.see(&ended);
    assert_eq!(desk.turn(), ["b: n"]);
}

#[test]
fn a_pod_is_bound_when_its_node_or_itself_has_changed() {
    let mut desk = Desk::new(&[node("n", json!({"status": {"allocatable": {"cpu": "2"}}}))]);
    desk.see(&pod("big", asks("4")));
    desk.see(&pod("picky", json!({"nodeSelector": {"disk": "hdd"}})));
    desk.see(&pod("gated", json!({"schedulingGates": [{"name": "g"}]})));
    assert_eq!(desk.turn().len(), 2);
    desk.see(&pod("gated", json!({})));
    assert_eq!(desk.turn(), ["gated: n"]);
    desk.node(&node("n", json!({"status": {"allocatable": {"cpu": "8"}}})));
    assert_eq!(desk.turn(), ["big: n"]);
    desk.node(&node(
        "n",
        json!({"metadata": {"labels": {"disk": "hdd"}}, "status": {"allocatable": {"cpu": "8"}}}),
    ));
    assert_eq!(desk.turn(), ["picky: n"]);
}

#[test]
fn only_what_can_help_has_a_pod_looked_at_again() {
    let cordoned = node("n", json!({"spec": {"unschedulable": true}}));
    let mut desk = Desk::new(std::slice::from_ref(&cordoned));
    desk.see(&on(pod("x", asks("1")), "n"));
    desk.see(&pod("p", json!({})));
    assert_eq!(desk.turn().len(), 1);
    let looks = desk.board.looks();
    desk.board.forget_pod("x");
    desk.node(&cordoned);
    desk.board.see_namespace("ns", Some(std::iter::once(("a".to_owned(), "b".to_owned())).collect()));
    assert!(desk.turn().is_empty());
    assert_eq!(desk.board.looks(), looks, "none of that takes a cordon away");
    desk.node(&node("n", json!({})));
    assert_eq!(desk.turn(), ["p: n"]);
}

#[test]
fn more_important_pods_come_first_and_then_older_ones() {
    let mut desk = Desk::new(&[node("n", json!({}))]);
    let at = |name: &str, priority: i32, time: &str| {
        let mut pod = pod(name, json!({"priority": priority}));
        pod["metadata"]["creationTimestamp"] = json!(time);
        pod
    };
    desk.see(&at("young", 0, "2026-01-02T00:00:00Z"));
    desk.see(&at("old", 0, "2026-01-01T00:00:00Z"));
    desk.see(&at("high", 5, "2026-01-03T00:00:00Z"));
    desk.see(&at("low", -5, "2026-01-01T00:00:00Z"));
    assert_eq!(desk.turn(), ["high: n", "old: n", "young: n", "low: n"]);
}

#[test]
fn a_binding_that_failed_is_tried_again_later_and_later_and_takes_no_room_meanwhile() {
    let mut desk = Desk::new(&[small("n")]);
    desk.see(&pod("p", asks("1")));
    for pause in [1, 2, 4, 8, 10, 10] {
        assert!(matches!(desk.board.next(desk.now), Some(Act::Bind { .. })));
        desk.board.not_bound("p", desk.now);
        assert!(desk.board.next(desk.now).is_none());
        assert_eq!(desk.board.due(desk.now), Some(desk.now + Duration::from_secs(pause)));
        desk.later(pause);
    }
    let Some(Act::Bind { .. }) = desk.board.next(desk.now) else { panic!("it is tried again") };
    desk.board.not_bound("p", desk.now);
    assert_eq!(desk.outcome(&pod("q", asks("1"))), "n", "there is room for another");
    // The binding had come about all the same: the answer was lost.
    desk.board.forget_pod("q");
    desk.see(&on(pod("p", asks("1")), "n"));
    desk.later(60);
    assert!(desk.turn().is_empty());
    assert_eq!(desk.outcome(&pod("r", asks("1"))), FULL);
}

#[test]
fn a_pod_that_is_deleted_while_it_is_bound_leaves_no_trace() {
    let mut desk = Desk::new(&[small("n")]);
    desk.see(&pod("p", asks("1")));
    assert!(matches!(desk.board.next(desk.now), Some(Act::Bind { .. })));
    desk.board.forget_pod("p");
    desk.board.not_bound("p", desk.now);
    assert_eq!(desk.board.due(desk.now), None);
    assert_eq!(desk.outcome(&pod("q", asks("1"))), "n");
}

#[test]
fn a_message_that_changes_often_is_said_once_a_second_as_it_is_then() {
    let mut desk = Desk::new(&[small("n")]);
    assert_eq!(desk.outcome(&pod("p", asks("2"))), FULL);
    let cordon = |yes: bool| {
        node("n", json!({"spec": {"unschedulable": yes}, "status": {"allocatable": {"cpu": "1"}}}))
    };
    desk.node(&node("n", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "status": {"allocatable": {"cpu": "3"}}})));
    assert!(desk.turn().is_empty(), "too soon");
    desk.node(&cordon(true));
    assert!(desk.turn().is_empty(), "still too soon");
    assert_eq!(desk.board.due(desk.now), Some(desk.now + Duration::from_secs(1)));
    desk.later(1);
    let said = desk.turn();
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("p: 0/1 nodes are available: 1 node(s) were unschedulable."), "{said:?}");
    assert_eq!(desk.board.due(desk.now), None);
}

#[test]
fn a_thousand_pods_of_one_template_that_fit_nowhere_cost_one_look() {
    let mut desk = Desk::new(&[small("n")]);
    desk.see(&on(pod("first", asks("1")), "n"));
    for number in 0..1000 {
        desk.see(&pod(&format!("p{number}"), asks("1")));
    }
    assert_eq!(desk.turn().len(), 1000);
    assert_eq!(desk.board.looks(), 1);
    desk.board.forget_pod("first");
    let done = desk.turn();
    assert_eq!(done.len(), 1, "{done:?}");
    assert_eq!(desk.board.looks(), 3, "one was placed, one more was refused for all others");
}
