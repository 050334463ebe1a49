//! A container runtime that behaves like one and runs nothing: sandboxes, containers with states and exit codes, log files,
//! images, events. What a container does is written in its command: `run`, `exit N`, `write PATH TEXT` (through its mounts),
//! `read PATH` (prints a file), `env` (prints its environment), `hang` (does not end on the stop signal).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use cri::v1;
use cri::v1::image_service_server::ImageService;
use cri::v1::runtime_service_server::RuntimeService;
use tokio::sync::broadcast;
use tonic::{Request, Response, Status};

/// A container of the fake.
#[derive(Clone, Debug)]
pub(crate) struct FakeContainer {
    pub(crate) id: String,
    pub(crate) sandbox_id: String,
    pub(crate) config: v1::ContainerConfig,
    pub(crate) sandbox: v1::PodSandboxConfig,
    pub(crate) state: v1::ContainerState,
    pub(crate) exit_code: i32,
    pub(crate) started_at: i64,
    pub(crate) finished_at: i64,
    pub(crate) starts: u32,
}

/// A sandbox of the fake.
#[derive(Clone, Debug)]
pub(crate) struct FakeSandbox {
    pub(crate) id: String,
    pub(crate) config: v1::PodSandboxConfig,
    pub(crate) ready: bool,
    pub(crate) ip: String,
    pub(crate) created_at: i64,
}

/// A call that is never answered.
#[derive(Clone, Debug)]
struct Death {
    call: String,
    /// After it was carried out.
    after: bool,
    /// Calls of that name that are answered before.
    skip: u32,
}

#[derive(Debug, Default)]
struct State {
    serial: u32,
    sandboxes: BTreeMap<String, FakeSandbox>,
    containers: BTreeMap<String, FakeContainer>,
    images: BTreeMap<String, v1::Image>,
    /// Images that can be pulled.
    registry: Vec<String>,
    pulls: Vec<v1::PullImageRequest>,
    calls: Vec<String>,
    events_supported: bool,
    /// Calls that panic or fail, by name, each once.
    failures: BTreeMap<String, String>,
    /// The call in which the agent dies.
    death: Option<Death>,
    /// How often the command of a container was begun, by the container's name.
    begun: BTreeMap<String, u32>,
    /// Exit codes of commands run in containers; 0 for those not named.
    exit_codes: BTreeMap<String, i32>,
    /// What they print; `out ` and `err` for those not named.
    outputs: BTreeMap<String, (String, String)>,
    /// Variables that they got besides the container's, each time.
    environments: Vec<(String, Vec<String>)>,
    /// Commands that do not end.
    held: std::collections::BTreeSet<String>,
}

/// The runtime. Cheap to clone; all clones are the same runtime.
#[derive(Clone, Debug)]
pub(crate) struct FakeRuntime {
    state: Arc<Mutex<State>>,
    events: broadcast::Sender<v1::ContainerEventResponse>,
    died: Arc<tokio::sync::Notify>,
}

fn nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_nanos()).expect("before 2262")
}

impl FakeRuntime {
    pub(crate) fn new() -> Self {
        let state = State { events_supported: true, ..State::default() };
        let runtime = Self {
            state: Arc::new(Mutex::new(state)),
            events: broadcast::channel(1024).0,
            died: Arc::default(),
        };
        runtime.add_image("busybox", 0, "");
        runtime
    }

    /// Without events: the kubelet has to compare lists.
    pub(crate) fn without_events(self) -> Self {
        self.with(|state| state.events_supported = false);
        self
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no panic while locked"))
    }

    pub(crate) fn clients(&self) -> (cri::RuntimeClient, cri::ImageClient) {
        cri::in_process(self.clone(), self.clone())
    }

    pub(crate) fn add_image(&self, name: &str, uid: i64, username: &str) {
        let image = v1::Image {
            id: format!("sha256:{name}"),
            repo_tags: vec![name.to_owned()],
            size: 1234,
            uid: username.is_empty().then_some(v1::Int64Value { value: uid }),
            username: username.to_owned(),
            ..v1::Image::default()
        };
        self.with(|state| state.images.insert(name.to_owned(), image));
    }

    /// An image that is not there and can be pulled.
    pub(crate) fn offer_image(&self, name: &str) {
        self.with(|state| state.registry.push(name.to_owned()));
    }

