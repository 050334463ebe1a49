//! Hostile neighbours: pods that fork, eat memory, flood their logs, hang in hooks and exit in a loop, all at once. Another
//! pod starts and runs, the API answers, what they did is told as such, and they can be deleted.

use std::path::Path;
use std::time::{Duration, Instant};

use e2e::{Node, Place, left_behind, shims};

use super::node::with_kubectl;

/// One container each; `CONTAINER` is what makes it bad.
const BAD: [(&str, &str); 6] = [
    ("bomb", r#""command": ["/bin/sh", "-c", "bomb() { bomb | bomb & }; bomb; while :; do :; done"]"#),
    (
        "hog",
        r#""command": ["/bin/sh", "-c", "exec tail /dev/zero"], "resources": {"limits": {"memory": "32Mi"}}"#,
    ),
    (
        "flood",
        r#""command": ["/bin/sh", "-c", "exec yes 0123456789012345678901234567890123456789012345678901234567890123456789"]"#,
    ),
    (
        "hook",
        r#""command": ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"],
           "lifecycle": {"postStart": {"exec": {"command": ["/bin/sh", "-c", "while :; do sleep 1000; done"]}}}"#,
    ),
    ("loop", r#""command": ["/bin/sh", "-c", "exit 3"]"#),
    (
        "fifo",
        r#""command": ["/bin/sh", "-c", "exit 0"],
           "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "a.env", "key": "A"}}}]"#,
    ),
];

const GOOD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "NAME"}, "spec": {"terminationGracePeriodSeconds": 1,
"containers": [{"name": "c", "image": "coracle.dev/host", "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"],
"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}]}}"#;

fn bad_pod(name: &str, container: &str) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}, "spec": {{"terminationGracePeriodSeconds": 1,
        "volumes": [{{"name": "v", "emptyDir": {{}}}}],
        "initContainers": [{{"name": "i", "image": "coracle.dev/host", "command": ["/bin/sh", "-c", "mkfifo /v/a.env"],
                            "volumeMounts": [{{"name": "v", "mountPath": "/v"}}]}}],
        "containers": [{{"name": "c", "image": "coracle.dev/host", {container}}}]}}}}"#
    )
}

/// The middle one of five.
fn median(mut once: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let began = Instant::now();
            once();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[2]
}

