//! How pods restart and how they end, in real containers.

use std::time::{Duration, Instant};

use e2e::{Node, Place, privileged};

fn pod(name: &str, spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n{spec}")
}

fn phase_of(name: &str) -> [&str; 5] {
    ["get", "pod", name, "-o", "jsonpath={.status.phase}"]
}

/// Processes of the machine whose command line holds the text.
fn processes(text: &str) -> usize {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy() != own)
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|command| String::from_utf8_lossy(command).replace('\0', " ").contains(text))
        .count()
}

fn wait_until(what: &str, wanted: impl Fn() -> bool) {
    let deadline = Instant::now() + e2e::PATIENCE;
    while !wanted() {
        assert!(Instant::now() < deadline, "it did not happen: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_second_deletion_cuts_a_long_grace_short() {
    if !privileged("a_second_deletion_cuts_a_long_grace_short") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let deaf = "  terminationGracePeriodSeconds: 600\n  containers: [{name: c, image: coracle.dev/host, command: [/bin/sh, -c, \"trap '' TERM; echo up; while true; do sleep 0.1; done\"]}]\n";
    node.kubectl_ok(&["apply", "-f", "-"], &pod("deaf", deaf));
    node.wait_for(&["logs", "deaf"], |log| log == "up\n");
    node.kubectl_ok(&["delete", "pod", "deaf", "--wait=false"], "");
    let mark = ["get", "pod", "deaf", "-o", "jsonpath={.metadata.deletionGracePeriodSeconds}"];
    assert_eq!(node.kubectl_ok(&mark, ""), "600");
    node.wait_for(&["get", "events", "--field-selector", "reason=Killing", "-o", "name"], |names| {
        !names.is_empty()
    });
    assert_eq!(node.kubectl_ok(&phase_of("deaf"), ""), "Running", "it does not hear the signal");
    let began = Instant::now();
    node.kubectl_ok(&["delete", "pod", "deaf", "--grace-period=2", "--timeout=60s"], "");
    assert!(began.elapsed() < Duration::from_secs(60), "the new grace counts from now");
}

#[test]
fn a_force_deleted_pod_vanishes_at_once_and_ends_with_its_own_grace() {
    if !privileged("a_force_deleted_pod_vanishes_at_once_and_ends_with_its_own_grace") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let slow = "  terminationGracePeriodSeconds: 100\n  volumes: [{name: h, hostPath: {path: DIR}}]\n  containers:\n  - name: c\n    image: coracle.dev/host\n    command: [/bin/sh, -c, \"trap 'sleep 1; echo bye > /h/last; exit 0' TERM; echo up; while true; do sleep 0.1; done\"]\n    volumeMounts: [{name: h, mountPath: /h}]\n";
    let shared = place.data().with_file_name("shared");
    std::fs::create_dir(&shared).expect("made");
    node.kubectl_ok(
        &["apply", "-f", "-"],
        &pod("slow", &slow.replace("DIR", shared.to_str().expect("text"))),
    );
    node.wait_for(&["logs", "slow"], |log| log == "up\n");
    node.kubectl_ok(&["delete", "pod", "slow", "--force", "--grace-period=0"], "");
    assert_eq!(node.kubectl_ok(&["get", "pods", "-o", "name"], ""), "", "the object is gone");
    wait_until("it had the time for its last words", || shared.join("last").exists());
    wait_until("nothing of it is left", || processes("/h/last") == 0);
}

#[test]
fn a_deadline_ends_a_pod_for_good() {
    if !privileged("a_deadline_ends_a_pod_for_good") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let spec = "  activeDeadlineSeconds: 2\n  terminationGracePeriodSeconds: 1\n  containers: [{name: c, image: coracle.dev/host, command: [sleep, \"100000\"]}]\n";
    node.kubectl_ok(&["apply", "-f", "-"], &pod("brief", spec));
    node.wait_for(&phase_of("brief"), |phase| phase == "Failed");
    let told = "jsonpath={.status.reason}: {.status.message}";
    assert_eq!(
        node.kubectl_ok(&["get", "pod", "brief", "-o", told], ""),
        "DeadlineExceeded: Pod was active on the node longer than the specified deadline"
    );
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}";
    assert_eq!(node.kubectl_ok(&["get", "pod", "brief", "-o", ready], ""), "PodFailed");
    node.kubectl_ok(&["delete", "pod", "brief", "--timeout=60s"], "");
}

#[test]
fn restart_rules_decide_on_the_exit_status() {
    if !privileged("restart_rules_decide_on_the_exit_status") {
        return;
    }
    let place = Place::new();
    let script = "n=$(cat /v/n 2>/dev/null || echo 0); echo $((n+1)) > /v/n; case $n in 0) exit 42;; 1) exit 43;; esac; exit 0";
    let spec = format!(
        "  restartPolicy: Never\n  volumes: [{{name: v, emptyDir: {{}}}}]\n  containers:\n  - name: c\n    image: coracle.dev/host\n    command: [/bin/sh, -c, {script:?}]\n    volumeMounts: [{{name: v, mountPath: /v}}]\n    restartPolicy: Never\n    restartPolicyRules: [{{action: Restart, exitCodes: {{operator: In, values: [42]}}}}]\n"
    );
    let said = place.run(&pod("ruled", &spec), &[]);
    assert_eq!(said.status, 43, "42 starts it again, 43 does not: {}", said.all());
    assert!(said.stderr.contains("restart 1") && !said.stderr.contains("restart 2"), "{}", said.all());
}

#[test]
fn a_rule_starts_all_containers_of_a_pod_again() {
    if !privileged("a_rule_starts_all_containers_of_a_pod_again") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let spec = r#"  restartPolicy: Never
  terminationGracePeriodSeconds: 100
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: init, image: coracle.dev/host, command: [/bin/sh, -c, "echo init >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - name: fickle
    image: coracle.dev/host
    command: [/bin/sh, -c, "echo fickle >> /v/log; while [ ! -e /v/go ]; do sleep 0.05; done; rm /v/go; exit 42"]
    volumeMounts: [{name: v, mountPath: /v}]
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
  - {name: steady, image: coracle.dev/host, command: [/bin/sh, -c, "while ! grep -q fickle /v/log; do sleep 0.05; done; echo steady >> /v/log; exec sleep 100000"], volumeMounts: [{name: v, mountPath: /v}]}
"#;
    node.kubectl_ok(&["apply", "-f", "-"], &pod("together", spec));
    let counts = [
        "get",
        "pod",
        "together",
        "-o",
        "jsonpath={.status.initContainerStatuses[0].restartCount} {.status.containerStatuses[*].restartCount} {.status.conditions[?(@.type=='Ready')].status}",
    ];
    node.wait_for(&counts, |shown| shown == "0 0 0 True");
    let address = ["get", "pod", "together", "-o", "jsonpath={.status.podIP}"];
    let before = node.kubectl_ok(&address, "");
    let log = ["exec", "together", "-c", "steady", "--", "cat", "/v/log"];
    node.wait_for(&log, |log| log == "init\nfickle\nsteady\n");
    node.kubectl_ok(&["exec", "together", "-c", "steady", "--", "touch", "/v/go"], "");
    node.wait_for(&counts, |shown| shown == "1 1 1 True");
    node.wait_for(&log, |log| log == "init\nfickle\nsteady\ninit\nfickle\nsteady\n");
    assert_eq!(node.kubectl_ok(&address, ""), before, "in the same sandbox");
    let last = "jsonpath={.status.containerStatuses[*].lastState.terminated.reason} {.status.containerStatuses[*].lastState.terminated.exitCode}";
    assert_eq!(
        node.kubectl_ok(&["get", "pod", "together", "-o", last], ""),
        "Error RestartingAllContainers 42 137"
    );
    node.kubectl_ok(&["delete", "pod", "together", "--grace-period=1", "--timeout=60s"], "");
}

#[test]
fn a_pod_whose_shim_is_killed_is_made_anew_or_has_failed_as_its_policy_says() {
    if !privileged("a_pod_whose_shim_is_killed_is_made_anew_or_has_failed_as_its_policy_says") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let spec = |policy: &str| {
        format!(
            "  restartPolicy: {policy}\n  terminationGracePeriodSeconds: 1\n  containers: [{{name: c, image: coracle.dev/host, command: [sleep, \"100000\"]}}]\n"
        )
    };
    node.kubectl_ok(
        &["apply", "-f", "-"],
        &format!("{}---\n{}", pod("again", &spec("Always")), pod("once", &spec("Never"))),
    );
    for name in ["again", "once"] {
        node.wait_for(&phase_of(name), |phase| phase == "Running");
    }
    let mark = place
        .data()
        .parent()
        .and_then(std::path::Path::file_name)
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let shims: Vec<String> = e2e::left_behind(&mark)
        .into_iter()
        .filter(|line| line.contains("coracle shim"))
        .filter_map(|line| Some(line.strip_prefix("process ")?.split(':').next()?.to_owned()))
        .collect();
    assert_eq!(shims.len(), 2);
    let killed = std::process::Command::new("kill").arg("-9").args(&shims).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let state = [
        "get",
        "pod",
        "again",
        "-o",
        "jsonpath={.status.containerStatuses[0].restartCount} {.status.conditions[?(@.type=='Ready')].status} {.status.containerStatuses[0].lastState.terminated.exitCode}",
    ];
    node.wait_for(&state, |shown| shown == "1 True 137");
    node.wait_for(&phase_of("once"), |phase| phase == "Failed");
    let code =
        ["get", "pod", "once", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"];
    assert_eq!(node.kubectl_ok(&code, ""), "137");
}

#[test]
fn a_daemon_that_is_killed_again_and_again_starts_nothing_twice_and_forgets_nothing() {
    if !privileged("a_daemon_that_is_killed_again_and_again_starts_nothing_twice_and_forgets_nothing") {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    let spec = r#"  terminationGracePeriodSeconds: 1
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: first, image: coracle.dev/host, command: [/bin/sh, -c, "echo first >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  - {name: second, image: coracle.dev/host, command: [/bin/sh, -c, "echo second >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  - {name: side, image: coracle.dev/host, restartPolicy: Always, command: [/bin/sh, -c, "echo side >> /v/log; exec sleep 100000"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - {name: main, image: coracle.dev/host, command: [/bin/sh, -c, "echo main >> /v/log; exec sleep 100000"], volumeMounts: [{name: v, mountPath: /v}]}
"#;
    // Each round kills a little later in the pod's life.
    for round in 0..12_u32 {
        let name = format!("pod-{round}");
        node.kubectl_ok(&["apply", "-f", "-"], &pod(&name, spec));
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(15 * u64::from(round)) {
            std::thread::yield_now();
        }
        node.kill();
        node = Node::up(&place, &[]);
    }
    for round in 0..12_u32 {
        let name = format!("pod-{round}");
        let ready = ["get", "pod", &name, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}"];
        node.wait_for(&ready, |ready| ready == "True");
        let log = node.kubectl_ok(&["exec", &name, "-c", "main", "--", "cat", "/v/log"], "");
        assert_eq!(log, "first\nsecond\nside\nmain\n", "{name}: in order and once each");
        let counts = [
            "get",
            "pod",
            &name,
            "-o",
            "jsonpath={.status.initContainerStatuses[*].restartCount} {.status.containerStatuses[*].restartCount}",
        ];
        assert_eq!(node.kubectl_ok(&counts, ""), "0 0 0 0", "{name}");
    }
    node.kubectl_ok(&["delete", "pods", "--all", "--wait=false"], "");
    node.kill();
    let node = Node::up(&place, &[]);
    node.wait_for(&["get", "pods", "-o", "name"], str::is_empty);
}

/// Pods that were deleted right before their node ended in order left their sandboxes behind, without containers.
#[test]
fn a_node_that_ends_while_pods_are_on_their_way_out_leaves_no_shim_without_containers() {
    if !privileged("a_node_that_ends_while_pods_are_on_their_way_out_leaves_no_shim_without_containers") {
        return;
    }
    let place = Place::new();
    let mark = place.data().display().to_string();
    let mut node = Node::up(&place, &[]);
    // Ends half a second after it was told to.
    let script = "trap 'sleep 0.5; exit 0' TERM; while true; do sleep 0.05; done";
    let spec = format!(
        "  terminationGracePeriodSeconds: 8\n  containers: [{{name: c, image: coracle.dev/host, command: [/bin/sh, -c, {script:?}]}}]\n"
    );
    let names = ["stays", "a", "b", "c", "d", "e", "f"];
    let manifest = names.map(|name| pod(name, &spec)).join("---\n");
    node.kubectl_ok(&["apply", "-f", "-"], &manifest);
    for name in names {
        node.wait_for(&phase_of(name), |phase| phase == "Running");
    }
    let mut delete = vec!["delete", "pods", "--wait=false"];
    delete.extend(&names[1..]);
    node.kubectl_ok(&delete, "");
    let told = ["get", "events", "--field-selector", "reason=Killing", "-o", "name"];
    node.wait_for(&told, |events| !events.is_empty());
    node.end();
    let left = e2e::shims(&mark);
    assert_eq!(left.len(), 1, "{left:?}");
    let node = Node::up(&place, &[]);
    assert_eq!(node.kubectl_ok(&["get", "pods", "-o", "name"], ""), "pod/stays\n");
    assert_eq!(e2e::shims(&mark), left);
}

/// It said of itself that it could not mount and that pods were not well: the pods that it was stopping.
#[test]
fn down_and_ctrl_c_complain_of_nothing_that_they_do_themselves() {
    if !privileged("down_and_ctrl_c_complain_of_nothing_that_they_do_themselves") {
        return;
    }
    use std::io::Read;
    // Not ready any more as soon as it is told to end, which takes it some probes.
    let script =
        "touch /tmp/up; echo up; trap 'rm /tmp/up; sleep 2.5; exit 0' TERM; while true; do sleep 0.05; done";
    let probe = "exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, failureThreshold: 1";
    let spec = format!(
        "  terminationGracePeriodSeconds: 20\n  volumes: [{{name: m, configMap: {{name: m}}}}, {{name: e, emptyDir: {{medium: Memory}}}}]\n  containers:\n  - name: c\n    image: coracle.dev/host\n    command: [/bin/sh, -c, {script:?}]\n    volumeMounts: [{{name: m, mountPath: /m}}, {{name: e, mountPath: /e}}]\n    readinessProbe: {{{probe}}}\n    livenessProbe: {{{probe}}}\n    lifecycle: {{preStop: {{sleep: {{seconds: 1}}}}}}\n"
    );
    let manifest = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{a: b}}\n---\n{}",
        pod("p", &spec)
    );
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], &manifest);
    let ready = ["get", "pod", "p", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}"];
    node.wait_for(&ready, |ready| ready == "True");
    node.end();
    let alarming = |text: &str| {
        text.contains("WARN")
            || text.contains("ERROR")
            || text.contains("FailedMount")
            || text.contains("Unhealthy")
    };
    assert!(!alarming(&node.log()), "{}", node.log());
    let mut down = place.coracle(&["down", "--data-dir"]);
    down.arg(place.data());
    let said = e2e::finish(&mut down, "");
    assert!(said.status == 0 && !alarming(&said.stderr), "{}", said.all());

    let file = place.file("pod.yaml", &manifest);
    let mut run = place.coracle(&["run", "--data-dir"]);
    run.arg(place.data()).arg(file).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = run.spawn().expect("it starts");
    let mut out = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    assert!(line.ends_with("up\n"), "{line}");
    let signalled = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(signalled.is_ok_and(|status| status.success()));
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{said}");
    assert!(!alarming(&said), "{said}");
}

/// A start right after `kill -9` said that the store was in use.
#[test]
fn a_start_waits_for_who_is_about_to_release_its_directory_and_no_shim_ever_holds_it() {
    if !privileged("a_start_waits_for_who_is_about_to_release_its_directory_and_no_shim_ever_holds_it") {
        return;
    }
    let place = Place::new();
    let mark = place.data().display().to_string();
    let mut node = Node::up(&place, &[]);
    let spec = "  terminationGracePeriodSeconds: 1\n  containers: [{name: c, image: coracle.dev/host, command: [sleep, \"100000\"]}]\n";
    node.kubectl_ok(&["apply", "-f", "-"], &pod("p", spec));
    node.wait_for(&phase_of("p"), |phase| phase == "Running");
    for (shim, _) in e2e::shims(&mark) {
        for entry in std::fs::read_dir(format!("/proc/{shim}/fd")).expect("its descriptors").flatten() {
            let file = std::fs::read_link(entry.path()).unwrap_or_default();
            let inherited = file.ends_with("state.db") || file.to_string_lossy().ends_with("lock");
            assert!(!inherited, "the shim has {}", file.display());
        }
    }
    node.kill();
    // Somebody who is still about to end, with what the node had open.
    let mut late = std::process::Command::new("flock");
    let mut late = late.arg(place.data().join("state.db")).args(["sleep", "1"]).spawn().expect("it starts");
    let deadline = std::time::Instant::now() + e2e::PATIENCE;
    let locks = || std::fs::read_to_string("/proc/locks").unwrap_or_default();
    while !locks().contains(&format!(" {} ", late.id())) {
        assert!(std::time::Instant::now() < deadline, "it does not lock");
        std::thread::yield_now();
    }
    let node = Node::up(&place, &[]);
    assert!(node.log().contains("waiting for its end"), "{}", node.log());
    assert!(late.wait().expect("a child").success());
    node.wait_for(&phase_of("p"), |phase| phase == "Running");
}
