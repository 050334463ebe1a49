//! A runtime for tests, in this process or in a daemon that can be killed, and pods made with few words.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cri::v1::{
    ContainerConfig, ContainerMetadata, ContainerState, ContainerStatus, CreateContainerRequest, ImageSpec,
    KeyValue, LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
    RemovePodSandboxRequest, RunPodSandboxRequest, StartContainerRequest,
};
use cri::{ImageClient, RuntimeClient};
use images::ImageStore;
use network::{Network, NetworkConfig};
use runtime::{Runtime, RuntimeConfig};

/// Part of the path of every test's data directory.
pub(crate) const DATA_PREFIX: &str = "coracle-runtime-test-";

/// Beginning of the name of every test's control group.
pub(crate) const CGROUP_PREFIX: &str = "coracle-rt-";

/// A node for one test.
pub(crate) struct Node {
    pub(crate) runtime: RuntimeClient,
    pub(crate) images: ImageClient,
    pub(crate) directory: tempfile::TempDir,
    network: Option<Network>,
    daemon: Option<Child>,
    ended: bool,
}

impl Drop for Node {
    /// A test that failed leaves no less behind than one that passed.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if let Some(mut child) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let (directory, network) = (self.directory.path().to_owned(), self.network.take());
        let cleaning = std::thread::spawn(move || clean_up(&directory, network));
        let _ = cleaning.join();
    }
}

fn clean_up(directory: &Path, network: Option<Network>) {
    let ours = directory.to_string_lossy().into_owned();
    for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        let number =
            entry.file_name().to_string_lossy().parse().ok().and_then(rustix::process::Pid::from_raw);
        // Their containers end with them.
        if let Some(number) =
            number.filter(|_| arguments.starts_with("coracle shim") && arguments.contains(&ours))
        {
            let _ = rustix::process::kill_process(number, rustix::process::Signal::KILL);
        }
    }
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        if let Ok(network) = network.map_or_else(|| Network::open(network_config(directory)), Ok) {
            let _ = network.cleanup().await;
        }
    });
    let group = config(directory).cgroup_root.unwrap();
    for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap().filter_map(Result::ok) {
        remove_groups(&hierarchy.path().join(group.trim_start_matches('/')));
    }
    remove_groups(&Path::new("/sys/fs/cgroup").join(group.trim_start_matches('/')));
}

fn remove_groups(directory: &Path) {
    for _ in 0..100 {
        for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                for inner in std::fs::read_dir(entry.path()).into_iter().flatten().filter_map(Result::ok) {
                    let _ = std::fs::remove_dir(inner.path());
                }
                let _ = std::fs::remove_dir(entry.path());
            }
        }
        if std::fs::remove_dir(directory).is_ok() || !directory.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn network_config(directory: &Path) -> NetworkConfig {
    NetworkConfig { claims_dir: directory.join("claims"), ..NetworkConfig::new(directory.join("runtime")) }
}

pub(crate) fn config(directory: &Path) -> RuntimeConfig {
    let name = directory.file_name().unwrap().to_string_lossy().into_owned();
    RuntimeConfig {
        cgroup_root: Some(format!("/{CGROUP_PREFIX}{name}")),
        ..RuntimeConfig::new(directory.join("runtime"))
    }
}

async fn open(directory: &Path) -> (Runtime, Network) {
    open_with(directory, |_| {}).await
}

async fn open_with(directory: &Path, change: impl FnOnce(&mut RuntimeConfig)) -> (Runtime, Network) {
    let images = ImageStore::open(directory.join("images")).unwrap().with_host_image();
    std::fs::create_dir_all(directory.join("runtime")).unwrap();
    let network_config = NetworkConfig {
        claims_dir: directory.join("claims"),
        ..NetworkConfig::new(directory.join("runtime"))
    };
    let network = Network::open(network_config).unwrap();
    let mut config = config(directory);
    change(&mut config);
    let runtime = Runtime::open(config, images, network.clone()).await.unwrap();
    (runtime, network)
}

