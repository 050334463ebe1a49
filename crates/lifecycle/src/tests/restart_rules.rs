//! Restart rules of containers, and pods whose containers all start again together.

use serde_json::{Value, json};

use super::{World, container};
use crate::{AfterExit, after_exit, pod_container};

fn rule(action: &str, operator: &str, values: &[i32]) -> Value {
    json!({"action": action, "exitCodes": {"operator": operator, "values": values}})
}

fn ruled(name: &str, policy: &str, rules: &[Value]) -> Value {
    json!({"name": name, "image": "i", "restartPolicy": policy, "restartPolicyRules": rules})
}

#[test]
fn the_first_rule_that_matches_decides_and_else_the_policy() {
    let rules = [
        rule("Restart", "In", &[1, 2]),
        rule("RestartAllContainers", "In", &[2, 3]),
        rule("Unheard", "In", &[5]),
        rule("Restart", "NotIn", &[0, 4, 5]),
    ];
    // policy, exit status, ended by a probe, what follows
    let rows = [
        ("Never", 1, false, AfterExit::Restart),
        ("Never", 2, false, AfterExit::Restart),
        ("Never", 3, false, AfterExit::RestartAll),
        ("Never", 4, false, AfterExit::Stay),
        ("Never", 5, false, AfterExit::Stay),
        ("Never", 6, false, AfterExit::Restart),
        ("Never", 0, false, AfterExit::Stay),
        ("OnFailure", 0, false, AfterExit::Stay),
        ("OnFailure", 4, false, AfterExit::Restart),
        ("Always", 0, false, AfterExit::Restart),
        ("Never", 1, true, AfterExit::Stay),
        ("OnFailure", 0, true, AfterExit::Restart),
    ];
    for (policy, code, probe, expected) in rows {
        let world = World::new(json!({"containers": [ruled("a", policy, &rules)]}));
        let container = pod_container(&world.pod, "a").expect("there");
        assert_eq!(after_exit(&world.pod, container, code, probe), expected, "{policy} {code} {probe}");
    }
}

#[test]
fn policies_of_containers_come_before_that_of_the_pod() {
    // pod, container, exit status, again
    let rows = [
        ("Never", "Always", 0, true),
        ("Never", "OnFailure", 0, false),
        ("Never", "OnFailure", 1, true),
        ("Always", "Never", 1, false),
        ("Always", "OnFailure", 0, false),
        ("OnFailure", "Always", 0, true),
    ];
    for (pod, own, code, again) in rows {
        let mut world = World::with_sandbox(json!({
            "restartPolicy": pod, "containers": [ruled("a", own, &[]), container("b")],
        }));
        world.start("a");
        world.start("b");
        world.end("a", code);
        let expected: &[&str] = if again { &["start a-1"] } else { &[] };
        assert_eq!(world.words(), expected, "{pod} {own} {code}");
    }
}

#[test]
fn a_pod_that_never_restarts_but_one_of_whose_containers_does_has_not_ended() {
    let mut world = World::with_sandbox(json!({
        "restartPolicy": "Never", "containers": [ruled("a", "Never", &[rule("Restart", "In", &[42])])],
    }));
    world.start("a");
    world.end("a", 42);
    assert_eq!(world.words(), ["start a-1"]);
    assert_eq!(world.status()["phase"], "Running");
    world.start("a");
    world.end("a", 1);
    assert_eq!(world.words(), ["stop sandbox-0", "clear"]);
    assert_eq!(world.status()["phase"], "Failed");
}

fn world_of_four() -> World {
    let mut world = World::with_sandbox(json!({
        "restartPolicy": "Never",
        "initContainers": [container("i"), {"name": "side", "image": "i", "restartPolicy": "Always"}],
        "containers": [ruled("a", "Never", &[rule("RestartAllContainers", "In", &[42])]), container("b")],
    }));
    world.start("i");
    world.end("i", 0);
    world.plan();
    for name in ["side", "a", "b"] {
        world.start(name);
    }
    world.plan();
    world
}

