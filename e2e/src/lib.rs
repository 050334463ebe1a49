//! How the end-to-end tests use Coracle: as a person does, by its binary.
//!
//! Tests that need root go through [`privileged`]: they say why they are skipped, and with `REQUIRE_PRIVILEGED=1` a skip is a failure.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longest time that one command of a test may take; machines in continuous integration are slow and shared.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Whether this test can run; prints the reason when it cannot.
///
/// # Panics
///
/// When it cannot run and `REQUIRE_PRIVILEGED=1` says that it must.
pub fn privileged(test: &str) -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    if !root {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "{test} needs root");
        eprintln!("skipped: {test} runs real containers and needs root");
    }
    root
}

/// Whether the machine's `kubectl` has what this test needs of a newer one (1.30; Debian's is 1.20); prints the reason when not.
pub fn newer_kubectl(test: &str) -> bool {
    const NEEDED: u32 = 30;
    let said = Command::new("kubectl").args(["version", "--client", "-o", "json"]).output();
    let version = said.ok().and_then(|said| serde_json::from_slice::<serde_json::Value>(&said.stdout).ok());
    let minor = version.as_ref().and_then(|version| version["clientVersion"]["minor"].as_str());
    let minor = minor.and_then(|minor| minor.trim_end_matches('+').parse::<u32>().ok());
    let is_newer = minor.is_some_and(|minor| minor >= NEEDED);
    if !is_newer {
        eprintln!("skipped: {test} needs kubectl 1.{NEEDED} or newer");
    }
    is_newer
}

/// The root of the project.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the project").to_owned()
}

/// The binary under test: `CORACLE_BIN`, or the one built beside the tests.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("CORACLE_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("the test knows its own path");
    let profile = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let binary = profile.join("coracle");
    assert!(binary.exists(), "{} is missing: run `cargo build -p coracle` first", binary.display());
    binary
}

/// What a finished command said.
#[derive(Debug)]
pub struct Said {
    /// Exit status; -1 when a signal ended it.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The lines of standard output.
    pub fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }

    /// Both outputs, for messages.
    pub fn all(&self) -> String {
        format!("status {}\n--- stdout\n{}\n--- stderr\n{}", self.status, self.stdout, self.stderr)
    }
}

/// Runs a command to its end, at most [`PATIENCE`].
///
/// # Panics
///
/// When the command cannot be started or does not end.
pub fn finish(command: &mut Command, input: &str) -> Said {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let text = input.to_owned();
    let writer = std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    let pid = child.id();
    let (send, receive) = mpsc::channel();
    let waiter = std::thread::spawn(move || drop(send.send(child.wait_with_output())));
    let output = match receive.recv_timeout(PATIENCE) {
        Ok(output) => output.expect("the output can be read"),
        Err(_) => {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            panic!("{command:?} did not end within {PATIENCE:?}");
        }
    };
    let _ = writer.join();
    let _ = waiter.join();
    Said::of(output)
}

/// A directory of its own for one test; what Coracle keeps lies below it.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// A new, empty place.
    ///
    /// # Panics
    ///
    /// When the directory cannot be made.
    pub fn new() -> Self {
        Self {
            dir: tempfile::Builder::new().prefix("coracle-e2e-").tempdir().expect("a directory can be made"),
        }
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Writes a file and answers its path.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path
    }

    /// `coracle` with these arguments, in this place.
    pub fn coracle(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.dir.path()).env_remove("KUBECONFIG").env("NO_COLOR", "1");
        command
    }

    /// `coracle run -` of this manifest, to its end.
    pub fn run(&self, manifest: &str, arguments: &[&str]) -> Said {
        let data = self.data();
        let mut all = vec!["run", "-", "--data-dir", data.to_str().expect("the path is text")];
        all.extend(arguments);
        finish(&mut self.coracle(&all), manifest)
    }
}

/// A node that was ended while the last of its deleted pods were still on their way out, or that a test killed, leaves what
/// the next start would take up. There is none: `coracle down` takes it away.
impl Drop for Place {
    fn drop(&mut self) {
        let mark = self.dir.path().display().to_string();
        // Tables and control groups name no path: a test that failed may have left them.
        if left_behind(&mark).is_empty() && !std::thread::panicking() {
            return;
        }
        let entries = |directory: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        // A place with several nodes has their directories below its own.
        let near = entries(self.dir.path());
        let far = near.iter().flat_map(|directory| entries(directory));
        for data in far.chain(near.iter().cloned()).filter(|data| data.join("runtime").is_dir()) {
            let mut down = self.coracle(&["down", "--now", "--purge", "--data-dir"]);
            down.arg(data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let _ = down.status();
        }
    }
}

/// A node that stays (`coracle up`), ended when dropped.
pub struct Node {
    child: Option<Child>,
    /// Path of the kubeconfig.
    pub kubeconfig: PathBuf,
    data: PathBuf,
    log: PathBuf,
}

impl Node {
    /// Starts a node on a free port of loopback and waits until it is ready.
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn up(place: &Place, arguments: &[&str]) -> Self {
        Self::up_by(place.coracle(&[]), place, arguments)
    }

