//! The node lifecycle controller: notices that a node is silent, marks it, and gives nodes the taints of their state. What taints drive
//! away is the matter of `taint_eviction`.
//!
//! A node is heard when its lease in `kube-node-lease` or the heartbeat of its status changes; how long ago that was is counted
//! on the monotonic clock of this process, so that nobody is declared dead by a clock that was set. The node of this process is as
//! alive as the controller: it need not be heard, and wakes nobody.

mod decision;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::reasons::event;
use events::{EventRecorder, EventType, node_reference, pod_reference};
use informer::{Change, Informer, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::controller::{Next, ReconcileError, Reconciler, is_not_found, is_of_another, run};
use crate::queue::Queue;
use crate::{Informers, Speaker, Start};
use decision::{Signs, decide, status};

/// Where the leases of nodes are.
const LEASES: &str = "kube-node-lease";

/// How nodes are watched over.
#[derive(Clone, Debug)]
pub struct NodeWatch {
    /// The node of this process, if there is one: it lives as long as the controller.
    pub own: Option<String>,
    /// After how long without a sign a node counts as silent.
    pub grace: Duration,
}

impl Default for NodeWatch {
    fn default() -> Self {
        // As Kubernetes since 1.32.
        Self { own: None, grace: Duration::from_secs(50) }
    }
}

/// When a node was heard last.
#[derive(Debug)]
struct Heard {
    at: Instant,
    lease: Option<MicroTime>,
    status: Option<Time>,
}

type AllHeard = Arc<Mutex<HashMap<String, Heard>>>;

/// No holder of the lock can panic half-way through a change.
fn locked(heard: &AllHeard) -> MutexGuard<'_, HashMap<String, Heard>> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sign of a node: it counts if it is another than before.
fn hear(heard: &AllHeard, node: &str, sign: impl Fn(&mut Heard) -> bool) {
    let mut heard = locked(heard);
    let now = Instant::now();
    let known = heard.entry(node.to_owned()).or_insert(Heard { at: now, lease: None, status: None });
    if sign(known) {
        known.at = now;
    }
}

/// Replaces a sign; whether it is another.
fn replace<T: PartialEq>(known: &mut Option<T>, new: Option<T>) -> bool {
    let is_new = new.is_some() && *known != new;
    if is_new {
        *known = new;
    }
    is_new
}

fn heartbeat(node: &Node) -> Option<Time> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == "Ready")?.last_heartbeat_time.clone()
}

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Controller("node-controller"));
    let informers = start.informers().clone();
    let leases: Informer<Lease> = Informer::idle();
    let reader = start.config.clients.client(Speaker::ControllerManager);
    start.task(leases.clone().follow(Api::namespaced(reader, LEASES), "", start.shutdown.clone()));
    let heard = AllHeard::default();
    let queue = Arc::new(Queue::default());
    let (noted, nodes) = (Arc::clone(&heard), informers.nodes.clone());
    leases.on_change(move |change| {
        let lease = change.object();
        if matches!(change, Change::Removed(_)) {
            // What is known of a node goes with it, and that of a name that no node has with its lease.
            if nodes.get(&ObjectKey::new("", lease.metadata.name.clone().unwrap_or_default())).is_none() {
                locked(&noted).remove(lease.metadata.name.as_deref().unwrap_or_default());
            }
            return;
        }
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        let name = lease.metadata.name.clone().unwrap_or_default();
        hear(&noted, &name, |heard| replace(&mut heard.lease, renewed.clone()));
    });
    let (noted, looks, caches) = (Arc::clone(&heard), Arc::clone(&queue), informers.clone());
    informers.nodes.on_change(move |change| {
        let node = change.object();
        let name = node.metadata.name.clone().unwrap_or_default();
        hear(&noted, &name, |heard| replace(&mut heard.status, heartbeat(node)));
        let others_may_matter = match change {
            Change::Changed { before, now } => status(before, "Ready") != status(now, "Ready"),
            Change::Added(_) | Change::Removed(_) => true,
        };
        if others_may_matter {
            caches.nodes.all().iter().for_each(|other| looks.add(ObjectKey::of(&**other)));
        }
        looks.add(ObjectKey::of(&**node));
    });
    let caches = informers.clone();
    let synced = async move {
        caches.nodes.synced().await;
        caches.pods.synced().await;
        leases.synced().await;
    };
    let controller =
        NodeLifecycle { client, events, informers, heard, watch: start.config.node_watch.clone() };
    start.task(run(Arc::new(controller), queue, 1, synced, start.shutdown.clone()));
}

