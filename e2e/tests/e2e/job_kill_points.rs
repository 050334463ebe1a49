//! Kill -9 of the process at each named point of what the Job, TTL and CronJob controllers do: no pod is made twice or counted twice, and
//! no time of a CronJob is started twice. Pods of these tests keep a finalizer of their own, so that every one that was ever created is
//! there to be counted.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::crash_lane::{Lane, Outcome, ensure};
use super::kill_points::has_points;
use super::node::with_kubectl;

const FINALIZER: &str = "test.coracle.dev/counted";
const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

/// What is under way when the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// A job of three pods, two at once, runs to its end.
    Run,
    /// The same with indexes.
    Indexed,
    /// A job that runs is suspended, and goes on.
    Suspend,
    /// A job is complete and has no time to live.
    Expire,
    /// A CronJob that allows one job at a time starts it.
    Tick,
}

const KILLS: [(Story, &str, u32); 14] = [
    (Story::Run, "job.pods_created", 1),
    (Story::Run, "job.pods_created", 2),
    (Story::Run, "job.status_written", 1),
    (Story::Run, "job.status_written", 3),
    (Story::Run, "job.status_written", 5),
    (Story::Run, "job.pods_let_go", 1),
    (Story::Run, "job.pods_let_go", 2),
    (Story::Indexed, "job.pods_created", 1),
    (Story::Indexed, "job.status_written", 4),
    (Story::Indexed, "job.pods_let_go", 1),
    (Story::Suspend, "job.pod_withdrawn", 1),
    (Story::Suspend, "job.status_written", 1),
    (Story::Expire, "ttl.expired", 1),
    (Story::Tick, "cronjob.job_created", 1),
];

/// The points of this table.
pub(crate) fn points() -> BTreeSet<String> {
    KILLS.iter().map(|kill| kill.1.to_owned()).collect()
}

#[test]
fn kill_9_at_any_point_of_jobs_counts_each_pod_once_and_starts_no_job_twice() {
    let test = "kill_9_at_any_point_of_jobs_counts_each_pod_once_and_starts_no_job_twice";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let only = std::env::var("KILL_POINT").unwrap_or_default();
    let mut lane = Lane::new();
    let mut failures = Vec::new();
    for (number, kill) in KILLS.iter().enumerate() {
        let shown = format!("{:?} {} {}", kill.0, kill.1, kill.2);
        if !shown.contains(&only) {
            continue;
        }
        if let Err(problem) = survive(&mut lane, *kill, &format!("k{number}")) {
            failures.push(format!("{shown}: {problem}\n--- node\n{}", lane.last_of_log()));
            // What is wrong here must not spoil the next case.
            lane = Lane::new();
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), KILLS.len(), failures.join("\n"));
}

fn job_spec(name: &str, command: &[&str], count: u32) -> Value {
    json!({
        "completions": count, "parallelism": 2,
        "template": {
            "metadata": {"labels": {"story": name}, "finalizers": [FINALIZER]},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "coracle.dev/host", "command": command}],
            },
        },
    })
}

fn job(name: &str, command: &[&str], count: u32) -> Value {
    let meta = json!({"name": name, "labels": {"story": name}});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job_spec(name, command, count)})
}

fn get(lane: &Lane, path: &str) -> Option<Value> {
    let (code, body) = lane.ask("GET", path, "")?;
    (code == 200).then(|| serde_json::from_str(&body).ok()).flatten()
}

fn pods_of(lane: &Lane, name: &str) -> Vec<Value> {
    let list = get(lane, &format!("{PODS}?labelSelector=story%3D{name}")).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

fn has(job: &Value, condition: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|each| each["type"] == condition && each["status"] == "True")
}

fn complete(lane: &Lane, name: &str, count: u32) -> Outcome {
    lane.wait("the job is not complete", || {
        let job = get(lane, &format!("{JOBS}/{name}")).ok_or("there is no job")?;
        ensure(has(&job, "Complete"), || job["status"].to_string())?;
        let counts = (&job["status"]["succeeded"], &job["status"]["failed"]);
        ensure(counts == (&json!(count), &Value::Null), || format!("wrong counts: {}", job["status"]))
    })
}

