//! Hooks in real containers: delivered at least once, with reason and environment, readable, bounded, from inside the pod.

use std::path::PathBuf;
use std::process::Command;

use e2e::{Node, Place, Said, finish, left_behind};

use super::node::with_kubectl;

/// A pod of one container, with fields of the container and of the pod, and a directory of the machine at `/out`.
struct Pod<'a> {
    name: &'a str,
    annotations: &'a str,
    script: &'a str,
    container: &'a str,
    spec: &'a str,
}

/// A program that fails when it is stopped.
const FAILING: &str = "trap 'exit 1' TERM; while true; do sleep 0.05; done";

impl Default for Pod<'_> {
    fn default() -> Self {
        Self {
            name: "p",
            annotations: "",
            script: "trap 'exit 0' TERM; while true; do sleep 0.05; done",
            container: "",
            spec: "",
        }
    }
}

impl Pod<'_> {
    fn manifest(&self, out: &std::path::Path) -> String {
        let Self { name, annotations, script, container, spec } = self;
        format!(
            r#"apiVersion: v1
kind: Pod
metadata:
  name: {name}
  annotations:
    made-by: the-tests
{annotations}
spec:
  terminationGracePeriodSeconds: 8
{spec}
  volumes:
  - {{name: out, hostPath: {{path: {out}, type: Directory}}}}
  containers:
  - name: c
    image: coracle.dev/host
    command: [/bin/sh, -c, {script:?}]
    volumeMounts: [{{name: out, mountPath: /out}}]
{container}
"#,
            out = out.display()
        )
    }
}

/// A node, and a directory that its pods write to.
struct World {
    node: Node,
    place: Place,
    out: PathBuf,
}

impl World {
    fn new(arguments: &[&str]) -> Self {
        let place = Place::new();
        let out = place.data().parent().expect("a parent").join("out");
        std::fs::create_dir(&out).expect("made");
        Self { node: Node::up(&place, arguments), place, out }
    }

    fn create(&self, pod: &Pod<'_>) {
        self.node.kubectl_ok(&["create", "-f", "-"], &pod.manifest(&self.out));
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.out.join(name)).unwrap_or_default()
    }

    /// Waits until the file in the pods' directory is as wanted.
    fn wait_for_text(&self, name: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = std::time::Instant::now() + e2e::PATIENCE;
        loop {
            let text = self.text(name);
            if wanted(&text) {
                return text;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "{name} is {text:?}\n{}\n--- node\n{}",
                self.node.kubectl(&["describe", "pods"], "").stdout,
                self.node.log()
            );
            std::thread::yield_now();
        }
    }

    fn events(&self, reason: &str) -> String {
        let selector = format!("reason={reason}");
        let path = "jsonpath={range .items[*]}{.involvedObject.name}: {.message}{\"\\n\"}{end}";
        self.node
            .wait_for(&["get", "events", "--field-selector", &selector, "-o", path], |out| !out.is_empty())
    }

    fn phase(&self, name: &str, phase: &str) {
        self.node.wait_for(&["get", "pod", name, "-o", "jsonpath={.status.phase}"], |out| out == phase);
    }

    fn logs(&self, arguments: &[&str]) -> Said {
        let mut all = vec!["logs"];
        all.extend(arguments);
        let mut command: Command = self.place.coracle(&all);
        finish(command.env("KUBECONFIG", &self.node.kubeconfig), "")
    }

    fn delete(&self, name: &str) {
        self.node.kubectl_ok(&["delete", "pod", name], "");
    }

    /// The daemon is killed and started again.
    fn crash(&mut self) {
        self.node.kill();
        self.node = Node::up(&self.place, &[]);
    }
}

