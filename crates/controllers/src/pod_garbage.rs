//! Removes pods that nobody will ever end: those of nodes that are gone, those that were to end before they had a node, and those that
//! have ended when there are too many of them.

pub(crate) mod decision;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use informer::{Change, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::backends::{has_ended, node_name};
use crate::controller::{Next, ReconcileError, Reconciler, is_not_found, is_of_another, run};
use crate::deletion::delete;
use crate::queue::Queue;
use crate::{Informers, Speaker, Start};
use decision::{KEPT, Reason, decide};

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, _) = start.speaker(Speaker::Controller("pod-garbage-collector"));
    let informers = start.informers().clone();
    let queue = Arc::new(Queue::default());
    // One look is at all pods.
    let all = || ObjectKey::new("", "pods");
    let (looks, caches) = (Arc::clone(&queue), informers.clone());
    informers.pods.on_change(move |change| {
        let pod = match change {
            Change::Added(pod) | Change::Changed { now: pod, .. } => pod,
            Change::Removed(_) => return,
        };
        let is_suspect = match node_name(pod) {
            None => pod.metadata.deletion_timestamp.is_some(),
            Some(name) => caches.nodes.get(&ObjectKey::new("", name)).is_none_or(|node| is_tainted(&node)),
        };
        if is_suspect || (has_ended(pod) && caches.pods.count() > KEPT) {
            looks.add(all());
        }
    });
    let looks = Arc::clone(&queue);
    informers.nodes.on_change(move |change| match change {
        Change::Removed(_) => looks.add(all()),
        Change::Added(node) | Change::Changed { now: node, .. } => {
            if is_tainted(node) {
                looks.add(all());
            }
        }
    });
    let caches = informers.clone();
    let synced = async move {
        caches.pods.synced().await;
        caches.nodes.synced().await;
    };
    let controller = PodGarbage { informers, client, missing: Mutex::default() };
    start.task(run(Arc::new(controller), queue, 1, synced, start.shutdown.clone()));
}

fn is_tainted(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.taints.as_ref().is_some_and(|taints| !taints.is_empty()))
}

struct PodGarbage {
    informers: Informers,
    client: kube::Client,
    /// Since when nodes are missing that have pods.
    missing: Mutex<BTreeMap<String, Timestamp>>,
}

impl Reconciler for PodGarbage {
    const NAME: &'static str = "pod-garbage-collector";

    async fn reconcile(&self, _: ObjectKey) -> Result<Next, ReconcileError> {
        let now = Timestamp::now();
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (pods, nodes) = (self.informers.pods.all(), self.informers.nodes.all());
        let decision = decide(&pods, &nodes, &missing, KEPT, now);
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = decision.missing;
        let present = self.present_after_all(&decision.remove).await?;
        for (pod, reason) in &decision.remove {
            let is_wrong =
                *reason == Reason::NodeGone && node_name(pod).is_some_and(|name| present.contains(name));
            if !is_wrong {
                self.remove(pod, *reason).await?;
            }
        }
        Ok(match decision.again {
            None => Next::Change,
            Some(at) => {
                let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                // Just after it, not just before.
                Next::After(wait + Duration::from_millis(10))
            }
        })
    }
}

impl PodGarbage {
    /// The nodes that the API has although the cache does not.
    async fn present_after_all(&self, remove: &[(Arc<Pod>, Reason)]) -> kube::Result<BTreeSet<String>> {
        let of_gone = remove.iter().filter(|(_, reason)| *reason == Reason::NodeGone);
        let names: BTreeSet<&str> = of_gone.filter_map(|(pod, _)| node_name(pod)).collect();
        let api: Api<Node> = Api::all(self.client.clone());
        let mut present = BTreeSet::new();
        for name in names {
            if api.get_opt(name).await?.is_some() {
                present.insert(name.to_owned());
            }
        }
        Ok(present)
    }

    async fn remove(&self, pod: &Pod, reason: Reason) -> kube::Result<()> {
        let key = ObjectKey::of(pod);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        tracing::info!(pod = %key, ?reason, "a pod that nobody will end is removed");
        if reason.fails() && !has_ended(pod) {
            let mut status = json!({"phase": "Failed"});
            if let Some(message) = reason.message() {
                status["conditions"] = json!([{
                    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": message,
                    "lastTransitionTime": Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
                }]);
            }
            let patch = json!({"metadata": {"uid": uid}, "status": status});
            fault::point("podgarbage.due");
            match api.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(&patch)).await {
                Ok(marked) => self.informers.pods.learn(marked),
                Err(error) if is_not_found(&error) || is_of_another(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            fault::point("podgarbage.marked");
        }
        delete(pod, &api, &self.informers.pods, DeleteParams::default().grace_period(0)).await?;
        fault::point("podgarbage.deleted");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
