//! The machine is booted again: everything that ran is gone, the boot clock begins anew, and pods come up in their order.

use std::path::Path;
use std::process::Command;

use e2e::{Node, Place, binary, privileged, shims};

const PODS: &str = r#"apiVersion: v1
kind: Pod
metadata: {name: steady}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, emptyDir: {}}, {name: m, emptyDir: {medium: Memory}}]
  initContainers:
  - {name: init, image: coracle.dev/host, command: [/bin/sh, -c, "echo init >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  - name: side
    image: coracle.dev/host
    restartPolicy: Always
    command: [/bin/sh, -c, "echo side >> /v/log; exec sleep 100000"]
    volumeMounts: [{name: v, mountPath: /v}]
    startupProbe: {exec: {command: [/bin/sh, -c, "true"]}, periodSeconds: 1}
  containers:
  - name: main
    image: coracle.dev/host
    command: [/bin/sh, -c, "echo main $(ls /m | wc -l) >> /v/log; touch /m/seen; exec sleep 100000"]
    volumeMounts: [{name: v, mountPath: /v}, {name: m, mountPath: /m}]
---
apiVersion: v1
kind: Pod
metadata: {name: once}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: coracle.dev/host, command: [sleep, "100000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: done}
spec:
  restartPolicy: Never
  containers: [{name: c, image: coracle.dev/host, command: [/bin/sh, -c, "echo ran"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: looper}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: coracle.dev/host, command: [/bin/sh, -c, "exit 3"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: late}
spec:
  activeDeadlineSeconds: 100000
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: coracle.dev/host, command: [sleep, "100000"]}]
"#;

/// Kills everything of a node and takes its mounts away, as losing power would.
fn lose_power(node: &mut Node, place: &Place) {
    let data = place.data();
    let mark = data.parent().and_then(Path::file_name).expect("a name").to_string_lossy().into_owned();
    node.kill();
    let own = std::fs::read_link("/proc/self/ns/mnt").expect("a namespace");
    // What a container runs has forks of its own: again, until nothing is found.
    for _ in 0..20 {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let shim = read("cmdline").contains(&mark) && read("cmdline").contains("coracle");
            // Its own root is of this node. Shims of other nodes see this node's volumes among the machine's mounts.
            let has_root_here = |line: &str| line.split(' ').nth(4) == Some("/") && line.contains(&mark);
            let inside = std::fs::read_link(entry.path().join("ns/mnt"))
                .is_ok_and(|namespace| namespace != own)
                && read("mountinfo").lines().any(has_root_here);
            if (shim || inside) && pid != std::process::id() {
                found.push(pid.to_string());
            }
        }
        if found.is_empty() {
            break;
        }
        let _ = Command::new("kill").arg("-9").args(&found).status();
        std::thread::yield_now();
    }
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points: Vec<&str> = table.lines().filter_map(|line| line.split(' ').nth(4)).collect();
    for point in points.into_iter().rev().filter(|point| point.contains(&mark)) {
        let _ = Command::new("umount").args(["-l", point]).status();
    }
}

/// A command under which the machine seems to have been booted a minute ago, with an identity of its own.
fn after_reboot(place: &Place) -> Command {
    let identity = place.file("boot_id", "00000000-1111-2222-3333-444444444444\n");
    let uptime = std::fs::read_to_string("/proc/uptime").expect("an uptime");
    let seconds: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).expect("seconds");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--time", &format!("--boottime={}", 60 - seconds as i64)]);
    command.args(["sh", "-c", "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\""]);
    command.arg(identity).arg(binary()).env_remove("KUBECONFIG").env("NO_COLOR", "1");
    command
}

/// While the tests ran, pods of all other nodes lost their shims at once: whoever had a volume of the node without power in
/// its table of mounts was killed with it.
#[test]
fn a_node_that_loses_power_takes_no_pod_of_another_node_along() {
    if !privileged("a_node_that_loses_power_takes_no_pod_of_another_node_along") {
        return;
    }
    let (first, second) = (Place::new(), Place::new());
    let mut node = Node::up(&first, &[]);
    let other = Node::up(&second, &[]);
    let phase = ["get", "pod", "p", "-o", "jsonpath={.status.phase}"];
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "m", "emptyDir": {"medium": "Memory"}}],
        "containers": [{"name": "c", "image": "coracle.dev/host", "command": ["sleep", "100000"],
                        "volumeMounts": [{"name": "m", "mountPath": "/m"}]}]}}"#;
    for node in [&node, &other] {
        // The other one's shim begins when the first one's volumes are mounted.
        node.kubectl_ok(&["create", "-f", "-"], pod);
        node.wait_for(&phase, |phase| phase == "Running");
    }
    let (mark, foreign) = (first.data().display().to_string(), second.data().display().to_string());
    let before = shims(&foreign);
    assert_eq!((before.len(), shims(&mark).len()), (1, 1));
    lose_power(&mut node, &first);
    assert_eq!(shims(&mark).len(), 0);
    assert_eq!(shims(&foreign), before);
    assert!(!other.log().contains("shim"), "{}", other.log());
}

