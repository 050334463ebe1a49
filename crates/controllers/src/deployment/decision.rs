//! What a deployment does next. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/> and the behaviour of Kubernetes 1.36.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::jiff::Timestamp;

use super::conditions::{self, Conditions};
use super::history::{self, Annotations};
use super::limits::{Limits, Strategy};
use super::rollout::{self, Recreation};
use super::sets::{Set, Sets};

/// What one look at a deployment leads to, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Replica sets to create (at most one) and to change.
    pub(crate) changes: Vec<Set>,
    /// Replica sets to delete.
    pub(crate) surplus: Vec<Arc<ReplicaSet>>,
    /// The status as it is to be.
    pub(crate) status: DeploymentStatus,
    /// The revision that the deployment's annotation is to name; none if it stays.
    pub(crate) revision: Option<String>,
    /// When time alone asks for another look.
    pub(crate) next: Option<Duration>,
}

/// Decides. `objects` are the deployment's replica sets; `lives` says whether pods of one of them still live, those that are
/// ending included; it is asked only of old ones, and only if it matters.
pub(crate) fn decide(
    deployment: &Deployment,
    objects: &[Arc<ReplicaSet>],
    lives: impl Fn(&ReplicaSet) -> bool,
    now: Timestamp,
) -> Plan {
    let limits = Limits::of(deployment);
    let mut sets = Sets::of(deployment, objects);
    let before = deployment.status.clone().unwrap_or_default();
    let mut told = Conditions::of(&before);
    if deployment.metadata.deletion_timestamp.is_some() {
        let status = conditions::counted(deployment, &sets, &limits, told, now);
        return Plan { changes: Vec::new(), surplus: Vec::new(), status, revision: None, next: None };
    }
    let is_paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    conditions::note_pause(&mut told, deployment, is_paused, now);
    take_up_found(&mut sets, &mut told, deployment, now);
    let mut surplus = Vec::new();
    let is_scaled = rollout::is_scaled(&sets, &limits);
    if is_paused || is_scaled {
        rollout::scale(&mut sets, &limits);
        if is_paused {
            surplus = surplus_of(deployment, &sets);
        }
    } else {
        match limits.strategy {
            Strategy::Rolling => {
                take_up_created(&mut sets, &mut told, deployment, &limits, now);
                rollout::roll(&mut sets, &limits);
            }
            Strategy::Recreate => {
                let live = sets.old().into_iter().any(|index| lives(&sets.all[index].object));
                match rollout::clear(&mut sets, &limits, live) {
                    Recreation::Clearing => {}
                    Recreation::Clear => {
                        take_up_created(&mut sets, &mut told, deployment, &limits, now);
                        rollout::grow_fully(&mut sets, &limits);
                    }
                }
            }
        }
        let has_changed = sets.all.iter().any(Set::has_changed);
        if !has_changed && conditions::is_complete(deployment, &limits, &before) {
            surplus = surplus_of(deployment, &sets);
        }
    }
    let mut status = conditions::counted(deployment, &sets, &limits, told, now);
    if !is_paused && !is_scaled {
        conditions::note_rollout(deployment, &sets, &limits, &mut status, now);
    }
    let next = conditions::next_look(deployment, &limits, &status, now);
    Plan { revision: revision(deployment, &sets), changes: changed(&sets), surplus, status, next }
}

/// The replica set of the template, if there is one, becomes the newest revision.
fn take_up_found(sets: &mut Sets, told: &mut Conditions, deployment: &Deployment, now: Timestamp) {
    let newest = newest_old(sets) + 1;
    let Some(new) = sets.new else { return };
    let set = &mut sets.all[new];
    let was = history::revision(&set.annotations);
    history::hand_on(deployment, &mut set.annotations);
    history::set_revision(&mut set.annotations, newest);
    set.min_ready_seconds = deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let is_another = history::revision(&set.annotations) != was;
    conditions::note_found(told, deployment, set, is_another, now);
}

/// If the template has no replica set, one is created.
fn take_up_created(
    sets: &mut Sets,
    told: &mut Conditions,
    deployment: &Deployment,
    limits: &Limits,
    now: Timestamp,
) {
    if sets.new.is_none() {
        let revision = newest_old(sets) + 1;
        sets.add_new(deployment, revision, limits);
        if let Some(created) = sets.new_one() {
            conditions::note_created(told, deployment, created, now);
        }
    }
}

fn newest_old(sets: &Sets) -> i64 {
    let revisions = sets.old().into_iter().map(|index| history::revision(&sets.all[index].annotations));
    revisions.max().unwrap_or(0)
}

fn surplus_of(deployment: &Deployment, sets: &Sets) -> Vec<Arc<ReplicaSet>> {
    let old: Vec<&Set> = sets.old().into_iter().map(|index| &sets.all[index]).collect();
    super::sets::surplus(deployment, &old).into_iter().map(|index| Arc::clone(&old[index].object)).collect()
}

fn changed(sets: &Sets) -> Vec<Set> {
    sets.all.iter().filter(|set| set.has_changed()).cloned().collect()
}

/// The revision that the deployment does not name yet.
fn revision(deployment: &Deployment, sets: &Sets) -> Option<String> {
    let revision = sets.new_one()?.annotations.get(history::REVISION)?;
    let named: Option<&Annotations> = deployment.metadata.annotations.as_ref();
    let named = named.and_then(|annotations| annotations.get(history::REVISION));
    (named != Some(revision)).then(|| revision.clone())
}
