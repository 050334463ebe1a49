//! Tables of the decision about CronJobs.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::{Value, json};

use super::decision::{Decision, Facts, decide, started};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A CronJob that was created at midnight of the year's first day and is due every hour in UTC.
fn cron_job(spec: Value, status: Value) -> CronJob {
    let mut object = json!({
        "metadata": {"name": "tick", "namespace": "n", "uid": "tick-uid", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "schedule": "0 * * * *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Allow",
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"template": {"spec": {"containers": []}}},
            },
        },
        "status": status,
    });
    for (name, value) in spec.as_object().unwrap() {
        object["spec"][name] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// A job; with how it has ended and when it began, if it has ended.
fn job(name: &str, end: Option<(&str, &str)>) -> Arc<Job> {
    let status = end.map_or(json!({}), |(type_, start)| {
        json!({"startTime": start, "completionTime": start,
            "conditions": [{"type": type_, "status": "True"}]})
    });
    let object = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("{name}-uid"),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": "tick-uid", "controller": true}]},
        "spec": {"template": {}}, "status": status,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn look(cron_job: &CronJob, jobs: &[Arc<Job>], now: &str) -> Decision {
    decide(&Facts { cron_job, jobs, now: time(now) })
}

fn reasons(decision: &Decision) -> Vec<&str> {
    decision.news.iter().map(|news| news.reason.as_str()).collect()
}

/// The time of the job that starts.
fn start(decision: &Decision) -> Option<String> {
    decision.start.as_ref().map(|new| new.time.to_string())
}

fn active(names: &[&str]) -> Value {
    let each = names.iter().map(|name| json!({"name": name, "uid": format!("{name}-uid")}));
    each.collect::<Vec<_>>().into()
}

#[test]
fn a_job_starts_at_its_time_and_not_before() {
    let rows = [
        (json!({}), json!({}), "2026-01-01T00:59:59.9Z", None, Some(0)),
        (json!({}), json!({}), "2026-01-01T01:00:00Z", Some("2026-01-01T01:00:00Z"), Some(3600)),
        (
            json!({}),
            json!({"lastScheduleTime": "2026-01-01T01:00:00Z"}),
            "2026-01-01T01:00:10Z",
            None,
            Some(3590),
        ),
        // What was missed is started once, for the last time.
        (json!({}), json!({}), "2026-01-01T05:20:00Z", Some("2026-01-01T05:00:00Z"), Some(2400)),
        (json!({"suspend": true}), json!({}), "2026-01-01T05:20:00Z", None, None),
        // Nine in Berlin is eight in UTC.
        (
            json!({"schedule": "0 9 * * *", "timeZone": "Europe/Berlin"}),
            json!({}),
            "2026-01-01T08:00:00Z",
            Some("2026-01-01T08:00:00Z"),
            Some(86400),
        ),
        (
            json!({"startingDeadlineSeconds": 60}),
            json!({}),
            "2026-01-01T01:00:59Z",
            Some("2026-01-01T01:00:00Z"),
            Some(3541),
        ),
        // Too late for five o'clock, too early for six.
        (json!({"startingDeadlineSeconds": 60}), json!({}), "2026-01-01T05:20:00Z", None, Some(2400)),
        (
            json!({"schedule": "@every 10m"}),
            json!({}),
            "2026-01-01T00:25:00Z",
            Some("2026-01-01T00:20:00Z"),
            Some(600),
        ),
    ];
    for (spec, status, now, expected, again) in rows {
        let decision = look(&cron_job(spec.clone(), status), &[], now);
        assert_eq!(start(&decision).as_deref(), expected, "{spec} at {now}");
        assert_eq!(decision.again.map(|again| again.as_secs()), again, "{spec} at {now}");
        assert!(decision.news.is_empty(), "{:?}", decision.news);
    }
}

#[test]
fn what_cannot_be_scheduled_is_told() {
    for (spec, now, expected) in [
        (
            json!({}),
            "2026-01-08T00:00:00Z",
            "TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
        ),
        (
            json!({"schedule": "often"}),
            "2026-01-01T00:00:01Z",
            "UnparseableSchedule: unparseable schedule: \"often\" : expected exactly 5 fields, found 1: [often]",
        ),
        (
            json!({"schedule": "0 0 30 2 *"}),
            "2026-01-01T00:00:01Z",
            "InvalidSchedule: invalid schedule: 0 0 30 2 * : time difference between two schedules is less than 1 second",
        ),
        (
            json!({"timeZone": "Mars/Base"}),
            "2026-01-01T00:00:01Z",
            "UnknownTimeZone: invalid timeZone: \"Mars/Base\": unknown time zone Mars/Base",
        ),
    ] {
        let decision = look(&cron_job(spec.clone(), json!({})), &[], now);
        let told: Vec<String> =
            decision.news.iter().map(|news| format!("{}: {}", news.reason, news.message)).collect();
        assert_eq!(told, [expected], "{spec}");
        assert!(decision.news[0].is_warning);
        assert_eq!(
            decision.start.is_some(),
            told[0].starts_with("TooMany"),
            "the last one starts all the same"
        );
    }
}

#[test]
fn jobs_that_still_run_stand_beside_in_the_way_or_are_replaced() {
    let running = [job("tick-1", None)];
    let status = json!({"active": active(&["tick-1"]), "lastScheduleTime": "2026-01-01T01:00:00Z"});
    for (policy, starts, deleted, reason) in
        [("Allow", true, 0, None), ("Forbid", false, 0, Some("JobAlreadyActive")), ("Replace", true, 1, None)]
    {
        let decision = look(
            &cron_job(json!({"concurrencyPolicy": policy}), status.clone()),
            &running,
            "2026-01-01T02:00:00Z",
        );
        assert_eq!(decision.start.is_some(), starts, "{policy}");
        assert_eq!(decision.delete.len(), deleted, "{policy}");
        assert_eq!(reasons(&decision), Vec::from_iter(reason), "{policy}");
        let left = decision.status.active.iter().flatten().count();
        assert_eq!(left, usize::from(policy != "Replace"), "{policy}");
    }
}

#[test]
fn the_name_of_a_job_follows_from_its_time() {
    let decision = look(
        &cron_job(json!({"timeZone": "Asia/Kolkata", "schedule": "30 * * * *"}), json!({})),
        &[],
        "2026-01-01T01:00:00Z",
    );
    let new = serde_json::to_value(&decision.start.unwrap().job).unwrap();
    let minutes = time("2026-01-01T01:00:00Z").as_second() / 60;
    assert_eq!(new["metadata"]["name"], format!("tick-{minutes}"));
    assert_eq!(
        new["metadata"]["annotations"],
        json!({"c": "d", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T06:30:00+05:30"})
    );
    assert_eq!(new["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(new["metadata"]["ownerReferences"][0]["uid"], "tick-uid");
    let decision = look(&cron_job(json!({}), json!({})), &[], "2026-01-01T01:00:00Z");
    let annotations = decision.start.unwrap().job.metadata.annotations.unwrap();
    assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], "2026-01-01T01:00:00Z");
}

#[test]
fn a_job_that_was_made_just_before_this_process_died_is_not_made_again() {
    let cron_job = cron_job(json!({}), json!({}));
    let first = look(&cron_job, &[], "2026-01-01T01:00:00Z");
    let mut made = first.start.unwrap().job;
    made.metadata.uid = Some("made-uid".to_owned());
    let again = look(&cron_job, &[Arc::new(made.clone())], "2026-01-01T01:00:02Z");
    assert_eq!(again.start, None);
    assert!(again.news.is_empty(), "{:?}", again.news);
    let mut expected = first.status;
    started(&mut expected, &made, time("2026-01-01T01:00:00Z"));
    assert_eq!(again.status, expected, "and its time is noted");
    // Nor when it has ended meanwhile.
    let mut ended = serde_json::to_value(&made).unwrap();
    ended["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let ended: Job = serde_json::from_value(ended).unwrap();
    assert_eq!(look(&cron_job, &[Arc::new(ended)], "2026-01-01T01:00:05Z").start, None);
}

#[test]
fn jobs_that_end_go_or_come_from_elsewhere_are_noted() {
    let status =
        json!({"active": active(&["done", "gone", "runs"]), "lastScheduleTime": "2026-01-01T01:00:00Z"});
    let jobs =
        [job("done", Some(("Complete", "2026-01-01T01:00:30Z"))), job("runs", None), job("strange", None)];
    let decision = look(&cron_job(json!({}), status), &jobs, "2026-01-01T01:10:00Z");
    let told: Vec<&str> = decision.news.iter().map(|news| news.message.as_str()).collect();
    assert_eq!(
        told,
        [
            "Saw completed job: done, condition: Complete",
            "Saw a job that the controller did not create or forgot: strange",
            "Active job went missing: gone",
        ]
    );
    assert_eq!(reasons(&decision), ["SawCompletedJob", "UnexpectedJob", "MissingJob"]);
    let status = serde_json::to_value(&decision.status).unwrap();
    assert_eq!(status["active"], active(&["runs"]));
    assert_eq!(status["lastSuccessfulTime"], "2026-01-01T01:00:30Z");
}

#[test]
fn finished_jobs_beyond_the_limits_go_the_oldest_first() {
    let at = |minute: u32| format!("2026-01-01T00:{minute:02}:00Z");
    let jobs: Vec<Arc<Job>> = (1..=5)
        .map(|n| job(&format!("good-{n}"), Some(("Complete", at(n).as_str()))))
        .chain((1..=3).map(|n| job(&format!("bad-{n}"), Some(("Failed", at(n).as_str())))))
        .chain([job("runs", None)])
        .collect();
    let gone = |spec: Value| -> Vec<String> {
        let decision = look(&cron_job(spec, json!({})), &jobs, "2026-01-01T00:30:00Z");
        decision.delete.iter().map(|job| job.metadata.name.clone().unwrap()).collect()
    };
    assert_eq!(gone(json!({})), ["good-1", "good-2", "bad-1", "bad-2"]);
    assert_eq!(
        gone(json!({"successfulJobsHistoryLimit": 5, "failedJobsHistoryLimit": 0})),
        ["bad-1", "bad-2", "bad-3"]
    );
}

#[test]
fn a_clock_that_was_set_back_starts_nothing_twice() {
    let cron_job = cron_job(json!({}), json!({"lastScheduleTime": "2026-01-01T05:00:00Z"}));
    let decision = look(&cron_job, &[], "2026-01-01T03:30:00Z");
    assert_eq!(decision.start, None);
    assert!(decision.again.is_some());
}
