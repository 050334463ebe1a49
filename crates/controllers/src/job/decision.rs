//! What is to be done about a job. Pure.
//!
//! **Each pod counts once**, whenever this process dies. A pod carries a finalizer from its creation until it is counted. Counting has three steps,
//! each a look of its own: the status names the pod (its UID, or its index), then its finalizer goes, then the status counts it
//! and names it no more. A pod that is named and has no finalizer any more is to be counted; one that has it is not to be named
//! again.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/job/> and the behaviour of Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::backoff::{Backoff, pause_after};
use super::indexes::Indexes;
use super::pods::{
    failures_before, finish_time, has_failed, index, is_tracked, sort_for_removal, uid, waits_for_end,
};
use super::policy::{self, Failure};
use super::template::NewPod;
use crate::pod_state::{is_active, is_ready, is_terminating, phase};

/// Most pods that are created, or deleted, in one look.
const AT_ONCE: usize = 500;
/// Most pods that a status names.
const NAMED: usize = 500;

/// A job, its pods and the time.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'f> {
    /// The job.
    pub(crate) job: &'f Job,
    /// The pods that are its own.
    pub(crate) pods: &'f [Arc<Pod>],
    /// The failures that are remembered; none when this process has not seen the job yet.
    pub(crate) backoff: Option<Backoff>,
    /// The time.
    pub(crate) now: Timestamp,
}

/// Something worth an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// Whether it is a warning.
    pub(crate) is_warning: bool,
    /// Its reason.
    pub(crate) reason: String,
    /// What happened.
    pub(crate) message: String,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// Pods that are not wanted any more: they lose their finalizer, so that they never count, and are deleted.
    pub(crate) withdraw: Vec<Arc<Pod>>,
    /// Pods to delete because the job ends.
    pub(crate) stop: Vec<Arc<Pod>>,
    /// Pods to create. The status counts them as active.
    pub(crate) create: Vec<NewPod>,
    /// The status to write.
    pub(crate) status: JobStatus,
    /// What to tell once it is written.
    pub(crate) news: Vec<News>,
    /// Pods that were adopted and carry no finalizer yet: they get one, so that they count.
    pub(crate) adopt: Vec<Arc<Pod>>,
    /// Pods that lose their finalizer once it is written.
    pub(crate) let_go: Vec<Arc<Pod>>,
    /// When to look again, if nothing changes.
    pub(crate) again: Option<Duration>,
    /// What to remember of failures once the status is written.
    pub(crate) backoff: Backoff,
}

/// The condition of this type, if it is true.
pub(crate) fn condition<'s>(status: &'s JobStatus, type_: &str) -> Option<&'s JobCondition> {
    status.conditions.iter().flatten().find(|each| each.type_ == type_ && each.status == "True")
}

/// Whether a job has come to its end.
pub(crate) fn is_finished(job: &Job) -> bool {
    finished(job).is_some()
}

/// The condition that says how a job has ended.
pub(crate) fn finished(job: &Job) -> Option<&JobCondition> {
    let status = job.status.as_ref()?;
    condition(status, "Complete").or_else(|| condition(status, "Failed"))
}

/// Whether a job is indexed.
pub(crate) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

fn is_suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}

/// How a job is about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    /// Whether it has done what it was to do.
    is_success: bool,
    reason: String,
    message: String,
}

impl End {
    fn failure(reason: &str, message: impl Into<String>) -> Option<End> {
        Some(End { is_success: false, reason: reason.to_owned(), message: message.into() })
    }

    fn success(reason: &str, message: impl Into<String>) -> Option<End> {
        Some(End { is_success: true, reason: reason.to_owned(), message: message.into() })
    }

    /// What an earlier look has decided.
    fn decided(status: &JobStatus) -> Option<End> {
        let (found, is_success) = match condition(status, "SuccessCriteriaMet") {
            Some(found) => (found, true),
            None => (condition(status, "FailureTarget")?, false),
        };
        let (reason, message) = (found.reason.clone(), found.message.clone());
        Some(End { is_success, reason: reason.unwrap_or_default(), message: message.unwrap_or_default() })
    }

    /// The condition that says so before everything has ended, and the one after.
    fn conditions(&self) -> (&'static str, &'static str) {
        if self.is_success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") }
    }
}

