//! Jobs, their time to live and CronJobs against a real API server; the tests end the pods.

use std::sync::Arc;

use controllers::Informers;
use informer::ObjectKey;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;

fn job(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    });
    for (name, value) in spec.as_object().expect("an object") {
        object["spec"][name] = value.clone();
    }
    object
}

fn of(seen: &Informers, name: &str) -> Option<Arc<Job>> {
    seen.jobs.get(&ObjectKey::new("default", name))
}

fn is(job: &Job, condition: &str) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|each| each.type_ == condition && each.status == "True")
}

fn pods_of(seen: &Informers, job: &str) -> Vec<Arc<Pod>> {
    let uid = of(seen, job).and_then(|job| job.metadata.uid.clone()).unwrap_or_default();
    seen.pods.controlled_by("default", &uid)
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|each| each == "batch.kubernetes.io/job-tracking")
}

/// Ends all pods of a job that run.
async fn end(cluster: &Cluster, job: &str, phase_: &str, code: i32) {
    for pod in pods_of(&cluster.seen, job).iter().filter(|pod| phase(pod) == "Running") {
        let name = pod.metadata.name.as_deref().expect("a name");
        let ended = json!({"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"});
        let container = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": ended}});
        let status = json!({"status": {"phase": phase_, "containerStatuses": [container]}});
        cluster
            .api::<Pod>()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("patched");
    }
}

async fn running(cluster: &Cluster, job: &str, count: usize) {
    cluster
        .until("the pods run", |seen| {
            pods_of(seen, job).iter().filter(|pod| phase(pod) == "Running").count() == count
        })
        .await;
}

#[tokio::test]
async fn a_job_runs_its_pods_counts_them_and_is_complete() {
    let cluster = Cluster::new().await;
    cluster.create::<Job>(job("pi", json!({"completions": 3, "parallelism": 2}))).await;
    running(&cluster, "pi", 2).await;
    end(&cluster, "pi", "Succeeded", 0).await;
    running(&cluster, "pi", 1).await;
    end(&cluster, "pi", "Succeeded", 0).await;
    cluster.until("the job is complete", |seen| of(seen, "pi").is_some_and(|job| is(&job, "Complete"))).await;
    let done = of(&cluster.seen, "pi").expect("the job");
    let status = done.status.as_ref().expect("a status");
    assert_eq!((status.succeeded, status.failed, status.active), (Some(3), None, None));
    assert!(is(&done, "SuccessCriteriaMet") && status.completion_time.is_some());
    cluster
        .until("no pod is held", |seen| {
            let pods = pods_of(seen, "pi");
            pods.len() == 3 && !pods.iter().any(|pod| is_tracked(pod))
        })
        .await;
    let labels = pods_of(&cluster.seen, "pi")[0].metadata.labels.clone().expect("labels");
    assert_eq!(labels["batch.kubernetes.io/job-name"], "pi");
    // Nothing more happens to it.
    let version = done.metadata.resource_version.clone();
    assert_eq!(of(&cluster.seen, "pi").expect("the job").metadata.resource_version, version);
}

#[tokio::test]
async fn a_job_that_fails_says_why_and_its_time_to_live_ends_it() {
    let cluster = Cluster::new().await;
    cluster.create::<Job>(job("bad", json!({"backoffLimit": 0, "ttlSecondsAfterFinished": 0}))).await;
    running(&cluster, "bad", 1).await;
    end(&cluster, "bad", "Failed", 3).await;
    cluster
        .until("it is gone, with its pod", |seen| of(seen, "bad").is_none() && seen.pods.count() == 0)
        .await;
    let events: Api<Event> = cluster.api();
    let mut reasons = Vec::new();
    // Events are written a little later than what they tell of.
    while !reasons.iter().any(|reason| reason == "BackoffLimitExceeded") {
        let list = events.list(&ListParams::default()).await.expect("events");
        reasons = list.items.into_iter().filter_map(|event| event.reason).collect();
        tokio::task::yield_now().await;
    }
    assert!(reasons.iter().any(|reason| reason == "SuccessfulCreate"), "{reasons:?}");
}

