//! Containers that are added to a pod that runs, as `kubectl debug` does.

use e2e::{Node, Place, newer_kubectl, privileged};

const POD: &str = r#"apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: writer, image: coracle.dev/host, command: [/bin/sh, -c, "echo FROM_FILE=value > /v/env"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - {name: main, image: coracle.dev/host, command: [/bin/sh, -c, "exec sleep 4242"]}
"#;

#[test]
fn an_ephemeral_container_joins_a_running_pod() {
    if !privileged("an_ephemeral_container_joins_a_running_pod")
        || !newer_kubectl("an_ephemeral_container_joins_a_running_pod")
    {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], POD);
    node.wait_for(&["get", "pod", "worker", "-o", "jsonpath={.status.phase}"], |phase| phase == "Running");
    let script = "tr '\\0' ' ' < /proc/1/cmdline; echo; hostname; exit 3";
    node.kubectl_ok(
        &[
            "debug",
            "worker",
            "--image=coracle.dev/host",
            "--target=main",
            "-c",
            "spy",
            "--",
            "/bin/sh",
            "-c",
            script,
        ],
        "",
    );
    let ended = "jsonpath={.status.ephemeralContainerStatuses[?(@.name=='spy')].state.terminated.exitCode}";
    assert_eq!(node.wait_for(&["get", "pod", "worker", "-o", ended], |code| !code.is_empty()), "3");
    let log = node.kubectl_ok(&["logs", "worker", "-c", "spy"], "");
    assert_eq!(log, "sleep 4242 \nworker\n", "it sees the processes of its target and the names of its pod");

    // Without a target it has processes of its own; a command can be run in it.
    let debug = [
        "debug",
        "worker",
        "--image=coracle.dev/host",
        "-c",
        "shell",
        "--",
        "/bin/sh",
        "-c",
        "exec sleep 1111",
    ];
    node.kubectl_ok(&debug, "");
    let running = "jsonpath={.status.ephemeralContainerStatuses[?(@.name=='shell')].state.running.startedAt}";
    node.wait_for(&["get", "pod", "worker", "-o", running], |since| !since.is_empty());
    let seen = node.kubectl_ok(&["exec", "worker", "-c", "shell", "--", "cat", "/proc/1/cmdline"], "");
    assert_eq!(seen.replace('\0', " "), "sleep 1111 ");
    // Attached: what is typed reaches it, and what it says comes back.
    let debug = [
        "debug",
        "-i",
        "worker",
        "--image=coracle.dev/host",
        "--target=main",
        "-c",
        "typed",
        "--",
        "/bin/sh",
    ];
    let said = node.kubectl(&debug, "echo from $(hostname) $((6*7)); exit\n");
    assert!(said.status == 0 && said.stdout.contains("from worker 42"), "{}\n{}", said.all(), node.log());
    let described = node.kubectl_ok(&["describe", "pod", "worker"], "");
    assert!(described.contains("Ephemeral Containers:"), "{described}");

    let ready = "jsonpath={.status.containerStatuses[0].restartCount} {.status.phase}";
    assert_eq!(node.kubectl_ok(&["get", "pod", "worker", "-o", ready], ""), "0 Running");
    node.kubectl_ok(&["delete", "pod", "worker", "--timeout=60s"], "");
}

#[test]
fn an_ephemeral_container_reads_env_files_and_its_record_is_kept() {
    if !privileged("an_ephemeral_container_reads_env_files_and_its_record_is_kept")
        || !newer_kubectl("an_ephemeral_container_reads_env_files_and_its_record_is_kept")
    {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], POD);
    node.wait_for(&["get", "pod", "worker", "-o", "jsonpath={.status.phase}"], |phase| phase == "Running");
    let patch = r#"{"spec": {"ephemeralContainers": [{"name": "env", "image": "coracle.dev/host",
        "command": ["/bin/sh", "-c", "echo $COPY"], "env": [
            {"name": "FROM_FILE", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "env", "key": "FROM_FILE"}}},
            {"name": "COPY", "value": "<$(FROM_FILE)>"}]}]}}"#;
    node.kubectl_ok(&["patch", "pod", "worker", "--subresource=ephemeralcontainers", "-p", patch], "");
    let ended = "jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.reason}";
    assert_eq!(
        node.wait_for(&["get", "pod", "worker", "-o", ended], |reason| !reason.is_empty()),
        "Completed"
    );
    assert_eq!(node.kubectl_ok(&["logs", "worker", "-c", "env"], ""), "<value>\n");
    let record = node.kubectl_ok(
        &["get", "--raw", "/api/v1/namespaces/default/pods/worker/environment?container=env"],
        "",
    );
    assert!(record.contains("FROM_FILE") && record.contains("<value>"), "{record}");
    let again = node.kubectl(
        &[
            "patch",
            "pod",
            "worker",
            "--subresource=ephemeralcontainers",
            "-p",
            r#"{"spec": {"ephemeralContainers": [{"name": "env", "image": "other"}]}}"#,
        ],
        "",
    );
    assert!(
        again.status != 0
            && again.stderr.contains("existing ephemeral containers \"env\" may not be changed"),
        "{}",
        again.all()
    );
}

#[test]
fn kubectl_debug_copies_a_pod_and_opens_a_node() {
    if !privileged("kubectl_debug_copies_a_pod_and_opens_a_node") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let plain = POD.replace("worker}", "plain}");
    let plain = plain.replace(
        "spec:\n",
        "spec:\n  tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]\n",
    );
    node.kubectl_ok(&["apply", "-f", "-"], &plain);
    node.wait_for(&["get", "pod", "plain", "-o", "jsonpath={.status.phase}"], |phase| phase == "Running");
    let copy =
        ["debug", "plain", "--image=coracle.dev/host", "--copy-to=plain2", "-c", "extra", "--", "/bin/true"];
    node.kubectl_ok(&copy, "");
    let ended = "jsonpath={.status.containerStatuses[?(@.name=='extra')].state.terminated.exitCode}\
                 {.status.containerStatuses[?(@.name=='extra')].lastState.terminated.exitCode}";
    node.wait_for(&["get", "pod", "plain2", "-o", ended], |code| code.starts_with('0'));
    let tolerations = ["get", "pod", "plain2", "-o", "jsonpath={.spec.tolerations[0]}"];
    assert_eq!(
        node.kubectl_ok(&tolerations, ""),
        r#"{"effect":"NoExecute","key":"k","operator":"Exists","tolerationSeconds":5}"#
    );

    // The pod of a node's debugging tolerates everything and sees the node's processes and files.
    let name = node.kubectl_ok(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "");
    let target = format!("node/{name}");
    let script = "ls -d /host/proc/1 && cat /proc/1/comm";
    let opened = ["debug", &target, "--image=coracle.dev/host", "--", "/bin/sh", "-c", script];
    let said = node.kubectl_ok(&opened, "");
    let of_node = "jsonpath={.items[?(@.spec.hostPID==true)].metadata.name}";
    let pod = node.wait_for(&["get", "pods", "-o", of_node], |name| !name.is_empty());
    let phase = ["get", "pod", &pod, "-o", "jsonpath={.status.phase}"];
    let phase = node.wait_for(&phase, |phase| phase == "Succeeded" || phase == "Failed");
    let log = node.kubectl_ok(&["logs", &pod], "");
    assert!(
        phase == "Succeeded" && log.starts_with("/host/proc/1\n"),
        "{phase}: {log}\n{said}\n{}",
        node.log()
    );
    node.kubectl_ok(&["delete", "pod", "plain", "plain2", &pod, "--timeout=60s"], "");
}
