//! The workload and cluster controllers and the scheduler: what the objects of the API ask for is done by ordinary clients
//! of it, which can be killed at any moment and go on where they were.
//!
//! * Each controller reads shared caches ([`Informers`]), which know at once what it wrote itself, and has a queue of objects
//!   to look at (`queue`, `controller`).
//! * What is to be done is decided by a pure function, in the file `decision.rs` beside each controller: objects and the time
//!   in, actions and status out. The controller carries it out and decides nothing.
//! * Each speaks to the API as itself ([`Speaker`]), with the rights of its bootstrap role.
//!
//! Nothing here polls: an idle cluster wakes no controller.
//!
//! Tasks: [`spawn`] starts one task that fills the caches, and a few for each controller; all end with its token.

mod backends;
mod claims;
mod clients;
mod clock;
mod controller;
mod cron_job;
mod daemon_set;
mod deletion;
mod deployment;
mod each_namespace;
mod endpoint_slice_mirroring;
mod endpoint_slices;
mod endpoints;
mod ephemeral_claims;
mod failure_back_off;
mod informers;
mod job;
pub mod leadership;
mod namespace;
mod node_lifecycle;
mod ownership;
mod pod_control;
mod pod_garbage;
mod pod_state;
mod queue;
mod replica_set;
mod revision_control;
mod revisions;
mod room;
mod root_certificate;
mod scheduler;
mod selector;
mod service_account;
mod stateful_set;
mod taint_eviction;
mod template_hash;
mod triggers;
mod ttl_after_finished;

use std::sync::Arc;

use events::EventRecorder;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use clients::{Clients, OneClient, Speaker};
pub use informers::Informers;
pub use node_lifecycle::NodeWatch;

/// What the controllers need.
pub struct ControllersConfig {
    /// How each of them speaks to the API.
    pub clients: Arc<dyn Clients>,
    /// The caches that they share with each other, and perhaps with others of the process. [`spawn`] fills them.
    pub informers: Informers,
    /// How nodes are watched over.
    pub node_watch: NodeWatch,
    /// The certificates, in PEM form, by which pods know the API server; without them, nobody tells pods.
    pub root_certificates: Option<String>,
}

impl std::fmt::Debug for ControllersConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllersConfig").finish_non_exhaustive()
    }
}

/// Controllers that run.
#[derive(Debug)]
pub struct Controllers {
    tasks: TaskTracker,
}

impl Controllers {
    /// Waits until all of them have ended, after their token was cancelled: what they had begun is done and told.
    pub async fn stopped(&self) {
        self.tasks.wait().await;
    }
}

/// What each controller is started with.
struct Start<'s> {
    config: &'s ControllersConfig,
    shutdown: &'s CancellationToken,
    tasks: &'s TaskTracker,
}

impl Start<'_> {
    /// The client of a speaker, and the recorder of its events.
    fn speaker(&self, speaker: Speaker) -> (kube::Client, EventRecorder) {
        let client = self.config.clients.client(speaker);
        let (recorder, record) =
            events::event_recorder(Some(client.clone()), speaker.component(), String::new());
        // It ends with the last recorder, after everything was written.
        self.tasks.spawn(record);
        (client, recorder)
    }

    fn informers(&self) -> &Informers {
        &self.config.informers
    }

    /// Runs a task of a controller.
    fn task(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }
}

/// Starts all controllers, until `shutdown`.
pub fn spawn(config: &ControllersConfig, shutdown: &CancellationToken) -> Controllers {
    let tasks = TaskTracker::new();
    let reader = config.clients.client(Speaker::ControllerManager);
    tasks.spawn(config.informers.clone().follow(reader, shutdown.clone()));
    start_all(&Start { config, shutdown, tasks: &tasks });
    tasks.close();
    Controllers { tasks }
}

/// Starts only those controllers without which an API server alone would be of little use, until `shutdown`: namespaces end, and
/// each has its service account and the certificates. Of the caches, these fill that of namespaces.
pub fn spawn_housekeeping(config: &ControllersConfig, shutdown: &CancellationToken) -> Controllers {
    let tasks = TaskTracker::new();
    let reader = kube::Api::all(config.clients.client(Speaker::ControllerManager));
    tasks.spawn(config.informers.namespaces.clone().follow(reader, "", shutdown.clone()));
    housekeeping(&Start { config, shutdown, tasks: &tasks });
    tasks.close();
    Controllers { tasks }
}

/// Sees to it that there is a class for claims that name none: `standard`, whose volumes are directories of nodes. One that is
/// there stays as it is.
pub async fn provide_default_class(client: &kube::Client) {
    let classes: kube::Api<k8s_openapi::api::storage::v1::StorageClass> = kube::Api::all(client.clone());
    match classes.create(&kube::api::PostParams::default(), &claims::default_class()).await {
        Ok(_) => {}
        Err(error) if controller::is_already_there(&error) => {}
        Err(error) => tracing::warn!(%error, "the default storage class could not be made"),
    }
}

/// Every controller, one line each.
fn start_all(start: &Start<'_>) {
    replica_set::start::<ReplicaSet>(start);
    replica_set::start::<ReplicationController>(start);
    deployment::start(start);
    scheduler::start(start);
    node_lifecycle::start(start);
    taint_eviction::start(start);
    stateful_set::start(start);
    job::start(start);
    cron_job::start(start);
    ttl_after_finished::start(start);
    daemon_set::start(start);
    claims::start(start);
    ephemeral_claims::start(start);
    service_endpoints(start);
    endpoint_slice_mirroring::start(start);
    pod_garbage::start(start);
    housekeeping(start);
}

/// Those that see to namespaces.
fn housekeeping(start: &Start<'_>) {
    namespace::start(start);
    service_account::start(start);
    root_certificate::start(start);
}

/// The two controllers that show what stands behind services; both look at the same things.
fn service_endpoints(start: &Start<'_>) {
    let (slices, endpoints) = (Arc::default(), Arc::default());
    backends::follow(start.informers(), vec![Arc::clone(&slices), Arc::clone(&endpoints)]);
    endpoint_slices::start(start, slices);
    endpoints::start(start, endpoints);
}
