//! Kill -9 of a pod's shim at each named point of its work (see the crate `fault`), and of the daemon while it finds out that
//! a shim is gone or takes one over: the pod is made anew or ends as was asked, its status tells the truth, the pod beside it
//! notices nothing, and nothing is left behind.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::crash_lane::{CasePod, Lane, Outcome, Process, Stage, ensure};
use super::kill_points::has_points;
use super::node::with_kubectl;

/// Lanes that work at the same time, each a node of its own.
const LANES: usize = 3;

/// What is under way, and who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// A pod is created; its shim is killed.
    Start,
    /// Its main container is unhealthy, and restarted; its shim is killed.
    Restart,
    /// The same for the second time: what is left of the first container is removed.
    SecondRestart,
    /// It is deleted; its shim is killed.
    End,
    /// It runs, and its shim is killed from outside.
    Running,
    /// The same, and it is never to be restarted.
    Never,
    /// It runs, and shim and daemon are killed from outside.
    Both,
    /// It runs, and its shim is killed from outside; the daemon is killed when it does something about that.
    Loss,
    /// The same with a daemon that begins when the shim is gone.
    LateLoss,
    /// It runs, and the daemon is killed, and once more while it takes over what runs.
    Adoption,
}

/// One kill: at which visit of the point since the story began.
#[derive(Clone, Copy, Debug)]
struct Kill(Story, &'static str, u32);

impl fmt::Display for Kill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {} {}", self.0, self.1, self.2)
    }
}

/// The containers are init, sidecar and main, in this order. The first command is the sidecar's startup probe, the second the
/// postStart hook.
const START: [(&str, u32); 26] = [
    ("supervisor.begun", 1),
    ("supervisor.namespaces_made", 1),
    ("supervisor.set_up", 1),
    ("supervisor.listening", 1),
    ("supervisor.told", 1),
    ("supervisor.create_asked", 1),
    ("supervisor.forked", 1),
    ("supervisor.built", 1),
    ("supervisor.start_asked", 1),
    ("supervisor.word_given", 1),
    ("supervisor.start_recorded", 1),
    ("supervisor.end_seen", 1),
    ("supervisor.end_recorded", 1),
    ("supervisor.create_asked", 2),
    ("supervisor.word_given", 2),
    ("supervisor.start_recorded", 2),
    ("supervisor.execute_asked", 1),
    ("supervisor.execution_forked", 1),
    ("supervisor.execution_begun", 1),
    ("supervisor.execution_ended", 1),
    ("supervisor.create_asked", 3),
    ("supervisor.forked", 3),
    ("supervisor.built", 3),
    ("supervisor.start_recorded", 3),
    ("supervisor.execution_begun", 2),
    ("supervisor.execution_ended", 2),
];

const RESTART: [(&str, u32); 7] = [
    ("supervisor.execution_ended", 1),
    ("supervisor.stop_asked", 1),
    ("supervisor.stop_signalled", 1),
    ("supervisor.end_seen", 1),
    ("supervisor.end_recorded", 1),
    ("supervisor.forked", 1),
    ("supervisor.start_recorded", 1),
];

const END: [(&str, u32); 9] = [
    ("supervisor.execution_begun", 1),
    ("supervisor.stop_asked", 1),
    ("supervisor.stop_signalled", 1),
    ("supervisor.end_seen", 1),
    ("supervisor.end_recorded", 1),
    ("supervisor.stop_asked", 2),
    ("supervisor.end_recorded", 2),
    ("supervisor.quit_asked", 1),
    ("supervisor.quitting", 1),
];

/// Two containers run when the shim is lost.
const LOSS: [(&str, u32); 5] =
    [("loss.seen", 1), ("loss.killed", 1), ("loss.recorded", 1), ("loss.killed", 2), ("loss.recorded", 2)];

/// Two pods run.
const ADOPTION: [(&str, u32); 6] = [
    ("adopt.sandbox_found", 1),
    ("adopt.containers_adopted", 1),
    ("adopt.sandbox_adopted", 1),
    ("adopt.sandbox_found", 2),
    ("adopt.containers_adopted", 2),
    ("adopt.sandbox_adopted", 2),
];

