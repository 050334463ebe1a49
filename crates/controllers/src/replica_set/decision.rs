//! What a controller that keeps a number of equal pods does next. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/> and the behaviour of Kubernetes 1.36; that pods
//! which fail at once are replaced more and more slowly is ours.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::ranking::victims;
use crate::pod_state::{has_ended, is_active, is_available, is_ready, is_terminating, next_available, until};
use crate::selector::{Labels, pairs_choose};

/// Most pods that one look creates or deletes.
const AT_ONCE: usize = 500;
/// Failures that are longer ago no longer slow the replacement of pods.
const FAILURES_COUNT_FOR: SignedDuration = SignedDuration::from_hours(1);
/// The wait after the second round of failed pods; doubled by each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The condition that says that pods could not be created or deleted.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'o> {
    pub(crate) replicas: usize,
    pub(crate) min_ready_seconds: i32,
    pub(crate) template_labels: Option<&'o Labels>,
    pub(crate) generation: i64,
    /// Whether the controller is being deleted: then its pods are left to the garbage collector.
    pub(crate) is_leaving: bool,
}

/// What is done about the number of pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// It is right, or not to be touched.
    Nothing,
    /// So many are created.
    Create(usize),
    /// These are deleted.
    Delete(Vec<Arc<Pod>>),
    /// Pods are missing, and too many failed of late: none is created before this time.
    Wait {
        /// When.
        until: Timestamp,
        /// How many failed.
        failed: usize,
    },
}

/// Decides about the number of pods. `pods` are those of the controller, ended ones included; `related` those that should not
/// share a node with them.
pub(crate) fn step(wanted: &Wanted<'_>, pods: &[Arc<Pod>], related: &[Arc<Pod>], now: Timestamp) -> Step {
    if wanted.is_leaving {
        return Step::Nothing;
    }
    let active = || pods.iter().filter(|pod| is_active(pod));
    let count = active().count();
    if count < wanted.replicas {
        let (failed, until) = hold(pods, wanted.replicas, now);
        if until > now {
            return Step::Wait { until, failed };
        }
        Step::Create((wanted.replicas - count).min(AT_ONCE))
    } else if count > wanted.replicas {
        Step::Delete(victims(active(), related, (count - wanted.replicas).min(AT_ONCE), now))
    } else {
        Step::Nothing
    }
}

/// How many pods failed of late, and until when no other is created because of it. Each of the wanted pods may fail once without
/// a wait: that is a node that was emptied. From then on each further round of failures doubles the wait after the last.
fn hold(pods: &[Arc<Pod>], replicas: usize, now: Timestamp) -> (usize, Timestamp) {
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = now.saturating_sub(FAILURES_COUNT_FOR).unwrap_or(Timestamp::MIN);
    let failed = pods.iter().filter(|pod| has_ended(pod)).filter_map(|pod| created(pod));
    let (mut count, mut last) = (0, Timestamp::MIN);
    for at in failed.filter(|at| *at > since) {
        (count, last) = (count + 1, last.max(at));
    }
    let wait = wait_after(count / replicas.max(1));
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::ZERO);
    (count, if wait.is_zero() { now } else { last.saturating_add(wait).unwrap_or(now) })
}

/// The wait after so many rounds of failures.
pub(super) fn wait_after(rounds: usize) -> Duration {
    let Some(doublings) = rounds.checked_sub(2) else { return Duration::ZERO };
    let factor = u32::try_from(doublings).ok().and_then(|doublings| 1_u32.checked_shl(doublings));
    FIRST_WAIT.saturating_mul(factor.unwrap_or(u32::MAX)).min(LONGEST_WAIT)
}

/// Why the number of pods is not right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Failure {
    /// The failure of a step, if it failed; `error` is what the API said.
    pub(crate) fn of(step: &Step, error: Option<String>) -> Option<Failure> {
        match (step, error) {
            (Step::Wait { until, failed }, _) => Some(Failure {
                reason: "BackOff",
                message: format!(
                    "{failed} pods failed within the last hour; the next is created not before {until:.0}"
                ),
            }),
            (Step::Create(_), Some(message)) => Some(Failure { reason: "FailedCreate", message }),
            (Step::Delete(_), Some(message)) => Some(Failure { reason: "FailedDelete", message }),
            (Step::Nothing | Step::Create(_) | Step::Delete(_), _) => None,
        }
    }
}

/// A condition of a controller; that of a ReplicaSet and that of a ReplicationController have the same fields.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) type_: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) last_transition_time: Option<Time>,
}

/// What a controller's status says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub(crate) replicas: i32,
    pub(crate) fully_labeled: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    /// Only ReplicaSets say it.
    pub(crate) terminating: Option<i32>,
    pub(crate) observed_generation: i64,
    pub(crate) conditions: Vec<Condition>,
}

/// The status after a look. `pods` are those that there are after it, `before` is what the status said.
pub(crate) fn status(
    wanted: &Wanted<'_>,
    pods: &[Arc<Pod>],
    failure: Option<Failure>,
    before: &Status,
    now: Timestamp,
) -> Status {
    let mut status = Status {
        observed_generation: wanted.generation.max(before.observed_generation),
        conditions: conditions(failure, before, now),
        terminating: Some(count(pods.iter().filter(|pod| is_terminating(pod)).count())),
        ..Status::default()
    };
    for pod in pods.iter().filter(|pod| is_active(pod)) {
        status.replicas += 1;
        let labels = pod.metadata.labels.as_ref();
        let is_labeled = wanted.template_labels.is_none_or(Labels::is_empty)
            || pairs_choose(wanted.template_labels, labels);
        status.fully_labeled += i32::from(is_labeled);
        status.ready += i32::from(is_ready(pod));
        status.available += i32::from(is_available(pod, wanted.min_ready_seconds, now));
    }
    status
}

fn count(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

fn conditions(failure: Option<Failure>, before: &Status, now: Timestamp) -> Vec<Condition> {
    let mut conditions = before.conditions.clone();
    let known = conditions.iter().position(|condition| condition.type_ == REPLICA_FAILURE);
    match (known, failure) {
        (None, None) => {}
        (Some(index), None) => drop(conditions.remove(index)),
        // An API that refuses says the same again and again, with another name of a pod in it.
        (Some(index), Some(failure))
            if conditions[index].reason.as_deref() == Some(failure.reason) && failure.reason != "BackOff" => {
        }
        (known, Some(failure)) => {
            let since = known.and_then(|index| conditions[index].last_transition_time.clone());
            let condition = Condition {
                type_: REPLICA_FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(failure.reason.to_owned()),
                message: Some(failure.message),
                last_transition_time: Some(since.unwrap_or(Time(now))),
            };
            match known {
                Some(index) => conditions[index] = condition,
                None => conditions.push(condition),
            }
        }
    }
    conditions
}

/// When time alone asks for another look.
pub(crate) fn next_look(
    wanted: &Wanted<'_>,
    step: &Step,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Option<Duration> {
    let active = pods.iter().map(|pod| &**pod).filter(|pod| is_active(pod));
    let available = next_available(active, wanted.min_ready_seconds, now);
    let created = match step {
        Step::Wait { until: then, .. } => Some(until(*then, now)),
        Step::Nothing | Step::Create(_) | Step::Delete(_) => None,
    };
    available.into_iter().chain(created).min()
}