#[tokio::test]
async fn an_indexed_job_gives_each_pod_its_index_and_outlives_its_controller() {
    let mut cluster = Cluster::new().await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
    cluster.create::<Job>(job("ix", spec)).await;
    running(&cluster, "ix", 3).await;
    cluster.stop().await;
    end(&cluster, "ix", "Succeeded", 0).await;
    cluster.start();
    cluster.until("the job is complete", |seen| of(seen, "ix").is_some_and(|job| is(&job, "Complete"))).await;
    let done = of(&cluster.seen, "ix").expect("the job");
    let status = done.status.as_ref().expect("a status");
    assert_eq!((status.completed_indexes.as_deref(), status.succeeded), (Some("0-2"), Some(3)));
    let pods = pods_of(&cluster.seen, "ix");
    let mut names: Vec<String> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.hostname.clone()).collect();
    names.sort();
    assert_eq!(names, ["ix-0", "ix-1", "ix-2"]);
    assert!(pods.iter().all(|pod| pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("ix-"))));
}

#[tokio::test]
async fn a_suspended_job_has_no_pods_and_none_of_them_counts() {
    let cluster = Cluster::new().await;
    cluster.create::<Job>(job("stop", json!({}))).await;
    running(&cluster, "stop", 1).await;
    let suspend = |yes: bool| Patch::Merge(json!({"spec": {"suspend": yes}}));
    let jobs = cluster.api::<Job>();
    jobs.patch("stop", &PatchParams::default(), &suspend(true)).await.expect("patched");
    cluster
        .until("it is suspended", |seen| {
            of(seen, "stop").is_some_and(|job| is(&job, "Suspended")) && pods_of(seen, "stop").is_empty()
        })
        .await;
    jobs.patch("stop", &PatchParams::default(), &suspend(false)).await.expect("patched");
    running(&cluster, "stop", 1).await;
    end(&cluster, "stop", "Succeeded", 0).await;
    cluster.until("it is complete", |seen| of(seen, "stop").is_some_and(|job| is(&job, "Complete"))).await;
    let done = of(&cluster.seen, "stop").expect("the job");
    assert_eq!(done.status.as_ref().expect("a status").failed, None);
}

#[tokio::test]
async fn pods_of_a_job_that_is_gone_are_not_held() {
    let cluster = Cluster::new().await;
    for (name, params) in
        [("cascade", DeleteParams::background()), ("foreground", DeleteParams::foreground())]
    {
        cluster.create::<Job>(job(name, json!({"parallelism": 2, "completions": 2}))).await;
        running(&cluster, name, 2).await;
        cluster.api::<Job>().delete(name, &params).await.expect("deleted");
        cluster.until("all is gone", |seen| of(seen, name).is_none() && seen.pods.count() == 0).await;
    }
    cluster.create::<Job>(job("orphans", json!({}))).await;
    running(&cluster, "orphans", 1).await;
    let orphan = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    cluster.api::<Job>().delete("orphans", &orphan).await.expect("deleted");
    cluster
        .until("its pod stays, held by nothing", |seen| {
            let pods = seen.pods.all();
            of(seen, "orphans").is_none() && pods.len() == 1 && !is_tracked(&pods[0])
        })
        .await;
}

#[tokio::test]
async fn a_cron_job_starts_one_job_at_a_time_and_none_twice() {
    let mut cluster = Cluster::new().await;
    let spec = job("tick", json!({}))["spec"].clone();
    let object = json!({
        "metadata": {"name": "tick"},
        "spec": {"schedule": "@every 1s", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": spec}},
    });
    cluster.create::<CronJob>(object).await;
    cluster.until("a job has come", |seen| seen.jobs.count() == 1).await;
    let first = cluster.seen.jobs.all()[0].clone();
    let name = first.metadata.name.clone().expect("a name");
    assert!(name.starts_with("tick-"), "{name}");
    let active = |seen: &Informers| {
        let tick = seen.cron_jobs.get(&ObjectKey::new("default", "tick"))?;
        let status = tick.status.clone()?;
        Some((status.active.unwrap_or_default().len(), status.last_schedule_time.is_some()))
    };
    cluster.until("it is noted", |seen| active(seen) == Some((1, true))).await;
    cluster.stop().await;
    cluster.start();
    running(&cluster, &name, 1).await;
    assert_eq!(cluster.seen.jobs.count(), 1, "the one that runs forbids others");
    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    cluster.api::<CronJob>().patch("tick", &PatchParams::default(), &suspend).await.expect("patched");
    end(&cluster, &name, "Succeeded", 0).await;
    cluster.until("it has ended", |seen| active(seen) == Some((0, true))).await;
    cluster.api::<CronJob>().delete("tick", &DeleteParams::background()).await.expect("deleted");
    cluster.until("all is gone", |seen| seen.jobs.count() == 0 && seen.pods.count() == 0).await;
}
