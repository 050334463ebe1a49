//! What is to be done about a CronJob. Pure.
//!
//! **Each time is started once**, whenever this process dies: the name of a job follows from the time for which it was made, so that a second one cannot
//! be created, and one that was created before its time could be noted is recognised.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/> and the behaviour of Kubernetes 1.36.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cron::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::job::decision::{News, finished};
use crate::ownership::{object_reference, owner_reference};

/// The annotation that says for which time a job was made.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// More missed times than this are told.
const MANY: i64 = 100;

/// A CronJob, its jobs and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'f> {
    /// The CronJob.
    pub(crate) cron_job: &'f CronJob,
    /// The jobs that it controls.
    pub(crate) jobs: &'f [Arc<Job>],
    /// The time.
    pub(crate) now: Timestamp,
}

/// A job to start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewJob {
    /// The job.
    pub(crate) job: Job,
    /// The time for which it is.
    pub(crate) time: Timestamp,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// What to tell.
    pub(crate) news: Vec<News>,
    /// Jobs to delete: those that the new one replaces, and finished ones beyond the limits.
    pub(crate) delete: Vec<Arc<Job>>,
    /// The job to create.
    pub(crate) start: Option<NewJob>,
    /// The status to write. [`started`] adds the new job to it.
    pub(crate) status: CronJobStatus,
    /// When to look again, if nothing changes.
    pub(crate) again: Option<Duration>,
}

/// The status after a job was created.
pub(crate) fn started(status: &mut CronJobStatus, job: &Job, time: Timestamp) {
    let active = status.active.get_or_insert_default();
    if !active.iter().any(|each| each.uid == job.metadata.uid) {
        active.push(object_reference(job));
    }
    status.last_schedule_time = Some(Time(time));
}

/// Decides.
pub(crate) fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision =
        Decision { status: facts.cron_job.status.clone().unwrap_or_default(), ..Decision::default() };
    look_at_jobs(facts, &mut decision);
    if facts.cron_job.metadata.deletion_timestamp.is_none() {
        schedule(facts, &mut decision);
    }
    clean_up(facts, &mut decision);
    if decision.status.active.as_ref().is_some_and(Vec::is_empty) {
        decision.status.active = None;
    }
    decision
}

impl Decision {
    fn tell(&mut self, is_warning: bool, reason: &str, message: String) {
        self.news.push(News { is_warning, reason: reason.to_owned(), message });
    }

    fn is_active(&self, uid: Option<&str>) -> bool {
        self.status.active.iter().flatten().any(|each| each.uid.as_deref() == uid)
    }

    fn drop_active(&mut self, uid: Option<&str>) {
        self.status.active.iter_mut().for_each(|active| active.retain(|each| each.uid.as_deref() != uid));
    }
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// The name of the job for a time.
fn job_name(cron_job: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", name(&cron_job.metadata), time.as_second().div_euclid(60))
}

/// The time for which this CronJob has made a job; none if somebody else has made it.
fn made_for(cron_job: &CronJob, job: &Job) -> Option<Timestamp> {
    let time: Timestamp = job.metadata.annotations.as_ref()?.get(SCHEDULED)?.parse().ok()?;
    (job_name(cron_job, time) == name(&job.metadata)).then_some(time)
}

/// Notes which jobs have ended, which are gone, and which were made when there was no time left to note them.
fn look_at_jobs(facts: &Facts<'_>, decision: &mut Decision) {
    for job in facts.jobs {
        let (uid, meta) = (job.metadata.uid.as_deref(), &job.metadata);
        let end = finished(job);
        match (decision.is_active(uid), end) {
            (false, None) => match made_for(facts.cron_job, job) {
                Some(time) => {
                    let last = decision.status.last_schedule_time.as_ref().map(|last| last.0);
                    started(&mut decision.status, job, last.map_or(time, |last| last.max(time)));
                }
                None => decision.tell(
                    true,
                    "UnexpectedJob",
                    format!("Saw a job that the controller did not create or forgot: {}", name(meta)),
                ),
            },
            (true, Some(end)) => {
                let (name, how) = (name(meta), &end.type_);
                decision.tell(
                    false,
                    "SawCompletedJob",
                    format!("Saw completed job: {name}, condition: {how}"),
                );
                decision.drop_active(uid);
            }
            (true, None) | (false, Some(_)) => {}
        }
        if end.is_some_and(|end| end.type_ == "Complete") {
            let completed = job.status.as_ref().and_then(|status| status.completion_time.as_ref());
            let last = decision.status.last_successful_time.as_ref();
            if let Some(completed) = completed
                && last.is_none_or(|last| last.0 < completed.0)
            {
                decision.status.last_successful_time = Some(completed.clone());
            }
        }
        if end.is_some()
            && let Some(time) = made_for(facts.cron_job, job)
        {
            let last = decision.status.last_schedule_time.as_ref();
            if last.is_none_or(|last| last.0 < time) {
                decision.status.last_schedule_time = Some(Time(time));
            }
        }
    }
    let there: BTreeSet<Option<&str>> = facts.jobs.iter().map(|job| job.metadata.uid.as_deref()).collect();
    let is_gone = |each: &&ObjectReference| !there.contains(&each.uid.as_deref());
    let gone: Vec<ObjectReference> =
        decision.status.active.iter().flatten().filter(is_gone).cloned().collect();
    for job in gone {
        let name = job.name.as_deref().unwrap_or_default();
        decision.tell(false, "MissingJob", format!("Active job went missing: {name}"));
        decision.drop_active(job.uid.as_deref());
    }
}

/// Starts a job if it is time.
fn schedule(facts: &Facts<'_>, decision: &mut Decision) {
    let (cron_job, now) = (facts.cron_job, facts.now);
    let spec = &cron_job.spec;
    // Without a name it is the zone of this machine, as with any cron.
    let zone_name = spec.time_zone.as_deref().unwrap_or("Local");
    let Some(zone) = cron::zone(zone_name) else {
        let message = format!("invalid timeZone: \"{zone_name}\": unknown time zone {zone_name}");
        return decision.tell(true, "UnknownTimeZone", message);
    };
    if spec.suspend == Some(true) {
        return;
    }
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(problem) => {
            let message = format!("unparseable schedule: \"{}\" : {problem}", spec.schedule);
            return decision.tell(true, "UnparseableSchedule", message);
        }
    };
    let due = match due(facts, spec, decision, &schedule, &zone) {
        Ok(due) => due,
        Err(problem) => {
            let message = format!("invalid schedule: {} : {problem}", spec.schedule);
            return decision.tell(true, "InvalidSchedule", message);
        }
    };
    let next = schedule.next(due.unwrap_or(now).max(now), &zone);
    decision.again = next.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or(Duration::ZERO));
    let Some(time) = due else { return };
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    if deadline.and_then(|deadline| time.checked_add(deadline).ok()).is_some_and(|last| last < now) {
        let shown = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
        return decision.tell(true, "MissSchedule", format!("Missed scheduled time to start a job: {shown}"));
    }
    let new = job_name(cron_job, time);
    let last = decision.status.last_schedule_time.as_ref();
    let is_started = last.is_some_and(|last| last.0 == time)
        || decision.status.active.iter().flatten().any(|each| each.name.as_deref() == Some(new.as_str()));
    if is_started {
        return;
    }
    let active: Vec<ObjectReference> = decision.status.active.iter().flatten().cloned().collect();
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            return decision.tell(false, "JobAlreadyActive", message.to_owned());
        }
        Some("Replace") => {
            let is_active = |job: &&Arc<Job>| decision.is_active(job.metadata.uid.as_deref());
            let replaced: Vec<Arc<Job>> = facts.jobs.iter().filter(is_active).cloned().collect();
            decision.delete.extend(replaced);
            decision.status.active = None;
        }
        Some(_) | None => {}
    }
    decision.start = Some(NewJob { job: job(cron_job, spec, new, time, &zone), time });
}

