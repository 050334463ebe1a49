//! Kill -9 of the daemon at each named point of a pod's life (see the crate `fault`): what runs goes on, nothing starts
//! twice, hooks are delivered, nothing is left behind, and the status tells the truth. The world of a test is in
//! `crash_lane`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::crash_lane::{Case, Lane, Outcome, Stage, ensure};
use super::node::with_kubectl;

/// Whether a hook that the kill met is delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// No hook was under way.
    Never,
    /// It was recorded as begun, and its end was not.
    Once,
    /// The point is met in several places.
    Maybe,
}

/// Lanes that work at the same time, each a node of its own.
const LANES: usize = 3;

/// From the object to the first start of a container, in the order of a pod's life.
const FIRST_START: [&str; 40] = [
    "bind.due",
    "bind.done",
    "pod.begun",
    "turn.looked",
    "turn.saved",
    "status.due",
    "status.written",
    "volumes.fetched",
    "volumes.set_up",
    "sandbox.planned",
    "sandbox.directory",
    "sandbox.config",
    "sandbox.group",
    "sandbox.described",
    "shim.spawned",
    "shim.ready",
    "network.allocated",
    "network.link_made",
    "network.linked",
    "sandbox.connected",
    "sandbox.files",
    "sandbox.linked",
    "sandbox.recorded",
    "sandbox.answered",
    "sandbox.noted",
    "image.present",
    "container.configured",
    "container.held",
    "container.directory",
    "container.launch_file",
    "container.described",
    "container.forked",
    "container.created",
    "container.starting",
    "container.begun",
    "container.started",
    "container.recorded",
    "start.noted",
    "exec.asked",
    "exec.begun",
];

/// A hook, from its record to the record of its end. The point before the first is not in danger, nor that after the last.
const HOOK: [(&str, Again); 8] = [
    ("hook.noted", Again::Never),
    ("hook.intended", Again::Once),
    ("hook.running", Again::Once),
    ("hook.performed", Again::Once),
    ("hook.logged", Again::Once),
    ("hook.told", Again::Once),
    ("hook.ended", Again::Once),
    ("hook.completed", Again::Never),
];

/// An image on its way into the store. The one who imports is killed, not a node.
const IMPORT: [&str; 4] = ["image.locked", "image.layers_adopted", "image.described", "image.named"];

/// The end of a pod, from the request to delete it.
const END: [&str; 34] = [
    "deletion.due",
    "deletion.marked",
    "deletion.removed",
    "stop.begun",
    "stop.noted",
    "container.stopping",
    "container.stopped",
    "stop.answered",
    "sandbox.stopping",
    "sandbox.emptied",
    "network.unlinked_together",
    "network.unlinked",
    "network.freed",
    "sandbox.disconnected",
    "sandbox.marked",
    "shim.ended",
    "sandbox.stopped",
    "volumes.clearing",
    "volumes.cleared",
    "forget.looked",
    "forget.told",
    "forget.shown",
    "container.forgotten",
    "container.group_removed",
    "container.directory_removed",
    "container.released",
    "forget.containers_removed",
    "sandbox.group_removed",
    "sandbox.directory_removed",
    "forget.sandboxes_removed",
    "forget.logs_removed",
    "forget.object_deleted",
    "forget.state_removed",
    "turn.looked",
];

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |stage, point, visit, again| cases.push(Case { stage, point, visit, again });
    for point in FIRST_START {
        add(Stage::Start, point, 1, Again::Never);
    }
    // The sidecar is the second container, the other one the third.
    for (point, visit) in [
        ("container.forked", 2),
        ("container.begun", 2),
        ("start.noted", 2),
        ("turn.saved", 3),
        ("status.written", 3),
    ] {
        add(Stage::Start, point, visit, Again::Never);
    }
    // Before the container has begun, it may have to be made again, and is announced again.
    for point in ["container.forked", "container.created"] {
        add(Stage::Start, point, 3, Again::Maybe);
    }
    add(Stage::Start, "container.begun", 3, Again::Never);
    add(Stage::Start, "start.noted", 3, Again::Never);
    // First preStart, then postStart.
    for visit in [1, 2] {
        for (point, again) in HOOK {
            add(Stage::Start, point, visit, again);
        }
    }
    for (point, visit) in [("file.written", 1), ("file.renamed", 3), ("file.synced", 1), ("file.synced", 2)] {
        add(Stage::Start, point, visit, Again::Maybe);
    }
    for (point, visit) in [
        ("record.written", 1),
        ("record.renamed", 2),
        ("commit.due", 1),
        ("commit.done", 1),
        ("commit.published", 2),
    ] {
        add(Stage::Start, point, visit, Again::Never);
    }
    for (point, again) in HOOK {
        add(Stage::Restart, point, 1, again);
    }
    for point in
        ["probe.failed", "stop.begun", "stop.noted", "container.stopped", "stop.answered", "start.noted"]
    {
        add(Stage::Restart, point, 1, Again::Never);
    }
    for (point, again) in [HOOK[1], HOOK[3], HOOK[7]] {
        // postRestart comes after preStop and preStart.
        add(Stage::Restart, point, 3, again);
    }
    for (point, again) in HOOK {
        add(Stage::End, point, 1, again);
    }
    for point in END {
        add(Stage::End, point, 1, Again::Never);
    }
    for (point, visit) in
        [("stop.noted", 2), ("container.stopped", 2), ("stop.answered", 2), ("status.written", 1)]
    {
        add(Stage::End, point, visit, Again::Never);
    }
    for point in ["file.renamed", "record.renamed", "commit.due", "commit.done"] {
        add(Stage::End, point, 1, Again::Maybe);
    }
    add(Stage::BackOff, "back_off.told", 1, Again::Never);
    cases
}

