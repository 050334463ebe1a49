//! A runtime in a process and a network namespace of its own, served on a socket, as a kubelet sees it.
//!
//! The test program plays all parts: started with `serve DIRECTORY NAMESPACE` it is that process, started as a shim it is a shim, and
//! otherwise it runs its tests. So its tests have no harness; [`main`] is a small one.

// Each test program uses what it needs.
#![allow(dead_code)]

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use cri::v1::{
    ContainerConfig, ContainerEventType, ContainerMetadata, CreateContainerRequest, ExecSyncRequest,
    ExecSyncResponse, GetEventsRequest, ImageSpec, LinuxContainerConfig, LinuxContainerSecurityContext,
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption, PodSandboxConfig,
    PodSandboxMetadata, RemovePodSandboxRequest, RunPodSandboxRequest, SecurityProfile,
    StartContainerRequest, StopPodSandboxRequest,
};
use cri::{ImageClient, RuntimeClient};
use images::{HOST_IMAGE, ImageStore};
use network::{Network, NetworkConfig};
use nix::sched::CloneFlags;
use runtime::{Runtime, RuntimeConfig};

/// A test: its name and what it does.
pub(crate) type Test = (&'static str, fn(&tokio::runtime::Runtime));

/// What the program is this time.
pub(crate) fn main(tests: &[Test]) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = runtime::reexec(&arguments) {
        return code;
    }
    if let [_, mode, directory, namespace] = &arguments[..]
        && mode == "serve"
    {
        return serve(Path::new(directory), Path::new(namespace));
    }
    let words: Vec<String> = arguments[1..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| word == "--list") {
        for (name, _) in tests {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    if !rustix::process::geteuid().is_root() {
        let required = std::env::var_os("REQUIRE_PRIVILEGED").is_some_and(|value| value == "1");
        println!(
            "{}: these tests make containers and need root",
            if required { "failed" } else { "skipped" }
        );
        return if required { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let executor = tokio::runtime::Runtime::new().expect("threads");
    let mut failed = 0;
    for (name, test) in tests {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&executor))).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += i32::from(!passed);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The serving process: ends on SIGTERM, and cleans its network then.
fn serve(directory: &Path, namespace: &Path) -> ExitCode {
    // Before any thread exists, so that all of them are inside.
    let namespace = fs::File::open(namespace).expect("the test holds it");
    nix::sched::setns(&namespace, CloneFlags::CLONE_NEWNET).expect("root may");
    tokio::runtime::Runtime::new().expect("threads").block_on(async {
        let images = ImageStore::open(directory.join("images")).expect("an image store").with_host_image();
        let network = NetworkConfig { claims_dir: directory.join("claims"), ..NetworkConfig::new(directory) };
        let network = Network::open(network).expect("a network");
        let config = RuntimeConfig {
            private_directories: vec![directory.to_owned()],
            pod_max_pids: Some(128),
            cgroup_root: Some(format!("/{}", cgroup_name(directory))),
            ..RuntimeConfig::new(directory.join("runtime"))
        };
        let runtime = Runtime::open(config, images, network.clone()).await.expect("a runtime");
        let socket = directory.join("cri.sock");
        let listener = cri::bind_unix(&socket).expect("a socket");
        let mut ended =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("a signal");
        println!("ready");
        let ended = async move {
            ended.recv().await;
        };
        cri::serve_unix_listener(listener, &socket, runtime.clone(), runtime, ended).await.expect("served");
        network.cleanup().await.expect("cleaned up");
    });
    ExitCode::SUCCESS
}

/// The control group of a test's pods, by which what is left of it is found.
fn cgroup_name(directory: &Path) -> String {
    directory.file_name().expect("a directory of its own").to_string_lossy().into_owned()
}

/// Every control group of that name, in whatever hierarchy.
fn groups_left(directory: &Path) -> Vec<PathBuf> {
    let name = cgroup_name(directory);
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    hierarchies
        .chain([root.to_owned()])
        .map(|hierarchy| hierarchy.join(&name))
        .filter(|path| path.exists())
        .collect()
}

/// A network namespace that plays the machine's, with its loopback on.
fn machine_namespace() -> OwnedFd {
    let made = std::thread::spawn(|| {
        nix::sched::unshare(CloneFlags::CLONE_NEWNET).expect("root may");
        let switch_on = |program: &str, first: &[&str]| {
            let status = Command::new(program).args(first).args(["link", "set", "lo", "up"]).status();
            status.is_ok_and(|status| status.success())
        };
        assert!(switch_on("ip", &[]) || switch_on("busybox", &["ip"]), "these tests need `ip` or `busybox`");
        fs::File::open("/proc/thread-self/ns/net").expect("its file").into()
    });
    made.join().expect("a namespace")
}

/// A serving process and its clients.
pub(crate) struct ServedRuntime {
    process: Child,
    pub(crate) directory: PathBuf,
    pub(crate) runtime: RuntimeClient,
    pub(crate) images: ImageClient,
    /// Outlives the process, as the machine's own does.
    namespace: OwnedFd,
    _own: tempfile::TempDir,
}

impl ServedRuntime {
    /// Starts the process and waits until it serves.
    pub(crate) async fn start() -> Self {
        let own = tempfile::Builder::new().prefix("coracle-test-").tempdir().expect("a directory");
        let directory = own.path().to_owned();
        let namespace = machine_namespace();
        let (process, runtime, images) = Self::spawn(&directory, &namespace).await;
        Self { process, directory, runtime, images, namespace, _own: own }
    }

    async fn spawn(directory: &Path, namespace: &OwnedFd) -> (Child, RuntimeClient, ImageClient) {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .arg("serve")
            .arg(directory)
            .arg(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("it says something");
        assert_eq!(line, "ready\n", "the serving process did not start");
        let (runtime, images) = cri::connect(directory.join("cri.sock")).await.expect("it serves");
        (process, runtime, images)
    }

    /// Kills the process as the kernel would when memory runs out. Its network namespace stays with the pods.
    pub(crate) fn kill_daemon(&mut self) {
        self.process.kill().expect("it lives");
        self.process.wait().expect("it ends");
    }

    /// Starts the process again, in the namespace of the pods that are left.
    pub(crate) async fn restart(&mut self) {
        let (process, runtime, images) = Self::spawn(&self.directory, &self.namespace).await;
        (self.process, self.runtime, self.images) = (process, runtime, images);
    }

    /// The process of the runtime.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Connects to a port inside the network namespace of the runtime.
    pub(crate) async fn connect(&self, address: &str) -> tokio::net::TcpStream {
        let target = address.parse().expect("an address");
        network::connect_inside(self.namespace.as_fd(), target).await.expect("somebody listens")
    }

    /// A pod of that name.
    pub(crate) async fn pod(&mut self, name: &str) -> Pod {
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
                namespace: "default".to_owned(),
                attempt: 0,
            }),
            hostname: name.to_owned(),
            log_directory: self.directory.join("logs").join(name).display().to_string(),
            linux: Some(LinuxPodSandboxConfig {
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(own_namespaces()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let request = RunPodSandboxRequest { config: Some(config.clone()), runtime_handler: String::new() };
        let id = self.runtime.run_pod_sandbox(request).await.expect("a sandbox").into_inner().pod_sandbox_id;
        Pod { id, config }
    }

    /// Makes a sandbox about which nothing is said but its name.
    pub(crate) async fn bare_pod(&mut self, name: &str) -> Pod {
        let metadata = PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            namespace: "default".to_owned(),
            attempt: 0,
        };
        let config = PodSandboxConfig {
            metadata: Some(metadata),
            log_directory: self.directory.join("logs").join(name).display().to_string(),
            ..Default::default()
        };
        let request = RunPodSandboxRequest { config: Some(config.clone()), runtime_handler: String::new() };
        let id = self.runtime.run_pod_sandbox(request).await.expect("a sandbox").into_inner().pod_sandbox_id;
        Pod { id, config }
    }

    /// Makes and starts a container of the host image in the pod.
    pub(crate) async fn start_container(
        &mut self,
        pod: &Pod,
        name: &str,
        container: ContainerConfig,
    ) -> String {
        fs::create_dir_all(&pod.config.log_directory).expect("a directory for logs");
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            image: Some(ImageSpec { image: HOST_IMAGE.to_owned(), ..Default::default() }),
            log_path: format!("{name}.log"),
            ..container
        };
        let request = CreateContainerRequest {
            pod_sandbox_id: pod.id.clone(),
            config: Some(config),
            sandbox_config: Some(pod.config.clone()),
        };
        let id = self.runtime.create_container(request).await.expect("a container").into_inner().container_id;
        let request = StartContainerRequest { container_id: id.clone() };
        self.runtime.start_container(request).await.expect("it starts");
        id
    }

    /// Runs a container to its end and answers its standard output.
    pub(crate) async fn run_to_end(&mut self, pod: &Pod, name: &str, container: ContainerConfig) -> String {
        let mut events =
            self.runtime.get_container_events(GetEventsRequest {}).await.expect("events").into_inner();
        let id = self.start_container(pod, name, container).await;
        loop {
            let event = events.message().await.expect("events go on").expect("events do not end");
            if event.container_id == id
                && event.container_event_type() == ContainerEventType::ContainerStoppedEvent
            {
                break;
            }
        }
        let log = fs::read_to_string(Path::new(&pod.config.log_directory).join(format!("{name}.log")))
            .expect("a log");
        // TIME STREAM TAG TEXT
        log.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(|line| format!("{line}\n")).collect()
    }

    /// Executes a command in a running container.
    pub(crate) async fn execute(&mut self, container: &str, command: &[&str]) -> ExecSyncResponse {
        let request = ExecSyncRequest {
            container_id: container.to_owned(),
            cmd: command.iter().map(|word| (*word).to_owned()).collect(),
            timeout: 60,
            ..ExecSyncRequest::default()
        };
        self.runtime.exec_sync(request).await.expect("executed").into_inner()
    }

    /// Ends a pod and everything in it.
    pub(crate) async fn remove(&mut self, pod: Pod) {
        let request = StopPodSandboxRequest { pod_sandbox_id: pod.id.clone() };
        self.runtime.stop_pod_sandbox(request).await.expect("stopped");
        let request = RemovePodSandboxRequest { pod_sandbox_id: pod.id };
        self.runtime.remove_pod_sandbox(request).await.expect("removed");
    }

    /// Ends the process and proves that nothing is left of it.
    pub(crate) fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
        assert!(self.process.wait().expect("it ends").success());
        let directory = self.directory.display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("readable");
        assert!(!mounts.contains(&directory), "mounts are left: {mounts}");
        assert_eq!(groups_left(&self.directory), Vec::<PathBuf>::new(), "control groups are left");
        for process in fs::read_dir("/proc").expect("readable").flatten() {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&line).contains(&directory), "{:?} is left", process.path());
        }
    }
}

