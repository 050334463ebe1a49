//! `coracle kubelet` over a container runtime of somebody else: Debian's `containerd` with `runc` and the reference network
//! plugins, with directories of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use e2e::{Node, PATIENCE, Place, finish, privileged};
use testkit::image::{ImageMaker, MadeImage};
use testkit::machine::{require, require_program};

use super::nodes::Part;
use super::static_pods::Agent;

/// Where Debian's `containernetworking-plugins` lie.
const PLUGINS: &str = "/usr/lib/cni";

/// What the plugins share on a machine: names of namespaces and addresses.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A `containerd` of this test alone. Whatever it still has is taken away when it is dropped.
struct Containerd {
    dir: PathBuf,
    child: Child,
    namespaces_before: BTreeSet<PathBuf>,
    had_groups: bool,
    _alone: MutexGuard<'static, ()>,
}

impl Containerd {
    /// `None`, with the reason, where something is not installed.
    fn start(place: &Place) -> Option<Self> {
        for program in ["containerd", "ctr", "runc"] {
            require_program(program)?;
        }
        let image = ImageMaker::busybox();
        let present = Path::new(PLUGINS).join("ptp").exists() && image.is_some();
        if !require(present, "the packages containernetworking-plugins and busybox-static") {
            return None;
        }
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = place.data().with_file_name("containerd");
        std::fs::create_dir_all(dir.join("cni")).expect("made");
        let at = dir.display();
        // No snapshots of overlays: the directory of the test may be an overlay itself.
        let config = format!(
            "version = 2\nroot = \"{at}/root\"\nstate = \"{at}/state\"\n\
             disabled_plugins = [\"io.containerd.internal.v1.opt\"]\n\
             [grpc]\naddress = \"{at}/containerd.sock\"\n[ttrpc]\naddress = \"{at}/containerd.sock.ttrpc\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"coracle.test/pause:1\"\ndisable_apparmor = true\nrestrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"{PLUGINS}\"\nconf_dir = \"{at}/cni\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"native\"\n"
        );
        let network = format!(
            r#"{{"cniVersion": "0.4.0", "name": "test", "plugins": [{{"type": "ptp", "ipam":
               {{"type": "host-local", "dataDir": "{at}/addresses", "ranges": [[{{"subnet": "10.213.77.0/24"}}]]}}}}]}}"#
        );
        std::fs::write(dir.join("config.toml"), config).expect("written");
        std::fs::write(dir.join("cni/10-test.conflist"), network).expect("written");
        let child = Self::spawn(&dir);
        let had_groups = groups().iter().any(|group| group.exists());
        let started = Self { dir, child, namespaces_before: namespaces(), had_groups, _alone: alone };
        started.wait_until_it_answers();
        let image = image.expect("it was there");
        let forever = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"];
        started.import("pause", &image.clone().cmd(&forever).build());
        started.import("busybox", &image.build());
        Some(started)
    }

    fn spawn(dir: &Path) -> Child {
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).expect("a file");
        let mut command = Command::new("containerd");
        command.arg("--config").arg(dir.join("config.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts")
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("containerd.sock")
    }

    fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn ctr(&self, arguments: &[&str]) -> e2e::Said {
        let mut command = Command::new("ctr");
        command.arg("--address").arg(self.socket()).args(["--namespace", "k8s.io"]).args(arguments);
        finish(&mut command, "")
    }

    fn wait_until_it_answers(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.ctr(&["version"]);
            if said.status == 0 {
                return;
            }
            let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "{}\n{log}", said.all());
        }
    }

    fn import(&self, name: &str, image: &MadeImage) {
        let archive = self.dir.join(format!("{name}.tar"));
        std::fs::write(&archive, image.docker_archive(&[&format!("coracle.test/{name}:1")]))
            .expect("written");
        let archive = archive.to_str().expect("text");
        let said = self.ctr(&["images", "import", "--snapshotter", "native", archive]);
        assert_eq!(said.status, 0, "{}", said.all());
    }

    /// Ends it and starts it again; its containers stay.
    fn restart(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        self.child = Self::spawn(&self.dir);
        self.wait_until_it_answers();
    }

    fn containers(&self) -> Vec<String> {
        self.ctr(&["containers", "ls", "-q"]).lines().into_iter().map(str::to_owned).collect()
    }

    /// What is on the machine because of its pods.
    fn left(&self) -> Vec<String> {
        let mut left = self.containers();
        let others = namespaces();
        left.extend(others.difference(&self.namespaces_before).map(|path| path.display().to_string()));
        left.extend(self.processes().iter().map(|pid| format!("process {pid}")));
        left.extend(self.mounts().iter().map(|path| format!("mount {path}")));
        left
    }

    /// Its shims.
    fn processes(&self) -> Vec<String> {
        let mark = self.socket().display().to_string();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command);
            if command.contains(&mark) && command.contains("containerd-shim") {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        found
    }

    fn mounts(&self) -> Vec<String> {
        let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mark = self.dir.display().to_string();
        let paths = text.lines().filter_map(|line| line.split(' ').nth(4));
        paths.filter(|path| path.starts_with(&mark)).map(str::to_owned).collect()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        for id in self.containers() {
            self.ctr(&["tasks", "rm", "--force", &id]);
            self.ctr(&["containers", "rm", &id]);
        }
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        for pid in self.processes() {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
        for path in namespaces().difference(&self.namespaces_before) {
            let _ = Command::new("umount").arg(path).status();
            let _ = std::fs::remove_file(path);
        }
        for path in self.mounts().iter().rev() {
            let _ = Command::new("umount").args(["-l", path]).status();
        }
        if !self.had_groups {
            // Empty: runc removes those of containers, and never their parent.
            groups().iter().for_each(|group| drop(std::fs::remove_dir(group)));
        }
    }
}