#[test]
fn hooks_see_the_containers_environment_and_their_output_has_a_log_of_its_own() {
    if !with_kubectl("hooks_see_the_containers_environment_and_their_output_has_a_log_of_its_own") {
        return;
    }
    let world = World::new(&[]);
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter22hunter22}\n";
    world.node.kubectl_ok(&["create", "-f", "-"], secret);
    world.create(&Pod {
        annotations: "    hooks.coracle.dev/expand: \"true\"\n    hooks.coracle.dev/parameters: \"true\"",
        container: r#"
    env:
    - {name: GREETING, value: hello}
    - {name: HOOK_NAME, value: mine}
    - name: PASSWORD
      valueFrom: {secretKeyRef: {name: s, key: password}}
    lifecycle:
      postStart:
        exec: {command: [/bin/sh, -c, 'echo "$GREETING $HOOK_NAME $HOOK_ATTEMPT $0"; printf "%s\033[2J\n" $PASSWORD; echo oops >&2', "$(GREETING) $(NOBODY)"]}
      preStop:
        exec: {command: [/bin/sh, -c, 'echo "$HOOK_REASON $0" >> /out/stops']}"#,
        ..Pod::default()
    });
    world.phase("p", "Running");
    let said = world.logs(&["pod/p", "--hook", "postStart"]);
    assert_eq!(said.status, 0, "{}", said.all());
    for line in ["[postStart hook, attempt 1]", "hello mine 1 hello $(NOBODY)", "****\\u{1b}[2J", "oops"] {
        assert!(said.lines().contains(&line), "{line}: {}", said.all());
    }
    assert!(said.stdout.contains("postStart hook succeeded: exit status 0 after"), "{}", said.all());
    let by_kubectl =
        world.node.kubectl_ok(&["get", "--raw", "/api/v1/namespaces/default/pods/p/log?hook=postStart"], "");
    assert_eq!(by_kubectl, said.stdout);
    let followed = world.logs(&["pod/p", "-c", "c", "--hook", "postStart", "-f", "--tail", "1"]);
    assert!(followed.stdout.starts_with("[postStart hook succeeded"), "{}", followed.all());
    let own = world.logs(&["pod/p", "-c", "c"]);
    assert_eq!((own.status, own.stdout.as_str()), (0, ""), "{}", own.all());
    let none = world.logs(&["pod/p", "--hook", "preStop"]);
    assert!(none.status == 1 && none.stderr.contains("no preStop hook"), "{}", none.all());
    let event = world.events("HookFinished");
    assert!(event.contains("coracle logs pod/p -n default -c c --hook postStart"), "{event}");
    world.delete("p");
    assert_eq!(world.text("stops"), "Delete --reason=Delete\n");
    let events = world.node.kubectl_ok(&["get", "events", "-o", "yaml"], "");
    for text in [&events, &world.node.log()] {
        assert!(!text.contains("hunter22") && !text.contains("oops"), "{text}");
    }
}

/// What a hook that hangs had said could not be read until it ended.
#[test]
fn a_hook_that_hangs_can_be_read_while_it_runs() {
    if !with_kubectl("a_hook_that_hangs_can_be_read_while_it_runs") {
        return;
    }
    let world = World::new(&[]);
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter22hunter22}\n";
    world.node.kubectl_ok(&["create", "-f", "-"], secret);
    let hook = "echo begun; printf hunter22; sleep 0.3; echo hunter22; echo oh >&2; echo waiting; \
                until [ -e /out/go ]; do sleep 0.05; done; echo done";
    let container = format!(
        "    env: [{{name: PASSWORD, valueFrom: {{secretKeyRef: {{name: s, key: password}}}}}}]\n    lifecycle: {{postStart: {{exec: {{command: [/bin/sh, -c, {hook:?}]}}}}}}"
    );
    world.create(&Pod { container: &container, ..Pod::default() });
    let deadline = std::time::Instant::now() + e2e::PATIENCE;
    let log = loop {
        let log = world.logs(&["pod/p", "--hook", "postStart"]).stdout;
        if log.contains("waiting\n") && log.contains("oh\n") {
            break log;
        }
        assert!(std::time::Instant::now() < deadline, "{log}\n{}", world.node.log());
        std::thread::yield_now();
    };
    assert!(log.starts_with("[postStart hook, attempt 1]\nbegun\n"), "{log}");
    assert!(log.contains("\n****\n") && !log.contains("hunter"), "{log}");
    assert!(!log.contains("done") && !log.contains("succeeded"), "it still runs: {log}");
    std::fs::write(world.out.join("go"), "").expect("written");
    world.phase("p", "Running");
    let whole = world.logs(&["pod/p", "--hook", "postStart", "-f"]).stdout;
    assert!(whole.contains("done\n") && whole.contains("[postStart hook succeeded"), "{whole}");
    for line in ["begun", "****", "oh", "waiting", "done"] {
        assert_eq!(whole.lines().filter(|one| *one == line).count(), 1, "{line}: {whole}");
    }
    world.delete("p");
}

