//! The two kinds that keep a number of equal pods: ReplicaSet, and ReplicationController, which was there before it.

use std::sync::Arc;

use informer::{Informer, Kind};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    Pod, PodTemplateSpec, ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
use kube::Resource;
use serde::Serialize;

use super::decision::{Condition, Status, Wanted};
use crate::informers::Informers;
use crate::ownership::controller_of;
use crate::selector::{Labels, chooses, pairs_choose};

/// What the engine has to know of a kind.
pub(crate) trait Replicated: Kind + Resource<Scope = NamespaceResourceScope> + Serialize {
    /// The name of its controller.
    const CONTROLLER: &'static str;

    /// The cache of the kind.
    fn informer(informers: &Informers) -> &Informer<Self>;

    /// What it asks for.
    fn wanted(&self) -> Wanted<'_>;

    /// What its pods are made from.
    fn template(&self) -> Option<&PodTemplateSpec>;

    /// Whether its selector chooses an object with these labels.
    fn chooses(&self, labels: Option<&Labels>) -> bool;

    /// Its status as it is.
    fn status(&self) -> Status;

    /// The same object with another status.
    fn with_status(&self, status: Status) -> Self;

    /// Pods that should not share a node with those of this one, which are `pods`.
    fn related(&self, informers: &Informers, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>>;
}

/// What is zero is not written.
fn written(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

fn replicas(count: Option<i32>) -> usize {
    usize::try_from(count.unwrap_or(1)).unwrap_or(0)
}

/// What is the same in both kinds but for the names of their types; `terminating` is a field that only one of them has.
macro_rules! common {
    ($status:ident, $condition:ident $(, $terminating:ident)?) => {
        fn wanted(&self) -> Wanted<'_> {
            let spec = self.spec.as_ref();
            Wanted {
                replicas: replicas(spec.and_then(|spec| spec.replicas)),
                min_ready_seconds: spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0),
                template_labels: self.template().and_then(|template| template.metadata.as_ref()?.labels.as_ref()),
                generation: self.metadata.generation.unwrap_or(0),
                is_leaving: self.metadata.deletion_timestamp.is_some(),
            }
        }

        fn template(&self) -> Option<&PodTemplateSpec> {
            self.spec.as_ref()?.template.as_ref()
        }

        fn status(&self) -> Status {
            let Some(status) = self.status.clone() else { return Status::default() };
            let condition = |condition: $condition| Condition {
                type_: condition.type_,
                status: condition.status,
                reason: condition.reason,
                message: condition.message,
                last_transition_time: condition.last_transition_time,
            };
            let terminating = None $(.or(status.$terminating))?;
            Status {
                replicas: status.replicas,
                terminating,
                fully_labeled: status.fully_labeled_replicas.unwrap_or(0),
                ready: status.ready_replicas.unwrap_or(0),
                available: status.available_replicas.unwrap_or(0),
                observed_generation: status.observed_generation.unwrap_or(0),
                conditions: status.conditions.into_iter().flatten().map(condition).collect(),
            }
        }

        fn with_status(&self, status: Status) -> Self {
            let condition = |condition: Condition| $condition {
                type_: condition.type_,
                status: condition.status,
                reason: condition.reason,
                message: condition.message,
                last_transition_time: condition.last_transition_time,
            };
            let conditions: Vec<_> = status.conditions.into_iter().map(condition).collect();
            let status = $status {
                replicas: status.replicas,
                fully_labeled_replicas: written(status.fully_labeled),
                ready_replicas: written(status.ready),
                available_replicas: written(status.available),
                observed_generation: Some(status.observed_generation),
                conditions: Some(conditions).filter(|conditions| !conditions.is_empty()),
                $($terminating: status.terminating,)?
            };
            Self { status: Some(status), ..self.clone() }
        }
    };
}

impl Replicated for ReplicaSet {
    const CONTROLLER: &'static str = "replicaset-controller";

    fn informer(informers: &Informers) -> &Informer<Self> {
        &informers.replica_sets
    }

    common!(ReplicaSetStatus, ReplicaSetCondition, terminating_replicas);

    fn chooses(&self, labels: Option<&Labels>) -> bool {
        chooses(self.spec.as_ref().map(|spec| &spec.selector), labels)
    }

    /// The pods of all replica sets of the same deployment.
    fn related(&self, informers: &Informers, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let Some(owner) = controller_of(&self.metadata) else { return pods.to_vec() };
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let siblings = informers.replica_sets.controlled_by(namespace, &owner.uid);
        let uids = siblings.iter().filter_map(|sibling| sibling.metadata.uid.as_deref());
        uids.flat_map(|uid| informers.pods.controlled_by(namespace, uid)).collect()
    }
}

impl Replicated for ReplicationController {
    const CONTROLLER: &'static str = "replication-controller";

    fn informer(informers: &Informers) -> &Informer<Self> {
        &informers.replication_controllers
    }

    common!(ReplicationControllerStatus, ReplicationControllerCondition);

    fn chooses(&self, labels: Option<&Labels>) -> bool {
        pairs_choose(self.spec.as_ref().and_then(|spec| spec.selector.as_ref()), labels)
    }

    fn related(&self, _: &Informers, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        pods.to_vec()
    }
}
