//! Deployment: replica sets, one for each template that it had, are scaled so that its pods go from one template to the next.

mod conditions;
pub(crate) mod decision;
mod history;
mod limits;
mod rollout;
mod sets;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use events::{EventRecorder, EventType};
use informer::{Change, ObjectKey};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::Start;
use crate::clients::Speaker;
use crate::controller::{
    self, Next, ReconcileError, Reconciler, is_already_there, is_namespace_terminating, is_not_found,
};
use crate::deletion::delete;
use crate::informers::Informers;
use crate::ownership::{claimed, controller_key, controller_of, object_reference};
use crate::pod_control::said;
use crate::pod_state::has_ended;
use crate::queue::Queue;
use crate::selector::chooses;
use crate::template_hash::same_template;
use crate::triggers::{add_owners, asks_anew, rivals, rivals_message};
use sets::Set;

const CONTROLLER: &str = "deployment-controller";
/// Deployments that are looked at at the same time.
const WORKERS: usize = 4;

/// Starts the controller.
pub(crate) fn start(start: &Start<'_>) {
    let informers = start.informers().clone();
    let (client, events) = start.speaker(Speaker::Controller(CONTROLLER));
    let queue = Arc::new(Queue::default());
    listen(&informers, &queue);
    let synced = {
        let informers = informers.clone();
        async move {
            informers.pods.synced().await;
            informers.replica_sets.synced().await;
            informers.deployments.synced().await;
        }
    };
    let roller = Arc::new(Roller { informers, client, events });
    start.task(controller::run(roller, queue, WORKERS, synced, start.shutdown.clone()));
}

fn listen(informers: &Informers, queue: &Arc<Queue>) {
    let of_deployments = Arc::clone(queue);
    informers.deployments.on_change(move |change| {
        if asks_anew(change) {
            of_deployments.add(ObjectKey::of(&**change.object()));
        }
    });
    let (of_sets, deployments) = (Arc::clone(queue), informers.deployments.clone());
    informers.replica_sets.on_change(move |change| {
        add_owners(&of_sets, change, &deployments, chooses_set);
    });
    // Only who recreates waits for the end of pods; everybody else hears of it from the replica set.
    let (of_pods, informers) = (Arc::clone(queue), informers.clone());
    informers.pods.clone().on_change(move |change| {
        let is_end = match change {
            Change::Added(_) => false,
            Change::Changed { before, now } => has_ended(now) && !has_ended(before),
            Change::Removed(_) => true,
        };
        if is_end && let Some(key) = recreating(&informers, change.object()) {
            of_pods.add(key);
        }
    });
}

/// The deployment of a pod, if it is one that recreates.
fn recreating(informers: &Informers, pod: &Pod) -> Option<ObjectKey> {
    let set = informers.replica_sets.get(&controller_key::<ReplicaSet>(&pod.metadata)?)?;
    let key = controller_key::<Deployment>(&set.metadata)?;
    let deployment = informers.deployments.get(&key)?;
    (limits::Limits::of(&deployment).strategy == limits::Strategy::Recreate).then_some(key)
}

fn chooses_set(deployment: &Deployment, set: &ReplicaSet) -> bool {
    chooses(deployment.spec.as_ref().map(|spec| &spec.selector), set.metadata.labels.as_ref())
}

struct Roller {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
}

impl Reconciler for Roller {
    const NAME: &'static str = CONTROLLER;

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let Some(deployment) = self.informers.deployments.get(&key) else { return Ok(Next::Change) };
        let look = Look {
            roller: self,
            deployment: &deployment,
            deployments: Api::namespaced(self.client.clone(), &key.namespace),
            sets: Api::namespaced(self.client.clone(), &key.namespace),
        };
        self.tell_of_rivals(&deployment, &key);
        let objects =
            claimed(&*deployment, &self.informers.replica_sets, &look.sets, &look.deployments, |set| {
                chooses_set(&deployment, set)
            })
            .await?;
        let lives = |set: &ReplicaSet| {
            let pods = self
                .informers
                .pods
                .controlled_by(&key.namespace, set.metadata.uid.as_deref().unwrap_or_default());
            pods.iter().any(|pod| !has_ended(pod))
        };
        let plan = decision::decide(&deployment, &objects, lives, Timestamp::now());
        for set in &plan.changes {
            let done = if set.is_created { look.create(set).await? } else { look.change(set).await? };
            if done == Done::LookAgain {
                return Ok(Next::Change);
            }
        }
        for set in &plan.surplus {
            look.delete(set).await?;
        }
        look.write(plan.status, plan.revision).await?;
        Ok(plan.next.map_or(Next::Change, Next::After))
    }
}