fn kills() -> Vec<Kill> {
    let mut kills = Vec::new();
    let mut add = |story, points: &[(&'static str, u32)]| {
        kills.extend(points.iter().map(|(point, visit)| Kill(story, point, *visit)));
    };
    add(Story::Start, &START);
    add(Story::Restart, &RESTART);
    add(Story::SecondRestart, &[("supervisor.forget_asked", 1)]);
    add(Story::End, &END);
    for story in [Story::Running, Story::Never, Story::Both] {
        add(story, &[("", 0)]);
    }
    add(Story::Loss, &LOSS);
    add(Story::LateLoss, &LOSS);
    add(Story::Adoption, &ADOPTION);
    kills
}

/// The points of this table.
pub(crate) fn points() -> BTreeSet<String> {
    let named = kills().into_iter().map(|kill| kill.1.to_owned());
    named.filter(|point| !point.is_empty()).collect()
}

#[test]
fn kill_9_of_a_shim_at_any_point_harms_that_pod_alone_and_leaves_nothing_behind() {
    let test = "kill_9_of_a_shim_at_any_point_harms_that_pod_alone_and_leaves_nothing_behind";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let only = std::env::var("KILL_POINT").unwrap_or_default();
    let kills: Vec<Kill> = kills().into_iter().filter(|kill| kill.to_string().contains(&only)).collect();
    let next = AtomicUsize::new(0);
    let failures: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(kills.len()) {
            scope.spawn(|| {
                let mut lane = Lane::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(kill) = kills.get(number) else { return };
                    if let Err(problem) = survive(&mut lane, *kill, number) {
                        let text = format!("{kill}: {problem}\n--- node\n{}", lane.last_of_log());
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
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), kills.len(), failures.join("\n"));
}

/// One pod's life with one kill, beside another pod to which nothing happens.
fn survive(lane: &mut Lane, Kill(story, point, visit): Kill, number: usize) -> Outcome {
    let other = lane.new_bystander(&format!("o{number}"));
    lane.create(&other);
    lane.wait_until_steady(&other, 0)?;
    let (others, other_shims) = (other.processes(), lane.shims());
    ensure(other_shims.len() == 1, || format!("one pod has {} shims", other_shims.len()))?;

    let mut pod = lane.new_pod(&format!("p{number}"), Stage::Start);
    let armed = format!("kill {point} {visit}\n");
    if story == Story::Never {
        pod.manifest["spec"]["restartPolicy"] = json!("Never");
    }
    if story == Story::Start {
        lane.arm_shims(&armed);
        lane.create(&pod);
    } else {
        lane.create(&pod);
        lane.wait_until_steady(&pod, 0)?;
    }
    let kill_shim = |lane: &Lane| {
        let shims: Vec<u32> = lane.shims().difference(&other_shims).copied().collect();
        ensure(shims.len() == 1, || format!("the pod has these shims: {shims:?}"))?;
        let killed = std::process::Command::new("kill").args(["-9", &shims[0].to_string()]).status();
        ensure(killed.is_ok_and(|status| status.success()), || "it could not be killed".to_owned())
    };
    let before = pod.processes();
    match story {
        Story::Start => lane.wait_for_shim_death()?,
        Story::Restart | Story::SecondRestart => {
            if story == Story::SecondRestart {
                pod.fall_ill();
                lane.wait_until_steady(&pod, 1)?;
            }
            lane.arm_shims(&armed);
            pod.fall_ill();
            lane.wait_for_shim_death()?;
        }
        Story::End => {
            lane.arm_shims(&armed);
            lane.delete(&pod);
            lane.wait_for_shim_death()?;
        }
        Story::Running | Story::Never => kill_shim(lane)?,
        Story::Both => {
            lane.kill();
            kill_shim(lane)?;
            lane.up();
        }
        Story::Loss => {
            lane.arm_lines(&armed);
            kill_shim(lane)?;
            lane.wait_for_death()?;
            lane.up();
        }
        Story::LateLoss => {
            lane.kill();
            kill_shim(lane)?;
            lane.arm_lines(&armed);
            lane.start();
            lane.wait_for_death()?;
            lane.up();
        }
        Story::Adoption => {
            lane.kill();
            lane.arm_lines(&armed);
            lane.start();
            lane.wait_for_death()?;
            lane.up();
        }
    }
    lane.wait_for_truth(&pod, Instant::now())?;
    lane.wait_for_truth(&other, Instant::now())?;
    match story {
        Story::Start
        | Story::Restart
        | Story::SecondRestart
        | Story::Running
        | Story::Both
        | Story::Loss
        | Story::LateLoss => {
            wait_until_whole(lane, &pod, &before)?;
            // In a new sandbox init containers run again, as on Kubernetes; each container at most once.
            let restarted = [(Story::Restart, 3), (Story::SecondRestart, 4)];
            let starts =
                restarted.into_iter().find(|(restart, _)| *restart == story).map_or(2, |(_, starts)| starts);
            check_births(&pod, [1..=2, 1..=2, 1..=starts])?;
            let shims = lane.shims().difference(&other_shims).count();
            ensure(shims == 1, || format!("the pod has {shims} shims"))?;
        }
        Story::Never => {
            lane.wait("the pod has not failed", || {
                let object = lane.get(&pod).ok_or("the API does not have it")?;
                ensure(object["status"]["phase"] == "Failed", || object["status"].to_string())
            })?;
            check_births(&pod, [1..=1, 1..=1, 1..=1])?;
        }
        Story::Adoption => {
            lane.wait_until_steady(&pod, 0)?;
            let after = pod.processes();
            ensure(before == after, || format!("{before:?} ran, and now {after:?}"))?;
            check_births(&pod, [1..=1, 1..=1, 1..=1])?;
        }
        Story::End => {}
    }
    let now = (other.processes(), lane.shims());
    ensure(now.0 == others && now.1.is_superset(&other_shims), || {
        format!("{others:?} of {other_shims:?} ran beside it, and now {now:?}")
    })?;
    lane.wait_until_steady(&other, 0)?;
    lane.delete(&pod);
    lane.wait_until_gone(&pod)?;
    check_hooks(&pod)?;
    lane.delete(&other);
    lane.wait_until_gone(&other)?;
    lane.wait_until_nothing_is_left(&pod)
}

#[test]
fn a_command_in_a_pod_whose_shim_is_killed_ends_and_says_why() {
    let test = "a_command_in_a_pod_whose_shim_is_killed_ends_and_says_why";
    if !with_kubectl(test) {
        return;
    }
    let place = e2e::Place::new();
    let node = e2e::Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], super::node::SLEEPER);
    node.wait_for(&super::node::RUNNING, |out| out.starts_with("Running/"));
    let mut command = std::process::Command::new("kubectl");
    command.args(["exec", "sleeper", "--", "sh", "-c", "echo begun; sleep 100000"]);
    command.env("KUBECONFIG", &node.kubeconfig).env("HOME", place.data());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("kubectl is there");
    let mut out = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).expect("readable");
    assert_eq!(line, "begun\n");
    let mark = format!("{}/runtime/sandboxes/", place.data().display());
    let shims = e2e::left_behind(&mark);
    let shim =
        shims.iter().find_map(|line| line.strip_prefix("process ")?.split(':').next()).expect("a shim");
    assert!(
        std::process::Command::new("kill").args(["-9", shim]).status().is_ok_and(|status| status.success())
    );
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || drop(send.send(child.wait_with_output())));
    let said = receive.recv_timeout(e2e::PATIENCE).expect("the command ends").expect("its output");
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(!said.status.success() && text.contains("the pod's supervisor ended"), "{text}");
}

