//! Whether a pod counts: active, terminating, ready, available. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/> and the behaviour of Kubernetes 1.36.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Whether a pod has come to its end: all its containers have.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether a pod does its work or will: it has not ended, and nobody has deleted it.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !has_ended(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a pod is deleted but still has to end.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !has_ended(pod) && pod.metadata.deletion_timestamp.is_some()
}

/// The phase of a pod; empty when nobody has said one.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// A condition of a pod.
pub(crate) fn condition<'p>(pod: &'p Pod, type_: &str) -> Option<&'p PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether a pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

/// Since when a pod is ready; none if it is not, or if nobody says since when.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// When a pod is available: when it has been ready for so many seconds without a break. None as long as it is not ready.
pub(crate) fn available_from(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    if min_ready_seconds <= 0 {
        return is_ready(pod).then_some(Timestamp::MIN);
    }
    ready_since(pod)?.checked_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()
}

/// Whether a pod is available.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    available_from(pod, min_ready_seconds).is_some_and(|from| from <= now)
}

/// How long it takes until the next of the pods becomes available by the mere passing of time; none if none will.
pub(crate) fn next_available<'p>(
    pods: impl IntoIterator<Item = &'p Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    let later = pods.into_iter().filter_map(|pod| available_from(pod, min_ready_seconds));
    later.filter(|from| *from > now).min().map(|from| until(from, now))
}

/// From now to then; nothing if then has passed.
pub(crate) fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: serde_json::Value, is_deleted: bool) -> Pod {
        let mut metadata = json!({"name": "p"});
        if is_deleted {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    #[test]
    fn a_pod_is_active_until_it_is_deleted_or_has_ended() {
        for (phase, is_deleted, active, terminating) in [
            ("", false, true, false),
            ("Pending", false, true, false),
            ("Running", false, true, false),
            ("Unknown", false, true, false),
            ("Running", true, false, true),
            ("Succeeded", false, false, false),
            ("Failed", false, false, false),
            ("Failed", true, false, false),
        ] {
            let pod = pod(json!({"phase": phase}), is_deleted);
            assert_eq!(
                (is_active(&pod), is_terminating(&pod)),
                (active, terminating),
                "{phase} {is_deleted}"
            );
        }
    }

    #[test]
    fn a_pod_is_available_once_it_was_ready_for_long_enough() {
        let ready = json!({"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"},
        ]});
        let timeless = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let unready = json!({"conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:10Z"},
        ]});
        let at = |seconds: i64| {
            "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
        };
        for (status, seconds, now, available, next) in [
            (&ready, 0, 0, true, None),
            (&ready, 5, 10, false, Some(5)),
            (&ready, 5, 14, false, Some(1)),
            (&ready, 5, 15, true, None),
            (&timeless, 0, 0, true, None),
            (&timeless, 5, 100, false, None),
            (&unready, 0, 100, false, None),
            (&unready, 5, 100, false, None),
        ] {
            let pod = pod(status.clone(), false);
            assert_eq!(is_available(&pod, seconds, at(now)), available, "{status} {seconds} {now}");
            let next = next.map(Duration::from_secs);
            assert_eq!(next_available([&pod], seconds, at(now)), next, "{status} {seconds} {now}");
        }
    }
}