fn start(node: &Node, name: &str) -> Duration {
    let began = Instant::now();
    node.kubectl_ok(&["create", "-f", "-"], &GOOD.replace("NAME", name));
    node.kubectl_ok(&["wait", "--for=condition=Ready", "--timeout=100s", "pod", name], "");
    began.elapsed()
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// The limit that every pod has, met by a bomb that does nothing but fork.
#[test]
fn a_real_fork_bomb_ends_at_the_limit_of_its_pod_and_can_be_deleted() {
    if !with_kubectl("a_real_fork_bomb_ends_at_the_limit_of_its_pod_and_can_be_deleted") {
        return;
    }
    let place = Place::new();
    let mark = place.data().display().to_string();
    {
        let node = Node::up(&place, &[]);
        let quiet_start = start(&node, "before");
        let quiet_api = median(|| drop(node.kubectl_ok(&["get", "pods"], "")));
        // Those that are there sleep, so that thousands of them are there at once.
        let script = "bomb() { bomb & bomb & sleep 1000; }; bomb";
        let container = format!(
            r#""command": ["/bin/sh", "-c", {script:?}], "resources": {{"limits": {{"cpu": "1", "memory": "4Gi"}}}}"#
        );
        node.kubectl_ok(&["create", "-f", "-"], &bad_pod("bomb", &container));
        // The shell says it when the kernel refuses a fork.
        node.wait_for(&["logs", "bomb", "--tail=20"], |log| log.to_lowercase().contains("fork"));
        let start_beside = start(&node, "beside");
        let api_beside = median(|| drop(node.kubectl_ok(&["get", "pods"], "")));
        let bound = |quiet: Duration| quiet * 20 + Duration::from_secs(5);
        assert!(start_beside < bound(quiet_start), "a start took {start_beside:?}, {quiet_start:?} before");
        assert!(api_beside < bound(quiet_api), "an answer took {api_beside:?}, {quiet_api:?} before");
        node.kubectl_ok(&["delete", "pod", "bomb", "--timeout=60s"], "");
        node.kubectl_ok(&["wait", "--for=condition=Ready", "--timeout=10s", "pod", "before", "beside"], "");
        node.kubectl_ok(&["delete", "pods", "before", "beside", "--timeout=60s"], "");
    }
    assert_eq!(left_behind(&mark), std::collections::BTreeSet::new());
}

/// Thousands that die at once free their numbers faster than a list of them is worked off. Here what begins gets those very
/// numbers: the kernel is told to count on from below them.
#[test]
fn deleting_a_fork_bomb_kills_nothing_of_another_node_that_got_its_numbers() {
    const COUNTER: &str = "/proc/sys/kernel/ns_last_pid";
    if !with_kubectl("deleting_a_fork_bomb_kills_nothing_of_another_node_that_got_its_numbers") {
        return;
    }
    let (first, second) = (Place::new(), Place::new());
    let foreign = second.data().display().to_string();
    let (node, other) = (Node::up(&first, &[]), Node::up(&second, &[]));
    start(&other, "stays");
    let stays = shims(&foreign);
    let lowest = std::fs::read_to_string(COUNTER).expect("the kernel counts processes");
    let script = "bomb() { bomb & bomb & sleep 1000; }; bomb";
    node.kubectl_ok(
        &["create", "-f", "-"],
        &bad_pod("bomb", &format!(r#""command": ["/bin/sh", "-c", {script:?}]"#)),
    );
    node.wait_for(&["logs", "bomb", "--tail=20"], |log| log.to_lowercase().contains("fork"));
    let ending = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while ending.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::write(COUNTER, lowest.trim()).expect("the count is set back");
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let many: String = (0..10)
            .map(|number| GOOD.replace("NAME", &format!("new-{number}")))
            .collect::<Vec<_>>()
            .join("\n");
        node.kubectl_ok(&["delete", "pod", "bomb", "--wait=false"], "");
        other.kubectl_ok(&["create", "-f", "-"], &many);
        node.kubectl_ok(&["wait", "--for=delete", "pod", "bomb", "--timeout=60s"], "");
        ending.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    other.kubectl_ok(&["wait", "--for=condition=Ready", "--timeout=100s", "pods", "--all"], "");
    assert!(shims(&foreign).is_superset(&stays));
    let counts = ["get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}"];
    assert_eq!(other.kubectl_ok(&counts, ""), ["0"; 11].join(" "));
    assert!(!other.log().contains("shim"), "{}", other.log());
}

#[test]
fn hostile_neighbours_leave_other_pods_the_api_and_the_machine_well() {
    if !with_kubectl("hostile_neighbours_leave_other_pods_the_api_and_the_machine_well") {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let mark = data.display().to_string();
    {
        let node = Node::up(&place, &["--pod-max-pids", "64"]);
        let quiet_start = start(&node, "before");
        let quiet_api = median(|| drop(node.kubectl_ok(&["get", "pods"], "")));
        for (name, container) in BAD {
            node.kubectl_ok(&["create", "-f", "-"], &bad_pod(name, container));
        }
        let state = |name: &str, path: &str, wanted: &dyn Fn(&str) -> bool| {
            let path = format!("jsonpath={path}");
            node.wait_for(&["get", "pod", name, "-o", &path], wanted)
        };
        let container = ".status.containerStatuses[0]";
        let ended = format!("{{{container}.state}}{{{container}.lastState}}");
        state("hog", &ended, &|text| text.contains("OOMKilled"));
        state("loop", &format!("{{{container}.state.waiting.reason}}"), &|text| text == "CrashLoopBackOff");
        state("bomb", "{.status.phase}", &|text| text == "Running");
        state("hook", &format!("{{{container}.state.waiting.message}}"), &|text| {
            text.starts_with("running postStart hook for")
        });
        state("fifo", &format!("{{{container}.state.waiting.reason}}"), &|text| {
            text == "CreateContainerConfigError"
        });
        state("flood", "{.status.phase}", &|text| text == "Running");

        let start_beside = start(&node, "beside");
        let api_beside = median(|| drop(node.kubectl_ok(&["get", "pods"], "")));
        // Generous: the machine of the tests is shared. What must not be is a node that stands still.
        let bound = |quiet: Duration| quiet * 20 + Duration::from_secs(5);
        assert!(start_beside < bound(quiet_start), "a start took {start_beside:?}, {quiet_start:?} before");
        assert!(api_beside < bound(quiet_api), "an answer took {api_beside:?}, {quiet_api:?} before");
        let restarts = node.kubectl_ok(
            &[
                "get",
                "pods",
                "before",
                "beside",
                "-o",
                "jsonpath={.items[*].status.containerStatuses[0].restartCount}",
            ],
            "",
        );
        assert_eq!(restarts, "0 0");
        // Five files of ten mebibytes each, and one write more.
        let logs = bytes_below(&data.join("kubelet/logs"));
        assert!(logs < 56 * 1024 * 1024, "the logs take {logs} bytes");

        let names: Vec<&str> = BAD.iter().map(|(name, _)| *name).collect();
        let arguments: Vec<&str> =
            ["delete", "pods", "--timeout=60s"].into_iter().chain(names.iter().copied()).collect();
        node.kubectl_ok(&arguments, "");
        node.kubectl_ok(&["wait", "--for=condition=Ready", "--timeout=10s", "pod", "before", "beside"], "");
    }
    assert_eq!(left_behind(&mark), std::collections::BTreeSet::new());
}
