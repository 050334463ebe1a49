//! The node agent: it knows the API only as a `kube::Client` and the runtime only as a CRI client, and makes the one follow
//! the other.
//!
//! What is to be done with a pod is decided by the pure crate `lifecycle`; what is in a container's environment by the pure
//! crate `environment`. This crate looks, acts, remembers and tells.
//!
//! # Tasks
//!
//! | task | owns | reads | tells |
//! |---|---|---|---|
//! | `watch_pods` | a watch | the API's pods of this node | `pods` |
//! | `watch_static_pods` | a directory | its files | `pods` |
//! | `watch_sources` | two watches | ConfigMaps and Secrets | `pods` |
//! | `watch_runtime` | a stream | the runtime's events | `pods` |
//! | `pods` (`pods::PodsTask`) | the workers | its channel | workers' inboxes |
//! | one worker a pod (`worker::PodWorker`) | that pod's memory | its inbox, the runtime | API, runtime, disk |
//! | one prober a container with probes (`probes`) | its counters | the container | its worker's inbox |
//! | one task a hook that runs (`hooks`) | its log | the container, the pod's network | its worker's inbox |
//! | `keep_node` | the node's object | the runtime's status | the API |
//! | `keep_lease` | - | the clock | the API |
//! | `watch_node` | a watch | the node's object | `pods` |
//! | `watch_usage` (`eviction`) | when it looks next | the disk | `pods` |
//! | events (`events`) | counts of events | its channel | the API |
//!
//! All tasks end when the `shutdown` of [`spawn_kubelet`] does. Containers do not: the next agent adopts them.
//!
//! # Errors
//!
//! A panic stays where it is (`faults`): a worker repeats its turn after a pause, every other task begins anew.
//! What concerns a pod is shown there: a waiting reason, an event, a status. What concerns the node is logged, and tried again.

mod agent;
mod api_error;
mod clock;
mod config;
mod container_config;
mod directory_keeper;
mod disk_usage;
mod downward;
mod ends;
mod env_files;
mod environment_record;
mod environment_sources;
mod eviction;
mod files;
mod grpc_health;
mod guard;
mod handlers;
mod hook_environment;
mod hook_log;
mod hook_output;
mod hook_result;
mod hooks;
mod http;
mod http_client;
mod http_url;
mod images;
mod inbox;
mod labels;
mod lease;
mod log_files;
mod log_watch;
mod metrics;
mod mounts;
mod node;
mod observe;
mod pod_network;
mod pod_origin;
mod pod_source;
mod pod_store;
mod pod_users;
mod pods;
mod port;
mod probe_attempt;
mod probes;
mod references;
mod resources;
mod runtime_calls;
mod runtime_events;
mod sandbox;
mod security;
mod standalone;
mod start;
mod static_pods;
mod status_details;
mod status_writer;
mod sysctls;
mod termination_message;
mod volumes;
mod worker;

pub use config::{HookHosts, KubeletConfig};
pub use port::{PortError, PortTls, port_tls};

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cri::v1;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::{Agent, RuntimeVersion, SharedAgent};
use crate::http::HttpInterface;
use crate::pods::{PodsHandle, PodsTask};
use crate::runtime_calls::{ImageCalls, RuntimeCalls};
use fault::carried_on;

/// Why a node agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnKubeletError {
    /// A metric that cannot be counted.
    #[error("a metric cannot be counted: {0}")]
    Metrics(#[from] prometheus::Error),
    /// Its directory cannot be made.
    #[error("the node agent's directory {path} cannot be made", path = .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A running node agent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct KubeletHandle {
    interface: HttpInterface,
}

impl KubeletHandle {
    /// Serves the kubelet's HTTP interface on one connection, until it ends. Whoever holds the connection may ask everything:
    /// let only the API server have one.
    pub async fn serve_connection(self, io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        self.interface.serve_connection(io).await;
    }

    /// Serves the kubelet's HTTP interface on a port, with TLS of [`port_tls`], until the agent ends. Requests are let through by
    /// the client's certificate or token, and by what the API server says that it may.
    pub fn serve(&self, listener: tokio::net::TcpListener, tls: PortTls) {
        self.interface.agent.spawn(port::serve(self.interface.clone(), listener, tls));
    }

    /// Waits until the API has no pod of this node and nothing is left of those that it had: no container, no volume.
    ///
    /// For a node that is taken away; answers at once after the shutdown.
    pub async fn drained(&self) {
        self.interface.pods.drained().await;
    }

    /// Stops all pods that ran on the node, each within its own grace or within that many seconds if these are fewer, with
    /// their preStop hooks; answers when none runs. Their volumes, logs and objects stay, and the next agent on the directory
    /// begins them again.
    ///
    /// For a standalone agent on the directory of a node that does not run.
    pub async fn pods_stopped(&self, longest_grace: Option<i64>) {
        self.interface.pods.left(inbox::Leave { longest_grace }).await;
    }

    /// Waits until pods that are on their way out are out, at most a few seconds: for a node that is about to end in order.
    /// Begins nothing, and stops nothing that was not to stop before.
    pub async fn ends_finished(&self) {
        // Whoever was told of a deletion has passed it on when this is answered.
        self.interface.pods.list().await;
        let left = self.interface.agent.ends.finished(ends::PATIENCE).await;
        if left > 0 {
            tracing::info!(pods = left, "pods are still on their way out; the next start goes on with them");
        }
    }

    /// Waits until all tasks have ended after the shutdown.
    pub async fn stopped(&self) {
        self.interface.agent.tasks.wait().await;
    }
}

