//! Threats T64 to T69: what a container tries and must not be able to do, tried from inside one, over the interface that a
//! kubelet uses.

#[path = "served/served_runtime.rs"]
mod served_runtime;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use cri::v1::{ContainerConfig, Int64Value, KeyValue};
use served_runtime::{ServedRuntime, Test, script, waiting};

const PROBES: &str = include_str!("escape/probes.sh");
/// What containerd gives a container, and so we do.
const DEFAULT_CAPABILITIES: &str = "00000000a80425fb";
const NO_CAPABILITIES: &str = "0000000000000000";

const TESTS: &[Test] = &[
    ("root_in_a_container_cannot_get_out", root_in_a_container_cannot_get_out),
    ("a_user_in_a_container_cannot_get_out", a_user_in_a_container_cannot_get_out),
    ("an_executed_command_cannot_get_out", an_executed_command_cannot_get_out),
    (
        "the_probes_find_what_an_unconfined_container_can_do",
        the_probes_find_what_an_unconfined_container_can_do,
    ),
    ("a_fork_bomb_ends_at_the_pods_limit", a_fork_bomb_ends_at_the_pods_limit),
    (
        "pods_share_no_processes_no_variables_and_no_sockets",
        pods_share_no_processes_no_variables_and_no_sockets,
    ),
    ("helpers_carry_no_variable_and_no_abstract_socket", helpers_carry_no_variable_and_no_abstract_socket),
];

fn main() -> ExitCode {
    served_runtime::main(TESTS)
}

fn probing(capabilities: &str) -> ContainerConfig {
    script(&format!("EXPECTED_CAPABILITIES={capabilities}\n{PROBES}"))
}

/// The probes that got out; panics unless the script came to its end and tried enough.
fn escapes(output: &str) -> Vec<&str> {
    assert!(output.ends_with("probes done\n"), "the script did not finish: {output}");
    let held = output.lines().filter(|line| line.starts_with("held ")).count();
    let escaped: Vec<&str> = output.lines().filter(|line| line.starts_with("ESCAPED ")).collect();
    assert!(held + escaped.len() > 50, "too few probes: {output}");
    escaped
}

fn root_in_a_container_cannot_get_out(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("root").await;
        let output = served.run_to_end(&pod, "main", probing(DEFAULT_CAPABILITIES)).await;
        assert_eq!(escapes(&output), Vec::<&str>::new(), "{output}");
        served.remove(pod).await;
        served.end();
    });
}

fn a_user_in_a_container_cannot_get_out(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("user").await;
        let mut container = probing(NO_CAPABILITIES);
        let security =
            container.linux.as_mut().and_then(|linux| linux.security_context.as_mut()).expect("set above");
        security.run_as_user = Some(Int64Value { value: 1000 });
        security.run_as_group = Some(Int64Value { value: 1000 });
        let output = served.run_to_end(&pod, "main", container).await;
        assert_eq!(escapes(&output), Vec::<&str>::new(), "{output}");
        served.remove(pod).await;
        served.end();
    });
}

fn an_executed_command_cannot_get_out(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("executed").await;
        let container = served.start_container(&pod, "main", waiting()).await;
        let probes = format!("EXPECTED_CAPABILITIES={DEFAULT_CAPABILITIES}\n{PROBES}");
        let answer = served.execute(&container, &["/bin/sh", "-c", &probes]).await;
        let output = String::from_utf8_lossy(&answer.stdout);
        assert_eq!(escapes(&output), Vec::<&str>::new(), "{output}");
        served.remove(pod).await;
        served.end();
    });
}

/// Probes that never find anything prove nothing.
fn the_probes_find_what_an_unconfined_container_can_do(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("unconfined").await;
        let mut container = probing(DEFAULT_CAPABILITIES);
        let linux = container.linux.as_mut().expect("set above");
        let security = linux.security_context.as_mut().expect("set above");
        security.seccomp = Some(cri::v1::SecurityProfile { profile_type: 1, localhost_ref: String::new() });
        security.masked_paths.clear();
        security.readonly_paths.clear();
        let output = served.run_to_end(&pod, "main", container).await;
        let found = escapes(&output).join("\n");
        for probe in [
            "seccomp filter",
            "call keyctl",
            "call userfaultfd",
            "new user namespace",
            "write /proc/sysrq-trigger",
        ] {
            let tried = output.contains(&format!("held {probe}"));
            assert!(found.contains(probe) || !tried, "`{probe}` is not noticed: {output}");
        }
        assert!(found.contains("seccomp filter"), "{output}");
        served.remove(pod).await;
        served.end();
    });
}

