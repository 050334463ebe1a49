//! Claims answered by directories of the node, as people use them with kubectl.

use std::path::{Path, PathBuf};

use e2e::{Node, Place, left_behind, privileged};

use super::node::with_kubectl;
use super::nodes::Part;

const CLAIM: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
"#;

/// A pod that runs a line of shell with the claim at /data.
fn pod(name: &str, line: &str, volume: &str, more: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
{more}
  volumes: [{{name: v, {volume}}}]
  containers:
  - name: c
    image: coracle.dev/host
    command: [/bin/sh, -c, "{line}"]
    volumeMounts: [{{name: v, mountPath: /data}}]
"#
    )
}

const BY_CLAIM: &str = "persistentVolumeClaim: {claimName: data}";

fn run(node: &Node, name: &str, line: &str, volume: &str, more: &str) -> String {
    node.kubectl_ok(&["apply", "-f", "-"], &pod(name, line, volume, more));
    let phase = ["get", "pod", name, "-o", "jsonpath={.status.phase}"];
    let phase = node.wait_for(&phase, |phase| phase == "Succeeded" || phase == "Failed");
    let said = node.kubectl_ok(&["logs", name], "");
    assert_eq!(phase, "Succeeded", "{said}");
    node.kubectl_ok(&["delete", "pod", name, "--wait=true"], "");
    said
}

fn directories(place: &Place) -> Vec<PathBuf> {
    let found = std::fs::read_dir(place.data().join("volumes"));
    found.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[test]
fn what_is_written_to_a_claim_is_kept_for_the_next_pod_until_the_claim_is_deleted() {
    let test = "what_is_written_to_a_claim_is_kept_for_the_next_pod_until_the_claim_is_deleted";
    if !with_kubectl(test) {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    let classes = node.kubectl_ok(&["get", "storageclass"], "");
    assert!(classes.contains("standard (default)") && classes.contains("coracle.dev/directory"), "{classes}");
    let said = node.kubectl(&["apply", "-f", "-"], CLAIM);
    assert!(said.status == 0 && said.stderr.is_empty(), "{}", said.all());
    let phase = ["get", "pvc", "data", "-o", "jsonpath={.status.phase} {.status.capacity.storage}"];
    node.wait_for(&phase, |said| said == "Bound 1Gi");
    let said = node.kubectl(&["apply", "-f", "-"], &pod("a", "echo kept > /data/file", BY_CLAIM, ""));
    assert!(said.status == 0 && said.stderr.is_empty(), "no warning: {}", said.all());
    assert_eq!(run(&node, "a", "echo kept > /data/file", BY_CLAIM, ""), "");
    assert_eq!(run(&node, "b", "cat /data/file", BY_CLAIM, ""), "kept\n");

    // The node goes and comes back.
    node.end();
    let node = Node::up(&place, &[]);
    assert_eq!(run(&node, "c", "cat /data/file", BY_CLAIM, ""), "kept\n");

    // Parts of it, read-only, and with a group.
    let sub = r#"
apiVersion: v1
kind: Pod
metadata: {name: sub}
spec:
  restartPolicy: Never
  securityContext: {fsGroup: 4321, runAsUser: 1000}
  volumes:
  - {name: v, persistentVolumeClaim: {claimName: data}}
  - {name: r, persistentVolumeClaim: {claimName: data, readOnly: true}}
  containers:
  - name: c
    image: coracle.dev/host
    command: [/bin/sh, -c, "touch /part/new && stat -c %g /part/new && ls /all && touch /all/no 2>&1; true"]
    volumeMounts:
    - {name: v, mountPath: /part, subPath: deep/part}
    - {name: r, mountPath: /all}
"#;
    node.kubectl_ok(&["apply", "-f", "-"], sub);
    node.wait_for(&["get", "pod", "sub", "-o", "jsonpath={.status.phase}"], |phase| phase == "Succeeded");
    let said = node.kubectl_ok(&["logs", "sub"], "");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..3], ["4321", "deep", "file"], "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    node.kubectl_ok(&["delete", "pod", "sub", "--wait=true"], "");

    // A pod that uses it keeps it.
    node.kubectl_ok(&["apply", "-f", "-"], &pod("user", "sleep 100000", BY_CLAIM, ""));
    node.wait_for(&["get", "pod", "user", "-o", "jsonpath={.status.phase}"], |phase| phase == "Running");
    node.kubectl_ok(&["delete", "pvc", "data", "--wait=false"], "");
    let row = node.wait_for(&["get", "pvc", "data"], |row| row.contains("Terminating"));
    assert!(row.contains("pvc-"), "{row}");
    assert_eq!(directories(&place).len(), 1);
    node.kubectl_ok(&["delete", "pod", "user", "--wait=true"], "");
    node.wait_for(&["get", "pvc,pv", "-o", "name"], |left| left.trim().is_empty());
    assert_eq!(directories(&place), Vec::<PathBuf>::new(), "what the claim stood for went with it");
}

#[test]
fn a_claim_that_cannot_be_answered_waits_and_says_why_and_its_pod_with_it() {
    let test = "a_claim_that_cannot_be_answered_waits_and_says_why_and_its_pod_with_it";
    if !with_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let manual = CLAIM.replace("spec:", "spec:\n  storageClassName: manual");
    node.kubectl_ok(&["apply", "-f", "-"], &manual);
    node.kubectl_ok(&["apply", "-f", "-"], &pod("waits", "cat /data/file", BY_CLAIM, ""));
    node.wait_for(&["describe", "pvc", "data"], |said| {
        said.contains("ProvisioningFailed")
            && said.contains("storageclass.storage.k8s.io \"manual\" not found")
    });
    node.wait_for(&["describe", "pod", "waits"], |said| {
        said.contains("pod has unbound immediate PersistentVolumeClaims")
    });
    // A volume made by hand comes, and all goes on.
    let disk = tempfile::tempdir().expect("a directory");
    std::fs::write(disk.path().join("file"), "by hand\n").expect("written");
    let volume = format!(
        r#"
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk}}
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  capacity: {{storage: 5Gi}}
  hostPath: {{path: {}}}
"#,
        disk.path().display()
    );
    node.kubectl_ok(&["apply", "-f", "-"], &volume);
    node.wait_for(&["get", "pod", "waits", "-o", "jsonpath={.status.phase}"], |phase| phase == "Succeeded");
    assert_eq!(node.kubectl_ok(&["logs", "waits"], ""), "by hand\n");
    node.kubectl_ok(&["delete", "pod/waits", "pvc/data", "--wait=true"], "");
    node.wait_for(&["get", "pv", "disk", "-o", "jsonpath={.status.phase}"], |phase| phase == "Released");
    assert!(disk.path().join("file").exists(), "it is kept");
    node.kubectl_ok(&["delete", "pv", "disk", "--wait=true"], "");
}