/// What a hook had printed last was lost when its time was over: it was still on its way, or might have been the beginning of a
/// secret.
#[test]
fn what_a_hook_had_printed_when_its_time_was_over_is_in_its_log_and_a_long_output_is_read_while_it_runs() {
    let name = "what_a_hook_had_printed_when_its_time_was_over_is_in_its_log_and_a_long_output_is_read_while_it_runs";
    if !with_kubectl(name) {
        return;
    }
    let world = World::new(&[]);
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter22hunter22}\n";
    world.node.kubectl_ok(&["create", "-f", "-"], secret);
    // 60,000 bytes at once, then something that goes on until its time is over, and a line that is not finished.
    let hook = "head -c 60000 /dev/zero | tr -c x x; echo; echo $PASSWORD; touch /out/half; \
                until [ -e /out/go ]; do sleep 0.05; done; while :; do sleep 0.02; printf 'on hunter22hunt'; done";
    let container = format!(
        "    env: [{{name: PASSWORD, valueFrom: {{secretKeyRef: {{name: s, key: password}}}}}}]\n    lifecycle: {{postStart: {{exec: {{command: [/bin/sh, -c, \"{hook}\"]}}}}}}"
    );
    world.create(&Pod {
        annotations: "    hooks.coracle.dev/timeouts: '{\"c\": {\"postStart\": \"6s\"}}'",
        container: &container,
        ..Pod::default()
    });
    let log = || world.logs(&["pod/p", "--hook", "postStart"]).stdout;
    world.wait_for_text("half", str::is_empty);
    let deadline = std::time::Instant::now() + e2e::PATIENCE;
    while !log().contains("\n****\n") {
        assert!(std::time::Instant::now() < deadline, "{}", world.node.log());
        std::thread::yield_now();
    }
    assert_eq!(log().matches('x').count(), 60_000, "all of it can be read before the end");
    std::fs::write(world.out.join("go"), "").expect("written");
    let event = world.events("FailedPostStartHook");
    assert!(event.contains("timed out after 6"), "{event}");
    let log = log();
    let (before, after) = log.rsplit_once("[postStart hook failed").expect("it failed");
    assert!(before.len() < 70_000 && after.contains("attempt 1"), "{} {after}", before.len());
    assert!(
        before.trim_end().ends_with("on hunter22hunt") || before.trim_end().ends_with("on"),
        "{:?}",
        &before[before.len() - 200..]
    );
    assert!(!log.contains("hunter22hunter22"), "secrets are hidden");
    world.delete("p");
}

