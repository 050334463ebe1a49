//! Tables of the decision about jobs.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::decision::{Decision, Facts, decide};
use super::pods::FINALIZER;

const NOW: &str = "2026-01-01T01:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn job(spec: Value, status: Value) -> Job {
    let mut object = json!({
        "metadata": {"name": "pi", "namespace": "n", "uid": "pi-uid"},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
            "podReplacementPolicy": "TerminatingOrFailed", "template": {"spec": {"containers": []}}},
        "status": status,
    });
    for (name, value) in spec.as_object().unwrap() {
        object["spec"][name] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// A pod from words: its name, its phase (`active`, `ready`, `succeeded`, `failed`), `going`, `counted` (without finalizer), `#3` (its
/// index), `~2` (failures of its index before it), `=42` (its exit status), `-60` (when it ended: so many seconds ago).
fn pod(words: &str) -> Arc<Pod> {
    let mut words = words.split_whitespace();
    let name = words.next().unwrap();
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "finalizers": [FINALIZER], "annotations": {}},
        "spec": {"nodeName": "node", "containers": []},
        "status": {"phase": "Running"},
    });
    let (mut exit, mut ended) = (None, None);
    for word in words {
        let (mark, rest) = word.split_at(1);
        match (word, mark) {
            ("active", _) => {}
            ("ready", _) => pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]),
            ("succeeded", _) => pod["status"]["phase"] = "Succeeded".into(),
            ("failed", _) => pod["status"]["phase"] = "Failed".into(),
            ("going", _) => {
                pod["metadata"]["deletionTimestamp"] = NOW.into();
                pod["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            }
            ("counted", _) => pod["metadata"]["finalizers"] = json!(null),
            (_, "#") => {
                pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = rest.into()
            }
            (_, "~") => {
                pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = rest.into()
            }
            (_, "*") => {
                pod["status"]["containerStatuses"] = json!([{"name": "c", "image": "", "imageID": "", "ready": false,
                    "restartCount": rest.parse::<i32>().unwrap()}]);
            }
            (_, "=") => exit = Some(rest.parse::<i32>().unwrap()),
            (_, "-") => ended = Some(rest.parse::<i64>().unwrap()),
            _ => panic!("{word}"),
        }
    }
    if pod["status"]["phase"] != "Running" {
        let ended = now().checked_sub(SignedDuration::from_secs(ended.unwrap_or(3600))).unwrap();
        pod["status"]["containerStatuses"] = json!([{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": exit.unwrap_or(0), "finishedAt": ended.to_string()}}}]);
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn look(job: &Job, pods: &[&str]) -> Decision {
    let pods: Vec<Arc<Pod>> = pods.iter().map(|words| pod(words)).collect();
    decide(&Facts { job, pods: &pods, backoff: None, now: now() })
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    let mut names: Vec<&str> = pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect();
    names.sort_unstable();
    names
}

/// The actions in a line: `+2` or `+#0,#3` creates, `-a` withdraws, `!a` stops, `.a` lets go; and seconds until the next look.
fn shown(decision: &Decision) -> String {
    let mut parts = Vec::new();
    if !decision.create.is_empty() {
        let indexes: Vec<String> =
            decision.create.iter().filter_map(|new| new.index).map(|index| format!("#{index}")).collect();
        let what = if indexes.is_empty() { decision.create.len().to_string() } else { indexes.join(",") };
        parts.push(format!("+{what}"));
    }
    for (mark, pods) in [("-", &decision.withdraw), ("!", &decision.stop), (".", &decision.let_go)] {
        parts.extend(names(pods).iter().map(|name| format!("{mark}{name}")));
    }
    parts.extend(decision.again.map(|again| format!("in {}", again.as_secs())));
    parts.join(" ")
}

/// The status in a line: counts that are not zero, named pods, indexes, and true conditions with their reasons.
fn status(decision: &Decision) -> String {
    let status = serde_json::to_value(&decision.status).unwrap();
    let mut parts = Vec::new();
    for name in ["active", "ready", "terminating", "succeeded", "failed"] {
        if let Some(count) = status[name].as_i64().filter(|count| *count > 0) {
            parts.push(format!("{name} {count}"));
        }
    }
    for (name, short) in [("completedIndexes", "done"), ("failedIndexes", "lost")] {
        if let Some(indexes) = status[name].as_str().filter(|indexes| !indexes.is_empty()) {
            parts.push(format!("{short} {indexes}"));
        }
    }
    for (name, short) in [("succeeded", "good"), ("failed", "bad")] {
        let named: Vec<&str> = status["uncountedTerminatedPods"][name]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !named.is_empty() {
            parts.push(format!("{short} {}", named.join(",")));
        }
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        if condition["status"] == "True" {
            let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
            parts.push(format!("{}:{}", text("type"), text("reason")));
        }
    }
    parts.join(" ")
}

fn reasons(decision: &Decision) -> Vec<&str> {
    decision.news.iter().map(|news| news.reason.as_str()).collect()
}

/// Looks, and does what the decision says, until nothing more is to be done, as the controller would if pods did nothing.
fn settle(job: &mut Job, pods: &mut Vec<Arc<Pod>>) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..10 {
        let decision = decide(&Facts { job, pods, backoff: None, now: now() });
        let before = (job.clone(), pods.clone());
        for each in decision.stop.iter().chain(&decision.withdraw) {
            pods.retain(|pod| pod.metadata.uid != each.metadata.uid);
        }
        for each in &decision.let_go {
            for pod in pods.iter_mut().filter(|pod| pod.metadata.uid == each.metadata.uid) {
                Arc::make_mut(pod).metadata.finalizers = None;
            }
        }
        job.status = Some(decision.status);
        told.extend(decision.news.iter().map(|news| news.reason.clone()));
        if (job.clone(), pods.clone()) == before {
            return told;
        }
    }
    panic!("it does not settle: {:?}", job.status);
}

#[test]
fn as_many_pods_run_as_are_asked_for() {
    let started = json!({"startTime": "2026-01-01T00:00:00Z"});
    let rows: &[(Value, &[&str], &str, &str)] = &[
        (json!({}), &[], "+1", "active 1"),
        (json!({"parallelism": 3, "completions": 5}), &["a active"], "+2", "active 3"),
        (json!({"parallelism": 3, "completions": 2}), &[], "+2", "active 2"),
        (json!({"parallelism": 3, "completions": 3}), &["a ready", "b active"], "+1", "active 3 ready 1"),
        (json!({"parallelism": 0, "completions": 3}), &[], "", ""),
        // One too many: the one that has done least goes, and never counts.
        (
            json!({"parallelism": 1, "completions": 3}),
            &["a ready", "b active"],
            "-b",
            "active 1 ready 1 terminating 1",
        ),
        // What goes is replaced at once, and counts as failed.
        (json!({}), &["a going"], ".a in 10", "terminating 1 bad a"),
        (json!({"podReplacementPolicy": "Failed"}), &["a going"], "", "terminating 1"),
        // No deadline has passed yet.
        (json!({"activeDeadlineSeconds": 3700}), &["a active"], "in 100", "active 1"),
    ];
    for (spec, pods, expected, after) in rows {
        let decision = look(&job(spec.clone(), started.clone()), pods);
        assert_eq!(
            (shown(&decision).as_str(), status(&decision).as_str()),
            (*expected, *after),
            "{spec} {pods:?}"
        );
    }
}

#[test]
fn a_new_job_begins_unless_it_is_suspended() {
    let decision = look(&job(json!({}), json!({})), &[]);
    let status = serde_json::to_value(&decision.status).unwrap();
    assert_eq!(
        status,
        json!({"active": 1, "ready": 0, "terminating": 0, "startTime": NOW, "uncountedTerminatedPods": {}})
    );
    let decision = look(&job(json!({"suspend": true}), json!({})), &[]);
    assert_eq!(decision.status.start_time, None);
    assert_eq!((shown(&decision).as_str(), reasons(&decision)), ("", vec!["Suspended"]));
}

/// Such a job went on for ever: its pods never fail, they restart.
#[test]
fn restarts_count_towards_the_limit_where_pods_restart_by_themselves() {
    for (policy, limit, restarts, ends) in [
        ("OnFailure", 2, ["a active *1", "b active"], false),
        ("OnFailure", 2, ["a active *1", "b active *1"], true),
        ("OnFailure", 0, ["a active", "b active"], false),
        ("OnFailure", 0, ["a active *1", "b active"], true),
        ("Never", 0, ["a active *1", "b active *1"], false),
    ] {
        let template = json!({"spec": {"restartPolicy": policy, "containers": []}});
        let spec = json!({"backoffLimit": limit, "parallelism": 2, "completions": 2, "template": template});
        let decision = look(&job(spec, json!({"startTime": NOW})), &restarts);
        let expected = if ends { "!a !b .a .b" } else { "" };
        assert_eq!(shown(&decision), expected, "{policy} {limit} {restarts:?}");
        assert_eq!(status(&decision).contains("FailureTarget:BackoffLimitExceeded"), ends);
    }
}

#[test]
fn suspending_withdraws_the_pods_and_resuming_begins_anew() {
    let began = json!({"startTime": "2026-01-01T00:00:00Z"});
    let decision = look(&job(json!({"suspend": true}), began), &["a active", "b ready"]);
    assert_eq!(shown(&decision), "-a -b");
    assert_eq!(status(&decision), "terminating 2 Suspended:JobSuspended");
    assert_eq!(reasons(&decision), ["Suspended"]);
    let resumed =
        Job { status: Some(decision.status), ..job(json!({"activeDeadlineSeconds": 60}), json!({})) };
    let decision = look(&resumed, &[]);
    assert_eq!(decision.news[0].message, "Job resumed");
    assert_eq!(decision.status.start_time.as_ref().unwrap().0, now(), "the deadline counts from now");
    assert_eq!(shown(&decision), "+1 in 60");
    let again = Job { status: Some(decision.status), ..resumed };
    assert!(reasons(&look(&again, &["a active"])).is_empty());
}

#[test]
fn a_pod_is_named_then_let_go_then_counted() {
    let mut job = job(json!({"completions": 2}), json!({"startTime": NOW}));
    let first = look(&job, &["a succeeded"]);
    assert_eq!((shown(&first).as_str(), status(&first).as_str()), ("+1 .a", "active 1 good a"));
    job.status = Some(first.status);
    // This process died before it could let the pod go: it is named once.
    let second = look(&job, &["a succeeded", "b active"]);
    assert_eq!((shown(&second).as_str(), status(&second).as_str()), (".a", "active 1 good a"));
    let third = look(&job, &["a succeeded counted", "b active"]);
    assert_eq!((shown(&third).as_str(), status(&third).as_str()), ("", "active 1 succeeded 1"));
    // It may be gone altogether.
    let third = look(&job, &["b active"]);
    assert_eq!(status(&third), "active 1 succeeded 1");
    job.status = Some(third.status);
    assert_eq!(status(&look(&job, &["b active"])), "active 1 succeeded 1");
}

#[test]
fn wherever_the_process_dies_each_pod_counts_once() {
    let specs = [
        json!({"completions": 3, "parallelism": 3}),
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}),
    ];
    for spec in specs {
        // After each step either everything happens, or the status alone, or the status and one pod.
        for deaths in 0..27_u32 {
            let mut job = job(spec.clone(), json!({"startTime": NOW}));
            let mut pods: Vec<Arc<Pod>> =
                ["a succeeded #0", "b succeeded #1", "c succeeded #2", "d failed #2"].map(pod).to_vec();
            for step in 0..3 {
                let decision = decide(&Facts { job: &job, pods: &pods, backoff: None, now: now() });
                assert!(decision.create.is_empty());
                job.status = Some(decision.status);
                let gone = match deaths / 3_u32.pow(step) % 3 {
                    0 => decision.let_go.len(),
                    1 => 0,
                    _ => 1,
                };
                for each in decision.let_go.iter().take(gone) {
                    pods.retain(|pod| pod.metadata.uid != each.metadata.uid);
                }
            }
            settle(&mut job, &mut pods);
            let status = job.status.unwrap();
            assert_eq!((status.succeeded, status.failed), (Some(3), Some(1)), "{spec} {deaths}");
            assert!(status.completion_time.is_some(), "{spec} {deaths}");
        }
    }
}

#[test]
fn a_job_is_complete_when_its_last_pod_is_counted_and_gone() {
    let mut job = job(json!({}), json!({"startTime": NOW}));
    let first = look(&job, &["a succeeded"]);
    assert_eq!(status(&first), "good a SuccessCriteriaMet:CompletionsReached");
    job.status = Some(first.status);
    let second = look(&job, &["a succeeded counted", "b going counted"]);
    assert_eq!(status(&second), "terminating 1 succeeded 1 SuccessCriteriaMet:CompletionsReached");
    job.status = Some(second.status);
    let third = look(&job, &["a succeeded counted"]);
    assert_eq!(
        status(&third),
        "succeeded 1 SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached"
    );
    assert_eq!(third.status.completion_time.as_ref().unwrap().0, now());
    assert_eq!(third.news[0].message, "Job completed");
    assert_eq!(reasons(&third), ["Completed"]);
    job.status = Some(third.status.clone());
    let after = look(&job, &["a succeeded counted", "late failed"]);
    assert_eq!(after.status, third.status, "what has finished stays as it is");
    assert_eq!(shown(&after), ".late");
}

#[test]
fn a_queue_of_work_ends_with_its_workers_after_the_first_success() {
    let job = job(json!({"completions": null, "parallelism": 2}), json!({"startTime": NOW}));
    assert_eq!(shown(&look(&job, &["a active"])), "+1");
    let decision = look(&job, &["a succeeded", "b active"]);
    assert_eq!((shown(&decision).as_str(), status(&decision).as_str()), (".a", "active 1 good a"));
    let decision = look(&job, &["a succeeded", "b failed"]);
    assert_eq!(status(&decision), "good a bad b SuccessCriteriaMet:CompletionsReached");
}

#[test]
fn a_failed_pod_is_replaced_after_a_while_until_the_limit() {
    let rows: &[(i32, &[&str], &str)] = &[
        (6, &["a failed -3"], ".a in 7"),
        (6, &["a failed -60"], "+1 .a"),
        (6, &["a failed counted -15", "b failed -11"], ".b in 9"),
        // A success is a new beginning.
        (6, &["a failed -15", "b succeeded -10"], "+1 .a .b"),
        (0, &["a failed -3", "b active"], "!b .a .b"),
    ];
    for (limit, pods, expected) in rows {
        let decision =
            look(&job(json!({"completions": 2, "backoffLimit": limit}), json!({"startTime": NOW})), pods);
        assert_eq!(shown(&decision), *expected, "{limit} {pods:?}");
    }
    // What this process remembers counts although the pods are gone.
    let job = job(json!({}), json!({"startTime": NOW, "failed": 2}));
    let backoff = Backoff::default().after(&[], &[&pod("a failed -30"), &pod("b failed -5")]);
    let decision = decide(&Facts { job: &job, pods: &[], backoff: Some(backoff), now: now() });
    assert_eq!(shown(&decision), "in 15");
}

#[test]
fn a_job_fails_when_it_has_failed_too_often_or_takes_too_long() {
    let rows: &[(Value, &[&str], &str, &str)] = &[
        (
            json!({"backoffLimit": 1}),
            &["a failed", "b failed"],
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        ),
        (
            json!({"activeDeadlineSeconds": 60}),
            &["a active"],
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        ),
    ];
    for (spec, pods, reason, message) in rows {
        let mut job = job(spec.clone(), json!({"startTime": "2026-01-01T00:00:00Z"}));
        let first = look(&job, pods);
        assert!(status(&first).ends_with(&format!("FailureTarget:{reason}")), "{}", status(&first));
        let mut pods: Vec<Arc<Pod>> = pods.iter().map(|words| pod(words)).collect();
        let told = settle(&mut job, &mut pods);
        assert_eq!(told, [*reason]);
        let failed =
            job.status.as_ref().unwrap().conditions.iter().flatten().find(|each| each.type_ == "Failed");
        assert_eq!(failed.unwrap().message.as_deref(), Some(*message));
    }
}

#[test]
fn indexes_are_given_from_the_lowest_and_each_once() {
    let spec = json!({"completionMode": "Indexed", "completions": 6, "parallelism": 3});
    let rows: &[(&str, &[&str], &str, &str)] = &[
        ("", &[], "+#0,#1,#2", "active 3"),
        ("0,2", &["a active #1"], "+#3,#4", "active 3 succeeded 2 done 0,2"),
        ("", &["a succeeded #0", "b active #1"], "+#2,#3 .a", "active 3 succeeded 1 done 0"),
        // The same index succeeds twice: once is enough.
        ("0", &["a succeeded #0"], "+#1,#2,#3 .a", "active 3 succeeded 1 done 0"),
        // Two at one index, one without, and one beyond the end.
        (
            "",
            &["a ready #0", "b active #0", "c active", "d active #9"],
            "-b -c -d",
            "active 1 ready 1 terminating 3",
        ),
        ("0-4", &["a succeeded #5"], ".a", "succeeded 6 done 0-5 SuccessCriteriaMet:CompletionsReached"),
    ];
    for (done, pods, expected, after) in rows {
        let decision = look(
            &job(spec.clone(), json!({"startTime": NOW, "completedIndexes": done, "succeeded": 9})),
            pods,
        );
        assert_eq!(
            (shown(&decision).as_str(), status(&decision).as_str()),
            (*expected, *after),
            "{done} {pods:?}"
        );
    }
}

#[test]
fn each_index_has_its_own_limit_and_its_own_pauses() {
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 1, "backoffLimit": i32::MAX});
    let rows: &[(&[&str], &str, &str)] = &[
        // The failed pod keeps its finalizer until another has taken over.
        (&["a failed #0 ~0 -3", "b active #1 ~0", "c active #2 ~0"], "in 7", "active 2"),
        (&["a failed #0 ~0 -11", "b active #1 ~0", "c active #2 ~0"], "+#0", "active 3"),
        (&["a failed #0 ~0", "x active #0 ~1", "b active #1 ~0", "c active #2 ~0"], ".a", "active 3 bad a"),
        (&["x failed #0 ~1 -3", "b active #1 ~0", "c active #2 ~0"], ".x", "active 2 lost 0 bad x"),
        (
            &["x failed #0 ~1", "b succeeded #1 ~0", "c succeeded #2 ~0"],
            ".b .c .x",
            "succeeded 2 done 1,2 lost 0 bad x FailureTarget:FailedIndexes",
        ),
    ];
    for (pods, expected, after) in rows {
        let decision = look(&job(spec.clone(), json!({"startTime": NOW})), pods);
        assert_eq!((shown(&decision).as_str(), status(&decision).as_str()), (*expected, *after), "{pods:?}");
    }
    let again = look(
        &job(spec.clone(), json!({"startTime": NOW})),
        &["a failed #0 ~0", "b active #1", "c active #2"],
    );
    assert_eq!(again.create[0].failures, Some((1, 0)));
    let mut strict = spec;
    strict["maxFailedIndexes"] = 0.into();
    let decision = look(&job(strict, json!({"startTime": NOW})), &["x failed #0 ~1", "b active #1"]);
    assert_eq!(status(&decision), "terminating 1 lost 0 bad b,x FailureTarget:MaxFailedIndexesExceeded");
}

