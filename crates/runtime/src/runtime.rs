//! The runtime: the register of sandboxes and containers, and what happens to them by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use cri::v1::{ContainerEventResponse, ContainerEventType};
use images::ImageStore;
use network::Network;
use tokio::sync::{broadcast, oneshot};

use crate::call_error::CallError;
use crate::cgroup::{Cgroup, CgroupLayout};
use crate::config::RuntimeConfig;
use crate::container::{Container, Phase};
use crate::launch::{ExitRecord, files};
use crate::sandbox::{Sandbox, Standing, lock};
use crate::shim_link::ShimEvent;
use crate::state_files::{self, Durability};
use crate::streaming::{StreamingConfig, StreamingServer};

/// Events that a slow reader may be behind before it loses some and has to list again.
const EVENT_BACKLOG: usize = 1024;

/// Why a runtime could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenRuntimeError {
    /// The data directory cannot be used.
    #[error("cannot use {path} for containers", path = path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another runtime uses the data directory.
    #[error("another runtime uses {path}; stop it or choose another data directory", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Streams cannot be served.
    #[error("cannot listen on {address} for exec, attach and port-forward")]
    Streaming {
        /// Where.
        address: std::net::SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// The runtime; cheap to clone. Serves both CRI services.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub(crate) state: Arc<RuntimeState>,
}

/// What all clones share.
pub(crate) struct RuntimeState {
    pub(crate) config: RuntimeConfig,
    pub(crate) images: ImageStore,
    pub(crate) network: Network,
    pub(crate) layout: CgroupLayout,
    pub(crate) held_capabilities: u64,
    pub(crate) streaming: StreamingServer,
    sandboxes: Mutex<BTreeMap<String, Arc<Sandbox>>>,
    containers: Mutex<BTreeMap<String, Arc<Container>>>,
    /// Commands that run, by number: whose sandbox's shim tells of the end, and who waits for it.
    executions: Mutex<BTreeMap<u64, (String, oneshot::Sender<i32>)>>,
    events: broadcast::Sender<ContainerEventResponse>,
    warned: Mutex<BTreeSet<String>>,
    set_aside: Mutex<BTreeMap<String, SetAside>>,
    /// Held as long as the runtime lives: the data directory is ours.
    _lock: fs::File,
}

/// What became of a sandbox or container whose state was damaged when this runtime was opened.
#[derive(Debug, Clone)]
struct SetAside {
    problem: String,
    kept: PathBuf,
}

impl std::fmt::Debug for RuntimeState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RuntimeState")
            .field("data_dir", &self.config.data_dir)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// Opens a runtime over its data directory, and adopts the pods that an earlier one left running there.
    ///
    /// What is damaged is set aside with a warning. Must be called inside a tokio runtime; tasks: one for each shim, and
    /// the streaming server's.
    ///
    /// # Errors
    ///
    /// See [`OpenRuntimeError`].
    pub async fn open(
        config: RuntimeConfig,
        images: ImageStore,
        network: Network,
    ) -> Result<Self, OpenRuntimeError> {
        let sandboxes_directory = config.data_dir.join("sandboxes");
        fs::create_dir_all(&sandboxes_directory)
            .map_err(|source| OpenRuntimeError::DataDir { path: config.data_dir.clone(), source })?;
        let lock = lock_directory(&config)?;
        let address = config.streaming_address;
        let streaming =
            StreamingServer::bind(StreamingConfig { listen: address, ..StreamingConfig::default() })
                .await
                .map_err(|source| OpenRuntimeError::Streaming { address, source })?;
        let (events, _) = broadcast::channel(EVENT_BACKLOG);
        let state = Arc::new(RuntimeState {
            config,
            images,
            network,
            layout: CgroupLayout::detect(),
            held_capabilities: crate::capabilities::held_capabilities(),
            streaming,
            sandboxes: Mutex::default(),
            containers: Mutex::default(),
            executions: Mutex::default(),
            events,
            warned: Mutex::default(),
            set_aside: Mutex::default(),
            _lock: lock,
        });
        let runtime = Self { state };
        runtime.adopt().await;
        runtime.state.streaming.serve(Arc::new(crate::streams::PodStreams::of(&runtime.state)));
        Ok(runtime)
    }

    /// Removes the control groups below which the pods of this runtime had theirs. What still runs in them is killed.
    pub async fn remove_control_groups(&self) {
        let group = self.state.cgroup(&self.state.cgroup_root());
        if group.exists() {
            crate::sandboxes::remove_group(&group).await;
        }
    }

    /// Whether the pod network gives pods addresses; otherwise what it lacks.
    pub(crate) fn network_problem(&self) -> Option<String> {
        self.state
            .network
            .warnings()
            .iter()
            .find(|warning| matches!(warning, network::NetworkWarning::NoLinks { .. }))
            .map(ToString::to_string)
    }
}

fn lock_directory(config: &RuntimeConfig) -> Result<fs::File, OpenRuntimeError> {
    let path = config.data_dir.join("runtime.lock");
    let failed = |source| OpenRuntimeError::DataDir { path: path.clone(), source };
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenRuntimeError::InUse { path: config.data_dir.clone() }),
        Err(error) => Err(failed(error.into())),
    }
}

