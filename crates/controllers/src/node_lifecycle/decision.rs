//! Whether a node is alive, and what of its state keeps pods away: conditions and taints. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/nodes/#node-controller>,
//! <https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-not-ready>.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions that are bad when they hold, and their taints.
const BAD: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];
/// The conditions that a node agent reports.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What is known beside the node's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signs {
    /// Nothing was heard of the node for longer than is granted.
    pub(super) is_silent: bool,
    /// No node is ready: it may be the controller that is cut off, and no pod would have anywhere to go.
    pub(super) nobody_is_ready: bool,
    /// Now.
    pub(super) now: Timestamp,
}

/// What is to be written; nothing where it is right already.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Conditions that change.
    pub(super) conditions: Option<Vec<NodeCondition>>,
    /// All taints.
    pub(super) taints: Option<Vec<Taint>>,
}

/// The status of a node's condition.
pub(super) fn status<'n>(node: &'n Node, type_: &str) -> Option<&'n str> {
    condition(node, type_).map(|condition| condition.status.as_str())
}

fn condition<'n>(node: &'n Node, type_: &str) -> Option<&'n NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Decides about a node.
pub(super) fn decide(node: &Node, signs: &Signs) -> Decision {
    let conditions = if signs.is_silent { unknown(node, signs.now) } else { Vec::new() };
    let ready = if signs.is_silent { Some("Unknown") } else { status(node, "Ready") };
    Decision {
        taints: taints(node, ready, signs),
        conditions: Some(conditions).filter(|conditions| !conditions.is_empty()),
    }
}

/// What is said of a node that says nothing.
fn unknown(node: &Node, now: Timestamp) -> Vec<NodeCondition> {
    let unknown = |type_: &&str| {
        let (before, time) = (condition(node, type_), Some(Time(now)));
        if before.is_some_and(|before| before.status == "Unknown") {
            return None;
        }
        let (reason, message) = match before {
            Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
        };
        Some(NodeCondition {
            type_: (*type_).to_owned(),
            status: "Unknown".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: before.map_or(time.clone(), |before| before.last_heartbeat_time.clone()),
            last_transition_time: time,
        })
    };
    REPORTED.iter().filter_map(unknown).collect()
}

fn taints(node: &Node, ready: Option<&str>, signs: &Signs) -> Option<Vec<Taint>> {
    let spec = node.spec.as_ref();
    let before = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    let not_ready = match ready {
        Some("True") => None,
        Some("Unknown") => Some(UNREACHABLE),
        Some(_) | None => Some(NOT_READY),
    };
    if let Some(key) = not_ready {
        wanted.push((key, "NoSchedule"));
        let is_driving_away = before.iter().any(|taint| taint.key == key && taint.effect == "NoExecute");
        // Who has not begun to drive pods away does not begin while they have nowhere to go.
        if !signs.nobody_is_ready || is_driving_away {
            wanted.push((key, "NoExecute"));
        }
    }
    if spec.and_then(|spec| spec.unschedulable).unwrap_or(false) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let holds = |type_: &str| !signs.is_silent && status(node, type_) == Some("True");
    wanted.extend(BAD.iter().filter(|(type_, _)| holds(type_)).map(|(_, key)| (*key, "NoSchedule")));
    let is_ours = |taint: &Taint| {
        let by_state = [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
            && ["NoSchedule", "NoExecute"].contains(&taint.effect.as_str());
        let by_mark = taint.key == UNSCHEDULABLE || BAD.iter().any(|(_, key)| *key == taint.key);
        by_state || (by_mark && taint.effect == "NoSchedule")
    };
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut after: Vec<Taint> =
        before.iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in wanted {
        if !after.iter().any(|taint| taint.key == key && taint.effect == effect) {
            after.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: Some(Time(signs.now)),
            });
        }
    }
    (after != before).then_some(after)
}