/// Data directories of this process. Another one may run the same tests at the same time.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn new_directory() -> tempfile::TempDir {
    let prefix = format!("{DATA_PREFIX}{}-", std::process::id());
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir().unwrap();
    DIRECTORIES.lock().unwrap().push(directory.path().to_owned());
    directory
}

/// The data directories of all nodes of this process, also of those that ended.
pub(crate) fn directories() -> Vec<PathBuf> {
    DIRECTORIES.lock().unwrap().clone()
}

impl Node {
    /// A runtime in this process.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// A runtime in this process, configured in its own way.
    pub(crate) async fn start_with(change: impl FnOnce(&mut RuntimeConfig)) -> Self {
        let directory = new_directory();
        let (runtime, network) = open_with(directory.path(), change).await;
        let (client, images) = cri::in_process(runtime.clone(), runtime);
        Self { runtime: client, images, directory, network: Some(network), daemon: None, ended: false }
    }

    /// A runtime in a process of its own.
    pub(crate) async fn start_daemon() -> Self {
        let directory = new_directory();
        let (child, runtime, images) = spawn_daemon(directory.path()).await;
        Self { runtime, images, directory, network: None, daemon: Some(child), ended: false }
    }

    /// Kills the daemon with SIGKILL and starts another one over the same directory.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.kill_daemon();
        let (child, runtime, images) = spawn_daemon(self.directory.path()).await;
        (self.daemon, self.runtime, self.images) = (Some(child), runtime, images);
    }

    pub(crate) fn kill_daemon(&mut self) {
        let mut child = self.daemon.take().expect("the node runs in a daemon");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) async fn restart_daemon(&mut self) {
        let (child, runtime, images) = spawn_daemon(self.directory.path()).await;
        (self.daemon, self.runtime, self.images) = (Some(child), runtime, images);
    }

    /// Ends the node: every sandbox removed, the network too.
    pub(crate) async fn end(mut self) {
        let all = self.runtime.list_pod_sandbox(cri::v1::ListPodSandboxRequest::default()).await.unwrap();
        for sandbox in all.into_inner().items {
            self.remove(&sandbox.id).await;
        }
        if let Some(mut child) = self.daemon.take() {
            child.kill().unwrap();
            child.wait().unwrap();
            self.network = Some(Network::open(network_config(self.directory.path())).unwrap());
        }
        if let Some(network) = self.network.take() {
            network.cleanup().await.unwrap();
        }
        self.ended = true;
    }

    pub(crate) async fn sandbox(&mut self, config: PodSandboxConfig) -> String {
        let request = RunPodSandboxRequest { config: Some(config), runtime_handler: String::new() };
        self.runtime.run_pod_sandbox(request).await.unwrap().into_inner().pod_sandbox_id
    }

    pub(crate) async fn remove(&mut self, sandbox: &str) {
        let request = RemovePodSandboxRequest { pod_sandbox_id: sandbox.to_owned() };
        self.runtime.remove_pod_sandbox(request).await.unwrap();
    }

    pub(crate) async fn create(
        &mut self,
        sandbox: &str,
        config: ContainerConfig,
    ) -> Result<String, tonic::Status> {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: None,
        };
        Ok(self.runtime.create_container(request).await?.into_inner().container_id)
    }

    pub(crate) async fn start_container(&mut self, id: &str) -> Result<(), tonic::Status> {
        self.runtime.start_container(StartContainerRequest { container_id: id.to_owned() }).await.map(drop)
    }

    /// Creates and starts.
    pub(crate) async fn launch(&mut self, sandbox: &str, config: ContainerConfig) -> String {
        let id = self.create(sandbox, config).await.unwrap();
        self.start_container(&id).await.unwrap();
        id
    }

    pub(crate) async fn status(&mut self, id: &str) -> ContainerStatus {
        let request = cri::v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        self.runtime.container_status(request).await.unwrap().into_inner().status.unwrap()
    }

    /// Waits for the end of a container.
    pub(crate) async fn ended(&mut self, id: &str) -> ContainerStatus {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.status(id).await;
            if status.state() == ContainerState::ContainerExited {
                return status;
            }
            assert!(Instant::now() < deadline, "the container does not end: {status:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Runs a script in a fresh pod on the node's network to its end; answers its status and log.
    pub(crate) async fn run(&mut self, config: ContainerConfig) -> (ContainerStatus, Vec<LogLine>) {
        let sandbox = self.sandbox(self.pod("one-shot", true)).await;
        let id = self.launch(&sandbox, config).await;
        let status = self.ended(&id).await;
        let log = read_log(Path::new(&status.log_path));
        // The next run begins its own.
        std::fs::remove_file(&status.log_path).unwrap();
        self.remove(&sandbox).await;
        (status, log)
    }

    /// A pod with its logs inside the test's directory.
    pub(crate) fn pod(&self, name: &str, host_network: bool) -> PodSandboxConfig {
        let network = if host_network { NamespaceMode::Node } else { NamespaceMode::Pod };
        let options = NamespaceOption {
            network: network.into(),
            pid: NamespaceMode::Container.into(),
            ..Default::default()
        };
        PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
                namespace: "default".to_owned(),
                attempt: 0,
            }),
            hostname: if host_network { String::new() } else { name.to_owned() },
            log_directory: self.directory.path().join("logs").join(name).display().to_string(),
            linux: Some(LinuxPodSandboxConfig {
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(options),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLine {
    pub(crate) stream: String,
    pub(crate) tag: String,
    pub(crate) text: String,
}

pub(crate) fn read_log(path: &Path) -> Vec<LogLine> {
    let content = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&content)
        .lines()
        .map(|line| {
            let mut parts = line.splitn(4, ' ');
            let time = parts.next().unwrap();
            assert!(time.len() == 30 && time.ends_with('Z'), "{line}");
            let mut next = || parts.next().unwrap_or_else(|| panic!("not a record: {line}")).to_owned();
            LogLine { stream: next(), tag: next(), text: next() }
        })
        .collect()
}

/// The text of a log, line by line.
pub(crate) fn texts(log: &[LogLine]) -> Vec<&str> {
    log.iter().map(|line| line.text.as_str()).collect()
}

/// A container of the host image that runs a shell script.
pub(crate) fn script(text: &str) -> ContainerConfig {
    program(&["/bin/sh", "-c", text])
}

/// A container of the host image that runs a program.
pub(crate) fn program(command: &[&str]) -> ContainerConfig {
    let options = NamespaceOption { pid: NamespaceMode::Container.into(), ..Default::default() };
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
        image: Some(ImageSpec { image: "coracle.dev/host".to_owned(), ..Default::default() }),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        log_path: "c/0.log".to_owned(),
        linux: Some(LinuxContainerConfig {
            security_context: Some(LinuxContainerSecurityContext {
                namespace_options: Some(options),
                ..Default::default()
            }),
            ..Default::default()
        }),
        labels: BTreeMap::from([("app".to_owned(), "test".to_owned())]),
        ..Default::default()
    }
}

/// The security settings of a container, to be changed.
pub(crate) fn security(config: &mut ContainerConfig) -> &mut LinuxContainerSecurityContext {
    config.linux.as_mut().unwrap().security_context.as_mut().unwrap()
}

pub(crate) fn variables(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
    pairs.iter().map(|(key, value)| KeyValue { key: (*key).to_owned(), value: (*value).to_owned() }).collect()
}

const DAEMON: &str = "daemon";

fn socket(directory: &Path) -> PathBuf {
    directory.join("cri.sock")
}

#[allow(
    clippy::zombie_processes,
    reason = "the node waits for it; a test that fails here ends the whole program"
)]
async fn spawn_daemon(directory: &Path) -> (Child, RuntimeClient, ImageClient) {
    use std::os::unix::process::CommandExt as _;
    let child = Command::new("/proc/self/exe")
        .arg0("test-daemon")
        .arg(DAEMON)
        .arg(directory)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match cri::connect(socket(directory)).await {
            Ok((mut runtime, images)) => {
                if runtime.version(cri::v1::VersionRequest::default()).await.is_ok() {
                    return (child, runtime, images);
                }
            }
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Is the daemon when the arguments say so.
pub(crate) fn run_daemon(arguments: &[OsString]) -> Option<ExitCode> {
    let [_, mode, directory] = arguments else { return None };
    if mode != DAEMON {
        return None;
    }
    let directory = PathBuf::from(directory);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let (runtime, _network) = open(&directory).await;
        cri::serve_unix(&socket(&directory), runtime.clone(), runtime, std::future::pending()).await.unwrap();
    });
    Some(ExitCode::SUCCESS)
}

