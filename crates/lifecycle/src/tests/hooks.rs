//! Hooks: what they hold up, how often they are delivered, and what is shown meanwhile.

use serde_json::{Value, json};

use super::{World, container};
use crate::{
    ContainerHealth, HookKey, HookKind, HookOutcome, HookReason, KillReason, PodMemory, StopCause,
    StopIntent, UnderWay,
};

fn sleep() -> Value {
    json!({"sleep": {"seconds": 5}})
}

fn hooked(name: &str, hooks: &Value) -> Value {
    json!({"name": name, "image": "i", "lifecycle": hooks})
}

fn key(container: &str, attempt: u32, kind: HookKind) -> HookKey {
    HookKey { container: container.to_owned(), attempt, kind }
}

/// A world whose pod has the handlers that Kubernetes does not know.
fn world_with_handlers(spec: Value, handlers: &Value) -> World {
    let mut world = World::new(spec);
    let annotation = ("hooks.coracle.dev/handlers".to_owned(), handlers.to_string());
    world.pod.metadata.annotations = Some([annotation].into());
    world.create_sandbox();
    world
}

impl World {
    fn begin(&mut self, key: &HookKey) {
        self.memory.note_hook_begun(key, self.now);
        self.under_way.hooks.insert(key.clone());
    }

    fn finish(&mut self, key: &HookKey, outcome: HookOutcome) {
        self.memory.note_hook_ended(key, outcome);
        self.under_way.hooks.remove(key);
    }

    /// The daemon is killed and started again: it knows what is on disk, and carries out nothing.
    fn restart_daemon(&mut self) {
        let text = serde_json::to_string(&self.memory).expect("memory is JSON");
        self.memory = serde_json::from_str::<PodMemory>(&text).expect("it reads back");
        self.under_way = UnderWay::default();
    }

    fn begin_stop(&mut self, id: &str, seconds: i64) {
        let deadline = self.now.boot.plus_seconds(seconds);
        let intent = StopIntent { deadline, with_hook: true, ..StopIntent::default() };
        self.memory.note_stopping(id, intent);
    }

    fn waiting(&mut self, index: usize) -> String {
        let status = self.status();
        let waiting = &status["containerStatuses"][index]["state"]["waiting"];
        let text = |field: &str| waiting[field].as_str().unwrap_or("-").to_owned();
        format!("{}: {}", text("reason"), text("message"))
    }
}

#[test]
fn a_post_start_hook_holds_up_the_containers_after_it_and_only_until_it_has_returned() {
    let mut world = World::with_sandbox(
        json!({"containers": [hooked("a", &json!({"postStart": sleep()})), container("b")]}),
    );
    assert_eq!(world.words(), ["start a-0"], "b waits for the hook of a");
    world.start("a");
    assert_eq!(world.words(), ["postStart a-0 #1"]);
    let hook = key("a", 0, HookKind::PostStart);
    world.begin(&hook);
    assert!(world.words().is_empty());
    world.finish(&hook, HookOutcome::Succeeded);
    assert_eq!(world.words(), ["start b-0"]);
    world.start("b");
    assert!(world.words().is_empty(), "and it is delivered once");
}

#[test]
fn while_a_hook_runs_no_other_container_of_the_pod_is_restarted_or_stopped() {
    let mut world = World::with_sandbox(json!({
        "containers": [container("a"), container("c"), hooked("b", &json!({"postStart": sleep()}))],
    }));
    world.start("a");
    let c = world.start("c");
    world.start("b");
    let hook = key("b", 0, HookKind::PostStart);
    world.begin(&hook);
    world.end("a", 1);
    let failed = Some("Container c failed liveness probe, will be restarted".to_owned());
    world.health.insert(c, ContainerHealth { started: true, failed, ..ContainerHealth::default() });
    assert!(world.words().is_empty());
    world.finish(&hook, HookOutcome::Succeeded);
    assert_eq!(world.words(), ["start a-1", "stop c-0 in 30"]);
}

#[test]
fn a_sidecars_post_start_hook_holds_up_what_comes_after_it() {
    let side =
        json!({"name": "side", "image": "i", "restartPolicy": "Always", "lifecycle": {"postStart": sleep()}});
    let mut world = World::with_sandbox(json!({"initContainers": [side], "containers": [container("a")]}));
    world.start("side");
    let hook = key("side", 0, HookKind::PostStart);
    assert_eq!(world.words(), ["postStart side-0 #1"]);
    world.begin(&hook);
    world.finish(&hook, HookOutcome::Succeeded);
    assert_eq!(world.words(), ["start a-0"]);
}

