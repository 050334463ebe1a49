//! What is decided.

use serde_json::json;

use super::{World, container};
use crate::{Action, BootTime, ContainerHealth, ContainerPhase, StopCause};

#[test]
fn a_new_pod_gets_a_sandbox_first_and_then_its_containers_in_order() {
    let mut world = World::new(json!({"containers": [container("a"), container("b")]}));
    assert_eq!(world.words(), ["sandbox 0"]);
    world.create_sandbox();
    assert_eq!(world.words(), ["start a-0", "start b-0"]);
    world.start("a");
    world.start("b");
    assert!(world.words().is_empty());
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_open_the_way_when_they_run() {
    let mut world = World::with_sandbox(json!({
        "initContainers": [container("first"), {"name": "side", "image": "i", "restartPolicy": "Always"}, container("last")],
        "containers": [container("app")],
    }));
    assert_eq!(world.words(), ["start first-0"]);
    world.start("first");
    assert!(world.words().is_empty(), "nothing starts while it runs");
    world.end("first", 0);
    assert_eq!(world.words(), ["start side-0"]);
    world.start("side");
    assert_eq!(world.words(), ["start last-0"]);
    world.start("last");
    world.end("last", 0);
    assert_eq!(world.words(), ["start app-0"]);
}

#[test]
fn a_sidecar_with_a_startup_probe_opens_the_way_when_the_probe_has_succeeded() {
    let mut world = World::with_sandbox(json!({
        "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["x"]}}}],
        "containers": [container("app")],
    }));
    let id = world.start("side");
    assert!(world.words().is_empty());
    world.health.insert(id, ContainerHealth { started: true, ready: true, ..ContainerHealth::default() });
    assert_eq!(world.words(), ["start app-0"]);
}

#[test]
fn a_finished_init_container_does_not_run_again_when_the_runtime_has_lost_it() {
    let mut world =
        World::with_sandbox(json!({"initContainers": [container("i")], "containers": [container("app")]}));
    world.start("i");
    world.end("i", 0);
    world.plan();
    world.runtime.containers.clear();
    assert_eq!(world.words(), ["start app-0"]);
}

#[test]
fn init_containers_run_again_in_a_new_sandbox() {
    let mut world =
        World::with_sandbox(json!({"initContainers": [container("i")], "containers": [container("app")]}));
    world.start("i");
    world.end("i", 0);
    world.plan();
    world.start("app");
    world.runtime.sandboxes[0].ready = false;
    assert_eq!(world.words(), ["stop app-0 in 30"], "what runs in a dead sandbox is stopped first");
    world.end("app", 137);
    assert_eq!(world.words(), ["stop sandbox-0", "sandbox 1"]);
    world.create_sandbox();
    assert_eq!(world.words(), ["start i-1"]);
}

#[test]
fn restart_policies_decide_on_the_exit_status() {
    let rows = [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 0, false),
        ("Never", 1, false),
    ];
    for (policy, code, again) in rows {
        let mut world = World::with_sandbox(
            json!({"restartPolicy": policy, "containers": [container("a"), container("b")]}),
        );
        world.start("a");
        world.start("b");
        world.end("a", code);
        let expected: &[&str] = if again { &["start a-1"] } else { &[] };
        assert_eq!(world.words(), expected, "{policy} {code}");
    }
}

#[test]
fn a_containers_own_policy_and_rules_come_before_the_pods() {
    let rule = json!({"name": "a", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]});
    for (code, expected) in [(42, vec!["start a-1"]), (1, vec![])] {
        let mut world = World::with_sandbox(json!({"containers": [rule, container("b")]}));
        world.start("a");
        world.start("b");
        world.end("a", code);
        assert_eq!(world.words(), expected, "{code}");
    }
}

