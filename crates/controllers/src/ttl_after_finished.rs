//! Deletes jobs that have finished when their time to live (`ttlSecondsAfterFinished`) is over.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/>.

use std::sync::Arc;
use std::time::Duration;

use informer::{Change, Informer, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};

use crate::controller::{self, Next, ReconcileError, Reconciler, is_not_found};
use crate::job::decision::finished;
use crate::queue::Queue;
use crate::{Speaker, Start, clock};

/// Its name, and that of its service account.
const NAME: &str = "ttl-after-finished-controller";
/// Jobs that are deleted at the same time.
const WORKERS: usize = 2;

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, _) = start.speaker(Speaker::Controller(NAME));
    let jobs = start.informers().jobs.clone();
    let queue = Arc::new(Queue::default());
    let add = {
        let queue = Arc::clone(&queue);
        move |job: &Job| {
            if expiry(job).is_some() {
                queue.add(ObjectKey::of(job));
            }
        }
    };
    jobs.on_change({
        let add = add.clone();
        move |change| match change {
            Change::Added(job) | Change::Changed { now: job, .. } => add(job),
            Change::Removed(_) => {}
        }
    });
    let all = jobs.clone();
    let look_again = move || all.all().iter().for_each(|job| add(job));
    start.task(clock::watch(look_again, start.shutdown.clone()));
    let synced = {
        let jobs = jobs.clone();
        async move { jobs.synced().await }
    };
    let reconciler = Arc::new(TtlAfterFinished { jobs, client });
    start.task(controller::run(reconciler, queue, WORKERS, synced, start.shutdown.clone()));
}

/// When a job's time is over; none if it has all the time, has not finished, or goes already.
fn expiry(job: &Job) -> Option<Timestamp> {
    let ttl = job.spec.as_ref()?.ttl_seconds_after_finished?;
    if job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let finished = finished(job)?.last_transition_time.as_ref()?.0;
    finished.checked_add(SignedDuration::from_secs(ttl.into())).ok()
}

struct TtlAfterFinished {
    jobs: Informer<Job>,
    client: kube::Client,
}

impl Reconciler for TtlAfterFinished {
    const NAME: &'static str = NAME;

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let left = |job: &Job| {
            let left = expiry(job)?.duration_since(Timestamp::now());
            Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
        };
        let known = self.jobs.get(&key);
        match known.as_deref().and_then(left) {
            None => return Ok(Next::Change),
            Some(wait) if !wait.is_zero() => return Ok(Next::After(wait)),
            Some(_) => {}
        }
        // Somebody may have given it more time just now.
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(job) = jobs.get_opt(&key.name).await? else { return Ok(Next::Change) };
        match left(&job) {
            None => return Ok(Next::Change),
            Some(wait) if !wait.is_zero() => return Ok(Next::After(wait)),
            Some(_) => {}
        }
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions {
                uid: job.metadata.uid.clone(),
                resource_version: job.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        fault::point("ttl.expired");
        match jobs.delete(&key.name, &params).await {
            Ok(_) => Ok(Next::Change),
            Err(error) if is_not_found(&error) => Ok(Next::Change),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_finished_job_with_a_time_to_live_expires() {
        let job = |ttl: serde_json::Value, type_: &str, status: &str| -> Job {
            serde_json::from_value(json!({
                "spec": {"ttlSecondsAfterFinished": ttl, "template": {}},
                "status": {"conditions": [{"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }))
            .unwrap()
        };
        let at = |job: Job| expiry(&job).map(|at| at.to_string());
        assert_eq!(at(job(json!(100), "Complete", "True")).as_deref(), Some("2026-01-01T00:01:40Z"));
        assert_eq!(at(job(json!(0), "Failed", "True")).as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(at(job(json!(null), "Failed", "True")), None);
        assert_eq!(at(job(json!(1), "Complete", "False")), None);
        assert_eq!(at(job(json!(1), "FailureTarget", "True")), None);
        let mut going = job(json!(1), "Complete", "True");
        going.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
        assert_eq!(at(going), None);
    }
}