#[test]
fn a_failed_post_start_hook_stops_its_container_with_its_pre_stop_hook_and_the_others_go_on() {
    let hooks = json!({"postStart": sleep(), "preStop": sleep()});
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &hooks), container("b")]}));
    world.start("a");
    let hook = key("a", 0, HookKind::PostStart);
    world.begin(&hook);
    world.finish(&hook, HookOutcome::Failed);
    world.memory.note_hook_failed("a", "PostStartHookError", "no".to_owned());
    assert_eq!(world.words(), ["begin to stop a-0 in 30", "start b-0"]);
    assert_eq!(world.waiting(0), "PostStartHookError: no");
    world.begin_stop("a-0", 30);
    assert_eq!(world.words(), ["preStop a-0 #1", "start b-0"]);
    let stop = key("a", 0, HookKind::PreStop);
    world.begin(&stop);
    assert!(world.words().is_empty(), "while a hook runs nothing else goes on");
    world.finish(&stop, HookOutcome::Succeeded);
    assert_eq!(world.words(), ["stop a-0 in 30", "start b-0"]);
    world.end("a", 137);
    assert_eq!(world.words(), ["start a-1"], "b waits for the hooks of the restart");
    assert_eq!(world.waiting(0), "PostStartHookError: no");
}

#[test]
fn a_hook_that_the_end_of_the_daemon_cut_off_is_delivered_again_and_counted() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"postStart": sleep()}))]}));
    world.start("a");
    world.restart_daemon();
    assert_eq!(world.words(), ["postStart a-0 #1"], "it had not begun");
    world.begin(&key("a", 0, HookKind::PostStart));
    world.restart_daemon();
    assert_eq!(world.words(), ["postStart a-0 #2"]);
    world.begin(&key("a", 0, HookKind::PostStart));
    world.finish(&key("a", 0, HookKind::PostStart), HookOutcome::Succeeded);
    world.restart_daemon();
    assert!(world.words().is_empty(), "what ended is not delivered again");
}

#[test]
fn a_start_whose_record_was_lost_with_the_daemon_is_still_followed_by_its_hook() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"postStart": sleep()}))]}));
    world.start("a");
    world.memory.containers.clear();
    assert_eq!(world.words(), ["postStart a-0 #1"]);
}

#[test]
fn post_restart_comes_before_post_start_and_not_at_the_first_start() {
    let spec = json!({"containers": [hooked("a", &json!({"postStart": sleep()}))]});
    let mut world = world_with_handlers(spec, &json!({"a": {"postRestart": sleep()}}));
    world.start("a");
    let first = key("a", 0, HookKind::PostStart);
    assert_eq!(world.words(), ["postStart a-0 #1"]);
    world.begin(&first);
    world.finish(&first, HookOutcome::Succeeded);
    world.end("a", 1);
    assert_eq!(world.words(), ["start a-1"]);
    world.start("a");
    let restart = key("a", 1, HookKind::PostRestart);
    assert_eq!(world.words(), ["postRestart a-1 #1"]);
    world.begin(&restart);
    world.finish(&restart, HookOutcome::Succeeded);
    assert_eq!(world.words(), ["postStart a-1 #1"]);
    let second = key("a", 1, HookKind::PostStart);
    world.begin(&second);
    world.finish(&second, HookOutcome::Succeeded);
    assert!(world.words().is_empty());
}

#[test]
fn a_failed_post_restart_hook_stops_the_container_without_post_start() {
    let spec = json!({"containers": [hooked("a", &json!({"postStart": sleep()}))]});
    let mut world = world_with_handlers(spec, &json!({"a": {"postRestart": sleep()}}));
    world.start("a");
    world.end("a", 1);
    world.plan();
    world.start("a");
    let restart = key("a", 1, HookKind::PostRestart);
    world.begin(&restart);
    world.finish(&restart, HookOutcome::Failed);
    assert_eq!(world.words(), ["stop a-1 in 30"]);
}