/// The last time that is due and was not started; it may be too late for it.
fn due(
    facts: &Facts<'_>,
    spec: &CronJobSpec,
    decision: &mut Decision,
    schedule: &Schedule,
    zone: &TimeZone,
) -> Result<Option<Timestamp>, String> {
    let (meta, now) = (&facts.cron_job.metadata, facts.now);
    let created = meta.creation_timestamp.as_ref().map_or(now, |created| created.0);
    let mut since = decision.status.last_schedule_time.as_ref().map_or(created, |last| last.0);
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    if let Some(earliest) = deadline.and_then(|deadline| now.checked_sub(deadline).ok()) {
        since = since.max(earliest);
    }
    let Some(first) = schedule.next(since, zone) else {
        return Err("time difference between two schedules is less than 1 second".to_owned());
    };
    if now < first {
        return Ok(None);
    }
    if let Some(second) = schedule.next(first, zone).filter(|second| *second <= now) {
        let interval = (second.as_second() - first.as_second()).max(1);
        let missed = (now.as_second() - first.as_second()) / interval + 1;
        if missed > MANY {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            decision.tell(true, "TooManyMissedTimes", message.to_owned());
        }
    }
    Ok(schedule.last(since, now, zone))
}

/// The job for a time.
fn job(cron_job: &CronJob, spec: &CronJobSpec, name: String, time: Timestamp, zone: &TimeZone) -> Job {
    let template = spec.job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), shown(time, zone));
    Job {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: cron_job.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner_reference(cron_job)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// A time in its zone: `2026-01-01T09:00:00+01:00`, and `Z` where that is UTC.
fn shown(time: Timestamp, zone: &TimeZone) -> String {
    let time = time.to_zoned(zone.clone());
    if time.offset().seconds() == 0 {
        time.timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    } else {
        time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    }
}

/// Finished jobs beyond the limits go, the oldest first.
fn clean_up(facts: &Facts<'_>, decision: &mut Decision) {
    let spec = &facts.cron_job.spec;
    let limits =
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
    for (type_, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let is_meant = |job: &&Arc<Job>| {
            finished(job).is_some_and(|end| end.type_ == type_) && job.metadata.deletion_timestamp.is_none()
        };
        let mut ended: Vec<&Arc<Job>> = facts.jobs.iter().filter(is_meant).collect();
        ended.sort_by_cached_key(|job| {
            let started = job.status.as_ref().and_then(|status| status.start_time.as_ref());
            (started.map_or(Timestamp::MAX, |started| started.0), name(&job.metadata).to_owned())
        });
        let beyond = ended.len().saturating_sub(limit);
        decision.delete.extend(ended.into_iter().take(beyond).cloned());
    }
}

/// Whether a job that somebody else has created by this name is one of this CronJob after all.
pub(crate) fn is_own(cron_job: &CronJob, job: &Job) -> bool {
    let controller = crate::ownership::controller_of(&job.metadata);
    controller.is_some_and(|controller| Some(&controller.uid) == cron_job.metadata.uid.as_ref())
}