/// Decides.
pub(crate) fn decide(facts: &Facts<'_>) -> Decision {
    let look = Look::new(facts);
    let mut decision = Decision {
        withdraw: Vec::new(),
        stop: Vec::new(),
        create: Vec::new(),
        adopt: Vec::new(),
        status: facts.job.status.clone().unwrap_or_default(),
        news: Vec::new(),
        let_go: Vec::new(),
        again: None,
        backoff: look.backoff.clone(),
    };
    if is_finished(facts.job) {
        // Whatever still has a finalizer was counted, or came too late.
        decision.let_go = facts.pods.iter().filter(|pod| is_tracked(pod)).cloned().collect();
        return decision;
    }
    let mut status = look.status.clone();
    if status.start_time.is_none() && !is_suspended(look.spec) {
        status.start_time = Some(Time(whole(facts.now)));
    }
    let decided = End::decided(&status);
    if decided.is_none() && facts.job.metadata.deletion_timestamp.is_none() {
        resume(&look, &mut status, &mut decision);
    }
    let mut end = decided.or_else(|| look.failure(&status)).or_else(|| look.success());
    if end.is_none() {
        decision.adopt = look.active.iter().filter(|pod| !is_tracked(pod)).cloned().collect();
    }
    let mut active = look.active.len();
    let mut ready = look.active.iter().filter(|pod| is_ready(pod)).count();
    let mut terminating = look.terminating.len();
    if end.is_some() {
        decision.stop.clone_from(&look.active);
        (active, ready, terminating) = (0, 0, terminating + active);
    } else {
        if facts.job.metadata.deletion_timestamp.is_none() {
            manage(&look, &mut decision);
            let gone: BTreeSet<&str> = decision.withdraw.iter().map(|pod| uid(pod)).collect();
            decision.adopt.retain(|pod| !gone.contains(uid(pod)));
            let stay = || look.active.iter().filter(|pod| !gone.contains(uid(pod)));
            active = stay().count() + decision.create.len();
            ready = stay().filter(|pod| is_ready(pod)).count();
            terminating += gone.len();
        }
        if look.is_complete(active) {
            end = End::success("CompletionsReached", "Reached expected number of succeeded pods");
        } else if facts.job.metadata.deletion_timestamp.is_none() {
            suspend(&look, &mut status, &mut decision);
        }
    }
    if end.is_none()
        && let (Some(limit), Some(start), false) =
            (look.spec.active_deadline_seconds, &status.start_time, is_suspended(look.spec))
    {
        decision.look_again(remaining(start.0, Duration::from_secs(limit.max(0).unsigned_abs()), facts.now));
    }
    status.active = count(active);
    status.ready = Some(number(ready));
    status.terminating = Some(number(terminating));
    look.track(end.as_ref(), &mut status, &mut decision);
    if let Some(end) = end {
        conclude(&look, &end, active + terminating, &mut status, &mut decision);
    }
    decision.status = status;
    decision
}

impl Decision {
    fn look_again(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |again| again.min(wait)));
    }

    fn tell(&mut self, is_warning: bool, reason: &str, message: &str) {
        self.news.push(News { is_warning, reason: reason.to_owned(), message: message.to_owned() });
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A count as the API writes it: none is left out.
fn count(count: usize) -> Option<i32> {
    Some(number(count)).filter(|count| *count > 0)
}

/// How much of a wait is left.
fn remaining(since: Timestamp, wait: Duration, now: Timestamp) -> Duration {
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
    wait.saturating_sub(passed)
}

/// What a look sees.
struct Look<'f> {
    facts: Facts<'f>,
    spec: &'f JobSpec,
    /// The status, with what is to be counted now counted.
    status: JobStatus,
    active: Vec<Arc<Pod>>,
    terminating: Vec<Arc<Pod>>,
    /// UIDs that the status names and that are not counted yet.
    named_succeeded: BTreeSet<String>,
    named_failed: BTreeSet<String>,
    /// All that have succeeded: counted, named and new ones.
    succeeded: i32,
    /// All that have failed.
    failed: i32,
    /// The indexes that had succeeded before, and now.
    succeeded_before: Indexes,
    succeeded_indexes: Indexes,
    failed_indexes: Indexes,
    /// The last failed pod of each index, which keeps its finalizer until another pod has taken over its count.
    kept: BTreeMap<i32, Arc<Pod>>,
    backoff: Backoff,
}

