//! The Job controller: reads the caches, has `decision` decide, and carries it out.

mod backoff;
pub(crate) mod decision;
mod indexes;
mod pods;
mod policy;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use events::{EventRecorder, EventType};
use futures::StreamExt as _;
use informer::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::controller::{
    self, Next, ReconcileError, Reconciler, is_namespace_terminating, is_not_found, is_of_another,
};
use crate::ownership::{claimed, controller_key, controller_of, object_reference};
use crate::pod_control::PodControl;
use crate::queue::Queue;
use crate::selector::chooses;
use crate::triggers::{each_change, owners_of_each_change};
use crate::{Informers, Speaker, Start};

use backoff::Backoff;
use decision::{Decision, Facts, decide, is_foreign};
use pods::{FINALIZER, is_tracked, uid};

/// Its name, and that of its service account.
const NAME: &str = "job-controller";
/// Jobs that are looked at at the same time.
const WORKERS: usize = 5;
/// Pods that are changed at the same time.
const AT_ONCE: usize = 16;

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Controller(NAME));
    let informers = start.informers().clone();
    let queue = Arc::new(Queue::default());
    each_change(&informers.jobs, &queue);
    owners_of_each_change(&informers.pods, &informers.jobs, &queue, chooses_pod);
    let of_orphans = Arc::clone(&queue);
    informers.pods.on_change(move |change| {
        let pod = change.object();
        if controller_of(&pod.metadata).is_none() && is_tracked(pod) {
            of_orphans.add(orphans_of(pod.metadata.namespace.as_deref().unwrap_or_default()));
        }
    });
    crate::room::retry_when_there_is_room(&informers, &queue);
    let synced = {
        let informers = informers.clone();
        async move {
            informers.jobs.synced().await;
            informers.pods.synced().await;
        }
    };
    let pods = PodControl::new(informers.pods.clone(), client.clone(), events.clone());
    let jobs = Jobs { informers, client, events, pods, failures: Mutex::default() };
    start.task(controller::run(Arc::new(jobs), queue, WORKERS, synced, start.shutdown.clone()));
}

/// The key under which the pods of a namespace are looked at that no job controls any more: no job has an empty name.
fn orphans_of(namespace: &str) -> ObjectKey {
    ObjectKey::new(namespace, "")
}

fn chooses_pod(job: &Job, pod: &Pod) -> bool {
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    chooses(selector, pod.metadata.labels.as_ref())
}

struct Jobs {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
    pods: PodControl,
    /// The failures of each job, by its UID.
    failures: Mutex<BTreeMap<String, Backoff>>,
}

impl Reconciler for Jobs {
    const NAME: &'static str = NAME;

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        if key.name.is_empty() {
            return self.let_orphans_go(&key.namespace).await;
        }
        let job = self.informers.jobs.get(&key);
        self.let_strangers_go(&key, job.as_deref()).await?;
        let Some(job) = job else { return Ok(Next::Change) };
        let spec = job.spec.as_ref();
        let mode = spec.and_then(|spec| spec.completion_mode.as_deref());
        if is_foreign(&job) || !matches!(mode, None | Some("NonIndexed" | "Indexed")) {
            return Ok(Next::Change);
        }
        let jobs = Api::namespaced(self.client.clone(), &key.namespace);
        let pods = self.pods.api(&key.namespace);
        let pods = claimed(&*job, &self.informers.pods, &pods, &jobs, |pod| chooses_pod(&job, pod)).await?;
        let uid = job.metadata.uid.clone().unwrap_or_default();
        let backoff = self.failures().get(&uid).cloned();
        let facts = Facts { job: &job, pods: &pods, backoff, now: Timestamp::now() };
        self.carry_out(&job, &jobs, decide(&facts)).await
    }
}

impl Jobs {
    async fn carry_out(
        &self,
        job: &Job,
        jobs: &Api<Job>,
        decision: Decision,
    ) -> Result<Next, ReconcileError> {
        let owner = object_reference(job);
        each(decision.adopt, |pod| self.change_finalizer(pod, true)).await?;
        let owner = &owner;
        let withdraw = |pod: Arc<Pod>| async move {
            self.change_finalizer(Arc::clone(&pod), false).await?;
            fault::point("job.pod_withdrawn");
            self.pods.delete(owner, &pod).await
        };
        each(decision.withdraw, withdraw).await?;
        each(decision.stop, |pod| async move { self.pods.delete(owner, &pod).await }).await?;
        let make = |place: usize| template::pod(job, decision.create[place]);
        let (created, failure) = self.pods.create_many(owner, decision.create.len(), make).await;
        let failure = failure.filter(|failure| !is_namespace_terminating(failure));
        if !decision.create.is_empty() {
            fault::point("job.pods_created");
        }
        let mut status = decision.status;
        let missing = i32::try_from(decision.create.len() - created.len()).unwrap_or(0);
        status.active = status.active.map(|active| active - missing).filter(|active| *active > 0);
        self.write_status(job, jobs, status).await?;
        fault::point("job.status_written");
        for news in decision.news {
            let severity = if news.is_warning { EventType::Warning } else { EventType::Normal };
            self.events.record(owner.clone(), severity, news.reason, news.message);
        }
        if let Some(uid) = &job.metadata.uid {
            self.failures().insert(uid.clone(), decision.backoff);
        }
        if !decision.let_go.is_empty() {
            each(decision.let_go, |pod| self.change_finalizer(pod, false)).await?;
            fault::point("job.pods_let_go");
        }
        match (failure, decision.again) {
            (Some(failure), _) => Err(failure.into()),
            (None, Some(wait)) => Ok(Next::After(wait)),
            (None, None) => Ok(Next::Change),
        }
    }