/// Takes down every volume below the directory of an agent that does not run any more, and removes the directory: the end of a
/// throwaway node. Blocks on the file system; nothing to remove is no error.
///
/// # Errors
///
/// What the system says of a mount or a file that cannot be taken away.
pub fn remove_everything(root_dir: &std::path::Path) -> std::io::Result<()> {
    volumes::unmount_below(root_dir)?;
    files::remove_dir_all(root_dir)
}

/// Takes down every mount below the directory of an agent that does not run, and leaves the files: the next agent mounts again
/// what its pods need. Blocks on the file system.
///
/// # Errors
///
/// What the system says of a mount that cannot be taken away.
pub fn unmount_everything(root_dir: &std::path::Path) -> std::io::Result<()> {
    volumes::unmount_below(root_dir)
}

/// Starts a node agent on the current tokio runtime. It ends when `shutdown` does; its pods go on.
///
/// # Errors
///
/// [`SpawnKubeletError::Directory`] if its directory cannot be made. That API or runtime do not answer is no error: they are
/// waited for.
pub fn spawn_kubelet(
    config: KubeletConfig,
    client: kube::Client,
    runtime: cri::RuntimeClient,
    images: cri::ImageClient,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<KubeletHandle, SpawnKubeletError> {
    spawn(config, Some(client), runtime, images, shutdown)
}

/// Starts a node agent that has no API server: it runs the pods of its directory ([`KubeletConfig::static_pod_dir`]) and
/// writes events to the log.
///
/// # Errors
///
/// As [`spawn_kubelet`].
pub fn spawn_standalone_kubelet(
    config: KubeletConfig,
    runtime: cri::RuntimeClient,
    images: cri::ImageClient,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<KubeletHandle, SpawnKubeletError> {
    spawn(config, None, runtime, images, shutdown)
}

fn spawn(
    config: KubeletConfig,
    client: Option<kube::Client>,
    runtime: cri::RuntimeClient,
    images: cri::ImageClient,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<KubeletHandle, SpawnKubeletError> {
    files::create_dirs(&config.root_dir)
        .map_err(|source| SpawnKubeletError::Directory { path: config.root_dir.clone(), source })?;
    let metrics = metrics::Metrics::new(&config.node_name, &config.feature_gates)?;
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    let (recorder, record) = events::event_recorder(client.clone(), "kubelet", config.node_name.clone());
    let agent: SharedAgent = Arc::new(Agent {
        metrics,
        store: pod_store::PodStore::new(&config.root_dir),
        capacity: node::machine_capacity(&config.root_dir),
        runtime_version: OnceLock::new(),
        events: recorder,
        tasks: tasks.clone(),
        running_hooks: hook_log::RunningHooks::default(),
        ending: stop.clone(),
        ends: ends::Ends::default(),
        runtime_changes: tokio::sync::watch::Sender::new(0),
        node: tokio::sync::watch::Sender::new(None),
        has_api: client.is_some(),
        client: client.unwrap_or_else(standalone::refusing_client),
        runtime: RuntimeCalls::new(runtime),
        images: ImageCalls::new(images),
        config,
    });
    let (pods, messages) = pods::pods_channel();
    agent.spawn(record);
    agent.spawn(PodsTask::new(agent.clone(), pods.clone()).run(messages));
    agent.spawn(work(agent.clone(), pods.clone()));
    tasks.spawn(async move {
        shutdown.await;
        stop.cancel();
    });
    tasks.close();
    Ok(KubeletHandle { interface: HttpInterface { agent, pods } })
}

/// Waits for the runtime, then does everything else.
async fn work(agent: SharedAgent, pods: PodsHandle) {
    let version = loop {
        if let Some(version) = fault::contained("version of the runtime", runtime_version(&agent)).await {
            break version;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    // This task is the only one that sets it.
    let _ = agent.runtime_version.set(version);
    let static_pods = || async {
        if let Some(path) = agent.config.static_pod_dir.clone() {
            agent.node_known().await;
            static_pods::watch_static_pods(agent.clone(), path, pods.clone()).await;
        }
    };
    let runtime = || runtime_events::watch_runtime(agent.clone(), pods.clone());
    let usage = || eviction::watch_usage(agent.clone(), pods.clone());
    let of_this_machine = async {
        tokio::join!(
            carried_on("directory of static pods", static_pods),
            carried_on("events of the runtime", runtime),
            carried_on("disk usage", usage),
        );
    };
    if !agent.has_api {
        agent.node.send_replace(Some(Arc::new(node::own_node(&agent))));
        return of_this_machine.await;
    }
    let pod_watch = || async {
        agent.node_known().await;
        pod_source::watch_pods(agent.client.clone(), agent.config.node_name.clone(), pods.clone()).await;
    };
    let sources = || pod_source::watch_sources(agent.client.clone(), pods.clone());
    tokio::join!(
        of_this_machine,
        carried_on("watch of pods", pod_watch),
        carried_on("watch of sources", sources),
        carried_on("watch of the node", || node::watch_node(agent.clone())),
        carried_on("status of the node", || node::keep_node(agent.clone())),
        carried_on("lease of the node", || lease::keep_lease(agent.clone())),
        carried_on("directories of claims", || directory_keeper::keep_directories(agent.clone())),
    );
}

async fn runtime_version(agent: &SharedAgent) -> RuntimeVersion {
    loop {
        match agent.runtime.version(v1::VersionRequest::default()).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                return RuntimeVersion { name: answer.runtime_name, version: answer.runtime_version };
            }
            Err(status) => {
                tracing::warn!(error = status.message(), "the container runtime does not answer");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