#[test]
fn a_container_is_created_once_its_pre_start_hook_has_succeeded() {
    let spec = json!({"containers": [container("a"), container("b")]});
    let mut world = world_with_handlers(spec, &json!({"a": {"preStart": sleep()}}));
    let hook = key("a", 0, HookKind::PreStart);
    assert_eq!(world.words(), ["preStart a-0 #1"]);
    world.begin(&hook);
    assert!(world.words().is_empty());
    world.pass(3);
    assert_eq!(world.waiting(0), "ContainerCreating: running preStart hook for 3 s");
    world.finish(&hook, HookOutcome::Failed);
    world.memory.note_start_failed("a", "PreStartHookError", "no".to_owned(), world.now);
    assert_eq!(world.words(), ["start b-0"], "the others do not wait for the next try");
    assert_eq!(world.waiting(0), "PreStartHookError: no");
    world.pass(1);
    assert_eq!(world.words(), ["preStart a-0 #1"], "a new try is a new hook");
    world.begin(&hook);
    world.restart_daemon();
    assert_eq!(world.words(), ["preStart a-0 #2"]);
    world.begin(&hook);
    world.finish(&hook, HookOutcome::Succeeded);
    assert_eq!(world.words(), ["start a-0", "start b-0"]);
    world.memory.note_start_failed("a", "CreateContainerError", "no".to_owned(), world.now);
    world.pass(1);
    assert_eq!(world.words(), ["preStart a-0 #1"], "it precedes every attempt to create the container");
}

#[test]
fn a_pre_stop_hook_comes_before_the_signal_and_its_time_is_part_of_the_grace() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"preStop": sleep()}))]}));
    world.start("a");
    world.memory.note_object(&world.pod.clone(), true, world.now);
    assert_eq!(world.words(), ["begin to stop a-0 in 30"]);
    world.begin_stop("a-0", 30);
    assert_eq!(world.words(), ["preStop a-0 #1"]);
    let hook = key("a", 0, HookKind::PreStop);
    world.begin(&hook);
    let plan = world.plan();
    assert!(plan.actions.is_empty());
    world.pass(12);
    assert_eq!(world.status()["message"], "container a: running preStop hook for 12 s");
    world.finish(&hook, HookOutcome::Failed);
    assert_eq!(world.words(), ["stop a-0 in 18"]);
    world.under_way.stops.insert("a-0".to_owned());
    assert!(world.words().is_empty());
}

#[test]
fn a_pre_stop_hook_is_given_up_at_the_end_of_the_grace_and_two_seconds_are_left() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"preStop": sleep()}))]}));
    world.start("a");
    world.memory.note_object(&world.pod.clone(), true, world.now);
    world.begin_stop("a-0", 30);
    world.begin(&key("a", 0, HookKind::PreStop));
    world.pass(30);
    assert_eq!(world.words(), ["abandon preStop a", "stop a-0 in 2"]);
}

#[test]
fn a_shorter_grace_ends_a_pre_stop_hook_earlier() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"preStop": sleep()}))]}));
    world.start("a");
    world.memory.note_object(&world.pod.clone(), true, world.now);
    world.begin_stop("a-0", 30);
    world.begin(&key("a", 0, HookKind::PreStop));
    world.memory.order_stop(StopCause::Delete, 3, world.now);
    world.pass(3);
    assert_eq!(world.words(), ["abandon preStop a", "stop a-0 in 2"]);
}

#[test]
fn a_pre_stop_hook_is_delivered_however_late_the_daemon_comes_back() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"preStop": sleep()}))]}));
    world.start("a");
    world.memory.note_object(&world.pod.clone(), true, world.now);
    world.begin_stop("a-0", 30);
    world.restart_daemon();
    world.pass(500);
    assert_eq!(world.words(), ["preStop a-0 #1"], "never zero times");
    let hook = key("a", 0, HookKind::PreStop);
    world.begin(&hook);
    world.pass(1);
    assert!(world.words().is_empty(), "and it has a moment");
    world.pass(1);
    assert_eq!(world.words(), ["abandon preStop a", "stop a-0 in 2"]);
    world.restart_daemon();
    world.pass(500);
    assert_eq!(world.words(), ["stop a-0 in 2"], "it had begun, and its time is over");
}

#[test]
fn a_pre_stop_hook_that_was_cut_off_is_delivered_again_within_its_grace() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"preStop": sleep()}))]}));
    world.start("a");
    world.memory.note_object(&world.pod.clone(), true, world.now);
    world.begin_stop("a-0", 30);
    let hook = key("a", 0, HookKind::PreStop);
    world.begin(&hook);
    world.restart_daemon();
    world.pass(4);
    assert_eq!(world.words(), ["preStop a-0 #2"]);
    world.begin(&hook);
    world.finish(&hook, HookOutcome::Succeeded);
    world.restart_daemon();
    assert_eq!(world.words(), ["stop a-0 in 26"], "one that ended is not delivered again");
}

