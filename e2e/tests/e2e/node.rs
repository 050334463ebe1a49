//! A node that stays: kubectl at home, kill -9, adoption, and nothing acknowledged lost.

use e2e::{Node, Place, finish, left_behind, machine_inventory, privileged};

pub(crate) fn with_kubectl(test: &str) -> bool {
    let found = std::process::Command::new("kubectl").arg("--help").output().is_ok();
    if !found {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "{test} needs kubectl");
        eprintln!("skipped: {test} needs kubectl");
    }
    found && privileged(test)
}

pub(crate) const SLEEPER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: sleeper, labels: {app: sleeper}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "echo started; exec sleep 100000"]
    env: [{name: GREETING, value: "hello $(NOBODY)"}]
"#;

pub(crate) const RUNNING: [&str; 5] = [
    "get",
    "pod",
    "sleeper",
    "-o",
    "jsonpath={.status.phase}/{.status.containerStatuses[0].containerID}/{.status.containerStatuses[0].restartCount}",
];

#[test]
fn kubectl_creates_describes_logs_and_deletes() {
    if !with_kubectl("kubectl_creates_describes_logs_and_deletes") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let out = node.kubectl_ok(&["get", "namespaces", "-o", "name"], "");
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(out.contains(&format!("namespace/{name}")), "{out}");
    }
    assert!(node.kubectl_ok(&["get", "svc", "kubernetes"], "").contains("443/TCP"));
    node.kubectl_ok(&["apply", "-f", "-"], SLEEPER);
    node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    assert!(node.kubectl_ok(&["get", "pods"], "").contains("1/1"), "a ready pod is counted");
    node.wait_for(&["logs", "sleeper"], |out| out == "started\n");
    let described = node.wait_for(&["describe", "pod", "sleeper"], |out| out.contains("UnresolvedReference"));
    assert!(described.contains("Started"), "{described}");
    // Applying the same again changes nothing; a label is merged in.
    assert!(node.kubectl_ok(&["apply", "-f", "-"], SLEEPER).contains("unchanged"));
    node.kubectl_ok(&["label", "pod", "sleeper", "tier=web"], "");
    assert!(
        node.kubectl_ok(&["get", "pods", "-l", "tier=web,app=sleeper", "-o", "name"], "").contains("sleeper")
    );
    let said = node.kubectl(&["get", "pod", "nobody"], "");
    assert!(said.stderr.contains("pods \"nobody\" not found"), "{}", said.all());
    node.kubectl_ok(&["delete", "pod", "sleeper"], "");
    assert!(!node.kubectl_ok(&["get", "pods", "-o", "name"], "").contains("sleeper"));
}

#[test]
fn the_record_of_a_running_pod_tells_every_variable() {
    if !with_kubectl("the_record_of_a_running_pod_tells_every_variable") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    let mut command = place.coracle(&["env", "pod/sleeper", "-o", "json"]);
    let said = e2e::finish(command.env("KUBECONFIG", &node.kubeconfig), "");
    assert_eq!(said.status, 0, "{}", said.all());
    let record: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let environment = record["pods"][0]["containers"][0]["environment"].as_array().expect("entries");
    let entry = |name: &str| {
        environment.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("{name}: {record:#}"))
    };
    assert_eq!(entry("GREETING")["value"], "hello $(NOBODY)");
    assert_eq!(entry("HOSTNAME")["value"], "sleeper");
    assert_eq!(entry("KUBERNETES_SERVICE_HOST")["origin"]["kind"], "service");
}

