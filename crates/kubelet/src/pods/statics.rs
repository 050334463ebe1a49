//! The part of the pods task that is about pods from files, and about the objects by which the API shows them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;

use super::{PodKey, PodsMessage, PodsTask, Worker, key_of};
use crate::agent::Agent;
use crate::pod_origin::{is_mirror, is_static};
use crate::static_pods::{MirrorStep, mirror_of, mirror_step};
use crate::status_writer::delete_finally;

/// A step with a mirror that failed is made again after this.
const RETRY: Duration = Duration::from_secs(5);

impl PodsTask {
    /// The directory was read.
    pub(super) async fn static_pods(&mut self, pods: Vec<Arc<Pod>>, unreadable: bool) {
        let wanted: std::collections::BTreeMap<String, Arc<Pod>> =
            pods.into_iter().filter_map(|pod| Some((pod.metadata.uid.clone()?, pod))).collect();
        let before = std::mem::replace(&mut self.statics.wanted, wanted);
        self.statics.listed = Some(unreadable);
        for (uid, pod) in before {
            if self.statics.wanted.contains_key(&uid) {
                self.statics.unclaimed.remove(&uid);
            } else if unreadable && self.statics.unclaimed.contains(&uid) {
                self.statics.wanted.insert(uid, pod);
            } else {
                self.statics.unclaimed.remove(&uid);
                self.gone(&uid);
            }
        }
        for (uid, pod) in self.statics.wanted.clone() {
            self.begin_static(&uid, pod);
        }
        self.adopt_when_all_is_known().await;
    }

    /// Makes a worker for a static pod, unless an earlier version of it still stops: then it waits for that.
    fn begin_static(&mut self, uid: &str, pod: Arc<Pod>) {
        if self.workers.contains_key(uid) {
            return;
        }
        let key = key_of(&pod);
        if self.running_static(&key).is_some() {
            return;
        }
        self.pods.insert(uid.to_owned(), pod.clone());
        self.begin(uid, pod);
        self.follow_mirror(&key);
    }

    /// The static pod of that name that runs, or still stops.
    fn running_static(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        let mut running = self.pods.iter().filter(|(uid, pod)| {
            is_static(pod)
                && key_of(pod) == *key
                && matches!(self.workers.get(*uid), Some(Worker::Running(..)))
        });
        running.next().map(|(_, pod)| pod)
    }

    /// A static pod of that name has stopped and nothing of it is left: the next version may begin.
    pub(super) fn static_pod_ended(&mut self, key: &PodKey) {
        let next = self.statics.wanted.iter().find(|(_, pod)| key_of(pod) == *key);
        match next.map(|(uid, pod)| (uid.clone(), pod.clone())) {
            Some((uid, pod)) => self.begin_static(&uid, pod),
            None => self.follow_mirror(key),
        }
    }

    /// The API has an object that only shows a static pod.
    pub(super) fn mirror_seen(&mut self, mirror: Arc<Pod>) {
        let key = key_of(&mirror);
        self.statics.mirrors.insert(key.clone(), mirror);
        self.follow_mirror(&key);
    }

    pub(super) fn mirror_step_made(&mut self, key: PodKey, mirror: Option<Option<Arc<Pod>>>) {
        self.statics.busy.remove(&key);
        match mirror {
            Some(Some(mirror)) => drop(self.statics.mirrors.insert(key.clone(), mirror)),
            Some(None) => drop(self.statics.mirrors.remove(&key)),
            None => {}
        }
        self.follow_mirror(&key);
    }

    /// Tells the worker of a static pod of its mirror, and takes the next step with it.
    pub(super) fn follow_mirror(&mut self, key: &PodKey) {
        let running = self.running_static(key).cloned();
        let mirror = self.statics.mirrors.get(key).cloned();
        let step = mirror_step(running.as_deref(), mirror.as_deref());
        if let Some(uid) = running.as_ref().and_then(|pod| pod.metadata.uid.as_ref())
            && let Some(Worker::Running(inbox, _)) = self.workers.get(uid)
        {
            inbox.put_mirror(mirror.clone().filter(|_| step == MirrorStep::Nothing));
        }
        // Before all files were read, a mirror without its pod may only be early.
        let early = running.is_none() && !self.adopted;
        if step == MirrorStep::Nothing
            || early
            || !self.agent.has_api
            || !self.statics.busy.insert(key.clone())
        {
            return;
        }
        let (agent, handle, key) = (self.agent.clone(), self.handle.clone(), key.clone());
        self.agent.spawn(async move {
            let made = match (step, running, mirror) {
                (MirrorStep::Create, Some(pod), _) => create(&agent, &pod).await.map(Some),
                (MirrorStep::Remove, _, Some(mirror)) => {
                    delete_finally(&agent.client, &mirror).await.map(|()| None)
                }
                (MirrorStep::Create | MirrorStep::Remove | MirrorStep::Nothing, _, _) => Ok(None),
            };
            let mirror = match made {
                Ok(mirror) => Some(mirror),
                Err(error) => {
                    tracing::warn!(%error, namespace = key.0, pod = key.1, "the API does not show a static pod as it is");
                    tokio::time::sleep(RETRY).await;
                    None
                }
            };
            handle.tell(PodsMessage::MirrorStepMade { key, mirror });
        });
    }
}

/// Makes a mirror; one that is there already will do until it was looked at.
async fn create(agent: &Agent, pod: &Pod) -> kube::Result<Arc<Pod>> {
    let (namespace, name) = key_of(pod);
    let pods: Api<Pod> = Api::namespaced(agent.client.clone(), &namespace);
    match pods.create(&PostParams::default(), &mirror_of(pod)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let found = pods.get(&name).await?;
            // A pod of somebody else has the name.
            if is_mirror(&found) { Ok(Arc::new(found)) } else { Err(kube::Error::Api(status)) }
        }
        made => made.map(Arc::new),
    }
}
