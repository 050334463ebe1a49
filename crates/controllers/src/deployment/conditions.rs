//! What a deployment's status says: counts, and whether it is available and goes forward. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status>; reasons and messages as users of
//! Kubernetes 1.36 know them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSetCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::limits::Limits;
use super::sets::{Set, Sets};
use crate::pod_state::until;
use crate::replica_set::decision::REPLICA_FAILURE;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";

/// Reasons of `Progressing`.
pub(super) const CREATED: &str = "NewReplicaSetCreated";
const FOUND: &str = "FoundNewReplicaSet";
const UPDATED: &str = "ReplicaSetUpdated";
const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const NOT_CREATED: &str = "ReplicaSetCreateError";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// Conditions by type.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions(Vec<DeploymentCondition>);

impl Conditions {
    pub(super) fn of(status: &DeploymentStatus) -> Conditions {
        Conditions(status.conditions.clone().unwrap_or_default())
    }

    fn get(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.0.iter().find(|condition| condition.type_ == type_)
    }

    fn remove(&mut self, type_: &str) {
        self.0.retain(|condition| condition.type_ != type_);
    }

    /// Sets a condition, unless status and reason are what they were.
    fn set(&mut self, mut condition: DeploymentCondition) {
        if let Some(known) = self.get(&condition.type_) {
            if known.status == condition.status && known.reason == condition.reason {
                return;
            }
            if known.status == condition.status {
                condition.last_transition_time.clone_from(&known.last_transition_time);
            }
        }
        self.remove(&condition.type_);
        self.0.push(condition);
    }

    fn progress(&mut self, status: &str, reason: &str, message: String, now: Timestamp) {
        self.set(condition(PROGRESSING, status, reason, message, now));
    }

    fn progress_is(&self, reason: &str) -> bool {
        self.get(PROGRESSING).is_some_and(|condition| condition.reason.as_deref() == Some(reason))
    }
}

fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(now)),
        last_update_time: Some(Time(now)),
    }
}

/// The time that a rollout has for each step forward; none if it may take for ever.
fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.as_ref().and_then(|spec| spec.progress_deadline_seconds);
    seconds.filter(|seconds| *seconds != i32::MAX).map(|seconds| SignedDuration::from_secs(seconds.into()))
}

/// Says that the deployment was paused, or goes on.
pub(super) fn note_pause(
    conditions: &mut Conditions,
    deployment: &Deployment,
    is_paused: bool,
    now: Timestamp,
) {
    // A rollout that has failed stays so.
    if deadline(deployment).is_none() || conditions.progress_is(TIMED_OUT) {
        return;
    }
    let was_paused = conditions.progress_is(PAUSED);
    if is_paused && !was_paused {
        conditions.progress("Unknown", PAUSED, "Deployment is paused".to_owned(), now);
    } else if !is_paused && was_paused {
        conditions.progress("Unknown", RESUMED, "Deployment is resumed".to_owned(), now);
    }
}

/// Says that the replica set of the template was there already. One that takes the place of another whose rollout has failed is
/// news, too: otherwise a rollback would seem to have failed before it began.
pub(super) fn note_found(
    conditions: &mut Conditions,
    deployment: &Deployment,
    found: &Set,
    is_another: bool,
    now: Timestamp,
) {
    let is_news = conditions.get(PROGRESSING).is_none() || (is_another && conditions.progress_is(TIMED_OUT));
    if deadline(deployment).is_some() && is_news {
        let message = format!("Found new replica set \"{}\"", found.name());
        conditions.progress("True", FOUND, message, now);
    }
}

/// Says that a replica set is created for the template.
pub(super) fn note_created(
    conditions: &mut Conditions,
    deployment: &Deployment,
    created: &Set,
    now: Timestamp,
) {
    if deadline(deployment).is_some() {
        let message = format!("Created new replica set \"{}\"", created.name());
        conditions.progress("True", CREATED, message, now);
    }
}

/// The status of a deployment whose new replica set could not be created: that, and what it was before.
pub(crate) fn not_created(
    deployment: &Deployment,
    name: &str,
    said: &str,
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = deployment.status.clone().unwrap_or_default();
    if deadline(deployment).is_some() {
        let mut conditions = Conditions::of(&status);
        let message = not_created_message(name, said);
        conditions.progress("False", NOT_CREATED, message, now);
        status.conditions = Some(conditions.0);
    }
    status.observed_generation = deployment.metadata.generation;
    status
}

/// What is said of a replica set that could not be created.
pub(crate) fn not_created_message(name: &str, said: &str) -> String {
    format!("Failed to create new replica set \"{name}\": {said}")
}

