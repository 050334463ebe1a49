//! The DaemonSet controller: reads the caches, has `decision` decide, and carries it out.

mod decision;
mod placement;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use events::{EventRecorder, EventType};
use informer::{Change, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PostParams;

use crate::controller::{self, Next, ReconcileError, Reconciler, is_namespace_terminating, is_not_found};
use crate::deletion::Why;
use crate::failure_back_off::FailureBackOff;
use crate::ownership::{claimed, object_reference, owner_reference};
use crate::pod_control::PodControl;
use crate::queue::Queue;
use crate::revision_control::{RevisionControl, Standing};
use crate::revisions::{self, Holder};
use crate::selector::chooses;
use crate::triggers::{each_change, owners_of_each_change};
use crate::{Informers, Speaker, Start};

use decision::{Known, decide};

/// Its name, and that of its service account.
const NAME: &str = "daemon-set-controller";
/// Sets that are looked at at the same time.
const WORKERS: usize = 2;
/// The label of a revision and of its pods with its hash.
const REVISION: &str = "controller-revision-hash";

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Controller(NAME));
    let informers = start.informers().clone();
    let queue = Arc::new(Queue::default());
    each_change(&informers.daemon_sets, &queue);
    owners_of_each_change(&informers.pods, &informers.daemon_sets, &queue, is_chosen);
    informers.nodes.on_change({
        let (queue, sets) = (Arc::clone(&queue), informers.daemon_sets.clone());
        move |change| {
            if is_news(change) {
                for set in sets.all() {
                    queue.add(ObjectKey::of(&*set));
                }
            }
        }
    });
    crate::room::retry_when_there_is_room(&informers, &queue);
    let synced = {
        let informers = informers.clone();
        async move {
            informers.daemon_sets.synced().await;
            informers.pods.synced().await;
            informers.nodes.synced().await;
            informers.controller_revisions.synced().await;
        }
    };
    let revisions = RevisionControl::new(informers.controller_revisions.clone(), client.clone());
    let control = PodControl::new(informers.pods.clone(), client.clone(), events.clone());
    let failures = Mutex::default();
    let reconciler = Arc::new(DaemonSets { informers, client, events, revisions, control, failures });
    start.task(controller::run(reconciler, queue, WORKERS, synced, start.shutdown.clone()));
}

/// Whether a change of a node says something about where pods of sets belong: not that it lives.
fn is_news(change: &Change<Node>) -> bool {
    match change {
        Change::Added(_) | Change::Removed(_) => true,
        Change::Changed { before, now } => {
            let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
            before.metadata.uid != now.metadata.uid
                || before.metadata.labels != now.metadata.labels
                || taints(before) != taints(now)
        }
    }
}

fn is_chosen(set: &DaemonSet, pod: &Pod) -> bool {
    chooses(set.spec.as_ref().map(|spec| &spec.selector), pod.metadata.labels.as_ref())
}

struct DaemonSets {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
    revisions: RevisionControl,
    control: PodControl,
    failures: Mutex<FailureBackOff>,
}