struct NodeLifecycle {
    client: kube::Client,
    events: EventRecorder,
    informers: Informers,
    heard: AllHeard,
    watch: NodeWatch,
}

impl Reconciler for NodeLifecycle {
    const NAME: &'static str = "node-lifecycle-controller";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let Some(node) = self.informers.nodes.get(&key) else {
            locked(&self.heard).remove(&key.name);
            return Ok(Next::Change);
        };
        let is_own = self.watch.own.as_ref() == Some(&key.name);
        hear(&self.heard, &key.name, |_| false);
        let at = locked(&self.heard).get(&key.name).map_or_else(Instant::now, |heard| heard.at);
        let left = self.watch.grace.saturating_sub(at.elapsed());
        let is_silent = !is_own && left.is_zero();
        let nodes = self.informers.nodes.all();
        let is_ready = |other: &Node| {
            let is_this = other.metadata.name == node.metadata.name;
            status(other, "Ready") == Some("True") && !(is_this && is_silent)
        };
        let signs = Signs {
            is_silent,
            nobody_is_ready: !nodes.iter().any(|node| is_ready(node)),
            now: Timestamp::now(),
        };
        let decision = decide(&node, &signs);
        if let Some(conditions) = decision.conditions {
            tracing::warn!(node = key.name, "the node says nothing any more");
            self.write_conditions(&key.name, &json!(conditions)).await?;
            let message = format!("Node {} status is now: NodeNotReady", key.name);
            self.events.record(node_reference(&node), EventType::Normal, event::NODE_NOT_READY, message);
        }
        if is_silent {
            self.mark_pods(&key.name).await?;
        }
        if let Some(taints) = decision.taints {
            // What the write of the conditions has made of it.
            let current = self.informers.nodes.get(&key).unwrap_or(node);
            let patch = json!({
                "metadata": {"resourceVersion": current.metadata.resource_version}, "spec": {"taints": taints},
            });
            let nodes: Api<Node> = Api::all(self.client.clone());
            match nodes.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(written) => self.informers.nodes.learn(written),
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // One that is silent already is heard by the change of its object.
        Ok(if is_own || is_silent { Next::Change } else { Next::After(left) })
    }
}

impl NodeLifecycle {
    async fn write_conditions(&self, node: &str, conditions: &serde_json::Value) -> kube::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        match nodes.patch_status(node, &PatchParams::default(), &patch).await {
            Ok(written) => self.informers.nodes.learn(written),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Services no longer lead to the pods of a silent node.
    async fn mark_pods(&self, node: &str) -> kube::Result<()> {
        for pod in self.informers.pods.all() {
            let is_there = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let is_ready =
                conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
            if !is_there || !is_ready {
                continue;
            }
            let key = ObjectKey::of(&*pod);
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
            let patch = json!({
                "metadata": {"uid": pod.metadata.uid},
                "status": {"conditions": [
                    {"type": "Ready", "status": "False", "lastTransitionTime": Time(Timestamp::now())},
                ]},
            });
            match pods.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(&patch)).await {
                Ok(written) => {
                    self.informers.pods.learn(written);
                    self.events.record(
                        pod_reference(&pod, None),
                        EventType::Warning,
                        event::NODE_NOT_READY,
                        "Node is not ready",
                    );
                }
                Err(error) if is_not_found(&error) || is_of_another(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