impl Drop for ServedRuntime {
    fn drop(&mut self) {
        // After a failed assertion: shims of this directory, then the runtime itself.
        let directory = self.directory.display().to_string();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let pid =
                process.file_name().to_string_lossy().parse().ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid
                && String::from_utf8_lossy(&line).contains(&directory)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.process.wait();
        for group in groups_left(&self.directory) {
            remove_group(&group);
        }
    }
}

/// Kills what is in a control group and below, and removes it.
fn remove_group(group: &Path) {
    for child in fs::read_dir(group).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
        remove_group(&child.path());
    }
    for line in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
        if let Some(pid) = line.parse().ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    // A process that dies takes its time; what cannot be removed now is found by its name.
    let _ = (0..1000).any(|_| fs::remove_dir(group).is_ok() || !group.exists());
}

/// A pod that runs.
pub(crate) struct Pod {
    pub(crate) id: String,
    pub(crate) config: PodSandboxConfig,
}

/// A container that runs this shell script.
pub(crate) fn script(text: &str) -> ContainerConfig {
    ContainerConfig {
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), text.to_owned()],
        linux: Some(LinuxContainerConfig {
            security_context: Some(default_security()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// What a kubelet sends for a pod that shares nothing.
fn own_namespaces() -> NamespaceOption {
    NamespaceOption { pid: NamespaceMode::Container.into(), ..Default::default() }
}

/// What a kubelet sends for a pod that asks for nothing: the default profile, and upstream's hidden paths.
pub(crate) fn default_security() -> LinuxContainerSecurityContext {
    let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    LinuxContainerSecurityContext {
        namespace_options: Some(own_namespaces()),
        seccomp: Some(SecurityProfile::default()),
        masked_paths: paths(&[
            "/proc/asound",
            "/proc/acpi",
            "/proc/interrupts",
            "/proc/kcore",
            "/proc/keys",
            "/proc/latency_stats",
            "/proc/timer_list",
            "/proc/timer_stats",
            "/proc/sched_debug",
            "/proc/scsi",
            "/sys/firmware",
            "/sys/devices/virtual/powercap",
        ]),
        readonly_paths: paths(&["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]),
        ..Default::default()
    }
}

/// A container that waits until it is ended.
pub(crate) fn waiting() -> ContainerConfig {
    script("trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done")
}
