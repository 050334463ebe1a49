//! The StatefulSet controller: reads the caches, has `decision` decide, and carries it out.

mod decision;
mod identity;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use events::{EventRecorder, EventType};
use informer::{Change, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use crate::controller::{
    self, Next, ReconcileError, Reconciler, is_already_there, is_namespace_terminating, is_not_found,
};
use crate::deletion::{Why, delete};
use crate::failure_back_off::FailureBackOff;
use crate::ownership::{claimed, object_reference, owner_reference};
use crate::pod_control::said;
use crate::queue::Queue;
use crate::revision_control::{RevisionControl, Standing};
use crate::revisions::Holder;
use crate::selector::chooses;
use crate::triggers::{each_change, owners_of_each_change};
use crate::{Informers, Speaker, Start};

use decision::{Action, Known, decide};

/// Its name, and that of its service account.
const NAME: &str = "statefulset-controller";
/// Sets that are looked at at the same time.
const WORKERS: usize = 5;
/// The label of a revision with its hash.
const HASH: &str = "controller.kubernetes.io/hash";

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Controller(NAME));
    let informers = start.informers().clone();
    let queue = Arc::new(Queue::default());
    each_change(&informers.stateful_sets, &queue);
    owners_of_each_change(&informers.pods, &informers.stateful_sets, &queue, may_be_of);
    informers.persistent_volume_claims.on_change({
        let (queue, sets) = (Arc::clone(&queue), informers.stateful_sets.clone());
        move |change| {
            // One that was deleted is made again, and one that was waited for is gone. Others have nothing to tell.
            if let Change::Removed(claim) = change {
                let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
                let claim = claim.metadata.name.as_deref().unwrap_or_default();
                for set in sets.in_namespace(namespace) {
                    if is_claim_of(&set, claim) {
                        queue.add(ObjectKey::of(&*set));
                    }
                }
            }
        }
    });
    crate::room::retry_when_there_is_room(&informers, &queue);
    let synced = {
        let informers = informers.clone();
        async move {
            informers.stateful_sets.synced().await;
            informers.pods.synced().await;
            informers.persistent_volume_claims.synced().await;
            informers.controller_revisions.synced().await;
        }
    };
    let revisions = RevisionControl::new(informers.controller_revisions.clone(), client.clone());
    let reconciler =
        Arc::new(StatefulSets { informers, client, events, revisions, failures: Mutex::default() });
    start.task(controller::run(reconciler, queue, WORKERS, synced, start.shutdown.clone()));
}

/// Whether the set would adopt this pod.
fn may_be_of(set: &StatefulSet, pod: &Pod) -> bool {
    chooses(Some(&identity::spec(set).selector), pod.metadata.labels.as_ref())
        && identity::ordinal_of(set, pod).is_some()
}

/// Whether a claim has the name of one of the set's.
fn is_claim_of(set: &StatefulSet, claim: &str) -> bool {
    identity::spec(set).volume_claim_templates.iter().flatten().any(|template| {
        let beginning =
            format!("{}-{}-", template.metadata.name.as_deref().unwrap_or_default(), identity::name(set));
        claim.strip_prefix(&beginning).is_some_and(|ordinal| ordinal.parse::<u32>().is_ok())
    })
}

/// What a set's history knows of it.
fn holder(set: &StatefulSet, collisions: i32) -> Holder<'_> {
    Holder {
        meta: &set.metadata,
        reference: owner_reference(set),
        template: &identity::spec(set).template,
        collisions,
        hash_label: HASH,
    }
}

struct StatefulSets {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
    revisions: RevisionControl,
    failures: Mutex<FailureBackOff>,
}