    async fn write_status(&self, job: &Job, jobs: &Api<Job>, status: JobStatus) -> kube::Result<()> {
        if job.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let job = Job { status: Some(status), ..job.clone() };
        match jobs.replace_status(name, &PostParams::default(), &job).await {
            Ok(written) => {
                self.informers.jobs.learn(written);
                Ok(())
            }
            // It is gone: its pods are looked at when that is heard of.
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives a pod its finalizer, or takes it away. One that is gone has none.
    async fn change_finalizer(&self, pod: Arc<Pod>, add: bool) -> kube::Result<()> {
        if is_tracked(&pod) == add {
            return Ok(());
        }
        let finalizers: Value = json!([FINALIZER]);
        let name = if add { "finalizers" } else { "$deleteFromPrimitiveList/finalizers" };
        let patch = json!({"metadata": {"uid": pod.metadata.uid, name: finalizers}});
        let key = ObjectKey::of(&*pod);
        let pods = self.pods.api(&key.namespace);
        match pods.patch(&key.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(patched) => {
                let meta = &patched.metadata;
                let is_gone = meta.deletion_timestamp.is_some()
                    && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
                    && meta.finalizers.as_ref().is_none_or(Vec::is_empty);
                if is_gone {
                    self.informers.pods.learn_deleted(uid(&pod), &key);
                } else {
                    self.informers.pods.learn(patched);
                }
                Ok(())
            }
            Err(error) if is_not_found(&error) => {
                self.informers.pods.learn_deleted(uid(&pod), &key);
                Ok(())
            }
            // Another pod has its name by now.
            Err(error) if is_of_another(&error) => {
                self.informers.pods.learn_deleted(uid(&pod), &key);
                Ok(())
            }
            // A pod that is on its way out takes no finalizer any more; it is there all the same.
            Err(kube::Error::Api(status)) if add && status.code == 422 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Pods of a job of this name that is gone: nobody will count them.
    async fn let_strangers_go(&self, key: &ObjectKey, job: Option<&Job>) -> kube::Result<()> {
        let uid = job.and_then(|job| job.metadata.uid.as_deref());
        if uid.is_none() {
            self.forget_failures();
        }
        let pods = self.informers.pods.in_namespace(&key.namespace);
        let strangers: Vec<Arc<Pod>> = pods
            .into_iter()
            .filter(|pod| is_tracked(pod) && controller_key::<Job>(&pod.metadata).as_ref() == Some(key))
            .filter(|pod| controller_of(&pod.metadata).map(|controller| controller.uid.as_str()) != uid)
            .collect();
        each(strangers, |pod| self.change_finalizer(pod, false)).await
    }

    /// Pods that no controller owns any more, and that no job will adopt.
    async fn let_orphans_go(&self, namespace: &str) -> Result<Next, ReconcileError> {
        let jobs = self.informers.jobs.in_namespace(namespace);
        let will_be_adopted = |pod: &Pod| {
            pod.metadata.deletion_timestamp.is_none()
                && jobs.iter().any(|job| job.metadata.deletion_timestamp.is_none() && chooses_pod(job, pod))
        };
        let pods = self.informers.pods.uncontrolled_in(namespace);
        let orphans: Vec<Arc<Pod>> =
            pods.into_iter().filter(|pod| is_tracked(pod) && !will_be_adopted(pod)).collect();
        each(orphans, |pod| self.change_finalizer(pod, false)).await?;
        Ok(Next::Change)
    }

    /// Drops what is remembered of jobs that are gone.
    fn forget_failures(&self) {
        let jobs = self.informers.jobs.all();
        let there: std::collections::BTreeSet<&str> =
            jobs.iter().filter_map(|job| job.metadata.uid.as_deref()).collect();
        self.failures().retain(|uid, _| there.contains(uid.as_str()));
    }

    /// No holder of the lock can panic half-way through a change.
    fn failures(&self) -> MutexGuard<'_, BTreeMap<String, Backoff>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does something with each pod, with some at the same time; all are tried.
async fn each<F: Future<Output = kube::Result<()>>>(
    pods: Vec<Arc<Pod>>,
    act: impl Fn(Arc<Pod>) -> F,
) -> kube::Result<()> {
    let answers: Vec<kube::Result<()>> =
        futures::stream::iter(pods).map(act).buffer_unordered(AT_ONCE).collect().await;
    answers.into_iter().collect()
}