/// Waits until all containers run that did not before, and the status says so.
fn wait_until_whole(lane: &Lane, pod: &CasePod, before: &BTreeSet<Process>) -> Outcome {
    lane.wait("the pod is not whole again", || {
        let object = lane.get(pod).ok_or("the API does not have it")?;
        let status = &object["status"];
        let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        let ready = status["conditions"].as_array().is_some_and(|all| all.iter().any(ready));
        let processes = pod.processes();
        let roles: Vec<&str> = processes.iter().map(|process| process.role.as_str()).collect();
        let anew = processes.is_disjoint(before);
        ensure(status["phase"] == "Running" && ready && anew && roles == ["main", "side"], || {
            format!("{processes:?} run (before {before:?}); {status}")
        })?;
        // It counts what was tried, at least what began.
        let counted = status["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default();
        let starts = pod.lines("born", "main").len() as u64;
        ensure(counted + 1 >= starts && counted <= starts, || {
            format!("{starts} starts are told as {counted}")
        })
    })
}

fn check_births(pod: &CasePod, expected: [std::ops::RangeInclusive<usize>; 3]) -> Outcome {
    for (role, expected) in ["init", "side", "main"].into_iter().zip(expected) {
        let found = pod.lines("born", role).len();
        ensure(expected.contains(&found), || format!("{role} began {found} times, not {expected:?}"))?;
    }
    Ok(())
}

/// What a hook was told of its attempts: never more than that it comes again.
fn check_hooks(pod: &CasePod) -> Outcome {
    let all = pod.lines("hooks", "");
    let later = all.iter().filter(|line| !line.contains(" 1") && !line.contains(" 2")).count();
    let stops = pod.lines("hooks", "preStop").iter().filter(|line| line.contains("Delete")).count();
    ensure(later == 0 && stops <= 2, || format!("too many deliveries: {all:?}"))
}
