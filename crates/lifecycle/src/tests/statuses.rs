//! What is shown.

use serde_json::{Value, json};

use super::{World, container};

fn condition<'a>(status: &'a Value, type_: &str) -> (&'a str, &'a str, &'a str) {
    let condition = status["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .find(|condition| condition["type"] == type_)
        .expect("the condition");
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

#[test]
fn a_pod_waits_for_its_containers_and_then_runs_and_is_ready() {
    let mut world = World::new(json!({"containers": [container("a")]}));
    let status = world.status();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    assert_eq!(
        condition(&status, "Ready"),
        ("False", "ContainersNotReady", "containers with unready status: [a]")
    );
    world.create_sandbox();
    world.start("a");
    let status = world.status();
    assert_eq!(status["phase"], "Running");
    assert_eq!(condition(&status, "Ready").0, "True");
    assert_eq!(condition(&status, "PodReadyToStartContainers").0, "True");
    assert_eq!(status["podIP"], "10.42.0.7");
    assert_eq!(status["hostIP"], "192.0.2.1");
    assert_eq!(status["containerStatuses"][0]["containerID"], "coracle://a-0");
}

#[test]
fn init_containers_are_shown_as_such() {
    let mut world =
        World::with_sandbox(json!({"initContainers": [container("i")], "containers": [container("a")]}));
    world.start("i");
    let status = world.status();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(
        condition(&status, "Initialized"),
        ("False", "ContainersNotInitialized", "containers with incomplete status: [i]")
    );
    world.end("i", 0);
    let status = world.status();
    assert_eq!(condition(&status, "Initialized").0, "True");
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    assert_eq!(status["initContainerStatuses"][0]["ready"], true);
}

#[test]
fn a_failed_start_shows_its_reason_and_the_pod_stays_pending() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    let message = "configmap \"c\" not found".to_owned();
    world.memory.note_start_failed("a", "CreateContainerConfigError", message, world.now);
    let status = world.status();
    assert_eq!(status["phase"], "Pending");
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "CreateContainerConfigError");
    assert_eq!(waiting["message"], "configmap \"c\" not found");
    assert_eq!(status["containerStatuses"][0]["restartCount"], 0);
}

#[test]
fn a_restarted_container_shows_how_the_last_instance_ended_and_the_back_off() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    world.end("a", 7);
    world.plan();
    world.start("a");
    let status = world.status();
    let shown = &status["containerStatuses"][0];
    assert_eq!(shown["restartCount"], 1);
    assert_eq!(shown["lastState"]["terminated"]["exitCode"], 7);
    assert_eq!(shown["lastState"]["terminated"]["reason"], "Error");
    world.end("a", 8);
    let status = world.status();
    let shown = &status["containerStatuses"][0];
    assert_eq!(shown["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(
        shown["state"]["waiting"]["message"],
        "back-off 10s restarting failed container=a pod=p_ns(u)"
    );
    assert_eq!(shown["lastState"]["terminated"]["exitCode"], 8);
    assert_eq!(status["phase"], "Running");
}

#[test]
fn phases_of_pods_that_have_ended_follow_from_all_exit_statuses() {
    for (codes, phase) in [([0, 0], "Succeeded"), ([0, 3], "Failed")] {
        let mut world = World::with_sandbox(
            json!({"restartPolicy": "Never", "containers": [container("a"), container("b")]}),
        );
        world.start("a");
        world.start("b");
        world.end("a", codes[0]);
        assert_eq!(world.status()["phase"], "Running");
        world.end("b", codes[1]);
        let status = world.status();
        assert_eq!(status["phase"], phase);
        let reason = if phase == "Succeeded" { "PodCompleted" } else { "PodFailed" };
        assert_eq!(condition(&status, "Ready"), ("False", reason, ""));
    }
}

#[test]
fn a_deadline_shows_when_nothing_runs_any_more() {
    let mut world = World::with_sandbox(json!({"activeDeadlineSeconds": 5, "containers": [container("a")]}));
    world.start("a");
    world.pass(6);
    world.plan();
    assert_eq!(world.status()["phase"], "Running");
    world.end("a", 143);
    let status = world.status();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["reason"], "DeadlineExceeded");
    assert_eq!(status["message"], "Pod was active on the node longer than the specified deadline");
}

#[test]
fn an_evicted_pod_has_failed_whatever_its_containers_say_and_tells_what_it_took_too_much_of() {
    let mut world = World::with_sandbox(json!({"restartPolicy": "Always", "containers": [container("a")]}));
    world.start("a");
    let message = "Usage of EmptyDir volume \"v\" exceeds the limit \"10Mi\". ";
    assert!(world.memory.note_evicted(message, world.now));
    assert!(!world.memory.note_evicted("something else", world.now), "it is told once");
    assert_eq!(world.status()["phase"], "Running");
    world.end("a", 0);
    let status = world.status();
    assert_eq!(status["phase"], "Failed");
    assert_eq!((&status["reason"], &status["message"]), (&json!("Evicted"), &json!(message)));
    assert_eq!(condition(&status, "DisruptionTarget"), ("True", "TerminationByKubelet", message));
}

#[test]
fn a_readiness_probe_that_has_not_succeeded_leaves_the_pod_running_and_unready() {
    let probe = json!({"exec": {"command": ["x"]}});
    let mut world =
        World::with_sandbox(json!({"containers": [{"name": "a", "image": "i", "readinessProbe": probe}]}));
    world.start("a");
    let status = world.status();
    assert_eq!((status["phase"].as_str(), condition(&status, "Ready").0), (Some("Running"), "False"));
}

#[test]
fn a_pod_with_a_readiness_gate_waits_for_its_condition() {
    let mut world = World::with_sandbox(json!({
        "readinessGates": [{"conditionType": "x.example/a"}, {"conditionType": "x.example/b"}],
        "containers": [container("a")],
    }));
    world.start("a");
    let missing = |name: &str| {
        format!("corresponding condition of pod readiness gate \"x.example/{name}\" does not exist.")
    };
    let both = format!("{}, {}", missing("a"), missing("b"));
    let status = world.status();
    assert_eq!(condition(&status, "Ready"), ("False", "ReadinessGatesNotReady", both.as_str()));
    assert_eq!(condition(&status, "ContainersReady").0, "True");
    let conditions = json!({"conditions": [
        {"type": "x.example/a", "status": "True"}, {"type": "x.example/b", "status": "Unknown"}]});
    world.pod.status = serde_json::from_value(conditions).expect("a status");
    let status = world.status();
    let message = "the status of pod readiness gate \"x.example/b\" is not \"True\", but Unknown";
    assert_eq!(condition(&status, "Ready"), ("False", "ReadinessGatesNotReady", message));
    let conditions = json!({"conditions": [
        {"type": "x.example/a", "status": "True"}, {"type": "x.example/b", "status": "True"}]});
    world.pod.status = serde_json::from_value(conditions).expect("a status");
    let status = world.status();
    assert_eq!(condition(&status, "Ready").0, "True");
    assert_eq!(condition(&status, "x.example/a").0, "True", "conditions of others are kept");
}

#[test]
fn times_of_conditions_change_only_with_their_status() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    let first = world.status();
    world.pod.status = serde_json::from_value(first.clone()).expect("a status");
    world.pass(60);
    let second = world.status();
    assert_eq!(first["conditions"], second["conditions"]);
}

#[test]
fn a_deleted_pod_that_never_ran_ends_as_failed() {
    let mut world = World::new(json!({"containers": [container("a")]}));
    world.memory.note_object(&world.pod.clone(), true, world.now);
    assert_eq!(world.status()["phase"], "Failed");
}