impl Node {
    /// The running container of that name.
    pub(crate) async fn container_named(&mut self, sandbox: &str, name: &str) -> String {
        let filter = cri::v1::ContainerFilter { pod_sandbox_id: sandbox.to_owned(), ..Default::default() };
        let request = cri::v1::ListContainersRequest { filter: Some(filter) };
        let all = self.runtime.list_containers(request).await.unwrap().into_inner().containers;
        all.into_iter()
            .find(|container| {
                container.metadata.as_ref().unwrap().name == name
                    && container.state() == ContainerState::ContainerRunning
            })
            .unwrap_or_else(|| panic!("no running container {name}"))
            .id
    }

    /// Executes a command in a container, by the container's name.
    pub(crate) async fn exec(
        &mut self,
        sandbox: &str,
        name: &str,
        command: &[&str],
    ) -> cri::v1::ExecSyncResponse {
        let id = self.container_named(sandbox, name).await;
        self.exec_in(&id, command, 30).await.unwrap()
    }

    pub(crate) async fn exec_in(
        &mut self,
        id: &str,
        command: &[&str],
        timeout: i64,
    ) -> Result<cri::v1::ExecSyncResponse, tonic::Status> {
        let cmd = command.iter().map(|word| (*word).to_owned()).collect();
        let request = cri::v1::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd,
            timeout,
            ..cri::v1::ExecSyncRequest::default()
        };
        Ok(self.runtime.exec_sync(request).await?.into_inner())
    }

    pub(crate) async fn stop(&mut self, id: &str, timeout: i64) {
        let request = cri::v1::StopContainerRequest { container_id: id.to_owned(), timeout };
        self.runtime.stop_container(request).await.unwrap();
    }

    /// Waits until a log holds a line.
    pub(crate) async fn logged(&mut self, id: &str, line: &str) {
        let path = self.status(id).await.log_path;
        let deadline = Instant::now() + Duration::from_secs(20);
        while !std::fs::read_to_string(&path).unwrap_or_default().contains(line) {
            assert!(Instant::now() < deadline, "{line:?} is never logged");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The number of the process that supervises a sandbox.
    pub(crate) async fn shim_pid(&mut self, sandbox: &str) -> i32 {
        let request = cri::v1::PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned(), verbose: true };
        let answer = self.runtime.pod_sandbox_status(request).await.unwrap().into_inner();
        let info: serde_json::Value = serde_json::from_str(&answer.info["info"]).unwrap();
        i32::try_from(info["pid"].as_i64().unwrap()).unwrap()
    }
}

/// The verbose part of a container's status.
pub(crate) async fn info(node: &mut Node, id: &str) -> serde_json::Value {
    let request = cri::v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
    let answer = node.runtime.container_status(request).await.unwrap().into_inner();
    serde_json::from_str(&answer.info["info"]).unwrap()
}
