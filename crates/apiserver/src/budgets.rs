//! PodDisruptionBudgets: how many pods are healthy, how many must be, and how many may go.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::lookup::{find, objects};
use crate::object::{at, list, name, text};
use crate::selector::selects_labels;
use crate::server::Server;
use crate::timestamps::now_text;

/// How long a pod that was evicted counts as gone before it is.
const DISRUPTED_SECONDS: i64 = 120;

/// The status of a budget now.
pub(crate) fn status(server: &Arc<Server>, budget: &Value) -> Value {
    let pods = objects(server, "", "pods", Some(text(budget, &["metadata", "namespace"])));
    let pods: Vec<Value> = pods.into_iter().filter(|pod| is_about(budget, pod)).collect();
    computed(budget, &pods, &|pods| expected_scale(server, pods), Timestamp::now())
}

/// Whether a budget is about a pod. One without a selector is about none, one with an empty selector about all.
pub(crate) fn is_about(budget: &Value, pod: &Value) -> bool {
    at(budget, &["spec", "selector"])
        .filter(|selector| selector.is_object())
        .is_some_and(|selector| selects_labels(selector, at(pod, &["metadata", "labels"])))
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    list(pod, &["status", "conditions"])
        .iter()
        .any(|condition| text(condition, &["type"]) == "Ready" && text(condition, &["status"]) == "True")
}

fn is_going(pod: &Value) -> bool {
    !text(pod, &["metadata", "deletionTimestamp"]).is_empty()
}

type Scale<'s> = dyn Fn(&[Value]) -> Result<i64, String> + 's;

fn computed(budget: &Value, pods: &[Value], scale: &Scale<'_>, now: Timestamp) -> Value {
    let disrupted = disrupted_pods(budget, pods, now);
    let healthy = pods
        .iter()
        .filter(|pod| !is_going(pod) && is_ready(pod) && !disrupted.contains_key(name(pod)))
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let mut status = Map::new();
    let outcome = wanted(budget, pods, scale);
    let (expected, desired, allowed) = match &outcome {
        Ok((expected, desired)) => {
            let allowed = if *expected <= 0 { 0 } else { (healthy - desired).max(0) };
            (*expected, *desired, allowed)
        }
        Err(_) => (0, 0, 0),
    };
    let (reason, message) = match (&outcome, allowed) {
        (Err(problem), _) => ("SyncFailed", problem.clone()),
        (Ok(_), 0) => ("InsufficientPods", String::new()),
        (Ok(_), _) => ("SufficientPods", String::new()),
    };
    let generation = at(budget, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
    status.insert("conditions".to_owned(), conditions(budget, allowed > 0, reason, &message, generation));
    for (field, value) in [
        ("currentHealthy", healthy),
        ("desiredHealthy", desired),
        ("disruptionsAllowed", allowed),
        ("expectedPods", expected),
        ("observedGeneration", generation),
    ] {
        status.insert(field.to_owned(), json!(value));
    }
    if !disrupted.is_empty() {
        status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
    }
    Value::Object(status)
}

/// The evicted pods that are still to go.
fn disrupted_pods(budget: &Value, pods: &[Value], now: Timestamp) -> Map<String, Value> {
    let known = at(budget, &["status", "disruptedPods"]).and_then(Value::as_object);
    let is_fresh = |since: &Value| {
        since
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
            .is_some_and(|since| now.as_second() - since.as_second() < DISRUPTED_SECONDS)
    };
    let is_there = |wanted: &str| pods.iter().any(|pod| name(pod) == wanted && !is_going(pod));
    known
        .into_iter()
        .flatten()
        .filter(|(name, since)| is_fresh(since) && is_there(name))
        .map(|(name, since)| (name.clone(), since.clone()))
        .collect()
}

/// How many pods there should be, and how many of them must be healthy.
fn wanted(budget: &Value, pods: &[Value], scale: &Scale<'_>) -> Result<(i64, i64), String> {
    let spec = &budget["spec"];
    if !spec["maxUnavailable"].is_null() {
        let expected = scale(pods)?;
        return Ok((expected, (expected - part_of(&spec["maxUnavailable"], expected)).max(0)));
    }
    match &spec["minAvailable"] {
        Value::Null => Ok((0, 0)),
        percent @ Value::String(_) => {
            let expected = scale(pods)?;
            Ok((expected, part_of(percent, expected)))
        }
        number => Ok((i64::try_from(pods.len()).unwrap_or(i64::MAX), part_of(number, 0))),
    }
}

/// A number, or a share of `whole` in percent, rounded up.
fn part_of(value: &Value, whole: i64) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            (percent * whole + 99) / 100
        }
        number => number.as_i64().unwrap_or(0),
    }
}

