//! What all parts of the node agent share: its settings, its two clients, and the handles of its tasks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::{Node, Pod};
use lifecycle::NodeIdentity;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::KubeletConfig;
use crate::downward::Allocatable;
use crate::ends::Ends;
use crate::hook_log::RunningHooks;
use crate::metrics::Metrics;
use crate::pod_store::PodStore;
use crate::runtime_calls::{ImageCalls, RuntimeCalls};
use events::{self, EventRecorder, EventType};

/// What the runtime calls itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuntimeVersion {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Shared by all tasks of one agent; nothing in it is decided here.
pub(crate) struct Agent {
    pub(crate) config: KubeletConfig,
    pub(crate) client: kube::Client,
    /// There is an API server. Without one, `client` refuses everything.
    pub(crate) has_api: bool,
    pub(crate) runtime: RuntimeCalls,
    pub(crate) images: ImageCalls,
    pub(crate) runtime_version: OnceLock<RuntimeVersion>,
    pub(crate) events: EventRecorder,
    pub(crate) metrics: Metrics,
    pub(crate) store: PodStore,
    pub(crate) tasks: TaskTracker,
    /// Hooks that run, for those who follow their logs.
    pub(crate) running_hooks: RunningHooks,
    /// Ends with the agent.
    pub(crate) ending: CancellationToken,
    /// Pods that are on their way out.
    pub(crate) ends: Ends,
    /// Raised whenever the runtime reported something; whoever waits for a container looks again.
    pub(crate) runtime_changes: watch::Sender<u64>,
    pub(crate) capacity: BTreeMap<String, String>,
    /// The node's object as the API has it, once it is known.
    pub(crate) node: watch::Sender<Option<Arc<Node>>>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Agent").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Agent {
    /// How status and identifiers name this node.
    pub(crate) fn node_identity(&self) -> NodeIdentity {
        let runtime_name = self.runtime_version.get().map(|version| version.name.clone());
        NodeIdentity {
            addresses: self.config.addresses.clone(),
            runtime_name: runtime_name.unwrap_or_default(),
        }
    }

    /// Name and version of the runtime, as a node's status shows them.
    pub(crate) fn runtime_version(&self) -> String {
        let version = self.runtime_version.get().cloned().unwrap_or_default();
        format!("{}://{}", version.name, version.version)
    }

    /// What pods may use of the node.
    pub(crate) fn allocatable(&self) -> Allocatable {
        self.capacity
            .iter()
            .map(|(name, value)| {
                let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity(value.clone());
                (name.clone(), quantity)
            })
            .collect()
    }

    /// The node's memory in bytes, for OOM scores.
    pub(crate) fn memory_bytes(&self) -> i128 {
        self.capacity
            .get("memory")
            .and_then(|text| quantity::Quantity::parse(text).ok())
            .map_or(0, |quantity| quantity.units())
    }

    /// Waits until the node's object is known: pods are held against it.
    pub(crate) async fn node_known(&self) {
        let mut node = self.node.subscribe();
        // The sender lives as long as the agent.
        let _ = node.wait_for(Option::is_some).await;
    }

    /// Records an event about a pod.
    pub(crate) fn pod_event(
        &self,
        pod: &Pod,
        type_: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        self.events.record(events::pod_reference(pod, None), type_, reason, message);
    }

    /// Records an event about one container of a pod.
    pub(crate) fn container_event(
        &self,
        pod: &Pod,
        container: &str,
        type_: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let field_path = lifecycle::container_role(pod, container).map(|role| role.field_path(container));
        self.events.record(events::pod_reference(pod, field_path), type_, reason, message);
    }

    /// Records an event about the node.
    pub(crate) fn node_event(&self, type_: EventType, reason: &'static str, message: impl Into<String>) {
        let node = Node {
            metadata: kube::api::ObjectMeta {
                name: Some(self.config.node_name.clone()),
                ..kube::api::ObjectMeta::default()
            },
            ..Node::default()
        };
        self.events.record(events::node_reference(&node), type_, reason, message);
    }

    /// Starts a task that ends with the agent, whatever it waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ending = self.ending.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = ending.cancelled() => {}
            }
        });
    }

    /// Says that the runtime has changed something.
    pub(crate) fn note_runtime_change(&self) {
        self.runtime_changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// How parts hold the agent.
pub(crate) type SharedAgent = Arc<Agent>;