#[test]
fn all_containers_are_stopped_at_once_and_start_again_in_order_in_the_same_sandbox() {
    let mut world = world_of_four();
    world.end("a", 42);
    assert_eq!(world.words(), ["stop side-0 in 0", "stop b-0 in 0"], "without grace");
    let status = world.status();
    assert_eq!(status["phase"], "Running");
    let condition = status["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .find(|condition| condition["type"] == "AllContainersRestarting")
        .expect("it is told");
    assert_eq!(
        (condition["status"].as_str(), condition["reason"].as_str()),
        (Some("True"), Some("ContainerExited"))
    );
    world.pod.status = serde_json::from_value(status).expect("a status");
    world.end("side", 143);
    world.end("b", 0);
    assert_eq!(world.words(), ["start i-1"]);
    let status = world.status();
    let b = &status["containerStatuses"][1];
    assert_eq!(b["state"]["waiting"]["reason"], "RestartingAllContainers");
    assert_eq!(
        b["state"]["waiting"]["message"],
        "The container is removed because RestartAllContainers in place"
    );
    assert_eq!(b["lastState"]["terminated"]["exitCode"], 137);
    assert_eq!(b["lastState"]["terminated"]["reason"], "RestartingAllContainers");
    assert_eq!(status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 42);
    world.start("i");
    assert!(world.words().is_empty(), "init containers run before the others, again");
    world.end("i", 0);
    assert_eq!(world.words(), ["start side-1"]);
    world.start("side");
    assert_eq!(world.words(), ["start a-1", "start b-1"]);
    world.start("a");
    world.start("b");
    assert!(world.words().is_empty());
    let status = world.status();
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["containerStatuses"][1]["restartCount"], 1);
    let told = status["conditions"].as_array().expect("conditions");
    let condition = told.iter().find(|condition| condition["type"] == "AllContainersRestarting");
    assert_eq!(condition.expect("still there")["status"], "False");
}

#[test]
fn a_pod_whose_containers_restart_together_in_a_loop_waits_between() {
    let mut world = world_of_four();
    for _ in 0..2 {
        world.end("a", 42);
        world.plan();
        world.end("side", 143);
        world.end("b", 143);
        world.plan();
        world.start("i");
        world.end("i", 0);
        world.plan();
        for name in ["side", "a", "b"] {
            world.start(name);
        }
        world.plan();
    }
    world.end("a", 42);
    world.plan();
    world.end("side", 143);
    world.end("b", 143);
    assert!(world.words().iter().all(|word| !word.starts_with("start")), "the third time it waits");
    world.pass(20);
    assert!(world.words().contains(&"start i-3".to_owned()));
}

#[test]
fn a_daemon_that_ends_while_all_are_stopped_goes_on_where_it_was() {
    let mut world = world_of_four();
    world.end("a", 42);
    world.plan();
    let text = serde_json::to_string(&world.memory).expect("memory is JSON");
    world.memory = serde_json::from_str(&text).expect("it reads back");
    assert_eq!(world.words(), ["stop side-0 in 0", "stop b-0 in 0"]);
    world.end("side", 143);
    world.end("b", 143);
    let text = serde_json::to_string(&world.memory).expect("memory is JSON");
    world.memory = serde_json::from_str(&text).expect("it reads back");
    assert_eq!(world.words(), ["start i-1"]);
}

#[test]
fn a_failing_init_container_after_all_were_restarted_fails_a_pod_that_never_restarts() {
    let mut world = world_of_four();
    world.end("a", 42);
    world.plan();
    world.end("side", 143);
    world.end("b", 143);
    world.plan();
    world.start("i");
    world.end("i", 1);
    assert_eq!(world.words(), ["stop sandbox-0", "clear"]);
    assert_eq!(world.status()["phase"], "Failed");
}

#[test]
fn a_pod_that_is_deleted_while_all_are_stopped_stops_for_good() {
    let mut world = world_of_four();
    world.end("a", 42);
    world.plan();
    world.memory.note_object(&world.pod.clone(), true, world.now);
    assert_eq!(world.words(), ["stop b-0 in 30"]);
    world.end("b", 0);
    world.end("side", 0);
    assert_eq!(world.words(), ["stop sandbox-0", "clear", "forget"]);
}