/// `coracle down` is an order from outside: it ended pods without their preStop hooks.
#[test]
fn down_lets_pre_stop_hooks_run_and_now_does_not_and_neither_does_the_second_interrupt() {
    let name = "down_lets_pre_stop_hooks_run_and_now_does_not_and_neither_does_the_second_interrupt";
    if !with_kubectl(name) {
        return;
    }
    let mut world = World::new(&[]);
    let hook = "    lifecycle: {preStop: {exec: {command: [/bin/sh, -c, \"echo $HOOK_REASON >> /out/down; sleep 0.2; echo end >> /out/down\"]}}}";
    let endless = "    lifecycle: {preStop: {exec: {command: [/bin/sh, -c, \"echo begun >> /out/endless; sleep 1000\"]}}}";
    let script = "echo up >> /out/life; trap 'echo stopped >> /out/life; exit 0' TERM; while true; do sleep 0.05; done";
    world.create(&Pod { container: hook, script, ..Pod::default() });
    world.phase("p", "Running");
    let data = world.place.data();
    let mark = data.parent().expect("a parent").file_name().expect("a name").to_string_lossy().into_owned();
    let down = |place: &Place, arguments: &[&str]| {
        let mut command = place.coracle(&["down", "--data-dir"]);
        command.arg(place.data()).args(arguments);
        command
    };
    let said = finish(&mut down(&world.place, &[]), "");
    assert_eq!((said.status, world.text("down").as_str()), (0, "Delete\nend\n"), "{}", said.all());
    assert!(said.stdout.contains("1 pod stopped"), "{}", said.all());
    assert_eq!(world.text("life"), "up\nstopped\n", "the stop signal comes after the hook");
    assert_eq!(left_behind(&mark).into_iter().collect::<Vec<_>>(), Vec::<String>::new());
    // The pod comes again with its node.
    world.crash();
    world.wait_for_text("life", |text| text == "up\nstopped\nup\n");
    world.phase("p", "Running");
    world.node.kill();
    let said = finish(&mut down(&world.place, &["--now"]), "");
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(world.text("down"), "Delete\nend\n", "no second hook");
    assert_eq!(world.text("life"), "up\nstopped\nup\n", "no stop signal");
    // The first interrupt says what the second does.
    world.crash();
    world.node.kubectl_ok(&["delete", "pod", "p"], "");
    let spec = "  terminationGracePeriodSeconds: 1000";
    let pod = Pod { name: "q", container: endless, ..Pod::default() };
    let manifest = pod.manifest(&world.out).replace("  terminationGracePeriodSeconds: 8", spec);
    world.node.kubectl_ok(&["create", "-f", "-"], &manifest);
    world.phase("q", "Running");
    world.node.kill();
    let mut command = down(&world.place, &[]);
    let child = command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn();
    let mut child = child.expect("it starts");
    world.wait_for_text("endless", |text| text == "begun\n");
    let interrupt = |child: &std::process::Child| {
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    };
    interrupt(&child);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("piped")));
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("once more"))), "it says what comes");
    interrupt(&child);
    let deadline = std::time::Instant::now() + e2e::PATIENCE;
    while child.try_wait().expect("a child").is_none() {
        assert!(std::time::Instant::now() < deadline, "it waits for the grace");
        std::thread::yield_now();
    }
    assert_eq!(left_behind(&mark).into_iter().collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_post_start_hook_that_kill_9_cut_off_is_delivered_again_and_says_attempt_2() {
    if !with_kubectl("a_post_start_hook_that_kill_9_cut_off_is_delivered_again_and_says_attempt_2") {
        return;
    }
    let mut world = World::new(&[]);
    world.create(&Pod {
        script: "echo started >> /out/starts; trap 'exit 0' TERM; while true; do sleep 0.05; done",
        container: r#"
    lifecycle:
      postStart:
        exec: {command: [/bin/sh, -c, 'echo $HOOK_ATTEMPT >> /out/attempts; [ $HOOK_ATTEMPT = 2 ] || sleep 1000']}"#,
        ..Pod::default()
    });
    world.wait_for_text("attempts", |text| text == "1\n");
    world.node.wait_for(
        &["get", "pod", "p", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.message}"],
        |out| out.starts_with("running postStart hook for"),
    );
    world.crash();
    world.phase("p", "Running");
    assert_eq!(world.text("attempts"), "1\n2\n");
    assert_eq!(world.text("starts"), "started\n", "the container was not started again");
    let event = world.events("HookFinished");
    assert!(event.contains("attempt 2"), "{event}");
    let log = world.logs(&["pod/p", "--hook", "postStart"]).stdout;
    assert!(
        log.contains("[postStart hook, attempt 1]") && log.contains("[postStart hook, attempt 2]"),
        "{log}"
    );
    world.crash();
    world.phase("p", "Running");
    world.delete("p");
    assert_eq!(world.text("attempts"), "1\n2\n", "what ended is not delivered again");
}

#[test]
fn a_pre_stop_hook_that_kill_9_cut_off_is_delivered_again() {
    if !with_kubectl("a_pre_stop_hook_that_kill_9_cut_off_is_delivered_again") {
        return;
    }
    let mut world = World::new(&[]);
    world.create(&Pod {
        container: r#"
    lifecycle:
      preStop:
        exec: {command: [/bin/sh, -c, 'echo $HOOK_ATTEMPT $HOOK_REASON >> /out/stops; [ $HOOK_ATTEMPT = 2 ] || sleep 1000']}"#,
        script: "trap 'echo signal >> /out/stops; exit 0' TERM; while true; do sleep 0.05; done",
        ..Pod::default()
    });
    world.phase("p", "Running");
    world.node.kubectl_ok(&["delete", "pod", "p", "--wait=false", "--grace-period=60"], "");
    world.wait_for_text("stops", |text| text == "1 Delete\n");
    world.crash();
    world.node.wait_for(&["get", "pods", "-o", "name"], str::is_empty);
    assert_eq!(world.text("stops"), "1 Delete\n2 Delete\nsignal\n");
}

#[test]
fn a_container_that_fails_its_health_check_hears_why_it_is_stopped() {
    if !with_kubectl("a_container_that_fails_its_health_check_hears_why_it_is_stopped") {
        return;
    }
    let world = World::new(&[]);
    world.create(&Pod {
        annotations: "    hooks.coracle.dev/parameters: \"true\"",
        container: r#"
    livenessProbe:
      exec: {command: [/bin/sh, -c, "[ ! -e /tmp/ill ]"]}
      periodSeconds: 1
      failureThreshold: 1
    lifecycle:
      postStart:
        exec: {command: [/bin/sh, -c, '[ -e /out/stops ] || touch /tmp/ill']}
      preStop:
        exec: {command: [/bin/sh, -c, 'echo $HOOK_REASON $0 >> /out/stops']}"#,
        ..Pod::default()
    });
    world.wait_for_text("stops", |text| text == "Health --reason=Health\n");
    let count = "jsonpath={.status.containerStatuses[0].restartCount}{.status.containerStatuses[0].ready}";
    world.node.wait_for(&["get", "pod", "p", "-o", count], |out| out == "1true");
    world.delete("p");
    assert_eq!(world.text("stops"), "Health --reason=Health\nDelete --reason=Delete\n");
}

#[test]
fn after_a_restart_post_restart_comes_before_post_start() {
    if !with_kubectl("after_a_restart_post_restart_comes_before_post_start") {
        return;
    }
    let world = World::new(&[]);
    world.create(&Pod {
        annotations: r#"    hooks.coracle.dev/handlers: '{"c": {"postRestart": {"exec": {"command": ["/bin/sh", "-c", "echo $HOOK_NAME >> /out/hooks"]}}}}'"#,
        script: "trap 'exit 0' TERM; while [ ! -e /out/fail ]; do sleep 0.05; done; rm /out/fail; exit 3",
        container: r#"
    lifecycle:
      postStart:
        exec: {command: [/bin/sh, -c, 'echo $HOOK_NAME >> /out/hooks']}"#,
        ..Pod::default()
    });
    world.wait_for_text("hooks", |text| text == "postStart\n");
    std::fs::write(world.out.join("fail"), "").expect("written");
    world.wait_for_text("hooks", |text| text == "postStart\npostRestart\npostStart\n");
    world.delete("p");
}

#[test]
fn a_pre_start_hook_reaches_the_pod_itself_and_its_failure_keeps_the_container_from_being_created() {
    if !with_kubectl(
        "a_pre_start_hook_reaches_the_pod_itself_and_its_failure_keeps_the_container_from_being_created",
    ) {
        return;
    }
    let world = World::new(&[]);
    let handler = r#"    hooks.coracle.dev/handlers: '{"c": {"preStart": {"httpGet": {"host": "127.0.0.1", "port": 8080, "path": "/soon"}}}}'"#;
    world.create(&Pod {
        annotations: handler,
        script: "echo created >> /out/starts; trap 'exit 0' TERM; while true; do sleep 0.05; done",
        ..Pod::default()
    });
    world.node.wait_for(
        &["get", "pod", "p", "-o", "jsonpath={.status.containerStatuses[0].state.waiting}"],
        |out| out.contains("PreStartHookError") && out.contains("connection refused"),
    );
    let event = world.events("FailedPreStartHook");
    assert!(
        event.contains("PreStartHook failed: dial tcp 127.0.0.1:8080: connect: connection refused"),
        "{event}"
    );
    assert_eq!(world.text("starts"), "", "the container was not created");
    world.delete("p");
    // With a server in the pod it succeeds; the server is on the pod's own loopback.
    world.create(&Pod {
        name: "q",
        annotations: handler,
        spec: r#"  initContainers:
  - name: server
    image: coracle.dev/host
    restartPolicy: Always
    command: [busybox, httpd, -f, -p, "127.0.0.1:8080", -h, /tmp]
    startupProbe:
      exec: {command: [/bin/sh, -c, "grep -q 0100007F:1F90 /proc/net/tcp"]}
      periodSeconds: 1"#,
        script: "echo created >> /out/starts; trap 'exit 0' TERM; while true; do sleep 0.05; done",
        ..Pod::default()
    });
    world.wait_for_text("starts", |text| text == "created\n");
    let log = world.logs(&["pod/q", "-c", "c", "--hook", "preStart"]);
    assert!(log.stdout.contains("preStart hook succeeded: HTTP status 404"), "{}", log.all());
    world.delete("q");
    // What can be no such hook is refused in words.
    let exec = r#"    hooks.coracle.dev/handlers: '{"c": {"preStart": {"exec": {"command": ["true"]}}}}'"#;
    let refused = Pod { name: "r", annotations: exec, ..Pod::default() };
    let said = world.node.kubectl(&["create", "-f", "-"], &refused.manifest(&world.out));
    let words = "metadata.annotations[hooks.coracle.dev/handlers][c].preStart.exec: Forbidden: exec is incompatible with preStart";
    assert!(said.status == 1 && said.stderr.contains(words), "{}", said.all());
}

#[test]
fn by_the_documents_contract_only_the_output_ok_is_a_success() {
    if !with_kubectl("by_the_documents_contract_only_the_output_ok_is_a_success") {
        return;
    }
    let world = World::new(&[]);
    for (name, script, phase) in [("good", "echo ok; exit 3", "Running"), ("bad", "echo fine", "Failed")] {
        let hook = format!(
            "\n    lifecycle:\n      postStart:\n        exec: {{command: [/bin/sh, -c, {script:?}]}}"
        );
        world.create(&Pod {
            name,
            annotations: "    hooks.coracle.dev/contract: document",
            spec: "  restartPolicy: Never",
            container: &hook,
            script: FAILING,
        });
        world.phase(name, phase);
    }
    let event = world.events("FailedPostStartHook");
    assert!(
        event.starts_with("bad: PostStartHook failed: exit status 0, standard output is not \"ok\""),
        "{event}"
    );
}

#[test]
fn an_endless_hook_is_told_and_its_pod_can_be_deleted_with_all_that_the_hook_left() {
    if !with_kubectl("an_endless_hook_is_told_and_its_pod_can_be_deleted_with_all_that_the_hook_left") {
        return;
    }
    let world = World::new(&[]);
    world.create(&Pod {
        container: r#"
    lifecycle:
      postStart:
        exec: {command: [/bin/sh, -c, "setsid sleep 98761 > /dev/null 2>&1 & touch /out/left; sleep 98762"]}"#,
        ..Pod::default()
    });
    world.wait_for_text("left", str::is_empty);
    let running = world.events("HookRunning");
    assert!(running.contains("postStart hook has been running for 10 s, attempt 1"), "{running}");
    world.node.wait_for(
        &["get", "pod", "p", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.message}"],
        |out| out.starts_with("running postStart hook for 1"),
    );
    let began = std::time::Instant::now();
    world.delete("p");
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    let left: Vec<String> = std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok())
        .filter(|command| command.contains("98761") || command.contains("98762"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "what a hook leaves behind ends with its container");
    let mark = world
        .place
        .data()
        .parent()
        .expect("a parent")
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(!left_behind(&mark).iter().any(|each| each.contains("coracle shim")));
}

#[test]
fn hooks_reach_only_what_they_may() {
    if !with_kubectl("hooks_reach_only_what_they_may") {
        return;
    }
    let world = World::new(&["--hook-hosts", "pod"]);
    for (name, host) in [("near", "169.254.169.254"), ("far", "192.0.2.1")] {
        let hook = format!(
            "\n    lifecycle:\n      postStart:\n        httpGet: {{host: {host}, port: 80, path: /latest}}"
        );
        let spec = "  restartPolicy: Never";
        let pod = Pod { name, spec, container: &hook, script: FAILING, ..Pod::default() };
        world.create(&pod);
        world.phase(name, "Failed");
    }
    let selector = ["get", "events", "--field-selector", "reason=HostRefused", "-o"];
    let mut arguments = selector.to_vec();
    arguments.push("jsonpath={range .items[*]}{.message}{\"\\n\"}{end}");
    world.node.wait_for(&arguments, |out| {
        out.contains("169.254.169.254 is the link-local address")
            && out.contains("192.0.2.1 is not the pod itself")
    });
}

/// A part of Coracle that runs alone, ended when dropped.
struct Part(std::process::Child);

impl Part {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let null = std::process::Stdio::null;
        let child = place.coracle(arguments).stdin(null()).stdout(null()).stderr(null()).spawn();
        Self(child.expect("it starts"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// Asks the runtime for its sandboxes, and to stop them all, as `crictl` does. Nothing when it does not answer.
fn sandboxes(socket: &std::path::Path, stop: bool) -> Option<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut client, _) = cri::connect(socket).await.ok()?;
        let list = client.list_pod_sandbox(cri::v1::ListPodSandboxRequest::default()).await.ok()?;
        let items = list.into_inner().items;
        for sandbox in &items {
            if stop {
                let request = cri::v1::StopPodSandboxRequest { pod_sandbox_id: sandbox.id.clone() };
                client.stop_pod_sandbox(request).await.expect("stopped");
            }
        }
        Some(items.len())
    })
}

