//! Pods from a directory: with a node that stays and its API, and with the node agent alone.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use e2e::{Node, Place, left_behind, privileged};

const WEB: &str = r#"apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: writer, image: coracle.dev/host, command: [/bin/sh, -c, "echo COLOUR=red > /v/env"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - name: main
    image: coracle.dev/host
    command: [/bin/sh, -c, "echo colour $(COLOUR); exec sleep 4243"]
    env:
    - {name: COLOUR, valueFrom: {fileKeyRef: {volumeName: v, path: env, key: COLOUR}}}
"#;

/// A file appears whole.
fn put(dir: &Path, name: &str, text: &str) {
    let temporary = dir.join(format!(".{name}.new"));
    std::fs::write(&temporary, text).expect("written");
    std::fs::rename(temporary, dir.join(name)).expect("renamed");
}

fn manifests(place: &Place) -> PathBuf {
    let dir = place.data().with_file_name("manifests");
    std::fs::create_dir_all(&dir).expect("made");
    dir
}

fn node_name(node: &Node) -> String {
    node.kubectl_ok(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "")
}

#[test]
fn a_static_pod_runs_beside_the_api_and_outlives_its_mirror() {
    if !privileged("a_static_pod_runs_beside_the_api_and_outlives_its_mirror") {
        return;
    }
    let place = Place::new();
    let dir = manifests(&place);
    put(&dir, "web.yaml", WEB);
    let node = Node::up(&place, &["--pod-manifest-dir", dir.to_str().expect("text")]);
    let pod = format!("web-{}", node_name(&node));
    let phase = ["get", "pod", &pod, "--ignore-not-found", "-o", "jsonpath={.status.phase}"];
    node.wait_for(&phase, |phase| phase == "Running");
    assert_eq!(node.kubectl_ok(&["logs", &pod, "-c", "main"], ""), "colour red\n");
    let id = [
        "get",
        "pod",
        &pod,
        "--ignore-not-found",
        "-o",
        "jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID}",
    ];
    let before = node.kubectl_ok(&id, "");
    let (uid, container) = before.split_once(' ').expect("both");
    assert!(container.starts_with("coracle://"), "{before}");
    node.kubectl_ok(&["delete", "pod", &pod, "--wait=false"], "");
    let after = node.wait_for(&id, |shown| shown.ends_with(container) && !shown.starts_with(uid));
    assert!(after.ends_with(container), "the same container: {after}");
    let described = node.kubectl_ok(&["describe", "pod", &pod], "");
    assert!(
        described.contains("kubernetes.io/config.source: file") && described.contains("Started"),
        "{described}"
    );

    put(&dir, "web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web\n");
    let events = [
        "get",
        "events",
        "-A",
        "--field-selector",
        "reason=InvalidStaticPod",
        "-o",
        "jsonpath={.items[*].message}",
    ];
    let told = node.wait_for(&events, |told| told.contains("its pods go on as they were"));
    assert!(told.contains("/web.yaml:"), "{told}");
    assert!(node.kubectl_ok(&id, "").ends_with(container));
    put(&dir, "web.yaml", &WEB.replace("red", "blue"));
    node.wait_for(&["logs", &pod, "-c", "main"], |log| log == "colour blue\n");
    std::fs::remove_file(dir.join("web.yaml")).expect("removed");
    node.wait_for(&["get", "pods", "-o", "name"], str::is_empty);
}

/// `coracle kubelet`, ended when dropped; what it still runs is taken away by an empty directory first.
pub(crate) struct Agent {
    child: Option<Child>,
    log: PathBuf,
    dir: PathBuf,
    logs: PathBuf,
}