/// Network namespaces that plugins were given.
fn namespaces() -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir("/var/run/netns").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("/cni-")).collect()
}

/// The control groups below which containerd puts pods, in every hierarchy.
fn groups() -> Vec<PathBuf> {
    let roots = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = roots.map(|root| root.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
    roots.map(|root| root.join("k8s.io")).collect()
}

/// Containers that have everything that a node agent does for them.
fn everything(name: &str, seen: &Path, more: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 5
{more}  volumes: [{{name: v, emptyDir: {{}}}}, {{name: seen, hostPath: {{path: {seen}}}}}]
  initContainers:
  - name: file
    image: coracle.test/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, "printf 'GREETING=hello\n' > /v/app.env; echo init >> /seen/born"]
    volumeMounts: [{{name: v, mountPath: /v}}, {{name: seen, mountPath: /seen}}]
  - name: print
    image: coracle.test/busybox:1
    imagePullPolicy: Never
    command: [env]
    env:
    - {{name: ZED, valueFrom: {{fileKeyRef: {{volumeName: v, path: app.env, key: GREETING}}}}}}
    - {{name: ALPHA, value: "$(ZED) $(ZED) $(NOBODY)"}}
    - {{name: POD, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
  containers:
  - name: main
    image: coracle.test/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, "rm -f /seen/ill; echo born >> /seen/born; httpd -p 8080 -h /seen; trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    env: [{{name: GREETING, valueFrom: {{fileKeyRef: {{volumeName: v, path: app.env, key: GREETING}}}}}}]
    volumeMounts: [{{name: seen, mountPath: /seen}}]
    lifecycle:
      postStart: {{exec: {{command: [sh, -c, "echo started $GREETING >> /seen/hooks; echo said by the hook"]}}}}
      preStop: {{exec: {{command: [sh, -c, "echo stopped \"[$HOOK_REASON]\" >> /seen/hooks"]}}}}
    livenessProbe: {{exec: {{command: [sh, -c, "! test -e /seen/ill"]}}, periodSeconds: 1, failureThreshold: 1}}
    readinessProbe: {{httpGet: {{path: /born, port: 8080}}, periodSeconds: 1}}
"#,
        seen = seen.display()
    )
}

#[test]
fn pods_of_a_directory_run_on_containerd_and_survive_agent_and_runtime() {
    if !privileged("pods_of_a_directory_run_on_containerd_and_survive_agent_and_runtime") {
        return;
    }
    let place = Place::new();
    let Some(mut containerd) = Containerd::start(&place) else { return };
    let base = place.data().with_file_name("static");
    let (dir, seen, data) = (base.join("pods"), base.join("seen"), base.join("data"));
    for made in [&dir, &seen, &data] {
        std::fs::create_dir_all(made).expect("made");
    }
    place.file("kubelet.log", "");
    let endpoint = containerd.endpoint();
    let more = ["--container-runtime-endpoint", endpoint.as_str()];
    let mut agent = Agent::start(&place, &dir, &data, &more);
    let read = |name: &str| std::fs::read_to_string(seen.join(name)).unwrap_or_default();
    std::fs::write(dir.join("all.yaml"), everything("all", &seen, "")).expect("written");
    agent.wait("the hook", || read("hooks") == "started hello\n");
    agent.wait("what the hook said", || agent.logs().contains("said by the hook"));
    let logs = agent.logs();
    let order =
        ["ZED=hello\n", "ALPHA=hello hello $(NOBODY)\n", "POD=all-lonely\n"].map(|line| logs.find(line));
    assert!(order.is_sorted() && order[0].is_some(), "{logs}");

    // A failed probe restarts the container, and its init containers stay as they are.
    std::fs::write(seen.join("ill"), "").expect("written");
    agent.wait("the restart", || read("born") == "init\nborn\nborn\n");
    agent.wait("its hooks", || read("hooks") == "started hello\nstopped []\nstarted hello\n");

    // Neither the agent's end nor the runtime's touches the container. A hook is delivered again when its end was not noted.
    agent.wait("the end of its hooks", || agent.said().matches("postStart hook finished").count() == 2);
    containerd.restart();
    agent.kill();
    let mut agent = Agent::start(&place, &dir, &data, &more);
    let host = "apiVersion: v1\nkind: Pod\nmetadata: {name: host}\nspec:\n  hostNetwork: true\n  restartPolicy: OnFailure\n\
                \x20 terminationGracePeriodSeconds: 1\n  containers:\n  - {name: c, image: \"coracle.test/busybox:1\", imagePullPolicy: Never, \
                command: [sh, -c, \"test -e /tmp/x || { touch /tmp/x; echo failing; exit 3; }\"]}\n";
    std::fs::write(dir.join("host.yaml"), host).expect("written");
    agent.wait("a pod on the node's network", || agent.logs().contains("failing"));
    containerd.restart();
    let fails = |agent: &Agent| agent.logs().matches("failing").count();
    // Each instance has a file system of its own.
    agent.wait("its restart", || fails(&agent) > 1);
    assert_eq!(read("born"), "init\nborn\nborn\n");

    std::fs::remove_file(dir.join("all.yaml")).expect("removed");
    agent.wait("the last hook", || read("hooks").lines().count() == 4);
    assert!(read("hooks").ends_with("stopped []\n"), "{}", read("hooks"));
    std::fs::remove_file(dir.join("host.yaml")).expect("removed");
    agent.wait("the end of the pods", || containerd.left().is_empty());
    agent.wait("the end of their state", || {
        ["pods", "logs"].iter().all(|name| {
            std::fs::read_dir(data.join("kubelet").join(name))
                .is_ok_and(|mut entries| entries.next().is_none())
        })
    });
    agent.end();
}

#[test]
fn a_node_whose_runtime_is_containerd_serves_logs_and_commands_and_tells_the_truth() {
    if !privileged("a_node_whose_runtime_is_containerd_serves_logs_and_commands_and_tells_the_truth") {
        return;
    }
    let place = Place::new();
    let Some(containerd) = Containerd::start(&place) else { return };
    let api = Node::api_alone(&place, "api", &[]);
    let kubeconfig = api.kubeconfig.to_str().expect("text").to_owned();
    let data = place.data().join("node");
    let endpoint = containerd.endpoint();
    let agent = Part::start(
        &place,
        "node.log",
        &[
            "kubelet",
            "--kubeconfig",
            &kubeconfig,
            "--node-name",
            "foreign",
            "--listen",
            "0.0.0.0:0",
            "--data-dir",
            data.to_str().expect("text"),
            "--container-runtime-endpoint",
            &endpoint,
        ],
    );
    let version = ["get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.containerRuntimeVersion}"];
    api.wait_for(&version, |text| text.starts_with("containerd://"));
    let seen = place.data().with_file_name("seen");
    std::fs::create_dir_all(&seen).expect("made");
    api.kubectl_ok(&["create", "-f", "-"], &everything("all", &seen, "  nodeName: foreign\n"));
    api.kubectl_ok(&["wait", "--for=condition=Ready", "pod/all", "--timeout=60s"], "");
    let address = api.kubectl_ok(&["get", "pod", "all", "-o", "jsonpath={.status.podIP}"], "");
    assert!(address.starts_with("10.213.77."), "{address}");
    let logs = api.kubectl_ok(&["logs", "all", "-c", "print"], "");
    assert!(logs.contains("ZED=hello\nALPHA=hello hello $(NOBODY)\nPOD=all\n"), "{logs}");
    assert_eq!(api.kubectl_ok(&["exec", "all", "--", "sh", "-c", "echo $GREETING"], ""), "hello\n");
    assert_eq!(api.kubectl_ok(&["exec", "-i", "all", "--", "cat"], "there and back"), "there and back");
    let failed = api.kubectl(&["exec", "all", "--", "sh", "-c", "exit 7"], "");
    assert!(failed.stderr.contains("exit code 7"), "{}", failed.all());

    std::fs::write(seen.join("ill"), "").expect("written");
    let state = [
        "get",
        "pod",
        "all",
        "-o",
        "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready} {.status.containerStatuses[0].lastState.terminated.exitCode}",
    ];
    api.wait_for(&state, |text| text == "1 true 0");
    let events = api.kubectl_ok(&["get", "events"], "");
    for part in ["Liveness probe failed", "preStop hook finished", "postStart hook finished"] {
        assert!(events.contains(part), "{part} is missing in:\n{events}");
    }
    api.kubectl_ok(&["delete", "pod", "all", "--timeout=60s"], "");
    assert_eq!(
        std::fs::read_to_string(seen.join("hooks")).expect("written"),
        "started hello\nstopped []\nstarted hello\nstopped []\n"
    );
    let deadline = Instant::now() + PATIENCE;
    while !containerd.left().is_empty() {
        assert!(Instant::now() < deadline, "{:?}", containerd.left());
        std::thread::yield_now();
    }
    drop(agent);
}