/// How many pods the controllers of some pods want altogether. Pods without a controller do not count.
fn expected_scale(server: &Arc<Server>, pods: &[Value]) -> Result<i64, String> {
    let mut seen: Vec<String> = Vec::new();
    let mut sum = 0;
    for pod in pods {
        let Some(owner) = controller(pod) else { continue };
        let mut owner = found(server, pod, owner)?;
        if let Some(upper) = controller(&owner).cloned()
            && let Ok(upper) = found(server, &owner, &upper)
            && at(&upper, &["spec", "replicas"]).is_some_and(Value::is_number)
        {
            owner = upper;
        }
        let uid = text(&owner, &["metadata", "uid"]).to_owned();
        if !seen.contains(&uid) {
            sum += at(&owner, &["spec", "replicas"])
                .and_then(Value::as_i64)
                .ok_or_else(|| format!("{} {} has no scale", text(&owner, &["kind"]), name(&owner)))?;
            seen.push(uid);
        }
    }
    Ok(sum)
}

fn controller(object: &Value) -> Option<&Value> {
    list(object, &["metadata", "ownerReferences"]).iter().find(|owner| owner["controller"] == true)
}

fn found(server: &Arc<Server>, object: &Value, owner: &Value) -> Result<Value, String> {
    let (version, kind) = (text(owner, &["apiVersion"]), text(owner, &["kind"]));
    let missing = || format!("found no controller {kind} {} for {}", text(owner, &["name"]), name(object));
    let resource = server.kinds.of_type(version, kind).ok_or_else(missing)?;
    find(
        server,
        resource.group(),
        resource.plural(),
        text(object, &["metadata", "namespace"]),
        text(owner, &["name"]),
    )
    .filter(|found| text(found, &["metadata", "uid"]) == text(owner, &["uid"]))
    .ok_or_else(missing)
}

fn conditions(budget: &Value, is_allowed: bool, reason: &str, message: &str, generation: i64) -> Value {
    const TYPE: &str = "DisruptionAllowed";
    let status = if is_allowed { "True" } else { "False" };
    let known = list(budget, &["status", "conditions"]);
    let since = known
        .iter()
        .find(|one| text(one, &["type"]) == TYPE && text(one, &["status"]) == status)
        .map_or_else(|| json!(now_text()), |one| one["lastTransitionTime"].clone());
    let mut conditions: Vec<Value> =
        known.iter().filter(|one| text(one, &["type"]) != TYPE).cloned().collect();
    conditions.push(json!({"type": TYPE, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since, "observedGeneration": generation}));
    Value::Array(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status}]}})
    }

    #[test]
    fn a_budget_says_how_many_pods_may_go() {
        let pods = [pod("a", true), pod("b", true), pod("c", false)];
        let mut going = pods.clone();
        going[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        // Spec, pods; expected, desired, healthy, allowed.
        let table = [
            (json!({"minAvailable": 1}), &pods, (3, 1, 2, 1)),
            (json!({"minAvailable": 2}), &pods, (3, 2, 2, 0)),
            (json!({"minAvailable": 0}), &going, (3, 0, 1, 1)),
            (json!({"minAvailable": "50%"}), &pods, (4, 2, 2, 0)),
            (json!({"minAvailable": "26%"}), &pods, (4, 2, 2, 0)),
            (json!({"maxUnavailable": 3}), &pods, (4, 1, 2, 1)),
            (json!({"maxUnavailable": "100%"}), &pods, (4, 0, 2, 2)),
            (json!({}), &pods, (0, 0, 2, 0)),
        ];
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        for (spec, pods, expected) in table {
            let status = computed(&json!({"spec": spec}), pods, &|_| Ok(4), now);
            let field = |name: &str| status[name].as_i64().expect("a number");
            let found = (
                field("expectedPods"),
                field("desiredHealthy"),
                field("currentHealthy"),
                field("disruptionsAllowed"),
            );
            assert_eq!(found, expected, "{spec}");
            let reason = if expected.3 > 0 { "SufficientPods" } else { "InsufficientPods" };
            assert_eq!(status["conditions"][0]["reason"], reason);
        }
    }

    #[test]
    fn an_evicted_pod_counts_as_gone_for_two_minutes() {
        let pods = [pod("a", true), pod("b", true)];
        let budget = json!({"spec": {"minAvailable": 1}, "status": {"disruptedPods": {
            "a": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"}}});
        let at = |time: &str| computed(&budget, &pods, &|_| Ok(2), time.parse().expect("a time"));
        let soon = at("2026-01-01T00:01:59Z");
        assert_eq!(soon["disruptionsAllowed"], 0);
        assert_eq!(soon["disruptedPods"], json!({"a": "2026-01-01T00:00:00Z"}));
        let later = at("2026-01-01T00:02:00Z");
        assert_eq!((&later["disruptionsAllowed"], later.get("disruptedPods")), (&json!(1), None));
    }

    #[test]
    fn pods_whose_controller_is_unknown_may_not_go() {
        let failed = computed(
            &json!({"spec": {"maxUnavailable": 1}}),
            &[pod("a", true)],
            &|_| Err("found no controller X x for a".to_owned()),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(failed["disruptionsAllowed"], 0);
        assert_eq!(failed["conditions"][0]["reason"], "SyncFailed");
    }
}