#[test]
fn the_second_restart_waits_ten_seconds_and_says_so() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    world.end("a", 1);
    assert_eq!(world.words(), ["start a-1"], "the first restart is immediate");
    world.start("a");
    world.end("a", 1);
    let plan = world.plan();
    assert_eq!(plan.actions.iter().map(super::word).collect::<Vec<_>>(), ["back-off a"]);
    assert_eq!(plan.wake_at, Some(world.now.boot.plus_seconds(10)));
    world.pass(10);
    assert_eq!(world.words(), ["start a-2"]);
}

#[test]
fn a_back_off_that_was_saved_and_read_again_goes_on() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    for _ in 0..3 {
        world.start("a");
        world.end("a", 1);
        world.plan();
    }
    let text = serde_json::to_string(&world.memory).expect("memory is JSON");
    world.memory = serde_json::from_str(&text).expect("it reads back");
    world.pass(19);
    assert_eq!(world.words(), ["back-off a", "remove a-0"]);
    world.pass(1);
    assert_eq!(world.words(), ["start a-3", "remove a-0"]);
}

#[test]
fn a_wall_clock_that_jumps_does_not_change_a_back_off() {
    for jump in [-86_400_i64, 86_400] {
        let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
        world.start("a");
        world.end("a", 1);
        world.plan();
        world.start("a");
        world.end("a", 1);
        world.plan();
        world.now.wall = jiff::Timestamp::from_second(world.now.wall.as_second() + jump).expect("a time");
        assert_eq!(world.words(), ["back-off a"], "jump of {jump} s");
    }
}

#[test]
fn a_wall_clock_that_jumps_before_an_end_is_seen_shortens_no_back_off() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    world.end("a", 1);
    world.plan();
    world.pass(60);
    world.start("a");
    // It ends, and nobody looks before the clock was put forward.
    world.end("a", 1);
    world.now.wall = jiff::Timestamp::from_second(world.now.wall.as_second() + 86_400).expect("a time");
    let plan = world.plan();
    assert_eq!(plan.actions.iter().map(super::word).collect::<Vec<_>>(), ["back-off a"]);
    assert_eq!(plan.wake_at, Some(world.now.boot.plus_seconds(10)));
}

#[test]
fn after_a_reboot_waits_are_over_and_containers_start_again_in_order() {
    let mut world =
        World::with_sandbox(json!({"initContainers": [container("i")], "containers": [container("a")]}));
    world.start("i");
    world.end("i", 0);
    world.plan();
    world.start("a");
    world.plan();
    world.runtime = crate::RuntimePod::default();
    world.now.boot = BootTime(5_000);
    world.memory.rebase(world.now);
    assert_eq!(world.words(), ["sandbox 1"]);
    world.create_sandbox();
    assert_eq!(world.words(), ["start i-1"]);
}

/// The machine was booted 20 s ago; everything that ran is gone, and nothing knows how it ended.
fn reboot(world: &mut World, seconds_later: i64) {
    world.pass(seconds_later);
    for container in &mut world.runtime.containers {
        if let ContainerPhase::Running { started_at } = container.phase {
            container.phase = ContainerPhase::Exited {
                code: 137,
                reason: String::new(),
                message: String::new(),
                started_at,
                finished_at: None,
            };
        }
    }
    world.runtime.sandboxes.iter_mut().for_each(|sandbox| sandbox.ready = false);
    world.now.boot = BootTime(20_000);
    world.memory.rebase(world.now);
}

#[test]
fn a_long_back_off_is_over_after_a_reboot_however_young_the_boot_clock_is() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    for _ in 0..7 {
        world.start("a");
        world.end("a", 1);
        world.plan();
        world.pass(300);
    }
    world.start("a");
    world.end("a", 1);
    world.plan();
    reboot(&mut world, 1);
    assert_eq!(world.words()[..2], ["stop sandbox-0", "sandbox 1"]);
    world.create_sandbox();
    assert!(world.words().contains(&"start a-8".to_owned()), "{:?}", world.words());
    world.start("a");
    world.end("a", 1);
    world.pass(9);
    assert!(!world.words().contains(&"start a-9".to_owned()), "the next wait is ten seconds again");
    world.pass(1);
    assert!(world.words().contains(&"start a-9".to_owned()));
}