impl<'f> Look<'f> {
    fn new(facts: &Facts<'f>) -> Look<'f> {
        static NO_SPEC: std::sync::LazyLock<JobSpec> = std::sync::LazyLock::new(JobSpec::default);
        let (job, pods) = (facts.job, facts.pods);
        let spec = job.spec.as_ref().unwrap_or(&NO_SPEC);
        let mut status = job.status.clone().unwrap_or_default();
        let tracked: BTreeSet<&str> = pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(pod)).collect();
        let named = status.uncounted_terminated_pods.take().unwrap_or_default();
        let split = |named: Option<Vec<String>>| -> (BTreeSet<String>, usize) {
            let all: BTreeSet<String> = named.into_iter().flatten().collect();
            let total = all.len();
            let left: BTreeSet<String> =
                all.into_iter().filter(|uid| tracked.contains(uid.as_str())).collect();
            let counted = total - left.len();
            (left, counted)
        };
        let (named_succeeded, counted) = split(named.succeeded);
        status.succeeded = Some(status.succeeded.unwrap_or(0) + number(counted)).filter(|count| *count > 0);
        let (named_failed, counted) = split(named.failed);
        status.failed = Some(status.failed.unwrap_or(0) + number(counted)).filter(|count| *count > 0);
        let mut look = Look {
            facts: facts.clone(),
            spec,
            status,
            active: pods.iter().filter(|pod| is_active(pod)).cloned().collect(),
            terminating: pods.iter().filter(|pod| is_terminating(pod)).cloned().collect(),
            named_succeeded,
            named_failed,
            succeeded: 0,
            failed: 0,
            succeeded_before: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: Indexes::default(),
            kept: BTreeMap::new(),
            backoff: Backoff::default(),
        };
        look.count();
        look
    }

    fn completions(&self) -> i32 {
        self.spec.completions.unwrap_or(i32::MAX)
    }

    fn is_per_index(&self) -> bool {
        is_indexed(self.spec) && self.spec.backoff_limit_per_index.is_some()
    }

    /// The index of a pod, if the job has one of that number.
    fn index(&self, pod: &Pod) -> Option<i32> {
        index(pod).filter(|index| *index < self.completions())
    }