#[test]
fn the_policy_says_what_a_failure_means() {
    let rule = |action: &str| {
        json!({"backoffLimit": 0, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [
            {"action": action, "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]}})
    };
    for (action, code, expected) in [
        ("FailJob", "=42", "bad a FailureTarget:PodFailurePolicy"),
        ("FailJob", "=1", "bad a FailureTarget:BackoffLimitExceeded"),
        ("Ignore", "=42", ""),
        ("Count", "=42", "bad a FailureTarget:BackoffLimitExceeded"),
    ] {
        let decision = look(&job(rule(action), json!({"startTime": NOW})), &[&format!("a failed {code} -1")]);
        assert_eq!(status(&decision), expected, "{action} {code}");
        assert_eq!(shown(&decision).split(' ').next(), Some(".a"), "{action} {code}");
    }
    let decision = look(&job(rule("FailJob"), json!({"startTime": NOW})), &["a failed =42"]);
    let target = &decision.status.conditions.as_ref().unwrap()[0];
    let message = "Container c for pod n/a failed with exit code 42 matching FailJob rule at index 0";
    assert_eq!(target.message.as_deref(), Some(message));
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 5,
        "podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1]}}]}});
    let decision = look(&job(spec, json!({"startTime": NOW})), &["a failed #0 ~0 =42", "b active #1"]);
    assert_eq!((shown(&decision).as_str(), status(&decision).as_str()), (".a", "active 1 lost 0 bad a"));
}

#[test]
fn a_job_that_has_enough_stops_the_rest() {
    let spec = json!({"completionMode": "Indexed", "completions": 5, "parallelism": 5,
        "successPolicy": {"rules": [{"succeededIndexes": "0,4"}, {"succeededIndexes": "1-3", "succeededCount": 2}, {"succeededCount": 4}]}});
    for (done, expected) in [
        ("0", None),
        ("0,4", Some("Matched rules at index 0")),
        ("1", None),
        ("2,3", Some("Matched rules at index 1")),
        ("0-3", Some("Matched rules at index 1")),
    ] {
        let decision =
            look(&job(spec.clone(), json!({"startTime": NOW, "completedIndexes": done})), &["x ready #4"]);
        let met = decision.status.conditions.iter().flatten().find(|each| each.type_ == "SuccessCriteriaMet");
        assert_eq!(met.and_then(|met| met.message.as_deref()), expected, "{done}");
        assert_eq!(names(&decision.stop), if expected.is_some() { vec!["x"] } else { vec![] }, "{done}");
    }
    let mut job = job(spec, json!({"startTime": NOW, "completedIndexes": "0,4"}));
    let mut pods = vec![pod("x active #1")];
    assert_eq!(settle(&mut job, &mut pods), ["Completed"]);
    let conditions = job.status.unwrap().conditions.unwrap();
    let told: Vec<_> =
        conditions.iter().map(|each| (each.type_.as_str(), each.reason.as_deref().unwrap())).collect();
    assert_eq!(told, [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]);
}

#[test]
fn a_job_that_is_deleted_creates_nothing_and_lets_go_of_what_has_ended() {
    let mut job = job(json!({"completions": 3, "parallelism": 3}), json!({"startTime": NOW}));
    job.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    assert_eq!(shown(&look(&job, &["a active", "b going", "c failed"])), ".a .b .c");
}

#[test]
fn a_pod_that_was_adopted_is_tracked_from_then_on() {
    let decision = look(&job(json!({}), json!({"startTime": NOW})), &["a active counted"]);
    assert_eq!(names(&decision.adopt), ["a"]);
    assert_eq!(shown(&decision), "");
    let decision = look(&job(json!({"suspend": true}), json!({"startTime": NOW})), &["a active counted"]);
    assert!(decision.adopt.is_empty());
}

#[test]
fn many_pods_that_end_at_once_are_counted_in_parts() {
    let job = job(json!({"completions": 2000, "parallelism": 2000}), json!({"startTime": NOW}));
    let words: Vec<String> = (0..1200).map(|number| format!("p{number} succeeded")).collect();
    let decision = look(&job, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((decision.let_go.len(), decision.create.len()), (500, 500));
    let named = decision.status.uncounted_terminated_pods.unwrap().succeeded.unwrap();
    assert_eq!(named.len(), 500);
    assert_eq!(decision.again, Some(std::time::Duration::ZERO));
}