#[test]
fn a_reboot_counts_restarts_and_runs_init_containers_again_but_nothing_that_has_ended_for_good() {
    let mut world = World::with_sandbox(json!({
        "restartPolicy": "OnFailure",
        "initContainers": [container("i"), {"name": "side", "image": "i", "restartPolicy": "Always"}],
        "containers": [container("a"), container("done")],
    }));
    world.start("i");
    world.end("i", 0);
    world.plan();
    for name in ["side", "a", "done"] {
        world.start(name);
    }
    world.end("done", 0);
    world.plan();
    reboot(&mut world, 60);
    assert_eq!(world.words(), ["stop sandbox-0", "sandbox 1"]);
    world.create_sandbox();
    assert_eq!(world.words(), ["start i-1"]);
    world.start("i");
    world.end("i", 0);
    assert_eq!(world.words(), ["start side-1"]);
    world.start("side");
    assert_eq!(world.words(), ["start a-1"], "and not what ended well before");
}

#[test]
fn a_pod_that_never_restarts_has_failed_after_a_reboot_and_one_that_ended_stays_as_it_was() {
    let mut world = World::with_sandbox(json!({"restartPolicy": "Never", "containers": [container("a")]}));
    world.start("a");
    world.plan();
    reboot(&mut world, 60);
    assert_eq!(world.words(), ["clear"]);
    assert_eq!(world.status()["phase"], "Failed");
    let mut world = World::with_sandbox(json!({"restartPolicy": "Never", "containers": [container("a")]}));
    world.start("a");
    world.end("a", 0);
    world.plan();
    reboot(&mut world, 60);
    assert_eq!(world.status()["phase"], "Succeeded");
}

#[test]
fn the_time_before_a_reboot_counts_for_the_deadline_of_an_active_pod() {
    for (later, over) in [(3000, false), (3600, true), (100_000, true)] {
        let mut world =
            World::with_sandbox(json!({"activeDeadlineSeconds": 3600, "containers": [container("a")]}));
        world.start("a");
        world.plan();
        reboot(&mut world, later);
        let plan = world.plan();
        assert_eq!(world.memory.stop.is_some(), over, "{later} s later");
        if !over {
            assert_eq!(plan.wake_at, Some(world.now.boot.plus_seconds(3600 - later)));
        }
    }
}

#[test]
fn a_deletion_that_a_reboot_interrupted_is_finished() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    mark_deleted(&mut world, 600);
    world.plan();
    reboot(&mut world, 5);
    assert_eq!(world.words(), ["clear", "forget"]);
}

#[test]
fn a_failed_start_is_tried_again_after_its_wait_and_holds_up_no_other_container() {
    let mut world = World::with_sandbox(json!({"containers": [container("a"), container("b")]}));
    world.memory.note_start_failed("a", "CreateContainerConfigError", "no".to_owned(), world.now);
    let plan = world.plan();
    assert_eq!(plan.actions.iter().map(super::word).collect::<Vec<_>>(), ["start b-0"]);
    assert_eq!(plan.wake_at, Some(world.now.boot.plus_seconds(1)));
    world.pass(1);
    assert_eq!(world.words(), ["start a-0", "start b-0"]);
}

#[test]
fn a_created_instance_that_never_started_is_replaced_under_its_own_attempt() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    world.memory = crate::PodMemory { started_at: world.memory.started_at, ..crate::PodMemory::default() };
    world.runtime.containers[0].phase = ContainerPhase::Created;
    assert_eq!(world.words(), ["remove a-0", "start a-0"]);
}

