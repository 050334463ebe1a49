//! Containers: exit statuses, order, restarts, users, limits, and what they may not do.

use e2e::{Place, left_behind, machine_inventory, privileged};

fn pod(name: &str, containers: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n{containers}"
    )
}

fn shell(script: &str) -> String {
    format!(
        "  containers:\n  - name: test\n    image: coracle.dev/host\n    command: [\"/bin/sh\", \"-c\", {script:?}]\n"
    )
}

#[test]
fn the_exit_status_is_that_of_the_container() {
    if !privileged("the_exit_status_is_that_of_the_container") {
        return;
    }
    let said = Place::new().run(&pod("one", &shell("exit 7")), &[]);
    assert_eq!(said.status, 7, "{}", said.all());
    let two = format!("{}---\n{}", pod("one", &shell("exit 7")), pod("two", &shell("exit 8")));
    let said = Place::new().run(&two, &[]);
    assert_eq!(said.status, 1, "{}", said.all());
}

/// What a container writes beside its volumes ends with it: its end does not wait for a disk.
#[test]
fn the_writable_layer_of_a_container_is_not_synchronised() {
    if !privileged("the_writable_layer_of_a_container_is_not_synchronised") {
        return;
    }
    let script = "echo x > /written && sync /written && cat /written && grep ' / overlay ' /proc/mounts";
    let said = Place::new().run(&pod("layer", &shell(script)), &[]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(said.stdout.contains("| x") && said.stdout.contains("volatile"), "{}", said.all());
}

#[test]
fn logs_are_prefixed_and_complete() {
    if !privileged("logs_are_prefixed_and_complete") {
        return;
    }
    let script = "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; printf last; echo err >&2";
    let said = Place::new().run(&pod("logs", &shell(script)), &[]);
    assert_eq!(said.status, 0, "{}", said.all());
    for number in [0, 250, 499] {
        assert!(
            said.lines().contains(&format!("logs/test | line {number}").as_str()),
            "{number}: {}",
            said.all()
        );
    }
    assert!(
        said.stdout.contains("logs/test | last") && said.stdout.contains("logs/test | err"),
        "{}",
        said.all()
    );
}

#[test]
fn a_command_that_does_not_exist_could_not_be_started() {
    if !privileged("a_command_that_does_not_exist_could_not_be_started") {
        return;
    }
    let containers = "  containers:\n  - name: test\n    image: coracle.dev/host\n    command: [\"/bin/no-such-program\"]\n";
    let said = Place::new().run(&pod("missing", containers), &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("/bin/no-such-program"), "{}", said.all());
}

#[test]
fn an_image_that_is_nowhere_could_not_be_started() {
    if !privileged("an_image_that_is_nowhere_could_not_be_started") {
        return;
    }
    let containers =
        "  containers:\n  - name: test\n    image: localhost:1/nowhere:1\n    imagePullPolicy: Never\n";
    let said = Place::new().run(&pod("missing", containers), &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("ErrImageNeverPull"), "{}", said.all());
}

#[test]
fn init_containers_run_in_order_before_the_others() {
    if !privileged("init_containers_run_in_order_before_the_others") {
        return;
    }
    let containers = r#"  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: a, image: coracle.dev/host, command: [/bin/sh, -c, "sleep 0.2; echo a >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  - {name: b, image: coracle.dev/host, command: [/bin/sh, -c, "echo b >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - {name: c, image: coracle.dev/host, command: [/bin/cat, /v/log], volumeMounts: [{name: v, mountPath: /v}]}
"#;
    let said = Place::new().run(&pod("order", containers), &["--quiet"]);
    assert_eq!(said.lines(), ["a", "b"], "{}", said.all());
    let failing = containers.replace("echo a >> /v/log", "exit 9");
    let said = Place::new().run(&pod("order", &failing), &["--quiet"]);
    assert_eq!(said.status, 9, "a failed init container ends a pod that never restarts: {}", said.all());
}

#[test]
fn a_container_that_fails_is_restarted_on_failure() {
    if !privileged("a_container_that_fails_is_restarted_on_failure") {
        return;
    }
    let manifest = pod(
        "again",
        r#"  volumes: [{name: v, emptyDir: {}}]
  containers:
  - {name: c, image: coracle.dev/host, command: [/bin/sh, -c, "if [ -e /v/seen ]; then echo second; else touch /v/seen; exit 3; fi"], volumeMounts: [{name: v, mountPath: /v}]}
"#,
    )
    .replace("Never", "OnFailure");
    let said = Place::new().run(&manifest, &[]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(said.stdout.contains("second") && said.stderr.contains("restart 1"), "{}", said.all());
}

#[test]
fn user_groups_and_capabilities_are_as_asked() {
    if !privileged("user_groups_and_capabilities_are_as_asked") {
        return;
    }
    let containers = r#"  securityContext: {runAsUser: 1234, runAsGroup: 2345, supplementalGroups: [3456]}
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "id -u; id -g; id -G; grep -E '^(CapEff|CapBnd|Seccomp|NoNewPrivs):' /proc/self/status | tr -s '\\t' ' '"]
    securityContext: {capabilities: {drop: [ALL]}, allowPrivilegeEscalation: false}
"#;
    let said = Place::new().run(&pod("user", containers), &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(
        said.lines(),
        [
            "1234",
            "2345",
            "2345 3456",
            "CapEff: 0000000000000000",
            "CapBnd: 0000000000000000",
            "NoNewPrivs: 1",
            "Seccomp: 2",
        ],
        "{}",
        said.all()
    );
}

#[test]
fn a_container_that_uses_too_much_memory_is_told_so() {
    if !privileged("a_container_that_uses_too_much_memory_is_told_so") {
        return;
    }
    let containers = r#"  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "head -c 200m /dev/zero | tail -c 100m | wc -c; exit 1"]
    resources: {limits: {memory: 32Mi}}
"#;
    let said = Place::new().run(&pod("hungry", containers), &[]);
    assert!(said.status != 0, "{}", said.all());
    assert!(said.stderr.contains("OOMKilled"), "{}", said.all());
}

#[test]
fn the_host_image_hides_what_is_nobodys_business() {
    if !privileged("the_host_image_hides_what_is_nobodys_business") {
        return;
    }
    let script = "ls -A /root /home | grep -v : | grep . && echo SEEN; cat /etc/shadow 2>/dev/null | grep . && echo SEEN; touch /usr/written && echo private; ls /usr/written";
    let said = Place::new().run(&pod("host", &shell(script)), &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.lines(), ["private", "/usr/written"], "{}", said.all());
    assert!(!std::path::Path::new("/usr/written").exists(), "the host was written to");
}

#[test]
fn nothing_stays_behind() {
    if !privileged("nothing_stays_behind") {
        return;
    }
    let place = Place::new();
    let mark =
        place.data().parent().expect("a parent").file_name().expect("a name").to_string_lossy().into_owned();
    let said = place.run(&pod("gone", &shell("echo ran")), &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(left_behind(&mark), std::collections::BTreeSet::new());
    let interfaces = machine_inventory();
    // Other tests run pods at the same time, so only what names this place is looked for.
    assert!(!interfaces.iter().any(|each| each.contains(&mark)), "{interfaces:?}");
}

#[test]
fn what_a_pod_says_while_ctrl_c_stops_it_is_printed() {
    if !privileged("what_a_pod_says_while_ctrl_c_stops_it_is_printed") {
        return;
    }
    use std::io::{BufRead, BufReader, Read};
    let place = Place::new();
    let script = "trap 'echo got term; exit 0' TERM; echo ready; sleep 1000 & wait";
    let file = place.file("pod.yaml", &pod("stopped", &shell(script)));
    let data = place.data();
    let mut command = place.coracle(&["run", "--quiet", "--data-dir"]);
    let mut child =
        command.arg(data).arg(file).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let signalled = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(signalled.is_ok_and(|status| status.success()));
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("the rest");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert_eq!(rest, "got term\n");
}

#[test]
fn a_volume_that_cannot_be_set_up_is_not_waited_for() {
    if !privileged("a_volume_that_cannot_be_set_up_is_not_waited_for") {
        return;
    }
    let containers = format!(
        "  volumes: [{{name: v, hostPath: {{path: /nowhere, type: Directory}}}}]\n{}",
        shell("echo ran")
    );
    let said = Place::new().run(&pod("mountless", &containers), &["--quiet"]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stdout.is_empty() && said.stderr.contains("FailedMount"), "{}", said.all());
}

#[test]
fn an_empty_dir_over_its_size_limit_evicts_its_pod() {
    if !privileged("an_empty_dir_over_its_size_limit_evicts_its_pod") {
        return;
    }
    let pod = |command: &str, more: &str| {
        format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: filler}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{{name: v, emptyDir: {{sizeLimit: 10Mi}}}}]
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "{command}; exec sleep 100000"]
    volumeMounts: [{{name: v, mountPath: /v}}]
    {more}
"#
        )
    };
    let place = Place::new();
    // Hidden below a name that cannot be seen, and as many small files.
    let fills = "mkdir -p /v/a/.b; dd if=/dev/zero of=/v/a/.b/x bs=1M count=8; for i in 1 2 3 4; do dd if=/dev/zero of=/v/$i bs=1M count=1; done";
    let said = place.run(&pod(fills, ""), &[]);
    assert!(said.status != 0 && said.status != 125, "{}", said.all());
    let message = "pod filler: Evicted: Usage of EmptyDir volume \"v\" exceeds the limit \"10Mi\".";
    assert!(said.stderr.contains(message), "{}", said.all());
    assert!(said.stderr.contains("pod filler: Failed (Evicted: Usage of EmptyDir"), "{}", said.all());
    let limit = "resources: {limits: {ephemeral-storage: 5Mi}}";
    let said = place.run(&pod("dd if=/dev/zero of=/filler bs=1M count=8", limit), &["-q"]);
    assert!(said.stderr.contains("Evicted: Pod ephemeral local storage usage exceeds"), "{}", said.all());
}

#[test]
fn search_domains_that_had_to_be_left_out_are_told() {
    if !privileged("search_domains_that_had_to_be_left_out_are_told") {
        return;
    }
    let searches = (1..=40).map(|number| format!("s{number}.example")).collect::<Vec<_>>().join(", ");
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  restartPolicy: Never\n  dnsPolicy: None\n  dnsConfig: {{nameservers: [192.0.2.1], searches: [{searches}]}}\n  containers: [{{name: c, image: coracle.dev/host, command: [/bin/true]}}]\n"
    );
    let said = Place::new().run(&manifest, &[]);
    // The API refuses what is over Kubernetes' limits; what it takes and a resolver does not is told.
    let told = said.stderr.contains("DNSConfigForming: Search Line limits were exceeded");
    assert!(told || said.stderr.contains("dnsConfig.searches"), "{}", said.all());
}
