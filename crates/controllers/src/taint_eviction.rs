//! The taint eviction controller: ends pods on nodes whose taints (`NoExecute`) they do not bear, or have borne for long enough.

mod decision;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::reasons::event;
use events::{EventRecorder, EventType, pod_reference};
use informer::{Change, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::controller::{Next, ReconcileError, Reconciler, is_not_found, is_of_another, run};
use crate::deletion::delete;
use crate::queue::Queue;
use crate::{Informers, Speaker, Start};
use decision::{Stay, driving, stay};

/// Pods that are ended at once.
const WORKERS: usize = 4;

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty())
}

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    // It has the rights of the node controller, in Kubernetes as well.
    let (client, events) = start.speaker(Speaker::Controller("node-controller"));
    let informers = start.informers().clone();
    let queue = Arc::new(Queue::default());
    let (looks, caches) = (Arc::clone(&queue), informers.clone());
    informers.pods.on_change(move |change| {
        let pod = change.object();
        let Some(name) = node_of(pod) else { return };
        let is_news = match change {
            Change::Changed { before, now } => {
                before.spec != now.spec || before.metadata.uid != now.metadata.uid
            }
            Change::Added(_) => true,
            // Then there is something to forget, wherever it was.
            Change::Removed(_) => return looks.add(ObjectKey::of(&**pod)),
        };
        let node = || caches.nodes.get(&ObjectKey::new("", name));
        if is_news && node().is_some_and(|node| driving(&node).next().is_some()) {
            looks.add(ObjectKey::of(&**pod));
        }
    });
    let (looks, caches) = (Arc::clone(&queue), informers.clone());
    informers.nodes.on_change(move |change| {
        let is_news = match change {
            Change::Added(node) => driving(node).next().is_some(),
            Change::Changed { before, now } => driving(before).ne(driving(now)),
            Change::Removed(_) => false,
        };
        if is_news {
            let name = change.object().metadata.name.as_deref();
            let pods = caches.pods.all();
            pods.iter().filter(|pod| node_of(pod) == name).for_each(|pod| looks.add(ObjectKey::of(&**pod)));
        }
    });
    let caches = informers.clone();
    let synced = async move {
        caches.nodes.synced().await;
        caches.pods.synced().await;
    };
    let controller = TaintEviction { client, events, informers, noticed: Mutex::default() };
    start.task(run(Arc::new(controller), queue, WORKERS, synced, start.shutdown.clone()));
}

struct TaintEviction {
    client: kube::Client,
    events: EventRecorder,
    informers: Informers,
    /// Since when pods are to go, each with its UID.
    noticed: Mutex<HashMap<ObjectKey, (String, Instant)>>,
}

impl Reconciler for TaintEviction {
    const NAME: &'static str = "taint-eviction-controller";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let pod = self.informers.pods.get(&key).filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let Some(pod) = pod else {
            self.forget(&key);
            return Ok(Next::Change);
        };
        let node: Option<Arc<Node>> =
            node_of(&pod).and_then(|name| self.informers.nodes.get(&ObjectKey::new("", name)));
        let Some(node) = node else { return Ok(Next::Change) };
        let stay = stay(&pod, &node);
        if stay == Stay::Forever {
            if self.forget(&key).is_some() {
                self.tell(&pod, format!("Cancelling deletion of Pod {key}"));
            }
            return Ok(Next::Change);
        }
        match stay.left(Timestamp::now(), self.noticed(&key, &pod).elapsed()) {
            None => Ok(Next::Change),
            Some(left) if left.is_zero() => {
                self.tell(&pod, format!("Marking for deletion Pod {key}"));
                self.evict(&key, &pod).await?;
                self.forget(&key);
                Ok(Next::Change)
            }
            Some(left) => Ok(Next::After(left)),
        }
    }
}

impl TaintEviction {
    fn noticed(&self, key: &ObjectKey, pod: &Pod) -> Instant {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let mut noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        match noticed.get(key) {
            Some((known, since)) if known == uid => *since,
            // Another pod of the name has its own time.
            Some(_) | None => {
                let now = Instant::now();
                noticed.insert(key.clone(), (uid.to_owned(), now));
                now
            }
        }
    }

    fn forget(&self, key: &ObjectKey) -> Option<(String, Instant)> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    fn tell(&self, pod: &Pod, message: String) {
        let about = pod_reference(pod, None);
        self.events.record(about, EventType::Normal, event::TAINT_MANAGER_EVICTION, message);
    }

    async fn evict(&self, key: &ObjectKey, pod: &Pod) -> kube::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = json!({
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [{
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
                "lastTransitionTime": Time(Timestamp::now()),
            }]},
        });
        let of_another = |error: &kube::Error| is_not_found(error) || is_of_another(error);
        match pods.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(&patch)).await {
            Ok(_) => {}
            Err(error) if of_another(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        delete(pod, &pods, &self.informers.pods, DeleteParams::default()).await.map(drop)
    }
}