#[test]
fn a_container_that_the_runtime_lost_counts_as_killed() {
    let mut world = World::with_sandbox(json!({"restartPolicy": "Never", "containers": [container("a")]}));
    world.start("a");
    world.plan();
    world.runtime.containers.clear();
    assert_eq!(world.words(), ["stop sandbox-0", "clear"]);
    let exit = world.memory.containers["a"].exit.clone().expect("an end");
    assert_eq!((exit.code, exit.reason.as_str()), (137, "ContainerStatusUnknown"));
}

#[test]
fn deletion_stops_containers_then_sidecars_in_reverse_order_then_the_rest() {
    let side = |name: &str| json!({"name": name, "image": "i", "restartPolicy": "Always"});
    let mut world = World::with_sandbox(json!({
        "initContainers": [side("s1"), side("s2")], "containers": [container("a"), container("b")],
    }));
    for name in ["s1", "s2", "a", "b"] {
        world.start(name);
    }
    mark_deleted(&mut world, 20);
    assert_eq!(world.words(), ["stop a-0 in 20", "stop b-0 in 20"]);
    world.end("a", 0);
    world.end("b", 143);
    world.pass(15);
    assert_eq!(world.words(), ["stop s2-0 in 5"], "with the grace that is left");
    world.end("s2", 0);
    world.pass(15);
    assert_eq!(world.words(), ["stop s1-0 in 2"], "never less than two seconds");
    world.end("s1", 0);
    assert_eq!(world.words(), ["stop sandbox-0", "clear", "forget"]);
}

#[test]
fn a_stop_that_was_begun_is_not_begun_again_unless_the_grace_is_shortened() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    let id = world.start("a");
    mark_deleted(&mut world, 60);
    assert_eq!(world.words(), ["stop a-0 in 60"]);
    let deadline = world.now.boot.plus_seconds(60);
    world.stopping(&id, deadline, false);
    let plan = world.plan();
    assert!(plan.actions.is_empty());
    assert_eq!(plan.wake_at, Some(deadline.plus_seconds(2)));
    mark_deleted(&mut world, 3);
    assert_eq!(world.words(), ["stop a-0 in 3"]);
}

#[test]
fn a_grace_that_was_rounded_up_to_a_second_is_no_reason_to_stop_again() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    let id = world.start("a");
    mark_deleted(&mut world, 10);
    world.plan();
    world.now.boot = BootTime(world.now.boot.0 + 300);
    assert_eq!(world.words(), ["stop a-0 in 10"]);
    let deadline = world.now.boot.plus_seconds(10);
    world.stopping(&id, deadline, false);
    assert!(world.words().is_empty());
}

#[test]
fn a_pod_that_vanished_is_stopped_with_its_own_grace_and_forgotten() {
    let mut world =
        World::with_sandbox(json!({"terminationGracePeriodSeconds": 7, "containers": [container("a")]}));
    world.start("a");
    world.memory.note_object(&world.pod.clone(), true, world.now);
    assert_eq!(world.words(), ["stop a-0 in 7"]);
    world.end("a", 0);
    assert_eq!(world.words(), ["stop sandbox-0", "clear", "forget"]);
}

#[test]
fn the_deadline_of_an_active_pod_stops_it_for_good() {
    let mut world = World::with_sandbox(json!({"activeDeadlineSeconds": 5, "containers": [container("a")]}));
    world.start("a");
    assert_eq!(world.plan().wake_at, Some(BootTime(1_005_000)));
    world.pass(5);
    assert_eq!(world.words(), ["stop a-0 in 30"]);
    assert_eq!(world.memory.stop.expect("ordered").cause, StopCause::Deadline);
    world.end("a", 143);
    assert_eq!(world.words(), ["stop sandbox-0", "clear"], "the object stays");
}

