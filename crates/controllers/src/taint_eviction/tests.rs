//! How long pods stay, in a table.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::decision::{Stay, stay};

fn decided(taints: Value, tolerations: Value) -> Stay {
    let node: Node =
        serde_json::from_value(json!({"metadata": {}, "spec": {"taints": taints}})).expect("a node");
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {}, "spec": {"containers": [], "tolerations": tolerations}}),
    )
    .expect("a pod");
    stay(&pod, &node)
}

#[test]
fn a_pod_stays_as_long_as_it_bears_the_taints() {
    const ADDED: &str = "2026-01-01T00:00:00Z";
    let taint = |key: &str| json!({"key": key, "effect": "NoExecute", "timeAdded": ADDED});
    let bears = |key: &str, seconds: Option<i64>| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    let since = Some(ADDED.parse().expect("a time"));
    let seconds = Duration::from_secs;
    let rows = [
        (json!([]), json!([]), Stay::Forever),
        (json!([{"key": "a", "effect": "NoSchedule"}]), json!([]), Stay::Forever),
        (json!([taint("a")]), json!([]), Stay::Not),
        (json!([taint("a")]), json!([bears("b", None)]), Stay::Not),
        (json!([taint("a")]), json!([bears("a", None)]), Stay::Forever),
        (json!([taint("a")]), json!([bears("a", Some(300))]), Stay::For(seconds(300), since)),
        (json!([taint("a")]), json!([bears("a", Some(0))]), Stay::Not),
        (json!([taint("a")]), json!([bears("a", Some(-5))]), Stay::Not),
        (json!([taint("a"), taint("b")]), json!([bears("a", Some(300))]), Stay::Not),
        (
            json!([taint("a"), taint("b")]),
            json!([bears("a", Some(300)), bears("b", Some(10))]),
            Stay::For(seconds(10), since),
        ),
        (
            json!([taint("a"), taint("b")]),
            json!([bears("a", None), bears("b", Some(10))]),
            Stay::For(seconds(10), since),
        ),
        (
            json!([{"key": "a", "effect": "NoExecute"}]),
            json!([bears("a", Some(7))]),
            Stay::For(seconds(7), None),
        ),
    ];
    for (taints, tolerations, expected) in rows {
        assert_eq!(decided(taints.clone(), tolerations.clone()), expected, "{taints} {tolerations}");
    }
}

#[test]
fn what_is_left_counts_from_the_taint_whoever_was_restarted_meanwhile() {
    let at = |text: &str| text.parse().expect("a time");
    let seconds = Duration::from_secs;
    let added = Stay::For(seconds(300), Some(at("2026-01-01T00:00:00Z")));
    let rows = [
        (added, "2026-01-01T00:00:00Z", 0, Some(300)),
        (added, "2026-01-01T00:04:00Z", 0, Some(60)),
        (added, "2026-01-01T01:00:00Z", 0, Some(0)),
        // The clock was set back.
        (added, "2025-01-01T00:00:00Z", 0, Some(300)),
        (Stay::For(seconds(300), None), "2026-01-01T00:00:00Z", 100, Some(200)),
        (Stay::Not, "2026-01-01T00:00:00Z", 0, Some(0)),
        (Stay::Forever, "2026-01-01T00:00:00Z", 0, None),
    ];
    for (stay, now, noticed, left) in rows {
        assert_eq!(stay.left(at(now), seconds(noticed)), left.map(seconds), "{stay:?} {now}");
    }
}