fn a_fork_bomb_ends_at_the_pods_limit(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("bomb").await;
        let container = served.start_container(&pod, "main", waiting()).await;
        let bomb = "count=0; while [ $count -lt 1000 ]; do sleep 60 & count=$((count + 1)); done";
        let answer =
            served.execute(&container, &["/bin/sh", "-c", &format!("({bomb}) >/dev/null 2>&1")]).await;
        let group = fs::read_to_string("/proc/self/cgroup").expect("readable");
        if group.contains(":pids:") || Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            assert_ne!(answer.exit_code, 0, "the bomb went off");
            let request = cri::v1::PodSandboxStatsRequest { pod_sandbox_id: pod.id.clone() };
            let stats = served.runtime.pod_sandbox_stats(request).await.expect("figures").into_inner().stats;
            let processes =
                stats.and_then(|stats| stats.linux).and_then(|linux| linux.process).expect("counted");
            let count = processes.process_count.expect("counted").value;
            assert!((100..=128).contains(&count), "{count} processes");
        }
        let own = format!("({bomb}) >/dev/null 2>&1 & exec sleep 60");
        let bombed = served.start_container(&pod, "bombed", script(&own)).await;
        served.execute(&bombed, &["/bin/true"]).await;
        // Another pod has room.
        let other = served.pod("other").await;
        let output = served.run_to_end(&other, "main", script("(echo room) | cat")).await;
        assert_eq!(output, "room\n");
        served.remove(other).await;
        served.remove(pod).await;
        served.end();
    });
}

fn with_secret(mut container: ContainerConfig, value: &str) -> ContainerConfig {
    container.envs.push(KeyValue { key: "SECRET".to_owned(), value: value.to_owned() });
    container
}

fn pods_share_no_processes_no_variables_and_no_sockets(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let (one, two) = (served.pod("one").await, served.pod("two").await);
        let first = served.start_container(&one, "main", with_secret(waiting(), "the-first-secret")).await;
        let second = served.start_container(&two, "main", with_secret(waiting(), "the-second-secret")).await;
        let look = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; ls /proc | grep -c '^[0-9]'";
        let seen = served.execute(&first, &["/bin/sh", "-c", look]).await;
        let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
        assert!(seen.contains("the-first-secret"), "the probe sees its own: {seen}");
        assert!(!seen.contains("the-second-secret"), "{seen}");
        let names = |container: &'static str| container;
        let namespaces = "for kind in pid net ipc uts mnt cgroup; do readlink /proc/self/ns/$kind; done";
        let mut all: Vec<String> = Vec::new();
        for container in [&first, &second] {
            let answer = served.execute(container, &["/bin/sh", "-c", namespaces]).await;
            all.extend(String::from_utf8_lossy(&answer.stdout).lines().map(str::to_owned));
        }
        for kind in ["pid", "net", "ipc", "uts", "mnt", "cgroup"] {
            let own = fs::read_link(format!("/proc/self/ns/{kind}")).expect("readable").display().to_string();
            assert!(!all.contains(&own), "{} is the machine's", names(kind));
        }
        assert_eq!(all.len(), 12, "{all:?}");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 12, "a namespace is shared: {all:?}");
        served.remove(one).await;
        served.remove(two).await;
        served.end();
    });
}

fn helpers_carry_no_variable_and_no_abstract_socket(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("helpers").await;
        let container =
            served.start_container(&pod, "main", with_secret(waiting(), "a-secret-of-the-pod")).await;
        served.execute(&container, &["/bin/true"]).await;
        let directory = served.directory.display().to_string();
        let mut shims = 0;
        for process in fs::read_dir("/proc").expect("readable").flatten() {
            let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
            let line = String::from_utf8_lossy(&read("cmdline")).into_owned();
            if !line.contains(&directory) || line.contains("\0serve\0") {
                continue;
            }
            shims += 1;
            assert_eq!(String::from_utf8_lossy(&read("environ")), "", "{line}");
            assert!(!line.contains("a-secret-of-the-pod"), "{line}");
        }
        assert_eq!(shims, 1, "one shim a pod");
        // Sockets of the runtime's namespace: every one has a path.
        let sockets = fs::read_to_string(format!("/proc/{}/net/unix", served.pid())).expect("readable");
        let abstract_ones: Vec<&str> = sockets.lines().filter(|line| line.contains(" @")).collect();
        assert_eq!(abstract_ones, Vec::<&str>::new());
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(served.directory.join("cri.sock")).expect("the socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        served.remove(pod).await;
        served.end();
    });
}