impl Reconciler for StatefulSets {
    const NAME: &'static str = "statefulset";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let Some(set) = self.informers.stateful_sets.get(&key) else { return Ok(Next::Change) };
        let spec = identity::spec(&set);
        let sets: Api<StatefulSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let pods = self.pods(&set, &sets).await?;
        let recorded = self.revisions.of(&*set, &sets, &spec.selector).await?;
        let collisions = set.status.as_ref().and_then(|status| status.collision_count);
        let Standing { newest, history, collisions } =
            self.revisions.stand(recorded, collisions, |collisions| holder(&set, collisions)).await?;
        let current_name = set.status.as_ref().and_then(|status| status.current_revision.clone());
        let named = |revision: &&Arc<ControllerRevision>| revision.metadata.name == current_name;
        let current = history.iter().find(named).unwrap_or(&newest);
        let claims = self.claims(&set);
        let decision = decide(&Known {
            set: &set,
            current,
            update: &newest,
            collisions,
            pods: &pods,
            claims: &claims,
            now: Timestamp::now(),
        });
        let mut look_again = decision.look_again;
        let done = self.carry_out(&set, decision.actions, &mut look_again).await;
        // Also what could not be done is told truly.
        self.write_status(&set, decision.status.clone(), &sets).await?;
        done?;
        let mut in_use: BTreeSet<&str> = pods.iter().map(|pod| identity::revision_of(pod)).collect();
        in_use.extend(decision.status.current_revision.as_deref());
        in_use.extend(decision.status.update_revision.as_deref());
        self.revisions.clean(&history, &in_use, spec.revision_history_limit).await?;
        if let Some(claim) = decision.waits_for {
            tracing::debug!(set = %key, claim, "a pod waits until a claim of its name is gone");
        }
        Ok(look_again.map_or(Next::Change, Next::After))
    }
}