    /// The same by a command that ends in the binary: `unshare ... coracle`.
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn up_by(mut command: Command, place: &Place, arguments: &[&str]) -> Self {
        command
            .args(["up", "--listen", "127.0.0.1:0", "--allow-host-image", "--data-dir"])
            .arg(place.data())
            .args(arguments);
        Self::begin(command, place.data(), place.file("up.log", ""))
    }

    /// Starts an API server without a node (`coracle apiserver`) on a free port of loopback. Each has a name of its own
    /// in its place.
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn api_alone(place: &Place, name: &str, arguments: &[&str]) -> Self {
        let mut command = place.coracle(&["apiserver"]);
        command.args(arguments);
        Self::begin(command, place.data().join(name), place.file(&format!("{name}.log"), ""))
    }

    fn begin(mut command: Command, data: PathBuf, log: PathBuf) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).expect("the log can be made"))
            .spawn()
            .expect("the node starts");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout);
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                let _ = send.send(std::mem::take(&mut line));
            }
        });
        let said = receive.recv_timeout(PATIENCE).unwrap_or_default();
        let kubeconfig = said.trim().strip_prefix("export KUBECONFIG=").map(PathBuf::from);
        let Some(kubeconfig) = kubeconfig else {
            let _ = child.kill();
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            panic!("the node said {said:?} instead of its kubeconfig:\n{text}");
        };
        Self { child: Some(child), kubeconfig, data, log }
    }

    /// kubectl against this node.
    pub fn kubectl(&self, arguments: &[&str], input: &str) -> Said {
        let mut command = Command::new("kubectl");
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).env("HOME", self.data.join("home"));
        finish(&mut command, input)
    }

    /// kubectl, which must succeed; its standard output.
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn kubectl_ok(&self, arguments: &[&str], input: &str) -> String {
        let said = self.kubectl(arguments, input);
        assert!(said.status == 0, "kubectl {arguments:?}: {}\n--- node\n{}", said.all(), self.log());
        said.stdout
    }

    /// Asks kubectl until the output satisfies the condition.
    ///
    /// # Panics
    ///
    /// When it never does.
    pub fn wait_for(&self, arguments: &[&str], condition: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.kubectl(arguments, "");
            if said.status == 0 && condition(&said.stdout) {
                return said.stdout;
            }
            assert!(
                Instant::now() < deadline,
                "kubectl {arguments:?}: {}\n--- node\n{}",
                said.all(),
                self.log()
            );
            std::thread::yield_now();
        }
    }

    /// What the node wrote to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends the node at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends the node in order, as Ctrl-C would, and waits for its end.
    pub fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Process id of the daemon.
    ///
    /// # Panics
    ///
    /// When it was killed.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the node runs").id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Pods of a node outlive its daemon, so they are taken away first.
        if self.child.is_some() {
            // Nobody is left who would make new ones.
            let makers =
                "cronjobs,jobs,deployments,replicasets,replicationcontrollers,statefulsets,daemonsets";
            let orphan = ["delete", makers, "--all", "-A", "--cascade=orphan", "--timeout=60s"];
            let said = self.kubectl(&orphan, "");
            if said.status != 0 {
                eprintln!("what makes pods could not be deleted: {}", said.all());
            }
            let said = self.kubectl(
                &["delete", "pods", "--all", "-A", "--grace-period=1", "--wait=true", "--timeout=60s"],
                "",
            );
            if said.status != 0 {
                eprintln!("the pods could not be deleted: {}", said.all());
            }
        }
        if let Some(mut child) = self.child.take() {
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let deadline = Instant::now() + PATIENCE;
            while child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < deadline {
                std::thread::yield_now();
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What Coracle could leave behind on a machine, as text lines.
///
/// Only things that carry the mark are listed, so that other tests may run at the same time.
pub fn left_behind(mark: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open("/proc/self/mountinfo") {
        let _ = file.read_to_string(&mut text);
    }
    found.extend(text.lines().filter(|line| line.contains(mark)).map(|line| format!("mount {line}")));
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(command) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(mark) && command.contains("coracle") {
            found.insert(format!("process {}: {command}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// The shims of the nodes whose paths carry the mark: process id and start time, which name one process for good.
pub fn shims(mark: &str) -> BTreeSet<(u32, String)> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let command = read("cmdline");
        if command.starts_with("coracle\0shim\0") && command.contains(mark) {
            // After the name, which may hold anything, the twentieth field.
            let stat = read("stat");
            let began = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(19));
            found.insert((pid, began.unwrap_or_default().to_owned()));
        }
    }
    found
}

/// Network interfaces and control groups that belong to Coracle nodes, whoever made them.
pub fn machine_inventory() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
        found.insert(format!("interface {}", entry.file_name().to_string_lossy()));
    }
    let mut pending = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = entry.path();
                if path.to_string_lossy().contains("coracle") {
                    found.insert(format!("control group {}", path.display()));
                }
                pending.push(path);
            }
        }
    }
    found
}
