//! Nodes as their users handle them: cordon, drain, taints, and several of one cluster, of which one dies.

use std::process::{Child, Command, Stdio};

use e2e::{Node, Place, finish, privileged};

fn pod(name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  terminationGracePeriodSeconds: 1\n\
         {more}  containers:\n  - {{name: c, image: coracle.dev/host, command: [sleep, \"1000\"], resources: {{requests: {{cpu: 130m}}}}}}\n---\n"
    )
}

#[test]
fn a_node_is_cordoned_drained_and_opened_again_with_kubectl() {
    if !privileged("a_node_is_cordoned_drained_and_opened_again_with_kubectl") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let local = "  volumes: [{name: v, emptyDir: {}}]\n";
    let manifests = [pod("bare", ""), pod("local", local), pod("guarded", "")].concat();
    node.kubectl_ok(&["apply", "-f", "-"], &manifests);
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: guard}\nspec:\n  minAvailable: 1\n  selector: {matchLabels: {app: guarded}}\n";
    node.kubectl_ok(&["apply", "-f", "-"], budget);
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s"], "");
    let name = node.kubectl_ok(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "");

    let described = node.kubectl_ok(&["describe", "node", &name], "");
    for part in [
        "Taints:             <none>",
        "Unschedulable:      false",
        "Allocated resources:",
        "390m (",
        "HolderIdentity:  ",
    ] {
        assert!(described.contains(part), "{part} is missing in:\n{described}");
    }
    let top = node.kubectl(&["top", "nodes"], "");
    assert!(top.status != 0 && top.stderr.contains("Metrics API not available"), "{}", top.all());

    let drain = |more: &[&str]| node.kubectl(&[&["drain", &name, "--grace-period=1"], more].concat(), "");
    let said = drain(&[]);
    assert!(said.status != 0, "{}", said.all());
    for part in ["cannot delete Pods with local storage", "declare no controller"] {
        assert!(said.stderr.contains(part), "{part} is missing: {}", said.all());
    }
    // The budget holds the pod that it is about; the others go.
    let said = drain(&["--force", "--delete-emptydir-data", "--timeout=8s"]);
    assert!(said.status != 0 && said.stderr.contains("disruption budget"), "{}", said.all());
    assert_eq!(node.kubectl_ok(&["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"], ""), "guarded");
    node.kubectl_ok(&["delete", "pdb", "guard"], "");
    let said = drain(&["--force", "--delete-emptydir-data", "--ignore-daemonsets"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(node.kubectl_ok(&["get", "pods", "-o", "name"], ""), "");

    assert!(node.kubectl_ok(&["get", "nodes"], "").contains("Ready,SchedulingDisabled"));
    node.wait_for(&["describe", "node", &name], |text| {
        text.contains("Taints:             node.kubernetes.io/unschedulable:NoSchedule")
    });
    node.kubectl_ok(&["apply", "-f", "-"], &pod("later", ""));
    let why =
        ["get", "pod", "later", "-o", "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"];
    node.wait_for(&why, |text| text.starts_with("0/1 nodes are available: 1 node(s) were unschedulable."));
    node.kubectl_ok(&["uncordon", &name], "");
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/later", "--timeout=60s"], "");
    node.wait_for(&["describe", "node", &name], |text| text.contains("Taints:             <none>"));

    let bears = "  tolerations: [{key: repair, operator: Exists}]\n";
    node.kubectl_ok(&["apply", "-f", "-"], &pod("bears", bears));
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/bears", "--timeout=60s"], "");
    node.kubectl_ok(&["taint", "nodes", &name, "repair=now:NoExecute"], "");
    node.wait_for(&["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"], |names| names == "bears");
    node.wait_for(&["get", "events"], |text| text.contains("Marking for deletion Pod default/later"));
    node.kubectl_ok(&["taint", "nodes", &name, "repair-"], "");
}

const AGENT_AND_WEB: &str = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n  selector: {matchLabels: {app: agent}}\n  template:\n\
    \x20   metadata: {labels: {app: agent}}\n    spec:\n      terminationGracePeriodSeconds: 0\n\
    \x20     containers: [{name: c, image: coracle.dev/host, command: [sleep, \"1000\"]}]\n---\n\
    apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: web}}\n  template:\n\
    \x20   metadata: {labels: {app: web}}\n    spec:\n      terminationGracePeriodSeconds: 0\n\
    \x20     containers: [{name: c, image: coracle.dev/host, command: [sleep, \"1000\"]}]\n";

#[test]
fn drain_wants_to_be_told_of_daemon_sets_and_leaves_their_pods_alone() {
    if !privileged("drain_wants_to_be_told_of_daemon_sets_and_leaves_their_pods_alone") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], AGENT_AND_WEB);
    for made in ["daemonset/agent", "deployment/web"] {
        node.kubectl_ok(&["rollout", "status", made, "--timeout=60s"], "");
    }
    let name = node.kubectl_ok(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "");
    let running = "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}";
    let agent = node.kubectl_ok(&["get", "pods", "-l", "app=agent", "-o", running], "");
    let said = node.kubectl(&["drain", &name], "");
    assert!(said.status != 0, "{}", said.all());
    assert!(said.stderr.contains("cannot delete DaemonSet-managed Pods"), "{}", said.all());
    assert_eq!(
        node.kubectl_ok(&["get", "pods", "-o", running], "").split(' ').count(),
        3,
        "nobody was evicted"
    );
    // With the flag all others go; their controller's new ones wait for a node.
    node.kubectl_ok(&["drain", &name, "--ignore-daemonsets", "--timeout=60s"], "");
    assert_eq!(node.kubectl_ok(&["get", "pods", "-o", running], ""), agent);
    node.wait_for(&["get", "deployment", "web"], |out| out.contains("0/2"));
    node.kubectl_ok(&["uncordon", &name], "");
    node.kubectl_ok(&["rollout", "status", "deployment/web", "--timeout=60s"], "");
    assert_eq!(node.kubectl_ok(&["get", "pods", "-l", "app=agent", "-o", running], ""), agent, "it went on");
}

/// A part of Coracle that runs by itself, ended when dropped.
pub(crate) struct Part(Child);

impl Part {
    pub(crate) fn start(place: &Place, log: &str, arguments: &[&str]) -> Self {
        let log = place.file(log, "");
        let child = place
            .coracle(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("a file"))
            .spawn()
            .expect("it starts");
        Self(child)
    }

    pub(crate) fn kill(mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

const SPREAD: &str = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec:\n  replicas: 4\n  selector: {matchLabels: {app: web}}\n  template:\n\
    \x20   metadata: {labels: {app: web}}\n    spec:\n      terminationGracePeriodSeconds: 1\n\
    \x20     topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]\n\
    \x20     tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]\n\
    \x20     containers: [{name: c, image: coracle.dev/host, command: [sleep, \"1000\"]}]\n";

#[test]
fn pods_of_a_node_that_dies_are_replaced_on_another_and_it_is_welcome_again() {
    if !privileged("pods_of_a_node_that_dies_are_replaced_on_another_and_it_is_welcome_again") {
        return;
    }
    let place = Place::new();
    let api = Node::api_alone(&place, "api", &[]);
    let kubeconfig = api.kubeconfig.to_str().expect("text").to_owned();
    let controllers = Part::start(
        &place,
        "controllers.log",
        &["controllers", "--kubeconfig", &kubeconfig, "--node-monitor-grace-period", "15"],
    );
    let data = |name: &str| place.data().join(name).to_str().expect("text").to_owned();
    let join = |name: &str, log: &str| {
        let data = data(name);
        let to = ["kubelet", "--kubeconfig", &kubeconfig, "--node-name", name, "--allow-host-image"];
        Part::start(&place, log, &[&to[..], &["--listen", "0.0.0.0:0", "--data-dir", &data]].concat())
    };
    let (one, two) = (join("one", "one.log"), join("two", "two.log"));
    let nodes_are = |wanted: &str| {
        let ready = "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=='Ready')].status} {end}";
        api.wait_for(&["get", "nodes", "-o", ready], |text| text.trim() == wanted);
    };
    nodes_are("one=True two=True");
    api.kubectl_ok(&["apply", "-f", "-"], SPREAD);
    let running = |node: &str, wanted: usize| {
        let field = format!("spec.nodeName={node},status.phase=Running");
        let names = "jsonpath={range .items[*]}{.metadata.name}{.metadata.deletionTimestamp}{'\\n'}{end}";
        api.wait_for(&["get", "pods", "--field-selector", &field, "-o", names], |text| {
            // One that is going has a time behind its name.
            text.lines().filter(|line| !line.ends_with('Z')).count() == wanted
        });
    };
    running("one", 2);
    running("two", 2);
    one.kill();
    nodes_are("one=Unknown two=True");
    running("two", 4);
    let described = api.kubectl_ok(&["describe", "node", "one"], "");
    assert!(described.contains("node.kubernetes.io/unreachable:NoExecute"), "{described}");
    assert!(described.contains("Kubelet stopped posting node status."), "{described}");
    let one = join("one", "one-again.log");
    nodes_are("one=True two=True");
    // What was replaced meanwhile is ended there.
    let there = ["get", "pods", "--field-selector", "spec.nodeName=one", "-o", "name"];
    api.wait_for(&there, str::is_empty);
    api.wait_for(&["describe", "node", "one"], |text| text.contains("Taints:             <none>"));

    api.kubectl_ok(&["delete", "replicaset", "web"], "");
    api.wait_for(&["get", "pods", "-o", "name"], str::is_empty);
    drop((one, two, controllers));
    for name in ["one", "two"] {
        let down = finish(&mut place.coracle(&["down", "--data-dir", &data(name)]), "");
        assert_eq!(down.status, 0, "{}", down.all());
    }
}