#[test]
fn an_ephemeral_volume_goes_with_its_pod() {
    if !with_kubectl("an_ephemeral_volume_goes_with_its_pod") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let template = "ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}}";
    assert_eq!(run(&node, "p", "echo here > /data/file; cat /data/file", template, ""), "here\n");
    node.wait_for(&["get", "pvc,pv", "-o", "name"], |left| left.trim().is_empty());
    assert_eq!(directories(&place), Vec::<PathBuf>::new());
}

#[test]
fn claims_of_a_throwaway_node_go_with_it() {
    if !privileged("claims_of_a_throwaway_node_go_with_it") {
        return;
    }
    let place = Place::new();
    let manifest = format!("{CLAIM}---{}", pod("p", "echo here > /data/file; cat /data/file", BY_CLAIM, ""));
    let said = place.run(&manifest, &["--quiet"]);
    assert_eq!((said.status, said.lines()), (0, vec!["here"]), "{}", said.all());
    let mark = place.data().display().to_string();
    assert!(left_behind(&mark).is_empty(), "{:?}", left_behind(&mark));
    let runs = std::fs::read_dir(place.data().join("runs")).map_or(0, Iterator::count);
    assert!(runs == 0 && !Path::new(&mark).join("volumes").exists(), "{runs} directories are left");
}

const LATE: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: coracle.dev/directory
volumeBindingMode: WaitForFirstConsumer
---
"#;

#[test]
fn a_claim_that_waits_for_its_pod_is_answered_on_the_pods_node_and_later_pods_go_there() {
    let test = "a_claim_that_waits_for_its_pod_is_answered_on_the_pods_node_and_later_pods_go_there";
    if !with_kubectl(test) {
        return;
    }
    let place = Place::new();
    let api = Node::api_alone(&place, "api", &[]);
    let kubeconfig = api.kubeconfig.to_str().expect("text").to_owned();
    let controllers = Part::start(&place, "controllers.log", &["controllers", "--kubeconfig", &kubeconfig]);
    let data = |name: &str| place.data().join(name).to_str().expect("text").to_owned();
    let join = |name: &str| {
        let data = data(name);
        let to = ["kubelet", "--kubeconfig", &kubeconfig, "--node-name", name, "--allow-host-image"];
        let more = ["--listen", "0.0.0.0:0", "--data-dir", &data];
        Part::start(&place, &format!("{name}.log"), &[&to[..], &more].concat())
    };
    let nodes = (join("one"), join("two"));
    api.wait_for(&["get", "nodes"], |out| out.matches(" Ready").count() == 2);
    let claim = format!("{LATE}{}", CLAIM.replace("spec:", "spec:\n  storageClassName: late"));
    api.kubectl_ok(&["apply", "-f", "-"], &claim);
    api.wait_for(&["describe", "pvc", "data"], |said| said.contains("WaitForFirstConsumer"));
    let phase = ["get", "pvc", "data", "-o", "jsonpath={.status.phase}"];
    assert_eq!(api.kubectl_ok(&phase, ""), "Pending");
    // Any of the two would do for the claim; the pod wants this one.
    let wants = "  nodeSelector: {kubernetes.io/hostname: two}";
    assert_eq!(run(&api, "first", "echo of two > /data/file", BY_CLAIM, wants), "");
    assert_eq!(api.kubectl_ok(&phase, ""), "Bound");
    let below =
        |name: &str| std::fs::read_dir(place.data().join(name).join("volumes")).map_or(0, Iterator::count);
    assert_eq!((below("one"), below("two")), (0, 1));
    // The others follow it, whatever the scheduler likes better.
    for name in ["second", "third"] {
        assert_eq!(run(&api, name, "cat /data/file", BY_CLAIM, ""), "of two\n");
    }
    let elsewhere = pod("lost", "true", BY_CLAIM, "  nodeSelector: {kubernetes.io/hostname: one}");
    api.kubectl_ok(&["apply", "-f", "-"], &elsewhere);
    api.wait_for(&["describe", "pod", "lost"], |said| {
        said.contains("1 node(s) didn't match PersistentVolume's node affinity")
    });
    api.kubectl_ok(&["delete", "pod/lost", "pvc/data", "--wait=true"], "");
    api.wait_for(&["get", "pv", "-o", "name"], |left| left.trim().is_empty());
    assert_eq!(below("two"), 0);
    api.wait_for(&["get", "pods", "-o", "name"], str::is_empty);
    drop((nodes, controllers));
    for name in ["one", "two"] {
        let down = e2e::finish(&mut place.coracle(&["down", "--data-dir", &data(name)]), "");
        assert_eq!(down.status, 0, "{}", down.all());
    }
}