impl Reconciler for DaemonSets {
    const NAME: &'static str = "daemonset";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let Some(set) = self.informers.daemon_sets.get(&key) else { return Ok(Next::Change) };
        let Some(spec) = &set.spec else { return Ok(Next::Change) };
        if spec.selector.match_labels.is_none() && spec.selector.match_expressions.is_none() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.events.record(object_reference(&*set), EventType::Warning, "SelectingAll", message);
            return Ok(Next::Change);
        }
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let api = self.control.api(&key.namespace);
        let pods =
            claimed(&*set, &self.informers.pods, &api, &sets, |pod: &Pod| is_chosen(&set, pod)).await?;
        let recorded = self.revisions.of(&*set, &sets, &spec.selector).await?;
        let holder = |collisions| Holder {
            meta: &set.metadata,
            reference: owner_reference(&*set),
            template: &spec.template,
            collisions,
            hash_label: REVISION,
        };
        let collisions = set.status.as_ref().and_then(|status| status.collision_count);
        let Standing { newest, history, collisions } =
            self.revisions.stand(recorded, collisions, holder).await?;
        let now = Timestamp::now();
        let decision = decide(&Known {
            set: &set,
            hash: revisions::hash_of(&newest, REVISION),
            collisions,
            pods: &pods,
            nodes: &self.informers.nodes.all(),
            now,
        });
        let mut look_again = decision.look_again;
        let done = self.carry_out(&set, &decision, &newest, &mut look_again).await;
        self.write_status(&set, decision.status, &sets).await?;
        done?;
        let hashes: BTreeSet<&str> = pods
            .iter()
            .filter_map(|pod| pod.metadata.labels.as_ref()?.get(REVISION).map(String::as_str))
            .collect();
        let is_used = |revision: &&Arc<ControllerRevision>| {
            revision.metadata.name == newest.metadata.name
                || hashes.contains(revisions::hash_of(revision, REVISION))
        };
        let used = history.iter().filter(is_used).filter_map(|revision| revision.metadata.name.as_deref());
        self.revisions.clean(&history, &used.collect(), spec.revision_history_limit).await?;
        Ok(look_again.map_or(Next::Change, Next::After))
    }
}

impl DaemonSets {
    async fn carry_out(
        &self,
        set: &DaemonSet,
        decision: &decision::Decision,
        newest: &ControllerRevision,
        look_again: &mut Option<Duration>,
    ) -> Result<(), ReconcileError> {
        let told = object_reference(set);
        for (pod, why) in &decision.deletions {
            if let Some(left) = self.tell_why(set, pod, *why) {
                *look_again = Some(look_again.map_or(left, |soonest| soonest.min(left)));
                continue;
            }
            self.control.delete(&told, pod).await?;
            fault::point("daemon_set.pod_deleted");
        }
        let hash = revisions::hash_of(newest, REVISION);
        let (_, failure) = self
            .control
            .create_many(&told, decision.creations.len(), |index| {
                let node = decision.creations.get(index).map_or("", String::as_str);
                placement::new_pod(set, hash, node)
            })
            .await;
        fault::point("daemon_set.pods_created");
        match failure {
            Some(error) if !is_namespace_terminating(&error) => Err(error.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// Says why a pod that came to its end goes; answers for how long it is still to be left.
    fn tell_why(&self, set: &DaemonSet, pod: &Pod, why: Why) -> Option<Duration> {
        let key = ObjectKey::of(pod);
        let node = placement::node_of(pod).unwrap_or_default();
        let (type_, reason, state, what) = match why {
            Why::Unwanted | Why::Outdated => return None,
            Why::Failed => (EventType::Warning, "FailedDaemonPod", "failed", "kill"),
            Why::Ended => (EventType::Normal, "SucceededDaemonPod", "succeeded", "delete"),
        };
        let place = format!("{}/{node}", set.metadata.uid.as_deref().unwrap_or_default());
        let left = {
            // No holder of the lock can panic half-way through a change.
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.failed(&place, pod.metadata.uid.as_deref().unwrap_or_default(), Timestamp::now())
        };
        if !left.is_zero() {
            return Some(left);
        }
        let message = format!("Found {state} daemon pod {key} on node {node}, will try to {what} it");
        self.events.record(object_reference(set), type_, reason, message);
        None
    }

    async fn write_status(
        &self,
        set: &DaemonSet,
        status: DaemonSetStatus,
        sets: &Api<DaemonSet>,
    ) -> kube::Result<()> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let mut set = set.clone();
        set.status = Some(status);
        let name = set.metadata.name.clone().unwrap_or_default();
        match sets.replace_status(&name, &PostParams::default(), &set).await {
            Ok(set) => {
                self.informers.daemon_sets.learn(set);
                fault::point("daemon_set.status_written");
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