    pub(crate) fn pulls(&self) -> Vec<v1::PullImageRequest> {
        self.with(|state| state.pulls.clone())
    }

    /// The next call of that name fails with the message.
    pub(crate) fn fail_once(&self, call: &str, message: &str) {
        self.with(|state| state.failures.insert(call.to_owned(), message.to_owned()));
    }

    /// The next call of that name is never answered: whoever made it has died, before or after it was carried out.
    pub(crate) fn die_at(&self, call: &str, after: bool, skip: u32) {
        self.with(|state| state.death = Some(Death { call: call.to_owned(), after, skip }));
    }

    /// Waits until that call was made.
    pub(crate) async fn death(&self) {
        self.died.notified().await;
    }

    async fn survive(&self, call: &str, after: bool) {
        let dies = self.with(|state| {
            let Some(death) = state.death.as_mut().filter(|death| death.call == call && death.after == after)
            else {
                return false;
            };
            if death.skip > 0 {
                death.skip -= 1;
                return false;
            }
            state.death = None;
            true
        });
        if dies {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// How often the command of a container was begun.
    pub(crate) fn begun(&self, name: &str) -> u32 {
        self.with(|state| state.begun.get(name).copied().unwrap_or(0))
    }

    /// Forgets how often commands were begun.
    pub(crate) fn count_anew(&self) {
        self.with(|state| state.begun.clear());
    }

    /// Whether a failure was not yet met.
    pub(crate) fn is_armed(&self, call: &str) -> bool {
        self.with(|state| state.failures.contains_key(call))
    }

    /// A command run in a container ends with this status from now on.
    pub(crate) fn answer_exec(&self, command: &str, code: i32) {
        self.with(|state| state.exit_codes.insert(command.to_owned(), code));
    }

    /// A command run in a container prints this from now on.
    pub(crate) fn print_on_exec(&self, command: &str, stdout: &str, stderr: &str) {
        let output = (stdout.to_owned(), stderr.to_owned());
        self.with(|state| state.outputs.insert(command.to_owned(), output));
    }

    /// A command run in a container does not end until it is let go.
    pub(crate) fn hold_exec(&self, command: &str) {
        self.with(|state| state.held.insert(command.to_owned()));
    }

    pub(crate) fn release_exec(&self, command: &str) {
        self.with(|state| state.held.remove(command));
    }

    /// The variables that runs of a command got besides the container's.
    pub(crate) fn exec_environments(&self, command: &str) -> Vec<Vec<String>> {
        let runs = self.with(|state| state.environments.clone());
        runs.into_iter().filter(|(run, _)| run == command).map(|(_, variables)| variables).collect()
    }

    pub(crate) fn containers(&self) -> Vec<FakeContainer> {
        self.with(|state| state.containers.values().cloned().collect())
    }

    pub(crate) fn container(&self, name: &str) -> Option<FakeContainer> {
        let named = |container: &FakeContainer| {
            container.config.metadata.as_ref().is_some_and(|metadata| metadata.name == name)
        };
        self.containers().into_iter().filter(named).max_by_key(FakeContainer::attempt)
    }

    pub(crate) fn sandboxes(&self) -> Vec<FakeSandbox> {
        self.with(|state| state.sandboxes.values().cloned().collect())
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.with(|state| state.calls.clone())
    }

    /// The sandbox dies, as with `crictl stopp`.
    pub(crate) fn kill_sandboxes(&self) {
        self.with(|state| state.sandboxes.values_mut().for_each(|sandbox| sandbox.ready = false));
        self.tell_all();
    }

    /// A running container ends by itself.
    pub(crate) fn end(&self, name: &str, code: i32) {
        let id = self.container(name).expect("it is there").id;
        self.finish(&id, code);
    }

    fn finish(&self, id: &str, code: i32) {
        self.with(|state| {
            let Some(container) = state.containers.get_mut(id) else { return };
            if container.state != v1::ContainerState::ContainerExited {
                container.state = v1::ContainerState::ContainerExited;
                container.exit_code = code;
                container.finished_at = nanos();
            }
        });
        self.tell(id, v1::ContainerEventType::ContainerStoppedEvent);
    }

    fn tell(&self, id: &str, type_: v1::ContainerEventType) {
        let metadata = self
            .with(|state| state.containers.get(id).and_then(|container| container.sandbox.metadata.clone()));
        let sandbox = v1::PodSandboxStatus { metadata, ..v1::PodSandboxStatus::default() };
        let _ = self.events.send(v1::ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: type_ as i32,
            created_at: nanos(),
            pod_sandbox_status: Some(sandbox),
            ..v1::ContainerEventResponse::default()
        });
    }

    fn tell_all(&self) {
        let _ = self.events.send(v1::ContainerEventResponse::default());
    }

    fn called(&self, call: &str, about: &str) -> Result<(), Status> {
        self.with(|state| state.calls.push(format!("{call} {about}")));
        self.failing(call)
    }

    /// Meets a failure that was asked for.
    fn failing(&self, call: &str) -> Result<(), Status> {
        match self.with(|state| state.failures.remove(call)) {
            Some(message) if message == "panic" => panic!("the fake was told to panic"),
            Some(message) => Err(Status::internal(message)),
            None => Ok(()),
        }
    }

    fn log(container: &FakeContainer, text: &str) {
        let path = PathBuf::from(&container.sandbox.log_directory).join(&container.config.log_path);
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(path).expect("the log opens");
        for line in text.lines() {
            writeln!(file, "2026-11-21T00:00:00.000000000Z stdout F {line}").expect("written");
        }
    }

    /// What the process gets.
    fn environment(container: &FakeContainer) -> Vec<String> {
        let mut list = vec!["PATH=/bin".to_owned(), format!("HOSTNAME={}", container.sandbox.hostname)];
        list.extend(container.config.envs.iter().map(|one| format!("{}={}", one.key, one.value)));
        list.push("HOME=/root".to_owned());
        list
    }

    fn host_path(container: &FakeContainer, path: &str) -> PathBuf {
        let mount = container
            .config
            .mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.container_path))
            .max_by_key(|mount| mount.container_path.len())
            .unwrap_or_else(|| panic!("{path} is not mounted: {:?}", container.config.mounts));
        let rest = path[mount.container_path.len()..].trim_start_matches('/');
        if rest.is_empty() {
            PathBuf::from(&mount.host_path)
        } else {
            PathBuf::from(&mount.host_path).join(rest)
        }
    }

    /// Does what the command says. Answers the exit status if the process ends at once.
    fn run(container: &FakeContainer) -> Option<i32> {
        Self::log(container, &format!("started {}", container.attempt()));
        let words: Vec<&str> = container.config.command.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["exit", code] => Some(code.parse().expect("a number")),
            ["write", path, text] => {
                std::fs::write(Self::host_path(container, path), text).expect("written");
                Some(0)
            }
            ["read", path] => {
                let text = std::fs::read_to_string(Self::host_path(container, path)).expect("readable");
                Self::log(container, &text);
                Some(0)
            }
            ["env"] => {
                Self::log(container, &Self::environment(container).join("\n"));
                Some(0)
            }
            ["die", path, text] => {
                std::fs::write(Self::host_path(container, path), text).expect("written");
                Some(3)
            }
            _ => None,
        }
    }
}