/// One story with one kill.
fn survive(lane: &mut Lane, (story, point, visit): (Story, &str, u32), name: &str) -> Outcome {
    let path = format!("{JOBS}/{name}");
    let kill = format!("kill {point} {visit}\n");
    let patch = |lane: &Lane, spec: Value| {
        lane.ask("PATCH", &path, &json!({"spec": spec}).to_string());
    };
    match story {
        Story::Run | Story::Indexed => {
            let mut job = job(name, &["/bin/true"], 3);
            if story == Story::Indexed {
                job["spec"]["completionMode"] = json!("Indexed");
            }
            lane.arm_lines(&kill);
            lane.ask("POST", JOBS, &job.to_string());
            lane.wait_for_death()?;
            lane.up();
            // It may have died before it answered.
            lane.ask("POST", JOBS, &job.to_string());
            complete(lane, name, 3)?;
            let pods = pods_of(lane, name);
            ensure(pods.len() == 3, || format!("{} pods were created", pods.len()))?;
        }
        Story::Suspend => {
            lane.ask("POST", JOBS, &job(name, &["/bin/sleep", "100000"], 2).to_string());
            lane.wait("the pods do not run", || {
                let running =
                    pods_of(lane, name).iter().filter(|pod| pod["status"]["phase"] == "Running").count();
                ensure(running == 2, || format!("{running} run"))
            })?;
            lane.arm_lines(&kill);
            patch(lane, json!({"suspend": true}));
            lane.wait_for_death()?;
            lane.up();
            patch(lane, json!({"suspend": true}));
            lane.wait("it is not suspended", || {
                let job = get(lane, &path).ok_or("there is no job")?;
                let is_so = has(&job, "Suspended") && job["status"]["active"].is_null();
                ensure(is_so && job["status"]["failed"].is_null(), || job["status"].to_string())
            })?;
            let pods = pods_of(lane, name);
            ensure(pods.len() == 2, || format!("{} pods were created", pods.len()))?;
        }
        Story::Expire => {
            let mut job = job(name, &["/bin/true"], 1);
            job["spec"]["ttlSecondsAfterFinished"] = json!(0);
            lane.arm_lines(&kill);
            lane.ask("POST", JOBS, &job.to_string());
            lane.wait_for_death()?;
            lane.up();
            for pod in pods_of(lane, name) {
                release(lane, &pod);
            }
            lane.wait("the job stays", || {
                let answer = lane.ask("GET", &path, "").ok_or("nobody answers")?;
                ensure(answer.0 == 404, || answer.1)
            })?;
        }
        Story::Tick => {
            let spec = job_spec(name, &["/bin/sleep", "100000"], 1);
            let template = json!({"metadata": {"labels": {"story": name}}, "spec": spec});
            let cron = json!({
                "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
                "spec": {"schedule": "@every 1s", "concurrencyPolicy": "Forbid", "jobTemplate": template},
            });
            lane.arm_lines(&kill);
            lane.ask("POST", CRON_JOBS, &cron.to_string());
            lane.wait_for_death()?;
            lane.up();
            lane.wait("the job is not noted", || {
                let cron = get(lane, &format!("{CRON_JOBS}/{name}")).ok_or("there is no CronJob")?;
                let active = cron["status"]["active"].as_array().map_or(0, Vec::len);
                ensure(active == 1, || cron["status"].to_string())
            })?;
            let jobs = get(lane, &format!("{JOBS}?labelSelector=story%3D{name}")).unwrap_or_default();
            let count = jobs["items"].as_array().map_or(0, Vec::len);
            ensure(count == 1, || format!("{count} jobs"))?;
            lane.ask("DELETE", &format!("{CRON_JOBS}/{name}"), "");
        }
    }
    clear(lane, name)
}

fn release(lane: &Lane, pod: &Value) {
    let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
    lane.ask("DELETE", &path, "");
    lane.ask("PATCH", &path, &json!({"metadata": {"finalizers": null}}).to_string());
}

/// Takes everything of a story away.
fn clear(lane: &Lane, name: &str) -> Outcome {
    let all = format!("?labelSelector=story%3D{name}");
    lane.ask("DELETE", &format!("{JOBS}{all}"), "");
    lane.wait("pods are left", || {
        let pods = pods_of(lane, name);
        pods.iter().for_each(|pod| release(lane, pod));
        ensure(pods.is_empty(), || format!("{} pods", pods.len()))
    })
}