impl RuntimeState {
    pub(crate) fn sandboxes_directory(&self) -> PathBuf {
        self.config.data_dir.join("sandboxes")
    }

    pub(crate) fn quarantine_directory(&self) -> PathBuf {
        self.config.data_dir.join("quarantine")
    }

    /// The control group below which pods get theirs when nobody says where.
    pub(crate) fn cgroup_root(&self) -> String {
        self.config.cgroup_root.clone().unwrap_or_else(|| {
            // Two nodes on one machine have two data directories, and so two groups.
            format!("/{}", network::NodeIdentity::of_data_dir(&self.config.data_dir).table())
        })
    }

    /// The name under which a container holds its image: several nodes may share one store.
    pub(crate) fn holder(&self, container: &str) -> String {
        format!("{}{container}", self.holder_prefix())
    }

    pub(crate) fn holder_prefix(&self) -> String {
        format!("{}-", network::NodeIdentity::of_data_dir(&self.config.data_dir).table())
    }

    /// The container needs its image's layers no longer.
    pub(crate) fn release_image(&self, container: &str) {
        if let Err(error) = self.images.release(&self.holder(container)) {
            tracing::warn!(%container, %error, "an image stays held for a container that is gone");
        }
    }

    /// A container is about to be made: what is slow about its first step passes meanwhile.
    pub(crate) fn anticipate_moves(&self) {
        let layout = self.layout.clone();
        tokio::task::spawn_blocking(move || crate::cgroup::anticipate_moves(&layout));
    }

    pub(crate) fn cgroup(&self, path: &str) -> Cgroup {
        Cgroup::at(self.layout.clone(), path)
    }

    pub(crate) fn sandboxes(&self) -> Vec<Arc<Sandbox>> {
        lock(&self.sandboxes).values().cloned().collect()
    }

    pub(crate) fn containers(&self) -> Vec<Arc<Container>> {
        lock(&self.containers).values().cloned().collect()
    }

    pub(crate) fn containers_of(&self, sandbox: &str) -> Vec<Arc<Container>> {
        lock(&self.containers)
            .values()
            .filter(|container| container.record.sandbox == sandbox)
            .cloned()
            .collect()
    }

    /// The sandbox whose id is, or uniquely begins with, `id`.
    pub(crate) fn sandbox(&self, id: &str) -> Result<Arc<Sandbox>, CallError> {
        unique(&lock(&self.sandboxes), id).ok_or_else(|| self.not_found("pod sandbox", id))
    }

    /// The container whose id is, or uniquely begins with, `id`.
    pub(crate) fn container(&self, id: &str) -> Result<Arc<Container>, CallError> {
        unique(&lock(&self.containers), id).ok_or_else(|| self.not_found("container", id))
    }

    /// Whoever asks for what was set aside learns why it is not there, and where to look.
    fn not_found(&self, kind: &'static str, id: &str) -> CallError {
        let id = id.to_owned();
        match lock(&self.set_aside).get(&id).cloned() {
            Some(SetAside { problem, kept }) => CallError::SetAside { kind, id, problem, kept },
            None => CallError::NotFound { kind, id },
        }
    }

    /// Remembers, as long as this runtime is open, that the state of something was damaged.
    pub(crate) fn note_set_aside(&self, id: &str, problem: &str, kept: &std::path::Path) {
        let aside = SetAside { problem: problem.to_owned(), kept: kept.to_owned() };
        lock(&self.set_aside).insert(id.to_owned(), aside);
    }

    pub(crate) fn add_sandbox(&self, sandbox: Arc<Sandbox>) {
        lock(&self.sandboxes).insert(sandbox.id(), sandbox);
    }

    pub(crate) fn add_container(&self, container: Arc<Container>) {
        lock(&self.containers).insert(container.record.id.clone(), container);
    }

    pub(crate) fn forget_sandbox(&self, id: &str) {
        lock(&self.sandboxes).remove(id);
    }

    pub(crate) fn forget_container(&self, id: &str) {
        lock(&self.containers).remove(id);
    }

    /// Says what the machine lacks: each thing once in the life of the runtime.
    pub(crate) fn warn_once(&self, warning: &str) {
        if lock(&self.warned).insert(warning.to_owned()) {
            tracing::warn!("{warning}");
        }
    }

    /// Waits for the end of an execution with this number, or of the shim of its sandbox.
    pub(crate) fn expect_execution(&self, number: u64, sandbox: &str) -> oneshot::Receiver<i32> {
        let (ended, when_ended) = oneshot::channel();
        lock(&self.executions).insert(number, (sandbox.to_owned(), ended));
        when_ended
    }