#[test]
fn a_container_whose_sandbox_is_stopped_hears_dependency_and_starts_again() {
    if !e2e::privileged("a_container_whose_sandbox_is_stopped_hears_dependency_and_starts_again") {
        return;
    }
    let place = Place::new();
    let top = place.data().parent().expect("a parent").to_owned();
    let (out, pods, socket) = (top.join("out"), top.join("pods"), top.join("cri.sock"));
    std::fs::create_dir(&out).expect("made");
    std::fs::create_dir(&pods).expect("made");
    let endpoint = format!("unix://{}", socket.display());
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let (data, pods_dir) = (text(&place.data()), text(&pods));
    let cri = Part::start(&place, &["cri", "--allow-host-image", "--listen", &endpoint, "--data-dir", &data]);
    let wait = |what: &str, wanted: &dyn Fn() -> bool| {
        let deadline = std::time::Instant::now() + e2e::PATIENCE;
        while !wanted() {
            assert!(std::time::Instant::now() < deadline, "it did not happen: {what}");
            std::thread::yield_now();
        }
    };
    wait("the runtime serves", &|| sandboxes(&socket, false).is_some());
    let agent_data = text(&top.join("agent"));
    let agent = Part::start(
        &place,
        &[
            "kubelet",
            "--node-name",
            "alone",
            "--pod-manifest-path",
            &pods_dir,
            "--data-dir",
            &agent_data,
            "--container-runtime-endpoint",
            &endpoint,
        ],
    );
    let pod = Pod {
        script: "echo started >> /out/starts; trap 'exit 0' TERM; while true; do sleep 0.05; done",
        container: r#"
    imagePullPolicy: IfNotPresent
    lifecycle:
      preStop:
        exec: {command: [/bin/sh, -c, 'echo $HOOK_REASON >> /out/stops']}"#,
        ..Pod::default()
    };
    std::fs::write(pods.join("p.yaml"), pod.manifest(&out)).expect("written");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    wait("the pod runs", &|| read("starts") == "started\n");
    assert_eq!(sandboxes(&socket, true), Some(1));
    wait("the hook hears why", &|| read("stops") == "Dependency\n");
    wait("it starts again in a new sandbox", &|| read("starts") == "started\nstarted\n");
    std::fs::remove_file(pods.join("p.yaml")).expect("removed");
    wait("the pod is gone", &|| sandboxes(&socket, false) == Some(0));
    assert_eq!(read("stops"), "Dependency\nDelete\n");
    drop(agent);
    drop(cri);
    let mark = top.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(left_behind(&mark), std::collections::BTreeSet::new());
}