/// The points of this table.
pub(crate) fn points() -> BTreeSet<String> {
    let cases = cases();
    cases.iter().map(|case| case.point).chain(IMPORT).map(str::to_owned).collect()
}

#[test]
fn a_pods_life_has_at_least_sixty_points() {
    assert!(points().len() >= 60, "{} points", points().len());
}

/// A release build has no points; the test needs one that was built for tests.
pub(crate) fn has_points(test: &str) -> bool {
    let place = e2e::Place::new();
    let file = place.file("fault", "kill process.begun\n");
    let said = e2e::finish(place.coracle(&["version"]).env("CORACLE_FAULT", file), "");
    if said.status == 0 {
        eprintln!("skipped: {test} needs a binary with debug assertions");
    }
    said.status != 0
}

#[test]
fn kill_9_of_the_daemon_at_any_point_of_a_pods_life_harms_nothing() {
    let test = "kill_9_of_the_daemon_at_any_point_of_a_pods_life_harms_nothing";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let only = std::env::var("KILL_POINT").unwrap_or_default();
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.to_string().contains(&only)).collect();
    let next = AtomicUsize::new(0);
    let failures: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(cases.len()) {
            scope.spawn(|| {
                let mut lane = Lane::new();
                while let Some((number, case)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(number).map(|case| (number, case))
                } {
                    if let Err(problem) = survive(&mut lane, case, number) {
                        let text = format!("{case}: {problem}\n--- node\n{}", lane.last_of_log());
                        eprintln!("{text}");
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                        // What is wrong here must not spoil the next case.
                        lane = Lane::new();
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// One pod's life with one kill.
fn survive(lane: &mut Lane, case: &Case, number: usize) -> Outcome {
    let pod = lane.new_pod(&format!("p{number}"), case.stage);
    if case.stage == Stage::Start || case.stage == Stage::BackOff {
        lane.arm(case);
        lane.create(&pod);
    } else {
        lane.create(&pod);
        lane.wait_until_steady(&pod, 0)?;
        lane.arm(case);
        match case.stage {
            Stage::Restart => pod.fall_ill(),
            Stage::End | Stage::Start | Stage::BackOff => lane.delete(&pod),
        }
    }
    lane.wait_for_death()?;
    let before = pod.processes();
    lane.up();
    lane.wait_for_truth(&pod, Instant::now())?;
    match case.stage {
        Stage::Start => {
            // A client whose request was cut off asks again.
            if lane.get(&pod).is_none() {
                lane.create(&pod);
            }
            lane.wait_until_steady(&pod, 0)?;
            let after = pod.processes();
            for process in before.iter().filter(|process| process.role != "init") {
                ensure(after.contains(process), || format!("{process:?} is gone; now {after:?}"))?;
            }
        }
        Stage::Restart => {
            lane.wait_until_steady(&pod, 1)?;
            let after = pod.processes();
            for process in before.iter().filter(|process| process.role == "side") {
                ensure(after.contains(process), || format!("{process:?} is gone; now {after:?}"))?;
            }
        }
        Stage::BackOff => lane.wait_until_backing_off(&pod)?,
        Stage::End => {}
    }
    lane.delete(&pod);
    lane.wait_until_gone(&pod)?;
    if case.stage != Stage::BackOff {
        pod.check_starts(if case.stage == Stage::Restart { 2 } else { 1 })?;
        pod.check_hooks(case)?;
    }
    lane.wait_until_nothing_is_left(&pod)
}

#[test]
fn kill_9_of_an_import_at_any_point_leaves_a_whole_image_or_none() {
    let test = "kill_9_of_an_import_at_any_point_leaves_a_whole_image_or_none";
    if !e2e::privileged(test) || !has_points(test) {
        return;
    }
    for point in IMPORT {
        let place = e2e::Place::new();
        let data = place.data();
        let root = place.file("unused", "").with_file_name("rootfs");
        std::fs::create_dir(&root).and_then(|()| std::fs::write(root.join("a"), "b")).expect("made");
        let image = |arguments: &[&str]| {
            let mut command = place.coracle(&["image"]);
            command.args(arguments).arg("--data-dir").arg(&data);
            command
        };
        let import = ["import", root.to_str().expect("text"), "--name", "app:1"];
        let fault = place.file("fault", &format!("kill {point}\n"));
        let killed = e2e::finish(image(&import).env("CORACLE_FAULT", &fault), "");
        assert_eq!(killed.status, -1, "{point}: {}", killed.all());
        let list = e2e::finish(&mut image(&["list"]), "");
        assert_eq!(list.status, 0, "{point}: {}", list.all());
        assert_eq!(list.stdout.contains("app"), point == "image.named", "{point}: {}", list.all());
        let again = e2e::finish(&mut image(&import), "");
        assert_eq!(again.status, 0, "{point}: {}", again.all());
        let removed = e2e::finish(&mut image(&["remove", "app:1"]), "");
        assert_eq!(removed.status, 0, "{point}: {}", removed.all());
        for kept in ["layers", "blobs/sha256", "images", "references", "ingest", "quarantine"] {
            let dir = data.join("images").join(kept);
            let left: Vec<_> = std::fs::read_dir(dir).into_iter().flatten().flatten().collect();
            assert!(left.is_empty(), "{point}: {left:?}");
        }
    }
}

#[test]
fn panics_while_a_pod_is_synced_harm_no_other_pod_and_are_made_good() {
    let test = "panics_while_a_pod_is_synced_harm_no_other_pod_and_are_made_good";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let mut lane = Lane::new();
    let other = lane.new_pod("other", Stage::Start);
    lane.create(&other);
    lane.wait_until_steady(&other, 0).expect("it runs");
    let before = other.processes();
    lane.arm_lines(
        "panic volumes.set_up\npanic sandbox.answered\npanic container.created\npanic container.recorded\n\
         panic volumes.cleared\npanic forget.sandboxes_removed\n",
    );
    let pod = lane.new_pod("victim", Stage::Start);
    lane.create(&pod);
    let lived = (|| {
        lane.wait_until_steady(&pod, 0)?;
        lane.delete(&pod);
        lane.wait_until_gone(&pod)?;
        pod.check_starts(1)
    })();
    lived.unwrap_or_else(|problem| panic!("{problem}\n{}", lane.last_of_log()));
    assert_eq!(lane.armed(), "", "each panic took place");
    assert!(lane.has_event(&pod, "FailedSync"), "they are told");
    assert_eq!(other.processes(), before, "the other pod did not notice");
    lane.wait_until_steady(&other, 0).expect("it still runs");
    lane.delete(&other);
    lane.wait_until_gone(&other).expect("gone");
    lane.wait_until_nothing_is_left(&pod).expect("nothing is left");
}