#[test]
fn a_wall_clock_that_jumps_moves_no_deadline_and_shortens_no_grace() {
    for jump in [-86_400_i64, 86_400, 31_536_000] {
        let mut world =
            World::with_sandbox(json!({"activeDeadlineSeconds": 50, "containers": [container("a")]}));
        let leap = |world: &mut World| {
            world.now.wall = jiff::Timestamp::from_second(world.now.wall.as_second() + jump).expect("a time");
        };
        world.start("a");
        let wake_at = world.plan().wake_at;
        leap(&mut world);
        assert_eq!(world.plan().wake_at, wake_at, "jump of {jump} s");
        assert_eq!(world.words(), Vec::<String>::new(), "jump of {jump} s: nothing is due");
        let now = world.now;
        world.memory.order_stop(StopCause::Delete, 20, now);
        leap(&mut world);
        world.pass(5);
        assert_eq!(world.words(), ["stop a-0 in 15"], "jump of {jump} s");
    }
}

#[test]
fn a_pod_whose_containers_have_all_ended_stops_its_sidecars_and_its_sandbox() {
    let mut world = World::with_sandbox(json!({
        "restartPolicy": "OnFailure",
        "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}], "containers": [container("a")],
    }));
    let is_ending = |world: &mut World| {
        let plan = world.plan();
        crate::is_ending(&world.view(), &plan)
    };
    world.start("side");
    world.start("a");
    assert!(!is_ending(&mut world));
    world.end("a", 0);
    assert_eq!(world.words(), ["stop side-0 in 30"]);
    assert!(is_ending(&mut world));
    world.end("side", 143);
    assert_eq!(world.words(), ["stop sandbox-0", "clear"]);
    assert!(is_ending(&mut world), "its sandbox stands");
    world.runtime.sandboxes[0].ready = false;
    assert!(is_ending(&mut world), "its volumes are there");
    world.memory.cleared = true;
    assert!(world.words().is_empty(), "and then there is nothing left to do");
    assert!(!is_ending(&mut world));
}

#[test]
fn a_failed_init_container_of_a_pod_that_never_restarts_fails_the_pod() {
    let mut world = World::with_sandbox(json!({
        "restartPolicy": "Never", "initContainers": [container("i")], "containers": [container("a")],
    }));
    world.start("i");
    world.end("i", 3);
    assert_eq!(world.words(), ["stop sandbox-0", "clear"]);
    assert_eq!(world.status()["phase"], "Failed");
}

#[test]
fn a_failed_probe_stops_a_container_and_a_restart_follows_whatever_the_exit_status() {
    let mut world =
        World::with_sandbox(json!({"restartPolicy": "OnFailure", "containers": [container("a")]}));
    let id = world.start("a");
    let failed = Some("Container a failed liveness probe, will be restarted".to_owned());
    world.health.insert(
        id.clone(),
        ContainerHealth { started: true, failed, grace_seconds: Some(4), ..Default::default() },
    );
    assert_eq!(world.words(), ["stop a-0 in 4"]);
    let deadline = world.now.boot.plus_seconds(4);
    world.stopping(&id, deadline, true);
    world.end("a", 0);
    assert_eq!(world.words(), ["start a-1"]);
}

#[test]
fn a_changed_image_restarts_its_container() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    world.start("a");
    world.runtime.containers[0].spec_hash = Some("other".to_owned());
    let plan = world.plan();
    match plan.actions.as_slice() {
        [Action::StopContainer { reason, .. }] => {
            assert_eq!(reason.message("a"), "Container a definition changed, will be restarted");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_the_latest_two_instances_of_a_container_are_kept() {
    let mut world = World::with_sandbox(json!({"containers": [container("a")]}));
    for _ in 0..3 {
        world.start("a");
        world.end("a", 1);
        world.plan();
    }
    world.start("a");
    assert_eq!(world.words(), ["remove a-0", "remove a-1"]);
}

fn mark_deleted(world: &mut World, grace: i64) {
    world.pod.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now.wall));
    world.pod.metadata.deletion_grace_period_seconds = Some(grace);
}
