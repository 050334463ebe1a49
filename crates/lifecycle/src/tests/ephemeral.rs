//! Ephemeral containers: added later, started once, and nothing of the pod depends on them.

use serde_json::{Value, json};

use super::{World, container};
use crate::{ContainerPhase, ContainerRole, any_container, container_role};

fn add(world: &mut World, name: &str, target: &str) {
    let one = json!({"name": name, "image": "i", "targetContainerName": target});
    let spec = world.pod.spec.as_mut().expect("a spec");
    let added = serde_json::from_value(one).expect("an ephemeral container");
    spec.ephemeral_containers.get_or_insert_default().push(added);
}

fn states(status: &Value) -> Vec<(&str, bool)> {
    let list = status["ephemeralContainerStatuses"].as_array().expect("statuses");
    list.iter()
        .map(|one| (one["name"].as_str().expect("a name"), one["state"]["running"].is_object()))
        .collect()
}

#[test]
fn an_ephemeral_container_starts_once_whatever_the_others_do() {
    let mut world =
        World::with_sandbox(json!({"initContainers": [container("i")], "containers": [container("a")]}));
    world.start("i");
    add(&mut world, "debug", "i");
    assert_eq!(world.words(), ["start debug-0"], "although the pod is not initialized");
    world.start("debug");
    assert_eq!(states(&world.status()), [("debug", true)]);
    world.end("debug", 3);
    assert!(world.words().is_empty(), "it never starts again");
    let status = world.status();
    let shown = &status["ephemeralContainerStatuses"][0];
    assert_eq!(shown["state"]["terminated"]["exitCode"], 3);
    assert_eq!((shown["ready"].as_bool(), shown["restartCount"].as_i64()), (Some(false), Some(0)));
    assert!(shown["started"].is_null());
}

#[test]
fn rules_and_policies_do_not_start_an_ephemeral_container_again() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    let hostile = json!({"name": "debug", "image": "i", "restartPolicy": "Always", "restartPolicyRules": [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}]});
    world.pod.spec.as_mut().expect("a spec").ephemeral_containers =
        Some(vec![serde_json::from_value(hostile).expect("an ephemeral container")]);
    world.start("debug");
    world.end("debug", 1);
    assert!(world.words().is_empty());
}

#[test]
fn the_phase_does_not_depend_on_an_ephemeral_container_but_a_pod_has_not_ended_while_it_runs() {
    let mut world = World::with_sandbox(json!({"restartPolicy": "Never", "containers": [container("a")]}));
    world.start("a");
    add(&mut world, "debug", "a");
    world.start("debug");
    assert_eq!(world.status()["phase"], "Running");
    world.end("a", 0);
    assert_eq!(world.words(), ["stop debug-0 in 30"], "all containers have ended, so the pod ends");
    assert_eq!(world.status()["phase"], "Running");
    world.end("debug", 9);
    assert_eq!(world.status()["phase"], "Succeeded");
}

#[test]
fn an_ephemeral_container_of_a_lost_sandbox_does_not_start_in_the_next() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    add(&mut world, "debug", "a");
    world.start("debug");
    world.runtime.sandboxes[0].ready = false;
    world.end("a", 137);
    world.end("debug", 137);
    assert_eq!(world.words(), ["stop sandbox-0", "sandbox 1"]);
    world.create_sandbox();
    assert_eq!(world.words(), ["start a-1"]);
}

#[test]
fn one_that_was_created_and_not_started_is_started() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    add(&mut world, "debug", "");
    world.start("debug");
    world.memory.containers.remove("debug");
    world.runtime.containers[1].phase = ContainerPhase::Created;
    assert_eq!(world.words(), ["remove debug-0", "start debug-0"]);
}

#[test]
fn a_deleted_pod_stops_its_ephemeral_containers_with_the_others() {
    let mut world = World::with_sandbox(json!({
        "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}], "containers": [container("a")],
    }));
    world.start("side");
    world.start("a");
    add(&mut world, "debug", "");
    world.start("debug");
    world.memory.note_object(&world.pod.clone(), true, world.now);
    assert_eq!(world.words(), ["stop a-0 in 30", "stop debug-0 in 30"]);
}

#[test]
fn containers_of_all_lists_are_found_by_name_with_their_role_and_target() {
    let mut world = World::new(json!({
        "initContainers": [container("i"), {"name": "s", "image": "i", "restartPolicy": "Always"}],
        "containers": [container("a")],
    }));
    add(&mut world, "debug", "a");
    let rows = [
        ("i", ContainerRole::Init, "spec.initContainers{i}"),
        ("s", ContainerRole::Sidecar, "spec.initContainers{s}"),
        ("a", ContainerRole::App, "spec.containers{a}"),
        ("debug", ContainerRole::Ephemeral, "spec.ephemeralContainers{debug}"),
    ];
    for (name, role, path) in rows {
        let found = any_container(&world.pod, name).expect("found");
        assert_eq!((found.role, container_role(&world.pod, name)), (role, Some(role)));
        assert_eq!(role.field_path(name), path);
    }
    assert_eq!(any_container(&world.pod, "debug").expect("found").target, Some("a"));
    assert!(any_container(&world.pod, "none").is_none());
}
