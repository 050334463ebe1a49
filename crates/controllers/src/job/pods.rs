//! What a job sees in a pod. Pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use crate::pod_state::{is_ready, phase, ready_since};

/// Keeps a pod in the API until the job has counted it.
pub(crate) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label with the index of a pod.
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation that says how many pods of the same index have failed before.
pub(crate) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation that says how many failures of that index the job's policy leaves out.
pub(crate) const INDEX_IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

pub(crate) fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether the job has it still to count.
pub(crate) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

pub(crate) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether a new pod takes the place of an old one only after that has ended.
pub(crate) fn waits_for_end(job: &Job) -> bool {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_replacement_policy.as_deref());
    policy == Some("Failed")
}

/// Whether it counts as failed. A pod that is to go may never come to say so.
pub(crate) fn has_failed(pod: &Pod, job: &Job) -> bool {
    phase(pod) == "Failed" || (!waits_for_end(job) && is_leaving(pod) && phase(pod) != "Succeeded")
}

/// The index of a pod; none if it has none that makes sense.
pub(crate) fn index(pod: &Pod) -> Option<i32> {
    number(pod, INDEX).filter(|index| *index >= 0)
}

fn number(pod: &Pod, annotation: &str) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(annotation)?.parse().ok()
}

/// How many pods of its index had failed before it: those that count, and those that the policy leaves out.
pub(crate) fn failures_before(pod: &Pod) -> (i32, i32) {
    let count = |annotation| number(pod, annotation).unwrap_or(0).max(0);
    (count(INDEX_FAILURES), count(INDEX_IGNORED))
}

/// When it ended, as well as can be said.
pub(crate) fn finish_time(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref();
    let containers = || status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends: Option<Vec<Timestamp>> = containers()
        .map(|each| Some(each.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0))
        .collect();
    let not_ready = || {
        let conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.into_iter().find(|each| each.type_ == "Ready" && each.status == "False")?;
        Some(ready.last_transition_time.as_ref()?.0)
    };
    let deleted = || {
        let until = pod.metadata.deletion_timestamp.as_ref()?.0;
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        until.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    let created = || Some(pod.metadata.creation_timestamp.as_ref()?.0);
    ends.and_then(|ends| ends.into_iter().max()).or_else(not_ready).or_else(deleted).or_else(created)
}

/// Sorts active pods so that those come first whose end costs least.
pub(crate) fn sort_for_removal(pods: &mut [Arc<Pod>]) {
    pods.sort_by_cached_key(|pod| {
        let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let phase = match phase(pod) {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let status = pod.status.as_ref();
        let containers = status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let restarts = containers.map(|each| each.restart_count).max().unwrap_or(0);
        let created = pod.metadata.creation_timestamp.as_ref().map(|created| created.0);
        // Newer ones first: they have done less.
        let newest_first = |time: Option<Timestamp>| std::cmp::Reverse(time.unwrap_or(Timestamp::MAX));
        (
            has_node,
            phase,
            is_ready(pod),
            newest_first(ready_since(pod)),
            std::cmp::Reverse(restarts),
            newest_first(created),
            pod.metadata.name.clone(),
        )
    });
}
