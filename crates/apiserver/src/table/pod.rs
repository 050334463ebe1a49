//! The cells of a pod: what `kubectl get pods` calls its status is computed from all its containers.

use jiff::Timestamp;
use serde_json::Value;

use super::{age_cell, name_cell, or_none};
use crate::object::{at, list, text};
use crate::timestamps::age;

/// NAME READY STATUS RESTARTS AGE IP NODE NOMINATED-NODE READINESS-GATES.
pub(crate) fn pod_cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarise(pod);
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts > 0 => format!("{} ({} ago)", summary.restarts, age(Some(&time), now)),
        _ => summary.restarts.to_string(),
    };
    let address = list(pod, &["status", "podIPs"])
        .first()
        .map_or_else(|| text(pod, &["status", "podIP"]), |address| text(address, &["ip"]));
    vec![
        name_cell(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.status.into(),
        restarts.into(),
        age_cell(pod, now),
        or_none(address.to_owned()).into(),
        or_none(text(pod, &["spec", "nodeName"]).to_owned()).into(),
        or_none(text(pod, &["status", "nominatedNodeName"]).to_owned()).into(),
        readiness_gates(pod).into(),
    ]
}

struct Summary {
    status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<String>,
}

fn summarise(pod: &Value) -> Summary {
    let sidecars: Vec<&str> = list(pod, &["spec", "initContainers"])
        .iter()
        .filter(|container| text(container, &["restartPolicy"]) == "Always")
        .map(|container| text(container, &["name"]))
        .collect();
    let init_count = list(pod, &["spec", "initContainers"]).len();
    let mut summary = Summary {
        status: text(pod, &["status", "phase"]).to_owned(),
        ready: 0,
        total: list(pod, &["spec", "containers"]).len() + sidecars.len(),
        restarts: 0,
        last_restart: None,
    };
    let pod_reason = text(pod, &["status", "reason"]);
    if !pod_reason.is_empty() {
        pod_reason.clone_into(&mut summary.status);
    }
    let mut sidecar_restarts = (0, None);
    let mut initialising = false;
    for (index, status) in list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        note_restarts(&mut summary.restarts, &mut summary.last_restart, status);
        let is_sidecar = sidecars.contains(&text(status, &["name"]));
        if is_sidecar {
            note_restarts(&mut sidecar_restarts.0, &mut sidecar_restarts.1, status);
        }
        if let Some(exit) = at(status, &["state", "terminated", "exitCode"]).and_then(Value::as_i64) {
            if exit == 0 {
                continue;
            }
            summary.status = format!("Init:{}", terminated_words(status));
        } else if is_sidecar && at(status, &["started"]).and_then(Value::as_bool).unwrap_or(false) {
            if at(status, &["ready"]).and_then(Value::as_bool).unwrap_or(false) {
                summary.ready += 1;
            }
            continue;
        } else {
            let reason = text(status, &["state", "waiting", "reason"]);
            summary.status = if reason.is_empty() || reason == "PodInitializing" {
                format!("Init:{index}/{init_count}")
            } else {
                format!("Init:{reason}")
            };
        }
        initialising = true;
        break;
    }
    if !initialising || is_initialised(pod) {
        // Restarts of finished init containers no longer count.
        (summary.restarts, summary.last_restart) = sidecar_restarts;
        summarise_containers(pod, &mut summary);
    }
    if at(pod, &["metadata", "deletionTimestamp"]).is_some_and(Value::is_string) {
        let terminal = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
        if pod_reason == "NodeLost" {
            "Unknown".clone_into(&mut summary.status);
        } else if !terminal {
            "Terminating".clone_into(&mut summary.status);
        }
    }
    summary
}

fn summarise_containers(pod: &Value, summary: &mut Summary) {
    let mut running = false;
    for status in list(pod, &["status", "containerStatuses"]).iter().rev() {
        note_restarts(&mut summary.restarts, &mut summary.last_restart, status);
        let waiting = text(status, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.status);
        } else if at(status, &["state", "terminated"]).is_some_and(Value::is_object) {
            summary.status = terminated_words(status);
        } else if at(status, &["ready"]).and_then(Value::as_bool).unwrap_or(false)
            && at(status, &["state", "running"]).is_some_and(Value::is_object)
        {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.status == "Completed" && running {
        summary.status = if condition_is_true(pod, "Ready") { "Running" } else { "NotReady" }.to_owned();
    }
}

fn terminated_words(status: &Value) -> String {
    let reason = text(status, &["state", "terminated", "reason"]);
    if !reason.is_empty() {
        return reason.to_owned();
    }
    let number =
        |field: &str| at(status, &["state", "terminated", field]).and_then(Value::as_i64).unwrap_or(0);
    match (number("signal"), number("exitCode")) {
        (0, exit) => format!("ExitCode:{exit}"),
        (signal, _) => format!("Signal:{signal}"),
    }
}

fn note_restarts(restarts: &mut i64, last: &mut Option<String>, status: &Value) {
    *restarts += at(status, &["restartCount"]).and_then(Value::as_i64).unwrap_or(0);
    let finished = text(status, &["lastState", "terminated", "finishedAt"]);
    // Times of one form compare as text.
    if !finished.is_empty() && last.as_deref().is_none_or(|known| known < finished) {
        *last = Some(finished.to_owned());
    }
}

fn is_initialised(pod: &Value) -> bool {
    condition_is_true(pod, "Initialized")
}

fn condition_is_true(pod: &Value, kind: &str) -> bool {
    list(pod, &["status", "conditions"])
        .iter()
        .any(|condition| text(condition, &["type"]) == kind && text(condition, &["status"]) == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met = gates.iter().filter(|gate| condition_is_true(pod, text(gate, &["conditionType"]))).count();
    format!("{met}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::pod_cells;

    fn shown(pod: &Value) -> String {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().expect("a time");
        let cells = pod_cells(pod, now);
        cells[1..4].iter().map(|cell| cell.as_str().unwrap_or_default()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_status_of_a_pod_is_the_one_that_kubectl_prints() {
        let two = json!([{"name": "a"}, {"name": "b"}]);
        let table = [
            (json!({"spec": {"containers": two}, "status": {"phase": "Pending"}}), "0/2 Pending 0"),
            (
                json!({"spec": {"containers": two}, "status": {"phase": "Running", "containerStatuses": [
                    {"name": "a", "ready": true, "state": {"running": {}}, "restartCount": 1, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}},
                    {"name": "b", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 2}]}}),
                "1/2 CrashLoopBackOff 3 (5m ago)",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}]}, "status": {"phase": "Succeeded", "containerStatuses": [
                    {"name": "a", "ready": false, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}}),
                "0/1 Completed 0",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}, "status": {"phase": "Pending",
                    "initContainerStatuses": [{"name": "i", "state": {"running": {}}}],
                    "containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "PodInitializing"}}}]}}),
                "0/1 Init:0/1 0",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}, "status": {"phase": "Failed",
                    "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}}),
                "0/1 Init:Error 0",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
                    "status": {"phase": "Running", "conditions": [{"type": "Initialized", "status": "True"}],
                    "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "state": {"running": {}}}],
                    "containerStatuses": [{"name": "a", "ready": true, "state": {"running": {}}}]}}),
                "2/2 Running 0",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": [{"name": "a"}]},
                    "status": {"phase": "Running", "containerStatuses": [{"name": "a", "ready": true, "state": {"running": {}}}]}}),
                "1/1 Terminating 0",
            ),
        ];
        for (pod, expected) in table {
            assert_eq!(shown(&pod), expected, "{pod}");
        }
    }
}