#[test]
fn killing_the_daemon_leaves_containers_and_loses_nothing() {
    if !with_kubectl("killing_the_daemon_leaves_containers_and_loses_nothing") {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    let before = node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    node.kubectl_ok(&["annotate", "pod", "sleeper", "acknowledged=yes"], "");
    node.kill();
    drop(node);
    let node = Node::up(&place, &[]);
    let after = node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    assert_eq!(after, before, "the same container, not started again");
    let kept = node
        .kubectl_ok(&["get", "pod", "sleeper", "-o", "jsonpath={.metadata.annotations.acknowledged}"], "");
    assert_eq!(kept, "yes");
    assert_eq!(node.kubectl_ok(&["logs", "sleeper"], ""), "started\n");
    node.kubectl_ok(&["delete", "pod", "sleeper"], "");
    let mark =
        place.data().parent().expect("a parent").file_name().expect("a name").to_string_lossy().into_owned();
    let left = left_behind(&mark).into_iter().filter(|each| each.contains("shim")).collect::<Vec<_>>();
    assert_eq!(left, Vec::<String>::new(), "the pod is gone, and its shim with it");
}

#[test]
fn a_port_in_use_is_said_so() {
    if !with_kubectl("a_port_in_use_is_said_so") {
        return;
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let place = Place::new();
    let data = place.data().join("never-made");
    let said = e2e::finish(
        &mut place.coracle(&["up", "--listen", &address, "--data-dir", data.to_str().expect("text")]),
        "",
    );
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains(&address), "{}", said.all());
    assert!(!data.exists(), "no empty data directory is left");
}

#[test]
fn a_kubelet_with_a_kubeconfig_or_runtime_that_cannot_be_used_leaves_nothing_behind() {
    if !e2e::privileged("a_kubelet_with_a_kubeconfig_or_runtime_that_cannot_be_used_leaves_nothing_behind") {
        return;
    }
    let place = Place::new();
    let data = place.data().join("never-made");
    let bad = place.file("bad", "no: kubeconfig\n");
    let nobody = format!("unix://{}", place.file("nobody", "").display());
    for (flag, value) in [
        ("--kubeconfig", bad.to_str().expect("text")),
        ("--kubeconfig", "/nowhere/kubeconfig"),
        ("--container-runtime-endpoint", nobody.as_str()),
    ] {
        let mut command = place.coracle(&["kubelet", flag, value, "--data-dir"]);
        let said = finish(command.arg(&data), "");
        assert_ne!(said.status, 0, "{}", said.all());
        assert!(!data.exists(), "{flag} {value}: {:?}", std::fs::read_dir(&data).map(Iterator::count));
    }
}

/// What follows from a path in the names of a node: the beginning of its digest.
fn digest(path: &std::path::Path) -> String {
    let said = finish(&mut std::process::Command::new("sha256sum"), path.to_str().expect("text"));
    said.stdout.chars().take(8).collect()
}

#[test]
fn down_ends_a_node_with_its_pods_and_takes_away_what_it_made_on_the_machine() {
    if !with_kubectl("down_ends_a_node_with_its_pods_and_takes_away_what_it_made_on_the_machine") {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    let before = node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    let data = place.data().canonicalize().expect("it is there");
    let marks = [digest(&data), digest(&data.join("runtime"))];
    let made = || {
        let inventory = machine_inventory();
        inventory.into_iter().filter(|line| marks.iter().any(|mark| line.contains(mark))).collect::<Vec<_>>()
    };
    assert!(made().len() >= 2, "an interface and control groups: {:?}", made());
    let down = |arguments: &[&str]| {
        let mut command = place.coracle(&["down", "--data-dir"]);
        finish(command.arg(&data).args(arguments), "")
    };
    // Also a node that runs: it is ended first.
    let said = down(&["--grace-period", "1"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(said.stdout.contains("1 pod stopped"), "{}", said.all());
    node.kill();
    assert_eq!(made(), Vec::<String>::new());
    let mark =
        place.data().parent().expect("a parent").file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(left_behind(&mark).into_iter().collect::<Vec<_>>(), Vec::<String>::new());
    // The data stayed: the pod comes again, as after a restart of the machine.
    let mut node = Node::up(&place, &[]);
    let after = node.wait_for(&RUNNING, |out| out.starts_with("Running/") && *out != before);
    assert!(after.ends_with("/1"), "{after}");
    node.kill();
    let foreign = data.join("not-ours");
    std::fs::write(&foreign, "x").expect("written");
    let said = down(&["--purge", "--grace-period", "0"]);
    assert_eq!(said.status, 0, "{}", said.all());
    let mut left: Vec<_> =
        std::fs::read_dir(&data).expect("it stays").flatten().map(|entry| entry.path()).collect();
    // kubectl keeps its cache in the home that these tests give it.
    left.retain(|path| !path.ends_with("home"));
    assert_eq!(left, [foreign], "what others made stays");
    assert_eq!(made(), Vec::<String>::new());
    let said = down(&[]);
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains("there is no node"), "{}", said.all());
}

#[test]
fn an_ordered_end_warns_of_nothing() {
    if !with_kubectl("an_ordered_end_warns_of_nothing") {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    node.kubectl_ok(&["delete", "pod", "sleeper"], "");
    node.end();
    let log = node.log();
    assert!(!log.contains(" WARN ") && !log.contains(" ERROR "), "{log}");
}