#[test]
fn hooks_of_sidecars_begin_with_the_others_and_their_signals_wait() {
    let side = |name: &str| json!({"name": name, "image": "i", "restartPolicy": "Always", "lifecycle": {"preStop": sleep()}});
    let mut world = World::with_sandbox(json!({
        "initContainers": [side("s1"), side("s2")], "containers": [container("a")],
    }));
    for name in ["s1", "s2", "a"] {
        world.start(name);
    }
    world.memory.note_object(&world.pod.clone(), true, world.now);
    assert_eq!(world.words(), ["stop a-0 in 30", "begin to stop s1-0 in 30", "begin to stop s2-0 in 30"]);
    for name in ["s1", "s2"] {
        world.begin_stop(&format!("{name}-0"), 30);
        world.begin(&key(name, 0, HookKind::PreStop));
        world.finish(&key(name, 0, HookKind::PreStop), HookOutcome::Succeeded);
    }
    world.stopping("a-0", world.now.boot.plus_seconds(30), false);
    assert!(world.words().is_empty());
    world.end("a", 0);
    world.pass(1);
    assert_eq!(world.words(), ["stop s2-0 in 29"]);
    world.end("s2", 0);
    assert_eq!(world.words(), ["stop s1-0 in 29"]);
}

#[test]
fn a_container_that_ended_by_itself_gets_no_pre_stop_hook() {
    let mut world = World::with_sandbox(json!({
        "restartPolicy": "Never", "containers": [hooked("a", &json!({"preStop": sleep()})), container("b")],
    }));
    world.start("a");
    world.start("b");
    world.end("a", 0);
    world.memory.note_object(&world.pod.clone(), true, world.now);
    assert_eq!(world.words(), ["stop b-0 in 30"]);
}

#[test]
fn deletion_does_not_wait_for_a_start_hook() {
    let hooks = json!({"postStart": sleep(), "preStop": sleep()});
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &hooks)]}));
    world.start("a");
    let hook = key("a", 0, HookKind::PostStart);
    world.begin(&hook);
    world.memory.note_object(&world.pod.clone(), true, world.now);
    assert_eq!(world.words(), ["abandon postStart a", "begin to stop a-0 in 30"]);
}

#[test]
fn a_start_hook_outside_of_a_container_that_has_ended_is_given_up_and_one_inside_ends_with_it() {
    for (handler, expected) in [(sleep(), true), (json!({"exec": {"command": ["x"]}}), false)] {
        let mut world =
            World::with_sandbox(json!({"containers": [hooked("a", &json!({"postStart": handler}))]}));
        world.start("a");
        world.begin(&key("a", 0, HookKind::PostStart));
        world.end("a", 1);
        let abandoned = world.words().contains(&"abandon postStart a".to_owned());
        assert_eq!(abandoned, expected, "{handler}");
    }
}

#[test]
fn while_a_post_start_hook_runs_the_pod_is_pending_and_says_so() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"postStart": sleep()}))]}));
    world.start("a");
    let hook = key("a", 0, HookKind::PostStart);
    world.begin(&hook);
    world.pass(12);
    assert_eq!(world.waiting(0), "ContainerCreating: running postStart hook for 12 s");
    let status = world.status();
    assert_eq!(status["phase"], "Pending");
    let shown = &status["containerStatuses"][0];
    assert_eq!((&shown["ready"], &shown["started"]), (&json!(false), &json!(false)));
    assert_eq!(world.plan().wake_at, Some(world.now.boot.plus_seconds(2)), "the text changes then");
    world.restart_daemon();
    world.begin(&hook);
    assert_eq!(world.waiting(0), "ContainerCreating: running postStart hook for 0 s, attempt 2");
    world.finish(&hook, HookOutcome::Succeeded);
    let status = world.status();
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["containerStatuses"][0]["ready"], true);
}

#[test]
fn a_pod_that_ran_before_stays_running_while_hooks_of_a_restart_run() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"postStart": sleep()}))]}));
    world.start("a");
    let hook = key("a", 0, HookKind::PostStart);
    world.begin(&hook);
    world.finish(&hook, HookOutcome::Succeeded);
    world.end("a", 7);
    world.plan();
    world.start("a");
    world.begin(&key("a", 1, HookKind::PostStart));
    let status = world.status();
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 7);
}

