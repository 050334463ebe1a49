//! The replica sets of a deployment, as they are and as they are to be. Pure.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};

use super::history::{self, Annotations};
use super::limits::{Limits, Strategy};
use crate::ownership::owner_reference;
use crate::template_hash::{HASH_LABEL, same_template, template_hash};

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// As it is; if it is to be created, as it will be.
    pub(crate) object: Arc<ReplicaSet>,
    /// Whether it is to be created.
    pub(crate) is_created: bool,
    /// Pods that it is to have.
    pub(crate) replicas: i32,
    pub(crate) min_ready_seconds: i32,
    pub(crate) annotations: Annotations,
}

impl Set {
    pub(crate) fn of(object: &Arc<ReplicaSet>) -> Set {
        Set {
            object: Arc::clone(object),
            is_created: false,
            replicas: asked(object),
            min_ready_seconds: min_ready_seconds(object),
            annotations: object.metadata.annotations.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn template(&self) -> Option<&PodTemplateSpec> {
        self.object.spec.as_ref()?.template.as_ref()
    }

    /// Pods that it asks for now.
    pub(crate) fn was(&self) -> i32 {
        if self.is_created { 0 } else { asked(&self.object) }
    }

    /// Pods that it has.
    pub(crate) fn actual(&self) -> i32 {
        self.object.status.as_ref().map_or(0, |status| status.replicas)
    }

    pub(crate) fn ready(&self) -> i32 {
        self.object.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
    }

    pub(crate) fn available(&self) -> i32 {
        self.object.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
    }

    /// Pods of it that are ending; none if its status does not say.
    pub(crate) fn terminating(&self) -> Option<i32> {
        self.object.status.as_ref().and_then(|status| status.terminating_replicas)
    }

    /// The older first; of the same second, by name.
    pub(crate) fn age(&self) -> (Option<&Time>, &str) {
        (self.object.metadata.creation_timestamp.as_ref(), self.name())
    }

    /// Whether it asks for nothing, has nothing, and its controller knows so.
    pub(crate) fn is_empty_and_observed(&self) -> bool {
        let status = self.object.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation).unwrap_or(0);
        self.replicas == 0 && self.actual() == 0 && self.object.metadata.generation.unwrap_or(0) <= observed
    }

    /// Whether it is to be other than it is.
    pub(crate) fn has_changed(&self) -> bool {
        self.is_created
            || self.replicas != asked(&self.object)
            || self.min_ready_seconds != min_ready_seconds(&self.object)
            || Some(&self.annotations).filter(|annotations| !annotations.is_empty())
                != self.object.metadata.annotations.as_ref().filter(|annotations| !annotations.is_empty())
    }
}

fn asked(object: &ReplicaSet) -> i32 {
    object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn min_ready_seconds(object: &ReplicaSet) -> i32 {
    object.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

/// All of them; the new one is the one of the deployment's template.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// The older first.
    pub(crate) all: Vec<Set>,
    pub(crate) new: Option<usize>,
}

impl Sets {
    pub(crate) fn of(deployment: &Deployment, objects: &[Arc<ReplicaSet>]) -> Sets {
        let mut all: Vec<Set> = objects.iter().map(Set::of).collect();
        all.sort_by(|one, other| one.age().cmp(&other.age()));
        let template = deployment.spec.as_ref().map(|spec| &spec.template);
        // Of several the oldest: so every look chooses the same.
        let new = all.iter().position(|set| {
            set.template().zip(template).is_some_and(|(one, other)| same_template(one, other))
        });
        Sets { all, new }
    }

    pub(crate) fn new_one(&self) -> Option<&Set> {
        self.new.map(|new| &self.all[new])
    }

    /// Those of former templates, the older first.
    pub(crate) fn old(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|index| Some(*index) != self.new).collect()
    }

    /// Those of former templates that ask for pods, the older first.
    pub(crate) fn active_old(&self) -> Vec<usize> {
        self.old().into_iter().filter(|index| self.all[*index].replicas > 0).collect()
    }

    /// A sum over all of them.
    pub(crate) fn sum(&self, of: impl Fn(&Set) -> i32) -> i32 {
        self.all.iter().map(of).fold(0, i32::saturating_add)
    }

    /// Pods that all of them are to have.
    pub(crate) fn total(&self) -> i32 {
        self.sum(|set| set.replicas)
    }

    /// Scales one of them.
    pub(crate) fn scale(&mut self, index: usize, replicas: i32, limits: &Limits) {
        let set = &mut self.all[index];
        set.replicas = replicas.max(0);
        history::set_size(&mut set.annotations, limits.replicas, limits.most());
    }

    /// How many pods the new one may have by now: as many as fit under the limit of all together.
    pub(crate) fn room_for_new(&self, limits: &Limits) -> i32 {
        let has = self.new_one().map_or(0, |set| set.replicas);
        match limits.strategy {
            Strategy::Recreate => limits.replicas,
            Strategy::Rolling => {
                let room = limits.most().saturating_sub(self.total()).max(0);
                has + room.min(limits.replicas - has)
            }
        }
    }

    /// The one that is scaled when only one is: the only one that asks for pods, or, when none does, the newest.
    pub(crate) fn single(&self) -> Option<usize> {
        let active: Vec<usize> = (0..self.all.len()).filter(|index| self.all[*index].replicas > 0).collect();
        match active[..] {
            [] => self.new.or_else(|| self.old().last().copied()),
            [single] => Some(single),
            [_, _, ..] => None,
        }
    }

    /// Those that ask for pods, the larger first; of one size the newer or the older.
    pub(crate) fn by_size(&self, newer_first: bool) -> Vec<usize> {
        let mut active: Vec<usize> =
            (0..self.all.len()).filter(|index| self.all[*index].replicas > 0).collect();
        if newer_first {
            active.reverse();
        }
        active.sort_by_key(|index| Reverse(self.all[*index].replicas));
        active
    }

    /// Takes up a replica set for the deployment's template, which is to be created.
    pub(crate) fn add_new(&mut self, deployment: &Deployment, revision: i64, limits: &Limits) {
        let mut object = new_set(deployment);
        let mut annotations = Annotations::new();
        history::hand_on(deployment, &mut annotations);
        history::set_revision(&mut annotations, revision);
        history::set_size(&mut annotations, limits.replicas, limits.most());
        let replicas = self.room_for_new(limits);
        object.metadata.annotations = Some(annotations.clone());
        let min_ready_seconds = min_ready_seconds(&object);
        self.new = Some(self.all.len());
        let object = Arc::new(object);
        self.all.push(Set { object, is_created: true, replicas, min_ready_seconds, annotations });
    }
}

/// The replica set for a deployment's template, without annotations and replicas.
fn new_set(deployment: &Deployment) -> ReplicaSet {
    let Some(spec) = deployment.spec.as_ref() else { return ReplicaSet::default() };
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash = template_hash(&spec.template, collisions);
    let mut template = spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut match_labels = spec.selector.match_labels.clone().unwrap_or_default();
    match_labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{hash}")),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![owner_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: None,
            selector: LabelSelector {
                match_labels: Some(match_labels),
                match_expressions: spec.selector.match_expressions.clone(),
            },
            template: Some(template),
        }),
        status: None,
    }
}

/// The old replica sets that are cleaned up: those beyond the limit, the oldest revisions first, if nothing of them is left.
pub(crate) fn surplus(deployment: &Deployment, old: &[&Set]) -> Vec<usize> {
    let limit = deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
    let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else { return Vec::new() };
    let mut standing: Vec<(i64, usize)> = old
        .iter()
        .enumerate()
        .filter(|(_, set)| set.object.metadata.deletion_timestamp.is_none())
        .map(|(index, set)| (history::revision(&set.annotations), index))
        .collect();
    standing.sort_unstable();
    let beyond = standing.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    standing.truncate(beyond);
    standing.into_iter().map(|(_, index)| index).filter(|index| old[*index].is_empty_and_observed()).collect()
}
