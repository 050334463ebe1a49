//! Kinds that are neither workloads nor access control: events by both names, limits, quotas, budgets, namespaces.
#![allow(missing_docs)]

mod support;

use serde_json::{Value, json};
use support::Running;

const DEFAULT: &str = "/api/v1/namespaces/default";

fn about_pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default", "uid": "u1"})
}

#[tokio::test]
async fn an_event_is_read_and_written_by_either_groups_names() {
    let running = Running::start().await;
    let old = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "old"}, "involvedObject": about_pod("p"),
        "reason": "Started", "message": "it runs", "type": "Normal", "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z", "count": 3});
    let (code, answer) = running.post(&format!("{DEFAULT}/events"), &old).await;
    assert_eq!(code, 201, "{answer}");
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, shown) = running.get(&format!("{events}/old")).await;
    assert_eq!(code, 200, "{shown}");
    assert_eq!(shown["apiVersion"], "events.k8s.io/v1");
    assert_eq!(shown["note"], "it runs");
    assert_eq!(shown["regarding"], about_pod("p"));
    assert_eq!(shown["deprecatedSource"], json!({"component": "kubelet", "host": "n"}));
    assert_eq!(shown["deprecatedCount"], 3);
    assert_eq!(shown["deprecatedLastTimestamp"], "2026-01-01T00:01:00Z");
    assert_eq!((shown.get("message"), shown.get("involvedObject")), (None, None));

    let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "new"},
        "regarding": about_pod("p"), "reason": "Moved", "note": "it moved", "type": "Normal", "action": "Move",
        "eventTime": "2026-01-01T00:02:00.000001Z", "reportingController": "example.com/mover",
        "reportingInstance": "mover-1", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:03:00.000000Z"}});
    let (code, answer) = running.post(events, &new).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["note"], "it moved");
    let (_, shown) = running.get(&format!("{DEFAULT}/events/new")).await;
    assert_eq!(shown["involvedObject"], about_pod("p"));
    assert_eq!(shown["message"], "it moved");
    assert_eq!(shown["reportingComponent"], "example.com/mover");
    assert_eq!(shown["series"]["count"], 2);

    // A client that counts a series patches what it sees.
    let patch = br#"{"series": {"count": 5, "lastObservedTime": "2026-01-01T00:04:00.000000Z"}}"#;
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    let (code, answer) = running.call("PATCH", &format!("{events}/new"), &headers, patch).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!((&answer["series"]["count"], &answer["note"]), (&json!(5), &json!("it moved")));
    let (_, list) = running.get(&format!("{events}?fieldSelector=regarding.name%3Dp")).await;
    let names: Vec<&Value> =
        list["items"].as_array().expect("items").iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(names, ["new", "old"]);
    assert!(list["items"].as_array().expect("items").iter().all(|one| one["regarding"]["name"] == "p"));
    let (_, groups) = running.get("/apis/events.k8s.io/v1").await;
    assert_eq!(groups["resources"][0]["name"], "events");
}

#[tokio::test]
async fn a_new_event_says_when_what_and_who() {
    let running = Running::start().await;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": about_pod("p"), "type": "Odd", "deprecatedCount": 1});
    let (code, answer) = running.post("/apis/events.k8s.io/v1/namespaces/default/events", &event).await;
    assert_eq!(code, 422, "{answer}");
    assert_eq!(
        answer["message"],
        "Event.events.k8s.io \"e\" is invalid: [eventTime: Required value, type: Invalid value: \"\": has invalid value: Odd, \
         count: Invalid value: \"\": needs to be unset]"
    );
}