#[test]
fn reasons_of_stops_are_those_of_the_document() {
    let rows = [
        (KillReason::PodStops(StopCause::Delete), HookReason::Delete),
        (KillReason::PodStops(StopCause::Deadline), HookReason::Delete),
        (KillReason::PodStops(StopCause::Eviction), HookReason::Delete),
        (KillReason::PodStops(StopCause::Shutdown), HookReason::Delete),
        (KillReason::PodStops(StopCause::Finished), HookReason::Delete),
        (KillReason::DefinitionChanged, HookReason::Delete),
        (KillReason::NotWanted, HookReason::Delete),
        (KillReason::Unhealthy(String::new()), HookReason::Health),
        (KillReason::HookFailed(String::new()), HookReason::Health),
        (KillReason::SandboxDied, HookReason::Dependency),
        (KillReason::VolumeFailed(String::new()), HookReason::Dependency),
    ];
    for (kill, reason) in rows {
        assert_eq!(kill.hook_reason(), reason, "{kill:?}");
    }
}

#[test]
fn names_of_hooks_read_back() {
    for hook in HookKind::ALL {
        assert_eq!(HookKind::parse(hook.as_str()), Some(hook));
    }
    assert_eq!(HookKind::parse("poststart"), None);
}

#[test]
fn a_pre_stop_hook_of_one_container_holds_up_the_others_until_its_grace_is_over() {
    let mut world = World::with_sandbox(json!({
        "containers": [hooked("a", &json!({"preStop": sleep()})), container("b")],
    }));
    let id = world.start("a");
    world.start("b");
    let failed = Some("Container a failed liveness probe, will be restarted".to_owned());
    let health =
        ContainerHealth { started: true, failed, grace_seconds: Some(7), ..ContainerHealth::default() };
    world.health.insert(id, health);
    assert_eq!(world.words(), ["begin to stop a-0 in 7"]);
    world.begin_stop("a-0", 7);
    assert_eq!(world.words(), ["preStop a-0 #1"]);
    world.begin(&key("a", 0, HookKind::PreStop));
    world.end("b", 1);
    assert!(world.words().is_empty());
    world.pass(7);
    assert_eq!(world.words(), ["abandon preStop a", "stop a-0 in 2"]);
    world.finish(&key("a", 0, HookKind::PreStop), HookOutcome::Abandoned);
    world.under_way.stops.insert("a-0".to_owned());
    assert_eq!(world.words(), ["start b-1"]);
}

#[test]
fn a_pre_stop_hook_that_outlives_its_container_is_given_up() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"preStop": sleep()}))]}));
    world.start("a");
    world.memory.note_object(&world.pod.clone(), true, world.now);
    world.begin_stop("a-0", 30);
    world.begin(&key("a", 0, HookKind::PreStop));
    world.end("a", 3);
    assert_eq!(world.words(), ["abandon preStop a", "stop sandbox-0", "clear", "forget"]);
}

#[test]
fn a_container_that_has_lost_a_volume_is_stopped_and_starts_again_whatever_its_exit_status() {
    let spec = json!({"restartPolicy": "OnFailure", "containers": [container("a")]});
    let mut world = World::with_sandbox(spec);
    let id = world.start("a");
    let lost_volume = Some("disk".to_owned());
    world.health.insert(id.clone(), ContainerHealth { started: true, lost_volume, ..Default::default() });
    let plan = world.plan();
    let [crate::Action::StopContainer { reason, .. }] = plan.actions.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(reason.message("a"), "Container a has lost its volume disk, will be restarted");
    assert!(reason.is_failure());
    world.stopping(&id, world.now.boot.plus_seconds(30), true);
    world.end("a", 0);
    assert_eq!(world.words(), ["start a-1"]);
}

#[test]
fn a_stop_that_was_begun_is_finished_when_its_cause_goes_away_during_the_hook() {
    let mut world = World::with_sandbox(json!({"containers": [hooked("a", &json!({"preStop": sleep()}))]}));
    let id = world.start("a");
    let lost_volume = Some("disk".to_owned());
    world.health.insert(id.clone(), ContainerHealth { started: true, lost_volume, ..Default::default() });
    assert_eq!(world.words(), ["begin to stop a-0 in 30"]);
    world.begin_stop(&id, 30);
    world.begin(&key("a", 0, HookKind::PreStop));
    world.health.clear();
    assert!(world.words().is_empty());
    world.finish(&key("a", 0, HookKind::PreStop), HookOutcome::Succeeded);
    assert_eq!(world.words(), ["stop a-0 in 30"]);
}