    fn tracked(&self) -> impl Iterator<Item = &'f Arc<Pod>> {
        self.facts.pods.iter().filter(|pod| is_tracked(pod))
    }

    /// Whether a tracked pod has succeeded and nobody has said so.
    fn is_new_success(&self, pod: &Pod) -> bool {
        let uid = uid(pod);
        phase(pod) == "Succeeded" && !self.named_succeeded.contains(uid) && !self.named_failed.contains(uid)
    }

    /// Whether a tracked pod has failed and nobody has said so.
    fn is_new_failure(&self, pod: &Pod) -> bool {
        has_failed(pod, self.facts.job) && !self.named_failed.contains(uid(pod))
    }

    fn count(&mut self) {
        let new_succeeded: Vec<&Arc<Pod>> = self.tracked().filter(|pod| self.is_new_success(pod)).collect();
        let new_failed: Vec<&Arc<Pod>> = self.tracked().filter(|pod| self.is_new_failure(pod)).collect();
        let counting =
            new_failed.iter().filter(|pod| policy::failure(self.facts.job, pod) != Failure::Ignored).count();
        self.backoff = match &self.facts.backoff {
            Some(before) => before.after(&new_succeeded, &new_failed),
            None => {
                let ended = |wanted: fn(&Look<'_>, &Pod) -> bool| -> Vec<&Arc<Pod>> {
                    self.facts.pods.iter().filter(|pod| wanted(self, pod)).collect()
                };
                Backoff::default().after(
                    &ended(|_, pod| phase(pod) == "Succeeded"),
                    &ended(|look, pod| has_failed(pod, look.facts.job)),
                )
            }
        };
        let sum = |counted: Option<i32>, named: usize, new: usize| {
            counted.unwrap_or(0).saturating_add(number(named + new))
        };
        self.failed = sum(self.status.failed, self.named_failed.len(), counting);
        self.succeeded = sum(self.status.succeeded, self.named_succeeded.len(), new_succeeded.len());
        if is_indexed(self.spec) {
            let end = self.completions();
            let before = Indexes::read(self.status.completed_indexes.as_deref().unwrap_or_default(), end);
            let ended = self.tracked().filter(|pod| phase(pod) == "Succeeded");
            let new: BTreeSet<i32> = ended.filter_map(|pod| self.index(pod)).collect();
            self.succeeded_indexes = before.with(&new);
            self.succeeded_before = before;
            self.succeeded = self.succeeded_indexes.count();
        }
        if self.is_per_index() {
            let before = self.status.failed_indexes.as_deref().unwrap_or_default();
            let new = self.tracked().filter(|pod| self.ends_index(pod)).filter_map(|pod| self.index(pod));
            let new: BTreeSet<i32> = new.filter(|index| !self.succeeded_indexes.has(*index)).collect();
            self.failed_indexes = Indexes::read(before, self.completions()).with(&new);
            self.kept = self.kept();
        }
    }

    /// Whether the index of a pod is not tried again after it.
    fn ends_index(&self, pod: &Pod) -> bool {
        let limit = self.spec.backoff_limit_per_index.unwrap_or(i32::MAX);
        has_failed(pod, self.facts.job)
            && match policy::failure(self.facts.job, pod) {
                Failure::EndsIndex => true,
                Failure::Ignored => false,
                Failure::Counts | Failure::EndsJob(_) => failures_before(pod).0 >= limit,
            }
    }

    fn kept(&self) -> BTreeMap<i32, Arc<Pod>> {
        let active: BTreeSet<i32> = self.active.iter().filter_map(|pod| self.index(pod)).collect();
        let mut kept: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        for pod in self.tracked().filter(|pod| has_failed(pod, self.facts.job)) {
            let Some(index) = self.index(pod) else { continue };
            if self.succeeded_indexes.has(index) || self.failed_indexes.has(index) || active.contains(&index)
            {
                continue;
            }
            let all = |pod: &Pod| {
                let (counted, ignored) = failures_before(pod);
                counted.saturating_add(ignored)
            };
            if kept.get(&index).is_none_or(|before| all(before) < all(pod)) {
                kept.insert(index, Arc::clone(pod));
            }
        }
        kept
    }

    /// How often containers of active pods were started again, in a job whose pods do that by themselves.
    fn restarts(&self) -> Option<i32> {
        let policy = self.spec.template.spec.as_ref()?.restart_policy.as_deref();
        let statuses = self.active.iter().filter_map(|pod| pod.status.as_ref());
        let containers = statuses.flat_map(|status| {
            let init = status.init_container_statuses.iter().flatten();
            init.chain(status.container_statuses.iter().flatten())
        });
        let sum = || containers.fold(0_i32, |sum, each| sum.saturating_add(each.restart_count));
        (policy == Some("OnFailure")).then(sum)
    }

    /// Why the job fails, if it does.
    fn failure(&self, status: &JobStatus) -> Option<End> {
        let failures = self.facts.pods.iter().filter(|pod| has_failed(pod, self.facts.job));
        let by_policy = failures.into_iter().find_map(|pod| match policy::failure(self.facts.job, pod) {
            Failure::EndsJob(message) => Some(message),
            Failure::Counts | Failure::Ignored | Failure::EndsIndex => None,
        });
        if let Some(message) = by_policy {
            return End::failure("PodFailurePolicy", message);
        }
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if self.failed > limit || self.restarts().is_some_and(|restarts| restarts >= limit.max(1)) {
            return End::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if let (Some(limit), Some(start), false) =
            (self.spec.active_deadline_seconds, &status.start_time, is_suspended(self.spec))
            && remaining(start.0, Duration::from_secs(limit.max(0).unsigned_abs()), self.facts.now).is_zero()
        {
            return End::failure("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        if self.is_per_index() {
            let failed = self.failed_indexes.count();
            if self.spec.max_failed_indexes.is_some_and(|limit| failed > limit) {
                return End::failure(
                    "MaxFailedIndexesExceeded",
                    "Job has exceeded the specified maximal number of failed indexes",
                );
            }
            if failed > 0 && failed + self.succeeded_indexes.count() >= self.completions() {
                return End::failure("FailedIndexes", "Job has failed indexes");
            }
        }
        None
    }

    /// Whether what has succeeded is enough by the job's own rules.
    fn success(&self) -> Option<End> {
        let rules = self.spec.success_policy.as_ref().filter(|_| is_indexed(self.spec))?;
        End::success("SuccessPolicy", policy::success(rules, &self.succeeded_indexes, self.completions())?)
    }

    /// Whether all is done, with so many pods active after this look.
    fn is_complete(&self, active: usize) -> bool {
        match self.spec.completions {
            Some(completions) => self.succeeded >= completions && active == 0,
            // One that knows that the work is done is enough; the others bring to an end what they have.
            None => self.succeeded > 0 && active == 0,
        }
    }

    /// Names pods that have ended, and says which lose their finalizer.
    fn track(&self, end: Option<&End>, status: &mut JobStatus, decision: &mut Decision) {
        let is_deleted = self.facts.job.metadata.deletion_timestamp.is_some();
        let has_index = is_indexed(self.spec);
        let (mut succeeded, mut failed) = (self.named_succeeded.clone(), self.named_failed.clone());
        let mut new_indexes = BTreeSet::new();
        for pod in self.tracked() {
            let has_failed = has_failed(pod, self.facts.job);
            let is_kept = has_failed
                && self
                    .index(pod)
                    .and_then(|index| self.kept.get(&index))
                    .is_some_and(|kept| uid(kept) == uid(pod));
            let may_go = is_deleted || end.is_some() || phase(pod) == "Succeeded" || (has_failed && !is_kept);
            if !may_go && !has_failed {
                continue;
            }
            if may_go {
                decision.let_go.push(Arc::clone(pod));
            } else {
                // It counts when its place is taken.
                continue;
            }
            let uid = uid(pod);
            if phase(pod) == "Succeeded" && !failed.contains(uid) {
                if !has_index {
                    succeeded.insert(uid.to_owned());
                } else if let Some(index) = self.index(pod).filter(|index| !self.succeeded_before.has(*index))
                {
                    new_indexes.insert(index);
                }
            } else if has_failed || end.is_some_and(|end| !end.is_success) {
                let counts = policy::failure(self.facts.job, pod) != Failure::Ignored;
                if counts && (!has_index || self.index(pod).is_some()) {
                    failed.insert(uid.to_owned());
                }
            }
            if succeeded.len() + failed.len() + new_indexes.len() >= NAMED {
                decision.look_again(Duration::ZERO);
                break;
            }
        }
        if has_index {
            let completed = self.succeeded_before.with(&new_indexes);
            status.succeeded = Some(completed.count()).filter(|count| *count > 0);
            status.completed_indexes = Some(completed.to_string()).filter(|text| !text.is_empty());
        }
        if self.is_per_index() {
            status.failed_indexes = Some(self.failed_indexes.to_string());
        }
        let list = |uids: BTreeSet<String>| Some(Vec::from_iter(uids)).filter(|uids| !uids.is_empty());
        status.uncounted_terminated_pods =
            Some(UncountedTerminatedPods { succeeded: list(succeeded), failed: list(failed) });
    }
}

/// A time as the API writes it: in whole seconds.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Sees to the number of pods.
fn manage(look: &Look<'_>, decision: &mut Decision) {
    let (spec, active) = (look.spec, look.active.len());
    let parallelism = usize::try_from(spec.parallelism.unwrap_or(1)).unwrap_or(0);
    if is_suspended(spec) {
        decision.withdraw = to_withdraw(look, active);
        return;
    }
    let wanted = match spec.completions {
        // After the first success nothing new begins.
        None if look.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => {
            let missing = completions.saturating_sub(look.succeeded);
            usize::try_from(missing).unwrap_or(0).min(parallelism)
        }
    };
    decision.withdraw = to_withdraw(look, active.saturating_sub(wanted));
    if !decision.withdraw.is_empty() {
        return;
    }
    let leaving = if waits_for_end(look.facts.job) { look.terminating.len() } else { 0 };
    let missing = wanted.saturating_sub(active + leaving).min(AT_ONCE);
    if missing == 0 {
        return;
    }
    if !look.is_per_index() {
        let wait = look.backoff.remaining(look.facts.now);
        if !wait.is_zero() {
            decision.look_again(wait);
            return;
        }
    }
    if !is_indexed(spec) {
        decision.create = vec![NewPod { index: None, failures: None }; missing];
        return;
    }
    for index in pending(look).take(missing) {
        let failures = if look.is_per_index() {
            match look.kept.get(&index) {
                None => Some((0, 0)),
                Some(pod) => {
                    let (counted, ignored) = failures_before(pod);
                    let all = counted.saturating_add(ignored).saturating_add(1);
                    let ended = finish_time(pod).unwrap_or(look.facts.now);
                    let wait = remaining(ended, pause_after(all), look.facts.now);
                    if !wait.is_zero() {
                        decision.look_again(wait);
                        continue;
                    }
                    Some(match policy::failure(look.facts.job, pod) {
                        Failure::Ignored => (counted, ignored + 1),
                        Failure::Counts | Failure::EndsIndex | Failure::EndsJob(_) => (counted + 1, ignored),
                    })
                }
            }
        } else {
            None
        };
        decision.create.push(NewPod { index: Some(index), failures });
    }
}

/// The indexes that nobody works on and that are not done, from the lowest.
fn pending<'l>(look: &'l Look<'_>) -> impl Iterator<Item = i32> + 'l {
    let mut taken: BTreeSet<i32> = look.active.iter().filter_map(|pod| look.index(pod)).collect();
    if waits_for_end(look.facts.job) {
        taken.extend(look.terminating.iter().filter_map(|pod| look.index(pod)));
    }
    let is_free = move |index: &i32| {
        !taken.contains(index) && !look.succeeded_indexes.has(*index) && !look.failed_indexes.has(*index)
    };
    (0..look.spec.completions.unwrap_or(0)).filter(is_free)
}

/// The active pods that are not wanted: those that repeat an index or have none, and `at_least` so many in all.
fn to_withdraw(look: &Look<'_>, at_least: usize) -> Vec<Arc<Pod>> {
    let mut active = look.active.clone();
    sort_for_removal(&mut active);
    let (mut unwanted, mut left) = (Vec::new(), Vec::new());
    if is_indexed(look.spec) {
        // Of those with the same index the last one stays: it has done most.
        let mut seen = BTreeSet::new();
        for pod in active.into_iter().rev() {
            match look.index(&pod) {
                Some(index) if seen.insert(index) => left.push(pod),
                Some(_) | None => unwanted.push(pod),
            }
        }
        left.reverse();
    } else {
        left = active;
    }
    let more = at_least.saturating_sub(unwanted.len());
    unwanted.extend(left.into_iter().take(more));
    unwanted.truncate(AT_ONCE);
    unwanted
}

/// Says that the job is suspended.
fn suspend(look: &Look<'_>, status: &mut JobStatus, decision: &mut Decision) {
    if is_suspended(look.spec) && condition(status, "Suspended").is_none() {
        set(status, "Suspended", true, "JobSuspended", "Job suspended", look.facts.now);
        decision.tell(false, "Suspended", "Job suspended");
    }
}

/// Says that the job is suspended no longer: it begins anew, and so does its deadline.
fn resume(look: &Look<'_>, status: &mut JobStatus, decision: &mut Decision) {
    let now = look.facts.now;
    if !is_suspended(look.spec) && condition(status, "Suspended").is_some() {
        set(status, "Suspended", false, "JobResumed", "Job resumed", now);
        decision.tell(false, "Resumed", "Job resumed");
        status.start_time = Some(Time(whole(now)));
    }
}

/// Sets a condition.
fn set(status: &mut JobStatus, type_: &str, is: bool, reason: &str, message: &str, now: Timestamp) {
    let new = JobCondition {
        type_: type_.to_owned(),
        status: if is { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(whole(now))),
        last_transition_time: Some(Time(whole(now))),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|each| each.type_ == type_) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// Says how the job is about to end and, when nothing of it is left, that it has.
fn conclude(look: &Look<'_>, end: &End, left: usize, status: &mut JobStatus, decision: &mut Decision) {
    let now = look.facts.now;
    let (before, after) = end.conditions();
    if condition(status, before).is_none() {
        set(status, before, true, &end.reason, &end.message, now);
    }
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let is_counted = uncounted.is_none_or(|pods| pods.failed.is_none() && pods.succeeded.is_none());
    if left > 0 || !is_counted || !decision.let_go.is_empty() {
        return;
    }
    set(status, after, true, &end.reason, &end.message, now);
    if status.start_time.is_none() {
        status.start_time = Some(Time(whole(now)));
    }
    if !end.is_success {
        decision.tell(true, &end.reason, &end.message);
        return;
    }
    status.completion_time = Some(Time(whole(now)));
    if look.spec.completions.is_some_and(|completions| look.succeeded > completions) {
        let message = "Too many succeeded pods running after completion count reached";
        decision.tell(true, "TooManySucceededPods", message);
    }
    decision.tell(false, "Completed", "Job completed");
}

/// Whether somebody else looks after this job.
pub(crate) fn is_foreign(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != "kubernetes.io/job-controller")
}