impl Roller {
    /// Says once for each generation who else wants the same pods.
    fn tell_of_rivals(&self, deployment: &Deployment, key: &ObjectKey) {
        let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
        if deployment.metadata.generation.unwrap_or(0) <= observed.unwrap_or(0) {
            return;
        }
        let spec = deployment.spec.as_ref();
        let labels = spec.and_then(|spec| spec.template.metadata.as_ref()?.labels.as_ref());
        let others = self.informers.deployments.in_namespace(&key.namespace);
        let rivals = rivals(deployment, &others, |other| {
            chooses(other.spec.as_ref().map(|spec| &spec.selector), labels)
        });
        if !rivals.is_empty() {
            let message = rivals_message("Deployment", &rivals);
            self.events.record(object_reference(deployment), EventType::Warning, "SelectorOverlap", message);
        }
    }
}

/// Whether the look goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    GoOn,
    /// What is there is not what the plan was made for; the change of it asks for the next look.
    LookAgain,
}

/// One look at one deployment.
struct Look<'l> {
    roller: &'l Roller,
    deployment: &'l Deployment,
    deployments: Api<Deployment>,
    sets: Api<ReplicaSet>,
}

impl Look<'_> {
    async fn create(&self, set: &Set) -> Result<Done, ReconcileError> {
        let mut object = (*set.object).clone();
        object.spec.get_or_insert_default().replicas = Some(set.replicas);
        fault::point("deployment.set_due");
        match self.sets.create(&PostParams::default(), &object).await {
            Ok(created) => {
                fault::point("deployment.set_created");
                self.roller.informers.replica_sets.learn(created);
                self.tell_scaled(set);
                Ok(Done::GoOn)
            }
            Err(error) if is_already_there(&error) => self.collide(set).await,
            Err(error) if is_namespace_terminating(&error) => Ok(Done::LookAgain),
            Err(error) => {
                let said = said(&error);
                let message = conditions::not_created_message(set.name(), &said);
                self.tell(EventType::Warning, "ReplicaSetCreateError", message);
                let status = conditions::not_created(self.deployment, set.name(), &said, Timestamp::now());
                self.write(status, None).await?;
                Err(error.into())
            }
        }
    }

    /// There is a replica set of that name: our own, of which we have not heard yet, or another's. Then the next has another
    /// name.
    async fn collide(&self, set: &Set) -> Result<Done, ReconcileError> {
        let Some(there) = self.sets.get_opt(set.name()).await? else { return Ok(Done::LookAgain) };
        let is_ours =
            controller_of(&there.metadata).map(|owner| &owner.uid) == self.deployment.metadata.uid.as_ref();
        let template = there.spec.as_ref().and_then(|spec| spec.template.as_ref());
        if is_ours && template.zip(set.template()).is_some_and(|(one, other)| same_template(one, other)) {
            self.roller.informers.replica_sets.learn(there);
        } else {
            let mut status = self.deployment.status.clone().unwrap_or_default();
            status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
            self.write(status, None).await?;
        }
        Err(ReconcileError::Other(format!("a replica set {} is there already", set.name())))
    }

    async fn change(&self, set: &Set) -> Result<Done, ReconcileError> {
        let patch = json!({
            "metadata": {"uid": set.object.metadata.uid, "annotations": set.annotations},
            "spec": {"replicas": set.replicas, "minReadySeconds": set.min_ready_seconds},
        });
        fault::point("deployment.scale_due");
        match self.sets.patch(set.name(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(changed) => {
                fault::point("deployment.scaled");
                self.roller.informers.replica_sets.learn(changed);
                self.tell_scaled(set);
                Ok(Done::GoOn)
            }
            Err(error) if is_not_found(&error) => Ok(Done::LookAgain),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete(&self, set: &ReplicaSet) -> kube::Result<()> {
        delete(set, &self.sets, &self.roller.informers.replica_sets, DeleteParams::default()).await?;
        fault::point("deployment.set_deleted");
        Ok(())
    }

    /// Writes status and revision, if they are others than before.
    async fn write(&self, status: DeploymentStatus, revision: Option<String>) -> kube::Result<()> {
        if self.deployment.status.as_ref() == Some(&status) && revision.is_none() {
            return Ok(());
        }
        let mut updated = self.deployment.clone();
        updated.status = Some(status);
        if let Some(revision) = revision {
            let annotations = updated.metadata.annotations.get_or_insert_default();
            annotations.insert(history::REVISION.to_owned(), revision);
        }
        let name = self.deployment.metadata.name.as_deref().unwrap_or_default();
        fault::point("deployment.status_due");
        match self.deployments.replace_status(name, &PostParams::default(), &updated).await {
            Ok(written) => self.roller.informers.deployments.learn(written),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
        fault::point("deployment.status_written");
        Ok(())
    }

    fn tell_scaled(&self, set: &Set) {
        let (was, is) = (set.was(), set.replicas);
        if was != is {
            let way = if is > was { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {} from {was} to {is}", set.name());
            self.tell(EventType::Normal, "ScalingReplicaSet", message);
        }
    }

    fn tell(&self, type_: EventType, reason: &'static str, message: String) {
        self.roller.events.record(object_reference(self.deployment), type_, reason, message);
    }
}
