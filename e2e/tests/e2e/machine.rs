//! A machine that misbehaves: its disk is full, its clock jumps. Nothing is lost, and the node goes on by itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use e2e::{Node, Place, privileged};

use super::node::{RUNNING, SLEEPER, with_kubectl};

/// A file system of a few MiB, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: &Path, mebibytes: u32) -> Self {
        std::fs::create_dir_all(path).expect("a directory");
        let size = format!("size={mebibytes}m");
        let mut command = std::process::Command::new("mount");
        let status = command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).status();
        assert!(status.is_ok_and(|status| status.success()), "the right to mount");
        Self(path.to_owned())
    }

    /// Takes every byte that is left.
    fn fill(&self) {
        let mut filler = std::fs::File::create(self.filler()).expect("a file");
        for size in [1 << 16, 1 << 12, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.filler()).expect("it is there");
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_a_container_from_starting_says_so_and_recovers_by_itself() {
    if !privileged("a_full_disk_keeps_a_container_from_starting_says_so_and_recovers_by_itself") {
        return;
    }
    let place = Place::new();
    let disk = SmallDisk::mount(&place.data(), 32);
    // Two pods: the first one fills the disk from outside, when it runs; the second one is to start then.
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: first}
spec:
  restartPolicy: Never
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: wait, image: coracle.dev/host, command: [/bin/sh, -c, "echo waiting; until [ -e /v/go ]; do sleep 0.05; done"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - {name: main, image: coracle.dev/host, command: [/bin/echo, "it ran"]}
"#;
    let file = place.file("pods.yaml", manifest);
    let mut command = place.coracle(&["run", file.to_str().expect("text"), "--wait", "--data-dir"]);
    command.arg(place.data()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert!(line.contains("waiting"), "{line}");
    let go = find(&place.data().join("runs"), "v").join("go");
    std::fs::write(&go, "").expect("room is there");
    disk.fill();
    let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("No space left on device") {
        let mut line = String::new();
        assert!(err.read_line(&mut line).expect("text") > 0, "it ended: {said}");
        said.push_str(&line);
    }
    disk.make_room();
    let reader = std::thread::spawn(move || {
        let mut rest = String::new();
        let _ = err.read_to_string(&mut rest);
        rest
    });
    let mut printed = String::new();
    out.read_to_string(&mut printed).expect("text");
    let status = child.wait().expect("it ends");
    said.push_str(&reader.join().expect("text"));
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(printed.contains("it ran"), "{printed}\n{said}");
}

/// The directory of that name below another.
fn find(below: &Path, name: &str) -> PathBuf {
    let mut pending = vec![below.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_name() == name && entry.path().parent().is_some_and(|it| it.ends_with("volumes")) {
                return entry.path();
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != "rootfs" {
                pending.push(entry.path());
            }
        }
    }
    panic!("there is no {name} below {}", below.display());
}

/// The library that gives a process another wall clock, which a file moves while it runs.
pub(crate) fn fake_clock() -> Option<PathBuf> {
    let libraries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let found =
        libraries.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "this test needs the package faketime");
        eprintln!("skipped: this test needs the package faketime");
    }
    found
}

/// `coracle` with a clock of its own, which [`set_clock`] sets.
pub(crate) fn with_clock(place: &Place, library: &Path) -> std::process::Command {
    let clock = place.file("clock", "+0");
    let mut command = place.coracle(&[]);
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", clock);
    command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    command
}

/// From now on the clock is so far from the machine's. The file is replaced as a whole: it is read at every look at the clock.
pub(crate) fn set_clock(place: &Place, by: &str) {
    let new = place.file("clock.new", by);
    std::fs::rename(&new, new.with_file_name("clock")).expect("replaced");
}

#[test]
fn a_clock_that_jumps_restarts_nothing_and_takes_no_grace_away() {
    if !with_kubectl("a_clock_that_jumps_restarts_nothing_and_takes_no_grace_away") {
        return;
    }
    let Some(library) = fake_clock() else { return };
    let place = Place::new();
    let jump = |by: &str| set_clock(&place, by);
    let node = Node::up_by(with_clock(&place, &library), &place, &[]);
    let seen = place.data().parent().expect("a parent").join("seen");
    std::fs::create_dir_all(&seen).expect("a directory");
    let graceful = format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: graceful}}
spec:
  terminationGracePeriodSeconds: 60
  volumes: [{{name: seen, hostPath: {{path: {seen}}}}}]
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "trap 'sleep 1; echo yes > /seen/stopped; exit 0' TERM; while :; do sleep 0.1; done"]
    volumeMounts: [{{name: seen, mountPath: /seen}}]
"#,
        seen = seen.display()
    );
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    node.kubectl_ok(&["create", "-f", "-"], &graceful);
    let before = node.wait_for(&RUNNING, |out| out.starts_with("Running/"));
    let phase = ["get", "pod", "graceful", "-o", "jsonpath={.status.phase}"];
    node.wait_for(&phase, |out| out == "Running");
    // A month on, then half a day before now.
    for (by, name) in [("+30d", "later"), ("-12h", "earlier")] {
        jump(by);
        // Whoever is created now is up after everything that a jump could set off.
        node.kubectl_ok(&["create", "-f", "-"], &SLEEPER.replace("name: sleeper", &format!("name: {name}")));
        let phase = ["get", "pod", name, "-o", "jsonpath={.status.phase}"];
        node.wait_for(&phase, |out| out == "Running");
        assert_eq!(node.wait_for(&RUNNING, |out| out.starts_with("Running/")), before, "after {by}");
    }
    let made = |name: &str| {
        node.kubectl_ok(&["get", "pod", name, "-o", "jsonpath={.metadata.creationTimestamp}"], "")
    };
    assert!(made("earlier") < made("sleeper") && made("sleeper") < made("later"), "the clock did jump");
    // The stop is under way when the clock jumps over its end.
    let delete = ["delete", "pod", "graceful", "--wait=false"];
    node.kubectl_ok(&delete, "");
    jump("+30d");
    let pods = ["get", "pods", "-o", "name"];
    node.wait_for(&pods, |out| !out.contains("graceful"));
    assert!(seen.join("stopped").exists(), "it had its grace");
}