#[test]
fn pods_start_again_in_order_after_a_reboot_and_what_has_ended_stays_so() {
    let name = "pods_start_again_in_order_after_a_reboot_and_what_has_ended_stays_so";
    if !privileged(name) {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], PODS);
    let shown = |pod: &'static str, path: &'static str| ["get", "pod", pod, "-o", path];
    let phase = "jsonpath={.status.phase}";
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    node.wait_for(&shown("steady", ready), |ready| ready == "True");
    node.wait_for(&shown("done", phase), |phase| phase == "Succeeded");
    node.wait_for(&shown("late", phase), |phase| phase == "Running");
    node.wait_for(&shown("once", phase), |phase| phase == "Running");
    let waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    node.wait_for(&shown("looper", waiting), |reason| reason == "CrashLoopBackOff");
    let log = ["exec", "steady", "-c", "main", "--", "cat", "/v/log"];
    assert_eq!(node.kubectl_ok(&log, ""), "init\nside\nmain 0\n");
    let address = node.kubectl_ok(&shown("steady", "jsonpath={.status.podIP}"), "");
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    let looped: u32 = node.kubectl_ok(&shown("looper", restarts), "").parse().expect("a number");

    lose_power(&mut node, &place);
    let node = Node::up_by(after_reboot(&place), &place, &[]);
    let counts = "jsonpath={.status.initContainerStatuses[*].restartCount} {.status.containerStatuses[0].restartCount} {.status.conditions[?(@.type=='Ready')].status}";
    node.wait_for(&shown("steady", counts), |shown| shown == "1 1 1 True");
    let said = node.kubectl_ok(&log, "");
    assert_eq!(said, "init\nside\nmain 0\ninit\nside\nmain 0\n", "in order, with a new memory volume");
    let now = node.kubectl_ok(&shown("steady", "jsonpath={.status.podIP}"), "");
    assert!(!now.is_empty(), "before it was {address}");
    let last = "jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}";
    assert_ne!(node.kubectl_ok(&shown("steady", last), ""), "0");
    node.wait_for(&shown("once", phase), |phase| phase == "Failed");
    assert_eq!(node.kubectl_ok(&shown("done", phase), ""), "Succeeded");
    assert_eq!(node.kubectl_ok(&["logs", "done"], ""), "ran\n");
    node.wait_for(&shown("looper", restarts), |count| count.parse::<u32>().is_ok_and(|count| count > looped));
    node.wait_for(&shown("late", counts), |shown| shown.trim() == "1 True");
    let addresses = node.kubectl_ok(
        &["get", "pods", "-o", "jsonpath={.items[?(@.status.phase=='Running')].status.podIP}"],
        "",
    );
    let mut unique: Vec<&str> = addresses.split(' ').collect();
    let all = unique.len();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), all, "no address twice: {addresses}");
}