/// The counts of a status, and whether enough pods are available.
pub(super) fn counted(
    deployment: &Deployment,
    sets: &Sets,
    limits: &Limits,
    mut conditions: Conditions,
    now: Timestamp,
) -> DeploymentStatus {
    let available = sets.sum(Set::available);
    let (status, reason, message) = if available >= limits.least_available() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions.set(condition(AVAILABLE, status, reason, message.to_owned(), now));
    let terminating: Option<i32> = sets.all.iter().filter(|set| !set.is_created).map(Set::terminating).sum();
    let count = |count: i32| (count != 0).then_some(count);
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: count(sets.sum(Set::actual)),
        updated_replicas: count(sets.new_one().map_or(0, Set::actual)),
        ready_replicas: count(sets.sum(Set::ready)),
        available_replicas: count(available),
        unavailable_replicas: count((sets.total() - available).max(0)),
        terminating_replicas: terminating,
        collision_count: deployment.status.as_ref().and_then(|status| status.collision_count),
        conditions: Some(conditions.0),
    }
}

/// Whether all pods are those of the template, and available.
pub(super) fn is_complete(deployment: &Deployment, limits: &Limits, status: &DeploymentStatus) -> bool {
    let all = Some(limits.replicas).filter(|replicas| *replicas != 0);
    status.updated_replicas.filter(|count| *count != 0) == all
        && status.replicas.filter(|count| *count != 0) == all
        && status.available_replicas.filter(|count| *count != 0) == all
        && status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
}

/// Whether a rollout has gone forward from one status to the next.
fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(after.updated_replicas) > count(before.updated_replicas)
        || old(after) < old(before)
        || count(after.ready_replicas) > count(before.ready_replicas)
        || count(after.available_replicas) > count(before.available_replicas)
}

/// Whether a rollout has not gone forward for too long.
fn has_timed_out(deployment: &Deployment, conditions: &Conditions, now: Timestamp) -> bool {
    let (Some(deadline), Some(condition)) = (deadline(deployment), conditions.get(PROGRESSING)) else {
        return false;
    };
    match condition.reason.as_deref() {
        Some(DONE) => false,
        Some(TIMED_OUT) => true,
        _ => condition
            .last_update_time
            .as_ref()
            .and_then(|since| since.0.checked_add(deadline).ok())
            .is_some_and(|end| end < now),
    }
}

/// Says in a status how its rollout goes; `counted` is what [`counted`] made of the same look.
pub(super) fn note_rollout(
    deployment: &Deployment,
    sets: &Sets,
    limits: &Limits,
    counted: &mut DeploymentStatus,
    now: Timestamp,
) {
    let before = deployment.status.clone().unwrap_or_default();
    let mut conditions = Conditions::of(counted);
    let count = |count: Option<i32>| count.unwrap_or(0);
    let was_done = count(counted.replicas) == count(counted.updated_replicas) && conditions.progress_is(DONE);
    if deadline(deployment).is_none() {
        conditions.remove(PROGRESSING);
    } else if !was_done {
        let who = match sets.new_one() {
            Some(set) => format!("ReplicaSet \"{}\"", set.name()),
            None => format!("Deployment \"{}\"", deployment.metadata.name.as_deref().unwrap_or_default()),
        };
        if is_complete(deployment, limits, counted) {
            conditions.progress("True", DONE, format!("{who} has successfully progressed."), now);
        } else if has_progressed(&before, counted) {
            let mut progress = condition(PROGRESSING, "True", UPDATED, format!("{who} is progressing."), now);
            // Each step forward begins the deadline anew, whatever was said before.
            if let Some(known) = conditions.get(PROGRESSING).filter(|known| known.status == "True") {
                progress.last_transition_time.clone_from(&known.last_transition_time);
            }
            conditions.remove(PROGRESSING);
            conditions.0.push(progress);
        } else if has_timed_out(deployment, &conditions, now) {
            conditions.progress("False", TIMED_OUT, format!("{who} has timed out progressing."), now);
        }
    }
    match failure(sets) {
        Some(failure) => conditions.set(failure),
        None => conditions.remove(REPLICA_FAILURE),
    }
    counted.conditions = Some(conditions.0);
}

/// What keeps pods from being created or deleted: the new replica set's trouble before that of others.
fn failure(sets: &Sets) -> Option<DeploymentCondition> {
    let of = |set: &Set| -> Option<ReplicaSetCondition> {
        let conditions = set.object.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE).cloned()
    };
    let failure = sets.new_one().and_then(of).or_else(|| sets.all.iter().find_map(of))?;
    Some(DeploymentCondition {
        type_: failure.type_,
        status: failure.status,
        reason: failure.reason,
        message: failure.message,
        last_update_time: failure.last_transition_time.clone(),
        last_transition_time: failure.last_transition_time,
    })
}

/// When the deadline of a rollout asks for another look.
pub(super) fn next_look(
    deployment: &Deployment,
    limits: &Limits,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let conditions = Conditions::of(status);
    let progress = conditions.get(PROGRESSING)?;
    let is_over = is_complete(deployment, limits, status)
        || matches!(progress.reason.as_deref(), Some(TIMED_OUT | DONE | PAUSED));
    if is_over {
        return None;
    }
    let end = progress.last_update_time.as_ref()?.0.checked_add(deadline(deployment)?).ok()?;
    // Times in a status have no fractions.
    Some(until(end, now) + Duration::from_secs(1))
}
