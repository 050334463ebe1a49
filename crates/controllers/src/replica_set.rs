//! ReplicaSet and ReplicationController: a number of equal pods is kept. One engine for two kinds.
//!
//! The pods of a controller are those that it controls; it adopts what its selector chooses and nobody controls, and lets go of what it
//! no longer chooses. What is missing is created, first one, then more and more at once; what is too much is deleted, the
//! least useful first.

pub(crate) mod decision;
mod kind;
mod ranking;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use events::{EventRecorder, EventType};
use informer::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;

use crate::clients::Speaker;
use crate::controller::{self, Next, ReconcileError, Reconciler, is_namespace_terminating, is_not_found};
use crate::informers::Informers;
use crate::ownership::{claimed, controller_of, object_reference, owner_reference};
use crate::pod_control::{PodControl, PodName, name_beginning, pod_from, said};
use crate::pod_state::is_active;
use crate::queue::Queue;
use crate::triggers::{add_owners, asks_anew, pod_counts_anew, rivals, rivals_message};
use crate::{Start, replica_set::kind::Replicated};
use decision::{Failure, REPLICA_FAILURE, Status, Step};

/// Controllers of one kind that are looked at at the same time.
const WORKERS: usize = 4;

/// Starts the controller of a kind.
pub(crate) fn start<K: Replicated>(start: &Start<'_>) {
    let informers = start.informers().clone();
    let (client, events) = start.speaker(Speaker::Controller(K::CONTROLLER));
    let queue = Arc::new(Queue::default());
    listen::<K>(&informers, &queue);
    crate::room::retry_when_there_is_room(&informers, &queue);
    let synced = {
        let informers = informers.clone();
        async move {
            informers.pods.synced().await;
            informers.replica_sets.synced().await;
            K::informer(&informers).synced().await;
        }
    };
    let pods = PodControl::new(informers.pods.clone(), client.clone(), events.clone());
    let keeper = Arc::new(Keeper::<K> { informers, client, pods, events, kind: std::marker::PhantomData });
    start.task(controller::run(keeper, queue, WORKERS, synced, start.shutdown.clone()));
}

fn listen<K: Replicated>(informers: &Informers, queue: &Arc<Queue>) {
    let of_kind = Arc::clone(queue);
    K::informer(informers).on_change(move |change| {
        if asks_anew(change) {
            of_kind.add(ObjectKey::of(&**change.object()));
        }
    });
    let (of_pods, owners) = (Arc::clone(queue), K::informer(informers).clone());
    informers.pods.on_change(move |change| {
        if pod_counts_anew(change) {
            add_owners(&of_pods, change, &owners, |owner: &K, pod: &Pod| {
                owner.chooses(pod.metadata.labels.as_ref())
            });
        }
    });
}

struct Keeper<K> {
    informers: Informers,
    client: kube::Client,
    pods: PodControl,
    events: EventRecorder,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K: Replicated> Reconciler for Keeper<K> {
    const NAME: &'static str = K::CONTROLLER;

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let Some(owner) = K::informer(&self.informers).get(&key) else { return Ok(Next::Change) };
        let api = self.pods.api(&key.namespace);
        let owners: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        // A pod that has ended and is nobody's stays nobody's.
        let chosen = |pod: &Pod| {
            owner.chooses(pod.metadata.labels.as_ref())
                && (controller_of(&pod.metadata).is_some() || is_active(pod))
        };
        let pods = claimed(&*owner, &self.informers.pods, &api, &owners, chosen).await?;
        self.tell_of_rivals(&owner, &key);
        let wanted = owner.wanted();
        let now = Timestamp::now();
        let step = match decision::step(&wanted, &pods, &[], now) {
            // Only who goes depends on the others.
            Step::Delete(_) => decision::step(&wanted, &pods, &owner.related(&self.informers, &pods), now),
            other => other,
        };
        let outcome = self.carry_out(&*owner, &key, &step).await;
        let now = Timestamp::now();
        let pods: Vec<_> = match &step {
            Step::Nothing | Step::Wait { .. } => pods,
            Step::Create(_) | Step::Delete(_) => {
                let uid = owner.meta().uid.as_deref().unwrap_or_default();
                let all = self.informers.pods.controlled_by(&key.namespace, uid).into_iter();
                all.filter(|pod| owner.chooses(pod.metadata.labels.as_ref())).collect()
            }
        };
        let failure = Failure::of(&step, outcome.as_ref().err().map(said));
        let before = owner.status();
        let status = decision::status(&wanted, &pods, failure, &before, now);
        self.tell_of_wait(&owner, &before, &status);
        let written = self.write(&owner, &before, status, &owners).await;
        outcome?;
        written?;
        Ok(decision::next_look(&wanted, &step, &pods, now).map_or(Next::Change, Next::After))
    }
}

impl<K: Replicated> Keeper<K> {
    /// Creates or deletes pods. That nothing can be created in a namespace that goes is no error.
    async fn carry_out(&self, owner: &K, key: &ObjectKey, step: &Step) -> kube::Result<()> {
        let reference = object_reference(owner);
        let failure = match step {
            Step::Nothing | Step::Wait { .. } => None,
            Step::Create(count) => {
                let Some(template) = owner.template() else { return Ok(()) };
                let beginning = name_beginning(&key.name);
                let pod = pod_from(
                    template,
                    &key.namespace,
                    PodName::Beginning(&beginning),
                    owner_reference(owner),
                );
                self.pods.create_many(&reference, *count, |_| pod.clone()).await.1
            }
            Step::Delete(victims) => {
                let deletions = victims.iter().map(|pod| self.pods.delete(&reference, pod));
                futures::future::join_all(deletions).await.into_iter().find_map(Result::err)
            }
        };
        match failure {
            Some(error) if !is_namespace_terminating(&error) => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    /// Writes the status, if it is another.
    async fn write(&self, owner: &K, before: &Status, status: Status, owners: &Api<K>) -> kube::Result<()> {
        let updated = owner.with_status(status);
        if updated.status() == *before {
            return Ok(());
        }
        let name = owner.meta().name.as_deref().unwrap_or_default();
        fault::point("replicas.status_due");
        match owners.replace_status(name, &PostParams::default(), &updated).await {
            Ok(written) => K::informer(&self.informers).learn(written),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
        fault::point("replicas.status_written");
        Ok(())
    }

    /// Says once for each new wait why pods are missing.
    fn tell_of_wait(&self, owner: &K, before: &Status, status: &Status) {
        let failure = |status: &Status| {
            status.conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE).cloned()
        };
        if let Some(condition) = failure(status).filter(|now| failure(before).as_ref() != Some(now))
            && condition.reason.as_deref() == Some("BackOff")
        {
            let message = condition.message.unwrap_or_default();
            self.events.record(object_reference(owner), EventType::Warning, "BackOff", message);
        }
    }

    /// Says once for each generation who else wants the same pods. Those of a deployment have a hash that tells them apart.
    fn tell_of_rivals(&self, owner: &K, key: &ObjectKey) {
        let wanted = owner.wanted();
        if wanted.generation <= owner.status().observed_generation || controller_of(owner.meta()).is_some() {
            return;
        }
        let others = K::informer(&self.informers).in_namespace(&key.namespace);
        let rivals = rivals(owner, &others, |other| other.chooses(wanted.template_labels));
        if !rivals.is_empty() {
            let message = rivals_message(&K::kind(&()), &rivals);
            self.events.record(object_reference(owner), EventType::Warning, "SelectorOverlap", message);
        }
    }
}
