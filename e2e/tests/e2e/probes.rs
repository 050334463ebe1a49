//! Probes of real containers: commands inside them, and connections from inside their pod.

use std::time::{Duration, Instant};

use e2e::{Node, Place, privileged};

const READY: &str = "jsonpath={.status.containerStatuses[0].ready}";

fn pod(name: &str, fields: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 30\n  containers:\n  - name: test\n    image: coracle.dev/host\n{fields}"
    )
}

/// The events of a pod, one a line.
fn events_of(node: &Node, pod: &str, wanted: &str) -> String {
    let selector = format!("involvedObject.name={pod}");
    let template = r#"jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}"#;
    node.wait_for(&["get", "events", "--field-selector", &selector, "-o", template], |text| {
        text.contains(wanted)
    })
}

#[test]
fn a_command_decides_over_readiness() {
    if !privileged("a_command_decides_over_readiness") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let manifest = pod(
        "commands",
        r#"    env: [{name: WORD, value: well}]
    command: [/bin/sh, -c, "echo well > /tmp/state; exec sleep 1000"]
    readinessProbe: {exec: {command: [/bin/sh, -c, "grep $(WORD) /tmp/state || { echo unwell on $HOSTNAME; exit 3; }"]}, periodSeconds: 1, failureThreshold: 1}
"#,
    );
    node.kubectl_ok(&["create", "-f", "-"], &manifest);
    node.wait_for(&["get", "pod", "commands", "-o", READY], |ready| ready == "true");
    node.kubectl_ok(&["exec", "commands", "--", "/bin/sh", "-c", "echo ill > /tmp/state"], "");
    node.wait_for(&["get", "pod", "commands", "-o", READY], |ready| ready == "false");
    events_of(&node, "commands", "Unhealthy: Readiness probe failed: unwell on commands");
    node.kubectl_ok(&["exec", "commands", "--", "/bin/sh", "-c", "echo well > /tmp/state"], "");
    node.wait_for(&["get", "pod", "commands", "-o", READY], |ready| ready == "true");
    let restarts = node.kubectl_ok(
        &["get", "pod", "commands", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"],
        "",
    );
    assert_eq!(restarts, "0", "readiness never restarts");
    node.kubectl_ok(&["delete", "pod", "commands", "--grace-period=1"], "");
}

#[test]
fn http_probes_ask_inside_the_pod() {
    if !privileged("http_probes_ask_inside_the_pod") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    // The server listens on the loopback of the pod only; nobody outside could ask it.
    let web = r#"    command: [/bin/sh, -c, "mkdir -p /tmp/www/health; echo well > /tmp/www/health/index.html; exec busybox httpd -f -p 127.0.0.1:8080 -h /tmp/www"]
    ports: [{name: web, containerPort: 8080}]
"#;
    let probe = |path: &str| {
        format!(
            "{web}    readinessProbe: {{httpGet: {{host: 127.0.0.1, port: web, path: {path}, scheme: HTTP, httpHeaders: [{{name: X-Probe, value: yes!}}]}}, periodSeconds: 1}}\n"
        )
    };
    node.kubectl_ok(&["create", "-f", "-"], &pod("good", &probe("/health/")));
    node.kubectl_ok(&["create", "-f", "-"], &pod("lost", &probe("/nowhere")));
    let tls = r#"    command: [/bin/sh, -c, "cd /tmp && openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 1 -subj /CN=x 2>/dev/null && exec openssl s_server -accept 8443 -cert c -key k -www -quiet"]
    readinessProbe: {httpGet: {port: 8443, scheme: HTTPS}, periodSeconds: 1, timeoutSeconds: 5}
"#;
    node.kubectl_ok(&["create", "-f", "-"], &pod("tls", tls));
    node.wait_for(&["get", "pod", "good", "-o", READY], |ready| ready == "true");
    events_of(&node, "lost", "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 404");
    node.wait_for(&["get", "pod", "tls", "-o", READY], |ready| ready == "true");
    assert_eq!(node.kubectl_ok(&["get", "pod", "lost", "-o", READY], ""), "false");
    node.kubectl_ok(&["delete", "pod", "--all", "--grace-period=1"], "");
}

#[test]
fn tcp_probes_connect_inside_the_pod() {
    if !privileged("tcp_probes_connect_inside_the_pod") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let listen = |address: &str, probe: &str| {
        format!(
            "    command: [/bin/sh, -c, \"exec busybox httpd -f -p {address}:7000 -h /tmp\"]\n    readinessProbe: {{tcpSocket: {{{probe}}}, periodSeconds: 1}}\n"
        )
    };
    node.kubectl_ok(&["create", "-f", "-"], &pod("address", &listen("0.0.0.0", "port: 7000")));
    node.kubectl_ok(
        &["create", "-f", "-"],
        &pod("loopback", &listen("127.0.0.1", "port: 7000, host: localhost")),
    );
    node.kubectl_ok(&["create", "-f", "-"], &pod("closed", &listen("127.0.0.1", "port: 7000")));
    node.kubectl_ok(
        &["create", "-f", "-"],
        &pod("secrets", &listen("0.0.0.0", "port: 80, host: 169.254.169.254")),
    );
    for name in ["address", "loopback"] {
        node.wait_for(&["get", "pod", name, "-o", READY], |ready| ready == "true");
    }
    let events = events_of(&node, "closed", "Unhealthy: Readiness probe failed: dial tcp ");
    assert!(events.contains(":7000: connect: connection refused"), "{events}");
    events_of(&node, "secrets", "HostRefused: ");
    for name in ["closed", "secrets"] {
        assert_eq!(node.kubectl_ok(&["get", "pod", name, "-o", READY], ""), "false");
    }
    node.kubectl_ok(&["delete", "pod", "--all", "--grace-period=1"], "");
}

#[test]
fn a_probe_that_takes_too_long_has_failed() {
    if !privileged("a_probe_that_takes_too_long_has_failed") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let manifest = pod(
        "slow",
        r#"    command: [/bin/sleep, "1000"]
    readinessProbe: {exec: {command: [/bin/sleep, "77"]}, timeoutSeconds: 1, periodSeconds: 1}
"#,
    );
    node.kubectl_ok(&["create", "-f", "-"], &manifest);
    let message =
        "Unhealthy: Readiness probe failed: command timed out: \"/bin/sleep 77\" timed out after 1s";
    events_of(&node, "slow", message);
    // The command does not stay behind.
    node.wait_for(
        &["exec", "slow", "--", "/bin/sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"],
        |all| all.matches("/bin/sleep 77").count() <= 1,
    );
    node.kubectl_ok(&["delete", "pod", "slow", "--grace-period=1"], "");
}

#[test]
fn a_probes_own_grace_period_replaces_that_of_the_pod() {
    if !privileged("a_probes_own_grace_period_replaces_that_of_the_pod") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    // It does not listen to the stop signal; the pod would give it 30 seconds all the same.
    let manifest = pod(
        "stubborn",
        r#"    command: [/bin/sh, -c, "trap '' TERM; while :; do sleep 0.2; done"]
    livenessProbe: {exec: {command: [/bin/false]}, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 1}
"#,
    );
    node.kubectl_ok(&["create", "-f", "-"], &manifest);
    events_of(&node, "stubborn", "Killing: Container test failed liveness probe, will be restarted");
    let began = Instant::now();
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    node.wait_for(&["get", "pod", "stubborn", "-o", restarts], |count| count != "0");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    node.kubectl_ok(&["delete", "pod", "stubborn", "--grace-period=1"], "");
}

#[test]
fn secrets_do_not_show_in_events_of_probes_and_of_programs_that_cannot_start() {
    if !privileged("secrets_do_not_show_in_events_of_probes_and_of_programs_that_cannot_start") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let manifest = r#"
apiVersion: v1
kind: Secret
metadata: {name: hush}
stringData: {WORD: canary-31f7, PROGRAM: /canary-31f7/run}
---
apiVersion: v1
kind: Pod
metadata: {name: talks}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: coracle.dev/host
    command: [sleep, "1000"]
    envFrom: [{secretRef: {name: hush}}]
    readinessProbe: {periodSeconds: 1, exec: {command: [/bin/sh, -c, "echo wrong word $WORD; exit 1"]}}
---
apiVersion: v1
kind: Pod
metadata: {name: cannot}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: coracle.dev/host
    command: [$(PROGRAM)]
    envFrom: [{secretRef: {name: hush}}]
"#;
    node.kubectl_ok(&["create", "-f", "-"], manifest);
    let told = node.wait_for(&["get", "events"], |events| {
        events.contains("wrong word ****") && events.contains("cannot start the process")
    });
    assert!(!told.contains("canary"), "{told}");
    let pods = node.wait_for(&["get", "pods", "-o", "yaml"], |pods| pods.contains("StartError"));
    assert!(!pods.contains("canary"), "{pods}");
}
