//! Damaged state of a node: it starts all the same, says what was damaged, and keeps the damaged files.

use std::path::{Path, PathBuf};

use e2e::{Node, Place, finish, left_behind};

use super::node::{RUNNING, SLEEPER, with_kubectl};

/// A node with the running pod `sleeper`, killed; and how the pod ran.
fn killed_node(place: &Place) -> String {
    let mut node = Node::up(place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    let before = node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    node.kill();
    before
}

/// Writes nonsense over every file of that name below a directory.
fn damage(directory: &Path, name: &str) {
    let mut damaged = 0;
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let kind = entry.file_type().expect("it has a kind");
            if kind.is_dir() && !is_mount_point(&entry.path()) {
                pending.push(entry.path());
            } else if kind.is_file() && entry.file_name() == name {
                std::fs::write(entry.path(), "{\"x").expect("it can be damaged");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0, "there is no {name} below {}", directory.display());
}

fn is_mount_point(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
    mounts.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

/// The message of the pod's event with that reason.
fn event(node: &Node, reason: &str) -> String {
    let selector = format!("involvedObject.name=sleeper,reason={reason}");
    let arguments = ["get", "events", "--field-selector", &selector, "-o", "jsonpath={.items[*].message}"];
    node.wait_for(&arguments, |out| !out.is_empty())
}

/// The last path in a message.
fn kept(message: &str) -> PathBuf {
    let path = message.split_whitespace().rfind(|word| word.starts_with('/'));
    PathBuf::from(path.unwrap_or_else(|| panic!("no path in {message}")))
}

fn shims(place: &Place) -> Vec<String> {
    let mark =
        place.data().parent().expect("a parent").file_name().expect("a name").to_string_lossy().into_owned();
    left_behind(&mark).into_iter().filter(|each| each.contains("coracle shim")).collect()
}

#[test]
fn a_damaged_sandbox_does_not_live_on_beside_its_successor() {
    if !with_kubectl("a_damaged_sandbox_does_not_live_on_beside_its_successor") {
        return;
    }
    let place = Place::new();
    let before = killed_node(&place);
    damage(&place.data().join("runtime/sandboxes"), "sandbox.json");
    let node = Node::up(&place, &[]);
    let after = node.wait_for(&RUNNING, |out| out.starts_with("Running/") && *out != before);
    assert_ne!(after, before, "the pod is made anew");
    assert_eq!(shims(&place).len(), 1, "{:?}", shims(&place));
    let said = event(&node, "SandboxLost");
    assert!(said.contains("sandbox.json is damaged"), "{said}");
    assert!(kept(&said).join("sandbox.json").exists(), "nothing is deleted: {said}");
    node.kubectl_ok(&["delete", "pod", "sleeper"], "");
}

#[test]
fn a_damaged_container_is_said_and_its_process_does_not_live_on() {
    if !with_kubectl("a_damaged_container_is_said_and_its_process_does_not_live_on") {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    // The number makes the processes of this test known among all others.
    node.kubectl_ok(&["create", "-f", "-"], &SLEEPER.replace("sleep 100000", "sleep 100321"));
    let before = node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    node.kill();
    damage(&place.data().join("runtime/sandboxes"), "container.json");
    let node = Node::up(&place, &[]);
    let after = node.wait_for(&RUNNING, |out| out.starts_with("Running/") && *out != before);
    assert!(after.ends_with("/1"), "it counts as a restart: {after}");
    let said = event(&node, "ContainerLost");
    assert!(said.contains("container.json is damaged"), "{said}");
    assert!(kept(&said).join("container.json").exists(), "nothing is deleted: {said}");
    let sleepers = std::fs::read_dir("/proc").expect("processes").flatten().filter(|entry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x00100321\x00")
    });
    assert_eq!(sleepers.count(), 1);
}

#[test]
fn a_damaged_state_file_of_a_pod_is_said_and_the_pod_goes_on() {
    if !with_kubectl("a_damaged_state_file_of_a_pod_is_said_and_the_pod_goes_on") {
        return;
    }
    let place = Place::new();
    let before = killed_node(&place);
    damage(&place.data().join("kubelet/pods"), "state.json");
    let node = Node::up(&place, &[]);
    let said = event(&node, "StateQuarantined");
    assert_eq!(std::fs::read(kept(&said)).expect("nothing is deleted"), b"{\"x", "{said}");
    assert_eq!(node.wait_for(&RUNNING, |out| out.starts_with("Running/")), before);
}

#[test]
fn a_damaged_environment_record_is_said_by_coracle_env() {
    if !with_kubectl("a_damaged_environment_record_is_said_by_coracle_env") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    let explain = || finish(place.coracle(&["env", "pod/sleeper"]).env("KUBECONFIG", &node.kubeconfig), "");
    while !explain().stdout.contains("GREETING") {
        std::thread::yield_now();
    }
    let pods = place.data().join("kubelet/pods");
    let uid = std::fs::read_dir(&pods).expect("pods").flatten().next().expect("a pod").path();
    damage(&uid.join("containers"), "environment.json");
    let said = explain();
    assert!(said.stdout.contains("record-damaged"), "{}", said.all());
}

#[test]
fn a_damaged_authority_is_said_on_the_terminal_with_what_to_do() {
    if !with_kubectl("a_damaged_authority_is_said_on_the_terminal_with_what_to_do") {
        return;
    }
    let place = Place::new();
    let before = killed_node(&place);
    std::fs::write(place.data().join("pki/ca.key"), [0xff; 32]).expect("it can be damaged");
    let node = Node::up(&place, &[]);
    let said = node.log();
    for expected in ["warning: the files of the certificate authority were damaged", "ca.key.old-", "--merge"]
    {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
    assert_eq!(node.wait_for(&RUNNING, |out| out.starts_with("Running/")), before);
}

#[test]
fn a_damaged_database_is_said_on_the_terminal_and_kept() {
    if !with_kubectl("a_damaged_database_is_said_on_the_terminal_and_kept") {
        return;
    }
    let place = Place::new();
    killed_node(&place);
    let database = place.data().join("state.db");
    std::fs::write(&database, "this is no database").expect("it can be damaged");
    // Its log alone would do to mend it.
    std::fs::write(place.data().join("state.db-wal"), "and this is no log").expect("it can be damaged");
    let node = Node::up(&place, &[]);
    let said = node.log();
    let line = said.lines().find(|line| line.contains("the old file is kept as"));
    let line = line.unwrap_or_else(|| panic!("nothing is said: {said}"));
    assert_eq!(std::fs::read(kept(line)).expect("nothing is deleted"), b"this is no database");
    assert!(said.contains("warning: the database was damaged"), "{said}");
    // What the database no longer knows is stopped, and its place is free again.
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
}

#[test]
fn a_damaged_image_record_is_said_and_kept() {
    let place = Place::new();
    let data = place.data();
    let root = place.data().parent().expect("a parent").join("root");
    std::fs::create_dir_all(root.join("bin")).expect("a directory");
    let image = |arguments: &[&str]| {
        let mut command = place.coracle(&["image"]);
        finish(command.args(arguments).arg("--data-dir").arg(&data), "")
    };
    let imported = image(&["import", root.to_str().expect("text"), "--name", "localhost/shop:1"]);
    assert_eq!(imported.status, 0, "{}", imported.all());
    let records = std::fs::read_dir(data.join("images/images")).expect("records").flatten();
    for record in records {
        std::fs::write(record.path(), "{\"x").expect("it can be damaged");
    }
    let listed = image(&["list"]);
    assert_eq!(listed.status, 0, "{}", listed.all());
    assert!(!listed.stdout.contains("shop"), "{}", listed.all());
    assert!(listed.stderr.contains("a damaged file of the image store was set aside"), "{}", listed.all());
    assert!(listed.stderr.contains("import or pull"), "what to do is said: {}", listed.all());
    assert_eq!(std::fs::read_dir(data.join("images/quarantine")).expect("kept").count(), 1);
}
