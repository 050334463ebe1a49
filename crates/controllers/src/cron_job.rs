//! The CronJob controller: reads the caches, has `decision` decide, and carries it out. It sleeps until a job is due; when the clock is
//! set, it looks at all.

mod decision;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use events::{EventRecorder, EventType};
use informer::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use crate::controller::{
    self, Next, ReconcileError, Reconciler, is_already_there, is_namespace_terminating, is_not_found,
};
use crate::deletion::delete;
use crate::ownership::object_reference;
use crate::pod_control::said;
use crate::queue::Queue;
use crate::triggers::{each_change, owners_of_each_change};
use crate::{Informers, Speaker, Start, clock};

use decision::{Facts, NewJob, decide, is_own, started};

/// Its name, and that of its service account.
const NAME: &str = "cronjob-controller";
/// CronJobs that are looked at at the same time.
const WORKERS: usize = 5;

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Controller(NAME));
    let informers = start.informers().clone();
    let queue = Arc::new(Queue::default());
    each_change(&informers.cron_jobs, &queue);
    owners_of_each_change(&informers.jobs, &informers.cron_jobs, &queue, |_, _| false);
    let look_again = {
        let (queue, cron_jobs) = (Arc::clone(&queue), informers.cron_jobs.clone());
        move || cron_jobs.all().iter().for_each(|cron_job| queue.add(ObjectKey::of(&**cron_job)))
    };
    start.task(clock::watch(look_again, start.shutdown.clone()));
    let synced = {
        let informers = informers.clone();
        async move {
            informers.cron_jobs.synced().await;
            informers.jobs.synced().await;
        }
    };
    let reconciler = Arc::new(CronJobs { informers, client, events });
    start.task(controller::run(reconciler, queue, WORKERS, synced, start.shutdown.clone()));
}

struct CronJobs {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
}

impl Reconciler for CronJobs {
    const NAME: &'static str = NAME;

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let Some(cron_job) = self.informers.cron_jobs.get(&key) else { return Ok(Next::Change) };
        let uid = cron_job.metadata.uid.as_deref().unwrap_or_default();
        let jobs = self.informers.jobs.controlled_by(&key.namespace, uid);
        let mut decision = decide(&Facts { cron_job: &cron_job, jobs: &jobs, now: Timestamp::now() });
        for news in std::mem::take(&mut decision.news) {
            let severity = if news.is_warning { EventType::Warning } else { EventType::Normal };
            self.events.record(object_reference(&*cron_job), severity, news.reason, news.message);
        }
        for job in &decision.delete {
            self.delete(&cron_job, job).await?;
        }
        let mut failure = None;
        if let Some(new) = &decision.start {
            match self.create(&cron_job, new).await {
                Ok(Some(job)) => {
                    fault::point("cronjob.job_created");
                    started(&mut decision.status, &job, new.time);
                }
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        self.write_status(&cron_job, decision.status).await?;
        match (failure, decision.again) {
            (Some(failure), _) => Err(failure.into()),
            (None, Some(wait)) => Ok(Next::After(wait)),
            (None, None) => Ok(Next::Change),
        }
    }
}

impl CronJobs {
    fn jobs(&self, cron_job: &CronJob) -> Api<Job> {
        let namespace = cron_job.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.client.clone(), namespace)
    }

    fn tell(&self, cron_job: &CronJob, severity: EventType, reason: &'static str, message: String) {
        self.events.record(object_reference(cron_job), severity, reason, message);
    }

    /// Creates a job; answers it, also when it was there already. None if the namespace goes away.
    async fn create(&self, cron_job: &CronJob, new: &NewJob) -> kube::Result<Option<Job>> {
        let jobs = self.jobs(cron_job);
        let name = new.job.metadata.name.as_deref().unwrap_or_default();
        match jobs.create(&PostParams::default(), &new.job).await {
            Ok(job) => {
                self.informers.jobs.learn(job.clone());
                self.tell(cron_job, EventType::Normal, "SuccessfulCreate", format!("Created job {name}"));
                Ok(Some(job))
            }
            Err(error) if is_namespace_terminating(&error) => Ok(None),
            Err(error) => {
                if is_already_there(&error)
                    && let Some(job) = jobs.get_opt(name).await?.filter(|job| is_own(cron_job, job))
                {
                    return Ok(Some(job));
                }
                let message = format!("Error creating job: {}", said(&error));
                self.tell(cron_job, EventType::Warning, "FailedCreate", message);
                Err(error)
            }
        }
    }

    async fn delete(&self, cron_job: &CronJob, job: &Job) -> kube::Result<()> {
        let key = ObjectKey::of(job);
        match delete(job, &self.jobs(cron_job), &self.informers.jobs, DeleteParams::background()).await {
            Ok(is_ours) => {
                if is_ours {
                    let message = format!("Deleted job {}", key.name);
                    self.tell(cron_job, EventType::Normal, "SuccessfulDelete", message);
                }
                Ok(())
            }
            Err(error) => {
                let message = format!("Deleted job: {}", said(&error));
                self.tell(cron_job, EventType::Warning, "FailedDelete", message);
                Err(error)
            }
        }
    }

    async fn write_status(&self, cron_job: &CronJob, status: CronJobStatus) -> kube::Result<()> {
        if cron_job.status.clone().unwrap_or_default() == status {
            return Ok(());
        }
        let key = ObjectKey::of(cron_job);
        let cron_jobs: Api<CronJob> = Api::namespaced(self.client.clone(), &key.namespace);
        let cron_job = CronJob { status: Some(status), ..cron_job.clone() };
        match cron_jobs.replace_status(&key.name, &PostParams::default(), &cron_job).await {
            Ok(written) => {
                self.informers.cron_jobs.learn(written);
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