impl FakeContainer {
    pub(crate) fn attempt(&self) -> u32 {
        self.config.metadata.as_ref().map_or(0, |metadata| metadata.attempt)
    }

    pub(crate) fn env(&self) -> Vec<String> {
        self.config.envs.iter().map(|one| format!("{}={}", one.key, one.value)).collect()
    }

    fn status(&self) -> v1::ContainerStatus {
        v1::ContainerStatus {
            id: self.id.clone(),
            metadata: self.config.metadata.clone(),
            state: self.state as i32,
            started_at: self.started_at,
            finished_at: self.finished_at,
            exit_code: self.exit_code,
            image: self.config.image.clone(),
            image_ref: "sha256:busybox".to_owned(),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            ..v1::ContainerStatus::default()
        }
    }
}

fn matches(labels: &BTreeMap<String, String>, selector: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

#[tonic::async_trait]
impl RuntimeService for FakeRuntime {
    async fn version(&self, _: Request<v1::VersionRequest>) -> Result<Response<v1::VersionResponse>, Status> {
        Ok(Response::new(v1::VersionResponse {
            runtime_name: "fake".to_owned(),
            runtime_version: "1.0".to_owned(),
            ..v1::VersionResponse::default()
        }))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        Ok(Response::new(v1::StatusResponse::default()))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<v1::RunPodSandboxRequest>,
    ) -> Result<Response<v1::RunPodSandboxResponse>, Status> {
        self.survive("run_pod_sandbox", false).await;
        let config = request.into_inner().config.expect("a configuration");
        let name = config.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
        self.called("run_pod_sandbox", &name)?;
        let id = self.with(|state| {
            state.serial += 1;
            let id = format!("sandbox{:04}", state.serial);
            let ip = format!("10.42.0.{}", state.serial);
            let sandbox = FakeSandbox { id: id.clone(), config, ready: true, ip, created_at: nanos() };
            state.sandboxes.insert(id.clone(), sandbox);
            id
        });
        self.survive("run_pod_sandbox", true).await;
        Ok(Response::new(v1::RunPodSandboxResponse { pod_sandbox_id: id }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<v1::StopPodSandboxRequest>,
    ) -> Result<Response<v1::StopPodSandboxResponse>, Status> {
        self.survive("stop_pod_sandbox", false).await;
        let id = request.into_inner().pod_sandbox_id;
        self.called("stop_pod_sandbox", &id)?;
        self.with(|state| {
            if let Some(sandbox) = state.sandboxes.get_mut(&id) {
                sandbox.ready = false;
            }
        });
        self.survive("stop_pod_sandbox", true).await;
        Ok(Response::new(v1::StopPodSandboxResponse {}))
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<v1::RemovePodSandboxRequest>,
    ) -> Result<Response<v1::RemovePodSandboxResponse>, Status> {
        self.survive("remove_pod_sandbox", false).await;
        let id = request.into_inner().pod_sandbox_id;
        self.called("remove_pod_sandbox", &id)?;
        self.with(|state| state.sandboxes.remove(&id));
        self.survive("remove_pod_sandbox", true).await;
        Ok(Response::new(v1::RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<v1::PodSandboxStatusRequest>,
    ) -> Result<Response<v1::PodSandboxStatusResponse>, Status> {
        self.survive("pod_sandbox_status", false).await;
        self.failing("pod_sandbox_status")?;
        let id = request.into_inner().pod_sandbox_id;
        let sandbox = self.with(|state| state.sandboxes.get(&id).cloned());
        let sandbox = sandbox.ok_or_else(|| Status::not_found("no such sandbox"))?;
        self.survive("pod_sandbox_status", true).await;
        Ok(Response::new(v1::PodSandboxStatusResponse {
            status: Some(v1::PodSandboxStatus {
                id,
                metadata: sandbox.config.metadata,
                network: Some(v1::PodSandboxNetworkStatus { ip: sandbox.ip, additional_ips: Vec::new() }),
                ..v1::PodSandboxStatus::default()
            }),
            ..v1::PodSandboxStatusResponse::default()
        }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<v1::ListPodSandboxRequest>,
    ) -> Result<Response<v1::ListPodSandboxResponse>, Status> {
        self.survive("list_pod_sandbox", false).await;
        self.failing("list_pod_sandbox")?;
        let selector = request.into_inner().filter.unwrap_or_default().label_selector;
        let items = self.sandboxes().into_iter().filter(|sandbox| matches(&sandbox.config.labels, &selector));
        self.survive("list_pod_sandbox", true).await;
        Ok(Response::new(v1::ListPodSandboxResponse {
            items: items
                .map(|sandbox| v1::PodSandbox {
                    id: sandbox.id,
                    metadata: sandbox.config.metadata,
                    state: if sandbox.ready { 0 } else { 1 },
                    created_at: sandbox.created_at,
                    labels: sandbox.config.labels,
                    ..v1::PodSandbox::default()
                })
                .collect(),
        }))
    }

    async fn create_container(
        &self,
        request: Request<v1::CreateContainerRequest>,
    ) -> Result<Response<v1::CreateContainerResponse>, Status> {
        self.survive("create_container", false).await;
        let request = request.into_inner();
        let config = request.config.expect("a configuration");
        let name = config.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
        self.called("create_container", &name)?;
        let id = self.with(|state| {
            state.serial += 1;
            let id = format!("container{:04}", state.serial);
            let container = FakeContainer {
                id: id.clone(),
                sandbox_id: request.pod_sandbox_id,
                config,
                sandbox: request.sandbox_config.expect("a sandbox configuration"),
                state: v1::ContainerState::ContainerCreated,
                exit_code: 0,
                started_at: 0,
                finished_at: 0,
                starts: 0,
            };
            state.containers.insert(id.clone(), container);
            id
        });
        self.tell(&id, v1::ContainerEventType::ContainerCreatedEvent);
        self.survive("create_container", true).await;
        Ok(Response::new(v1::CreateContainerResponse { container_id: id }))
    }

    async fn start_container(
        &self,
        request: Request<v1::StartContainerRequest>,
    ) -> Result<Response<v1::StartContainerResponse>, Status> {
        self.survive("start_container", false).await;
        let id = request.into_inner().container_id;
        self.called("start_container", &id)?;
        let container = self.with(|state| {
            let container = state.containers.get_mut(&id)?;
            container.state = v1::ContainerState::ContainerRunning;
            container.started_at = nanos();
            container.starts += 1;
            let container = container.clone();
            let name = container.config.metadata.as_ref().map(|metadata| metadata.name.clone());
            *state.begun.entry(name.unwrap_or_default()).or_default() += 1;
            Some(container)
        });
        let container = container.ok_or_else(|| Status::not_found("no such container"))?;
        if let Some(code) = Self::run(&container) {
            self.finish(&id, code);
        }
        self.tell(&id, v1::ContainerEventType::ContainerStartedEvent);
        self.survive("start_container", true).await;
        Ok(Response::new(v1::StartContainerResponse {}))
    }

    async fn stop_container(
        &self,
        request: Request<v1::StopContainerRequest>,
    ) -> Result<Response<v1::StopContainerResponse>, Status> {
        self.survive("stop_container", false).await;
        let request = request.into_inner();
        let container = self.with(|state| state.containers.get(&request.container_id).cloned());
        let container = container.ok_or_else(|| Status::not_found("no such container"))?;
        let name =
            container.config.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
        self.called("stop_container", &format!("{name} {}", request.timeout))?;
        if container.config.command.first().is_some_and(|word| word == "hang") {
            let seconds = u64::try_from(request.timeout).unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            self.finish(&request.container_id, 137);
        } else {
            self.finish(&request.container_id, 143);
        }
        self.survive("stop_container", true).await;
        Ok(Response::new(v1::StopContainerResponse {}))
    }

    async fn remove_container(
        &self,
        request: Request<v1::RemoveContainerRequest>,
    ) -> Result<Response<v1::RemoveContainerResponse>, Status> {
        self.survive("remove_container", false).await;
        self.failing("remove_container")?;
        let id = request.into_inner().container_id;
        self.with(|state| state.containers.remove(&id));
        self.survive("remove_container", true).await;
        Ok(Response::new(v1::RemoveContainerResponse {}))
    }

    async fn list_containers(
        &self,
        request: Request<v1::ListContainersRequest>,
    ) -> Result<Response<v1::ListContainersResponse>, Status> {
        self.survive("list_containers", false).await;
        self.failing("list_containers")?;
        let filter = request.into_inner().filter.unwrap_or_default();
        let listed = self.containers().into_iter().filter(|container| {
            let wanted = filter.state.is_none_or(|state| state.state == container.state as i32);
            wanted && matches(&container.config.labels, &filter.label_selector)
        });
        self.survive("list_containers", true).await;
        Ok(Response::new(v1::ListContainersResponse {
            containers: listed
                .map(|container| v1::Container {
                    id: container.id,
                    pod_sandbox_id: container.sandbox_id,
                    metadata: container.config.metadata,
                    image: container.config.image,
                    image_ref: "sha256:busybox".to_owned(),
                    state: container.state as i32,
                    labels: container.config.labels,
                    annotations: container.config.annotations,
                    ..v1::Container::default()
                })
                .collect(),
        }))
    }

    async fn container_status(
        &self,
        request: Request<v1::ContainerStatusRequest>,
    ) -> Result<Response<v1::ContainerStatusResponse>, Status> {
        self.survive("container_status", false).await;
        self.failing("container_status")?;
        let request = request.into_inner();
        let container = self.with(|state| state.containers.get(&request.container_id).cloned());
        let container = container.ok_or_else(|| Status::not_found("no such container"))?;
        let mut info = BTreeMap::new();
        if request.verbose {
            let spec =
                serde_json::json!({"runtimeSpec": {"process": {"env": Self::environment(&container)}}});
            info.insert("info".to_owned(), spec.to_string());
        }
        self.survive("container_status", true).await;
        Ok(Response::new(v1::ContainerStatusResponse { status: Some(container.status()), info }))
    }

    async fn exec_sync(
        &self,
        request: Request<v1::ExecSyncRequest>,
    ) -> Result<Response<v1::ExecSyncResponse>, Status> {
        self.survive("exec_sync", false).await;
        let request = request.into_inner();
        let command = request.cmd.join(" ");
        let variables = request.coracle_environment.iter();
        let variables = variables.map(|variable| format!("{}={}", variable.key, variable.value)).collect();
        self.with(|state| state.environments.push((command.clone(), variables)));
        self.called("exec_sync", &command)?;
        while self.with(|state| state.held.contains(&command)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let exit_code = self.with(|state| state.exit_codes.get(&command).copied().unwrap_or(0));
        let output = self.with(|state| state.outputs.get(&command).cloned());
        let (stdout, stderr) = output.unwrap_or_else(|| ("out ".to_owned(), "err".to_owned()));
        self.survive("exec_sync", true).await;
        Ok(Response::new(v1::ExecSyncResponse {
            stdout: stdout.into_bytes(),
            stderr: stderr.into_bytes(),
            exit_code,
        }))
    }

    async fn exec(&self, request: Request<v1::ExecRequest>) -> Result<Response<v1::ExecResponse>, Status> {
        self.called("exec", &request.into_inner().cmd.join(" "))?;
        // A stream server that upgrades once and echoes.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("http://{}/exec/token", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let (mut stream, _) = listener.accept().await.expect("accepted");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a request"));
            }
            let answer = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
            stream.write_all(answer).await.expect("answered");
            let (mut from, mut to) = stream.into_split();
            let _ = tokio::io::copy(&mut from, &mut to).await;
        });
        Ok(Response::new(v1::ExecResponse { url }))
    }

    async fn get_container_events(
        &self,
        _: Request<v1::GetEventsRequest>,
    ) -> Result<Response<tonic::codegen::BoxStream<v1::ContainerEventResponse>>, Status> {
        if !self.with(|state| state.events_supported) {
            return Err(Status::unimplemented("events"));
        }
        let stream = futures::stream::unfold(self.events.subscribe(), |mut events| async move {
            match events.recv().await {
                Ok(event) => Some((Ok(event), events)),
                Err(_) => None,
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }
}

#[tonic::async_trait]
impl ImageService for FakeRuntime {
    async fn image_status(
        &self,
        request: Request<v1::ImageStatusRequest>,
    ) -> Result<Response<v1::ImageStatusResponse>, Status> {
        self.survive("image_status", false).await;
        self.failing("image_status")?;
        let name = request.into_inner().image.unwrap_or_default().image;
        if name.contains(' ') {
            return Err(Status::invalid_argument("invalid reference format"));
        }
        let image = self.with(|state| {
            let by_id = state.images.values().find(|image| image.id == name).cloned();
            state.images.get(&name).cloned().or(by_id)
        });
        let mut info = BTreeMap::new();
        let config = serde_json::json!({"imageSpec": {"config": {"Env": ["PATH=/bin"], "Entrypoint": null}}});
        info.insert("info".to_owned(), config.to_string());
        self.survive("image_status", true).await;
        Ok(Response::new(v1::ImageStatusResponse { image, info }))
    }

    async fn pull_image(
        &self,
        request: Request<v1::PullImageRequest>,
    ) -> Result<Response<v1::PullImageResponse>, Status> {
        let request = request.into_inner();
        let name = request.image.clone().unwrap_or_default().image;
        self.with(|state| state.pulls.push(request));
        if name == "slow" {
            std::future::pending::<()>().await;
        }
        if self.with(|state| !state.registry.contains(&name) && !state.images.contains_key(&name)) {
            return Err(Status::not_found(format!("{name}: not found in any registry")));
        }
        self.add_image(&name, 0, "");
        Ok(Response::new(v1::PullImageResponse { image_ref: format!("sha256:{name}") }))
    }
}