impl Agent {
    /// Starts it; what it says is added to `kubelet.log`.
    pub(crate) fn start(place: &Place, dir: &Path, data: &Path, arguments: &[&str]) -> Self {
        let log = place.file("kubelet.log", "");
        let child = place
            .coracle(&["kubelet", "--node-name", "lonely"])
            .arg("--pod-manifest-path")
            .arg(dir)
            .arg("--data-dir")
            .arg(data)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::OpenOptions::new().append(true).open(&log).expect("the log is there"))
            .spawn()
            .expect("it starts");
        Self { child: Some(child), log, dir: dir.to_owned(), logs: data.join("kubelet/logs") }
    }

    /// What it said.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for something that the files show.
    pub(crate) fn wait(&self, what: &str, wanted: impl Fn() -> bool) {
        let deadline = Instant::now() + e2e::PATIENCE;
        while !wanted() {
            assert!(Instant::now() < deadline, "it did not happen: {what}\n{}", self.said());
            std::thread::yield_now();
        }
    }

    /// Everything that containers wrote.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        let mut pending = vec![self.logs.clone()];
        while let Some(dir) = pending.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    text.push_str(&std::fs::read_to_string(path).unwrap_or_default());
                }
            }
        }
        text
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends it in order.
    pub(crate) fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let deadline = Instant::now() + Duration::from_secs(30);
            while child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < deadline {
                std::thread::yield_now();
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.child.is_some() {
            for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
                let _ = std::fs::remove_file(entry.path());
            }
            let deadline = Instant::now() + Duration::from_secs(30);
            let pods = self.logs.with_file_name("pods");
            while std::fs::read_dir(&pods).is_ok_and(|mut pods| pods.next().is_some())
                && Instant::now() < deadline
            {
                std::thread::yield_now();
            }
        }
        self.end();
    }
}

fn sleepers(seconds: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if command == format!("sleep\0{seconds}\0").into_bytes() {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn the_node_agent_alone_runs_a_directory_without_any_api() {
    if !privileged("the_node_agent_alone_runs_a_directory_without_any_api") {
        return;
    }
    let place = Place::new();
    let (dir, data) = (manifests(&place), place.data());
    put(&dir, "web.yaml", &WEB.replace("4243", "4244"));
    let broken = WEB
        .replace("name: web", "name: broken")
        .replace("4243", "4245")
        .replace("    env:\n", "    envFrom: [{configMapRef: {name: settings}}]\n    env:\n");
    put(&dir, "broken.yaml", &broken);
    let mut agent = Agent::start(&place, &dir, &data, &["--allow-host-image"]);
    agent.wait("the pod runs", || agent.logs().contains("colour red") && !sleepers("4244").is_empty());
    agent.wait("what needs an API is told", || {
        agent.said().contains("couldn't get configMap default/settings, no kubeClient defined")
    });
    let running = sleepers("4244");
    agent.end();
    assert_eq!(sleepers("4244"), running, "the pod goes on");
    agent.child = Agent::start(&place, &dir, &data, &["--allow-host-image"]).child.take();
    agent.wait("it is adopted", || agent.said().contains("the node agent runs"));
    std::fs::remove_file(dir.join("broken.yaml")).expect("removed");
    put(&dir, "web.yaml", &WEB.replace("4243", "4246"));
    agent.wait("the new version runs", || sleepers("4244").is_empty() && !sleepers("4246").is_empty());
    assert!(sleepers("4245").is_empty());
    let mark =
        place.data().parent().and_then(Path::file_name).expect("a name").to_string_lossy().into_owned();
    drop(agent);
    assert!(sleepers("4246").is_empty());
    assert_eq!(left_behind(&mark), std::collections::BTreeSet::new());
}

#[test]
fn the_node_agent_alone_is_a_node_of_an_api_server() {
    if !privileged("the_node_agent_alone_is_a_node_of_an_api_server") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let other = Place::new();
    let dir = manifests(&other);
    let kubeconfig = node.kubeconfig.to_str().expect("text").to_owned();
    let agent =
        Agent::start(&other, &dir, &other.data(), &["--allow-host-image", "--kubeconfig", &kubeconfig]);
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    node.wait_for(&["get", "node", "lonely", "--ignore-not-found", "-o", ready], |ready| ready == "True");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: there}\nspec:\n  nodeName: lonely\n  restartPolicy: Never\n  containers: [{name: c, image: coracle.dev/host, command: [/bin/sh, -c, \"exit 7\"]}]\n";
    node.kubectl_ok(&["apply", "-f", "-"], pod);
    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(node.wait_for(&["get", "pod", "there", "-o", code], |code| !code.is_empty()), "7");
    put(&dir, "web.yaml", &WEB.replace("4243", "4247"));
    let phase = ["get", "pod", "web-lonely", "--ignore-not-found", "-o", "jsonpath={.status.phase}"];
    node.wait_for(&phase, |phase| phase == "Running");
    std::fs::remove_file(dir.join("web.yaml")).expect("removed");
    node.kubectl_ok(&["delete", "pod", "there", "--timeout=60s"], "");
    node.wait_for(&["get", "pods", "-o", "name"], str::is_empty);
    drop(agent);
}