impl StatefulSets {
    async fn pods(&self, set: &StatefulSet, sets: &Api<StatefulSet>) -> kube::Result<Vec<Arc<Pod>>> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        claimed(set, &self.informers.pods, &api, sets, |pod: &Pod| may_be_of(set, pod)).await
    }

    /// The claims that may be the set's: those of its templates' names.
    fn claims(&self, set: &StatefulSet) -> BTreeMap<String, Arc<PersistentVolumeClaim>> {
        let spec = identity::spec(set);
        if spec.volume_claim_templates.as_ref().is_none_or(Vec::is_empty) {
            return BTreeMap::new();
        }
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let claims = self.informers.persistent_volume_claims.in_namespace(namespace);
        let named = claims.into_iter().filter_map(|claim| Some((claim.metadata.name.clone()?, claim)));
        named.filter(|(name, _)| is_claim_of(set, name)).collect()
    }

    /// For how long a pod that failed is still to be left.
    fn left_for(&self, set: &StatefulSet, pod: &Pod) -> Option<Duration> {
        let (uid, name) = (set.metadata.uid.as_deref(), pod.metadata.name.as_deref());
        let place = format!("{}/{}", uid.unwrap_or_default(), name.unwrap_or_default());
        // No holder of the lock can panic half-way through a change.
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let left = failures.failed(&place, pod.metadata.uid.as_deref().unwrap_or_default(), Timestamp::now());
        (!left.is_zero()).then_some(left)
    }

    async fn carry_out(
        &self,
        set: &StatefulSet,
        actions: Vec<Action>,
        look_again: &mut Option<Duration>,
    ) -> Result<(), ReconcileError> {
        let told = object_reference(set);
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        for action in actions {
            match action {
                Action::CreateClaim { claim, pod } => {
                    self.create_claim(&told, &claims, &claim, &pod).await?;
                    fault::point("stateful_set.claim_created");
                }
                Action::CreatePod(pod) => {
                    self.create_pod(&told, &pods, &pod).await?;
                    fault::point("stateful_set.pod_created");
                }
                Action::DeletePod { pod, why } => {
                    if why == Why::Failed
                        && let Some(left) = self.left_for(set, &pod)
                    {
                        *look_again = Some(look_again.map_or(left, |soonest| soonest.min(left)));
                        continue;
                    }
                    self.delete_pod(&told, &pods, &pod, why).await?;
                    fault::point("stateful_set.pod_deleted");
                }
                Action::UpdatePod(pod) => {
                    let name = pod.metadata.name.as_deref().unwrap_or_default();
                    let said = pods.replace(name, &PostParams::default(), &pod).await;
                    self.tell(&told, "Update", "update", name, said.as_ref().err());
                    self.informers.pods.learn(said?);
                }
                Action::UpdateClaim(claim) => {
                    let name = claim.metadata.name.as_deref().unwrap_or_default();
                    match claims.replace(name, &PostParams::default(), &claim).await {
                        Ok(claim) => self.informers.persistent_volume_claims.learn(claim),
                        Err(error) if is_not_found(&error) => {}
                        Err(error) => return Err(error.into()),
                    }
                    fault::point("stateful_set.claim_owned");
                }
            }
        }
        Ok(())
    }

    async fn create_claim(
        &self,
        told: &ObjectReference,
        claims: &Api<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
        pod: &str,
    ) -> kube::Result<()> {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let set = told.name.as_deref().unwrap_or_default();
        match claims.create(&PostParams::default(), claim).await {
            Ok(claim) => {
                let message = format!("create Claim {name} Pod {pod} in StatefulSet {set} success");
                self.events.record(told.clone(), EventType::Normal, "SuccessfulCreate", message);
                self.informers.persistent_volume_claims.learn(claim);
                Ok(())
            }
            // It was kept from an earlier time.
            Err(error) if is_already_there(&error) => Ok(()),
            Err(error) => {
                if !is_namespace_terminating(&error) {
                    let message = format!(
                        "create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {}",
                        said(&error)
                    );
                    self.events.record(told.clone(), EventType::Warning, "FailedCreate", message);
                }
                Err(error)
            }
        }
    }

    async fn create_pod(&self, told: &ObjectReference, pods: &Api<Pod>, pod: &Pod) -> kube::Result<()> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let answer = pods.create(&PostParams::default(), pod).await;
        let refusal = answer.as_ref().err().filter(|error| !is_namespace_terminating(error));
        if answer.is_ok() || refusal.is_some() {
            self.tell(told, "Create", "create", name, refusal);
        }
        self.informers.pods.learn(answer?);
        Ok(())
    }

    async fn delete_pod(
        &self,
        told: &ObjectReference,
        pods: &Api<Pod>,
        pod: &Pod,
        why: Why,
    ) -> kube::Result<()> {
        let key = ObjectKey::of(pod);
        let (set, namespace) = (told.name.as_deref().unwrap_or_default(), &key.namespace);
        let recreating = match why {
            Why::Failed => Some((EventType::Warning, "RecreatingFailedPod", "failed")),
            Why::Ended => Some((EventType::Normal, "RecreatingTerminatedPod", "terminated")),
            Why::Unwanted | Why::Outdated => None,
        };
        if let Some((type_, reason, state)) = recreating {
            let message = format!("StatefulSet {namespace}/{set} is recreating {state} Pod {}", key.name);
            self.events.record(told.clone(), type_, reason, message);
        }
        match delete(pod, pods, &self.informers.pods, DeleteParams::default()).await {
            Ok(is_ours) => {
                if is_ours {
                    self.tell(told, "Delete", "delete", &key.name, None);
                }
                Ok(())
            }
            Err(error) => {
                self.tell(told, "Delete", "delete", &key.name, Some(&error));
                Err(error)
            }
        }
    }

    /// Tells of what was done to a pod, in Kubernetes' words.
    fn tell(&self, told: &ObjectReference, reason: &str, verb: &str, pod: &str, error: Option<&kube::Error>) {
        let set = told.name.as_deref().unwrap_or_default();
        let (type_, reason, message) = match error {
            None => (
                EventType::Normal,
                format!("Successful{reason}"),
                format!("{verb} Pod {pod} in StatefulSet {set} successful"),
            ),
            Some(error) => (
                EventType::Warning,
                format!("Failed{reason}"),
                format!("{verb} Pod {pod} in StatefulSet {set} failed error: {}", said(error)),
            ),
        };
        self.events.record(told.clone(), type_, reason, message);
    }

    async fn write_status(
        &self,
        set: &StatefulSet,
        status: k8s_openapi::api::apps::v1::StatefulSetStatus,
        sets: &Api<StatefulSet>,
    ) -> kube::Result<()> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let mut set = set.clone();
        set.status = Some(status);
        let name = identity::name(&set).to_owned();
        match sets.replace_status(&name, &PostParams::default(), &set).await {
            Ok(set) => {
                self.informers.stateful_sets.learn(set);
                fault::point("stateful_set.status_written");
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