    pub(crate) fn forget_execution(&self, number: u64) {
        lock(&self.executions).remove(&number);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ContainerEventResponse> {
        self.events.subscribe()
    }

    /// Tells everybody who listens; answers whether anybody does.
    pub(crate) fn publish(&self, container: &str, sandbox: &str, kind: ContainerEventType) -> bool {
        if self.events.receiver_count() == 0 {
            return false;
        }
        let containers_statuses = self
            .containers_of(sandbox)
            .iter()
            .map(|container| crate::status::container_status(container))
            .collect();
        let pod_sandbox_status =
            self.sandbox(sandbox).ok().map(|sandbox| crate::status::sandbox_status(&sandbox));
        let event = ContainerEventResponse {
            container_id: container.to_owned(),
            container_event_type: kind.into(),
            created_at: now(),
            pod_sandbox_status,
            containers_statuses,
        };
        // Nobody listens any more: nobody misses it.
        self.events.send(event).is_ok()
    }

    /// What to do with the events of a shim. Holds no reference that would keep a closed runtime alive.
    pub(crate) fn event_handler(self: &Arc<Self>, sandbox: String) -> impl Fn(ShimEvent) + Send + 'static {
        let state: Weak<Self> = Arc::downgrade(self);
        move |event| {
            let Some(state) = state.upgrade() else { return };
            match event {
                ShimEvent::ContainerExited { container, exit } => state.container_exited(&container, exit),
                ShimEvent::Executed { execution, exit_code } => {
                    if let Some((_, ended)) = lock(&state.executions).remove(&execution) {
                        // Whoever waited may have given up.
                        let _ = ended.send(exit_code);
                    }
                }
                ShimEvent::Gone => state.shim_gone(&sandbox),
            }
        }
    }

    /// A container ended, and its exit record is on the disk.
    pub(crate) fn container_exited(&self, id: &str, exit: ExitRecord) {
        let Ok(container) = self.container(id) else { return };
        let started = match container.phase() {
            Phase::Running(started) => Some(started),
            // It ended before whoever started it could note that it runs.
            Phase::Created | Phase::Exited { .. } => {
                state_files::read_json(&container.directory.join(files::STARTED)).unwrap_or_default()
            }
        };
        if container.advance(Phase::Exited { started, exit }) {
            self.publish(id, &container.record.sandbox, ContainerEventType::ContainerStoppedEvent);
        }
    }

    /// The shim of a sandbox ended. Unless it was asked to, its containers are killed: nobody keeps their logs or their
    /// exit codes any more.
    pub(crate) fn shim_gone(&self, sandbox_id: &str) {
        let Ok(sandbox) = self.sandbox(sandbox_id) else { return };
        sandbox.set_standing(Standing::NotReady);
        // Nobody will tell how these commands ended.
        lock(&self.executions).retain(|_, (of, _)| of != sandbox_id);
        fault::point("loss.seen");
        for container in self.containers_of(sandbox_id) {
            if matches!(container.phase(), Phase::Exited { .. }) {
                continue;
            }
            self.cgroup(&container.record.cgroup).kill();
            fault::point("loss.killed");
            let exit = read_exit(&container).unwrap_or_else(|| {
                tracing::warn!(
                    container = %container.record.id,
                    sandbox = %sandbox_id,
                    "the pod's shim ended unexpectedly: the container was killed and its exit code is unknown"
                );
                ExitRecord {
                    exit_code: 137,
                    reason: "Unknown".to_owned(),
                    message: "the process that supervised the pod ended unexpectedly".to_owned(),
                    finished_at: now(),
                }
            });
            if let Err(error) =
                state_files::write_json(&container.directory.join(files::EXIT), &exit, Durability::Synced)
            {
                tracing::warn!(%error, "the exit of a container could not be written down");
            }
            fault::point("loss.recorded");
            self.container_exited(&container.record.id, exit);
        }
    }
}

/// The exit record that a shim left on the disk.
pub(crate) fn read_exit(container: &Container) -> Option<ExitRecord> {
    state_files::read_json(&container.directory.join(files::EXIT)).unwrap_or_else(|error| {
        tracing::warn!(%error, "an exit record cannot be read");
        None
    })
}

fn unique<T: Clone>(all: &BTreeMap<String, T>, id: &str) -> Option<T> {
    if let Some(found) = all.get(id) {
        return Some(found.clone());
    }
    if id.is_empty() {
        return None;
    }
    let mut matches = all.range(id.to_owned()..).take_while(|(key, _)| key.starts_with(id));
    let found = matches.next()?;
    if matches.next().is_some() { None } else { Some(found.1.clone()) }
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A new id: 64 hexadecimal digits.
pub(crate) fn new_id() -> String {
    let bytes: [u8; 32] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_enough_when_it_is_the_only_one() {
        let all: BTreeMap<String, u32> =
            [("abc1", 1), ("abc2", 2), ("b", 3), ("bb", 4)].map(|(id, value)| (id.to_owned(), value)).into();
        assert_eq!(unique(&all, "abc2"), Some(2));
        assert_eq!(unique(&all, "abc"), None);
        assert_eq!(unique(&all, "b"), Some(3));
        assert_eq!(unique(&all, "bb"), Some(4));
        assert_eq!(unique(&all, ""), None);
        assert_eq!(unique(&all, "z"), None);
    }

    #[test]
    fn ids_are_long_and_different() {
        assert_eq!(new_id().len(), 64);
        assert_ne!(new_id(), new_id());
    }
}
