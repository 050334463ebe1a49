//! Lists and watches: pages of one moment, versions that are asked for, what a watch begins with and how it ends.
#![allow(missing_docs)]

mod support;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use store::{Collection, Draft, Key, Purpose};
use support::{Running, config_map, request};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];

/// The events of a watch, one after the other.
struct Events {
    body: Incoming,
    rest: Vec<u8>,
}

impl Events {
    async fn open(running: &Running, query: &str) -> Events {
        let response = running.send(request("GET", &format!("{MAPS}?watch=true&{query}"), &[], b"")).await;
        assert_eq!(response.status(), 200, "{query}");
        Events { body: response.into_body(), rest: Vec::new() }
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event a line"));
            }
            let frame = self.body.frame().await?.expect("the stream goes on");
            self.rest.extend_from_slice(frame.data_ref().expect("data only"));
        }
    }

    /// `TYPE NAME`, for bookmarks with the annotation in brackets.
    async fn shown(&mut self) -> String {
        let event = self.next().await.expect("an event");
        let object = &event["object"];
        match event["type"].as_str().expect("text") {
            "BOOKMARK" => format!("BOOKMARK {}", object["metadata"]["annotations"]),
            "ERROR" => format!("ERROR {}", object["code"]),
            other => format!("{other} {}", object["metadata"]["name"].as_str().expect("text")),
        }
    }
}

async fn make(running: &Running, name: &str, labels: Value) -> u64 {
    let mut object = config_map(name);
    object["metadata"]["labels"] = labels;
    let (code, made) = running.post(MAPS, &object).await;
    assert_eq!(code, 201, "{made}");
    version(&made)
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().expect("text").parse().expect("a number")
}

async fn patch(running: &Running, name: &str, patch: Value) -> u64 {
    let path = format!("{MAPS}/{name}");
    let (code, patched) = running.call("PATCH", &path, &MERGE, patch.to_string().as_bytes()).await;
    assert_eq!(code, 200, "{patched}");
    version(&patched)
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list").iter();
    items.map(|item| item["metadata"]["name"].as_str().expect("text")).collect()
}

/// Changes so much that nothing older is remembered.
async fn forget(running: &Running) {
    let maps = Collection::new("", "configmaps");
    let key = Key::new(&maps, "kube-public", "busy");
    let draft = || {
        Draft::new(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"","name":"busy","namespace":"kube-public"}}"#.to_vec(), 65).expect("inside")
    };
    let store = running.server.store();
    let mut current = store.create(key.clone(), draft()).await.expect("stored");
    for _ in 0..4200 {
        current =
            store.update(key.clone(), current.revision(), draft(), Purpose::Ordinary).await.expect("stored");
    }
}

#[tokio::test]
async fn pages_are_of_the_moment_of_the_first() {
    let running = Running::start().await;
    for name in ["a", "b", "c", "d"] {
        make(&running, name, json!({"x": "y"})).await;
    }
    let (_, first) = running.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3, "kube-root-ca.crt is one of them");
    let token = first["metadata"]["continue"].as_str().expect("there is more").to_owned();
    running.call("DELETE", &format!("{MAPS}/c"), &[], b"").await;
    make(&running, "e", json!({})).await;
    let (_, second) = running.get(&format!("{MAPS}?limit=9&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d", "kube-root-ca.crt"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert!(second["metadata"].get("continue").is_none());
    let (_, selected) = running.get(&format!("{MAPS}?limit=1&labelSelector=x%3Dy")).await;
    assert!(selected["metadata"].get("remainingItemCount").is_none(), "with a selector nobody counts");
    assert!(selected["metadata"]["continue"].is_string());
    forget(&running).await;
    let (code, expired) = running.get(&format!("{MAPS}?limit=9&continue={token}")).await;
    assert_eq!((code.as_u16(), &expired["reason"]), (410, &json!("Expired")));
    assert!(
        expired["message"].as_str().expect("text").starts_with("The provided continue parameter is too old")
    );
    let token = expired["metadata"]["continue"].as_str().expect("a way on").to_owned();
    let (_, rest) = running.get(&format!("{MAPS}?limit=9&continue={token}")).await;
    assert_eq!(names(&rest), ["d", "e", "kube-root-ca.crt"], "of now, after the last of the page");
}

#[tokio::test]
async fn lists_are_of_the_version_that_is_asked_for() {
    let running = Running::start().await;
    let first = make(&running, "a", json!({})).await;
    make(&running, "b", json!({})).await;
    let exact = format!("{MAPS}?resourceVersion={first}&resourceVersionMatch=Exact");
    let (_, list) = running.get(&exact).await;
    assert_eq!(names(&list), ["a", "kube-root-ca.crt"]);
    assert_eq!(version(&list), first);
    let (_, list) = running.get(&format!("{MAPS}?resourceVersion={first}")).await;
    assert_eq!(names(&list).len(), 3, "not older");
    let (_, list) = running.get(&format!("{MAPS}?resourceVersion=0")).await;
    assert_eq!(names(&list).len(), 3);
    let current = running.server.store().revision();
    for path in [format!("{MAPS}?resourceVersion=999999"), format!("{MAPS}/a?resourceVersion=999999")] {
        let response = running.send(request("GET", &path, &[], b"")).await;
        assert_eq!(response.status(), 504);
        assert_eq!(response.headers()["retry-after"], "1");
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        let status: Value = serde_json::from_slice(&bytes).expect("JSON");
        let message = format!("Timeout: Too large resource version: 999999, current: {current}");
        assert_eq!((&status["reason"], &status["message"]), (&json!("Timeout"), &json!(message)));
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(status["details"]["retryAfterSeconds"], 1);
    }
    assert_eq!(running.get(&format!("{MAPS}/a?resourceVersion=0")).await.0, 200);
    forget(&running).await;
    let (code, status) = running.get(&exact).await;
    assert_eq!(code, 410);
    assert_eq!(status["message"], "The resourceVersion for the provided list is too old.");
}

#[tokio::test]
async fn a_watch_list_says_where_its_initial_events_end() {
    let running = Running::start().await;
    make(&running, "a", json!({"x": "y"})).await;
    let query =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=x";
    let mut events = Events::open(&running, query).await;
    assert_eq!(events.shown().await, "ADDED a");
    assert_eq!(events.shown().await, "BOOKMARK {\"k8s.io/initial-events-end\":\"true\"}");
    make(&running, "b", json!({"x": "y"})).await;
    assert_eq!(events.shown().await, "ADDED b");
    let empty = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=none";
    let mut events = Events::open(&running, empty).await;
    let bookmark = events.next().await.expect("an event");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "ConfigMap");
    assert!(version(&bookmark["object"]) > 0);
    let none = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = Events::open(&running, none).await;
    make(&running, "c", json!({})).await;
    assert_eq!(events.shown().await, "ADDED c");
    let ahead = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999"
    );
    assert_eq!(running.get(&ahead).await.0, 504);
}

#[tokio::test]
async fn an_object_that_leaves_the_selection_is_deleted_for_its_watcher() {
    let running = Running::start().await;
    let from = make(&running, "a", json!({"x": "y"})).await;
    let mut events = Events::open(&running, &format!("resourceVersion={from}&labelSelector=x%3Dy")).await;
    make(&running, "other", json!({})).await;
    patch(&running, "a", json!({"data": {"k": "w"}})).await;
    let left = patch(&running, "a", json!({"metadata": {"labels": {"x": "z"}}})).await;
    patch(&running, "a", json!({"data": {"k": "unseen"}})).await;
    patch(&running, "a", json!({"metadata": {"labels": {"x": "y"}}})).await;
    running.call("DELETE", &format!("{MAPS}/a"), &[], b"").await;
    assert_eq!(events.shown().await, "MODIFIED a");
    let gone = events.next().await.expect("an event");
    assert_eq!((&gone["type"], version(&gone["object"])), (&json!("DELETED"), left));
    assert_eq!(gone["object"]["metadata"]["labels"]["x"], "y", "as it was when it was last selected");
    assert_eq!(events.shown().await, "ADDED a");
    assert_eq!(events.shown().await, "DELETED a");
}

#[tokio::test]
async fn a_watch_begins_where_it_is_told_and_ends_when_it_is_told() {
    let running = Running::start().await;
    let from = make(&running, "a", json!({})).await;
    make(&running, "b", json!({})).await;
    let mut events = Events::open(&running, &format!("resourceVersion={from}&timeoutSeconds=1")).await;
    assert_eq!(events.shown().await, "ADDED b");
    assert_eq!(events.next().await, None, "its second is over, and bookmarks were not asked for");
    for query in ["timeoutSeconds=1", "timeoutSeconds=1&resourceVersion=0"] {
        let mut events = Events::open(&running, query).await;
        assert_eq!(events.shown().await, "ADDED a");
        assert_eq!(events.shown().await, "ADDED b");
        assert_eq!(events.shown().await, "ADDED kube-root-ca.crt");
        assert_eq!(events.next().await, None);
    }
    let query = format!("resourceVersion={from}&timeoutSeconds=1&allowWatchBookmarks=true");
    let mut events = Events::open(&running, &query).await;
    assert_eq!(events.shown().await, "ADDED b");
    assert_eq!(events.shown().await, "BOOKMARK null", "before it ends");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_version_that_is_forgotten_ends_a_watch_with_an_event() {
    let running = Running::start().await;
    let from = make(&running, "a", json!({})).await;
    forget(&running).await;
    let mut events = Events::open(&running, &format!("resourceVersion={from}")).await;
    let error = events.next().await.expect("an event");
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(error["object"]["reason"], "Expired");
    let message = error["object"]["message"].as_str().expect("text");
    assert!(message.starts_with(&format!("too old resource version: {from} (")), "{message}");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn names_are_generated_and_methods_that_nobody_serves_are_refused() {
    let running = Running::start().await;
    let mut object = config_map("");
    object["metadata"] = json!({"generateName": "made-"});
    let (code, made) = running.post(MAPS, &object).await;
    assert_eq!(code, 201);
    let name = made["metadata"]["name"].as_str().expect("text");
    assert!(name.starts_with("made-") && name.len() == 10, "{name}");
    assert_eq!(made["metadata"]["generateName"], "made-");
    let long = "x".repeat(62);
    object["metadata"] = json!({"generateName": format!("{long}-")});
    let (_, made) = running.post(MAPS, &object).await;
    assert_eq!(made["metadata"]["name"].as_str().map(str::len), Some(63));
    object["metadata"] = json!({});
    let (code, status) = running.post(MAPS, &object).await;
    assert_eq!((code.as_u16(), &status["reason"]), (422, &json!("Invalid")));
    for (method, path) in
        [("HEAD", MAPS), ("OPTIONS", MAPS), ("TRACE", MAPS), ("FROB", MAPS), ("POST", "/version")]
    {
        let (code, _) = running.call(method, path, &[], b"").await;
        assert_eq!(code, 405, "{method} {path}");
    }
    assert_eq!(running.call("HEAD", "/healthz", &[], b"").await.0, 200);
}

#[tokio::test]
async fn unknown_fields_are_told_or_refused_in_patches_too() {
    let running = Running::start().await;
    make(&running, "a", json!({})).await;
    let ask = async |query: &str, media: &str, body: Value| {
        let path = format!("{MAPS}/a?dryRun=All&{query}");
        let headers = [("content-type", media)];
        running.send(request("PATCH", &path, &headers, body.to_string().as_bytes())).await
    };
    let patches = [
        ("application/merge-patch+json", json!({"dat": {}})),
        ("application/strategic-merge-patch+json", json!({"dat": {}})),
        ("application/json-patch+json", json!([{"op": "add", "path": "/dat", "value": {}}])),
    ];
    for (media, body) in patches {
        let refused = ask("fieldValidation=Strict", media, body.clone()).await;
        assert_eq!(refused.status(), 422, "{media}");
        let bytes = refused.into_body().collect().await.expect("a body").to_bytes();
        let status: Value = serde_json::from_slice(&bytes).expect("JSON");
        let message = status["message"].as_str().expect("text");
        assert!(message.contains("strict decoding error: unknown field \"dat\""), "{media}: {message}");
        let warned = ask("fieldValidation=Warn", media, body.clone()).await;
        assert_eq!(warned.status(), 200, "{media}");
        assert_eq!(warned.headers()["warning"], "299 - \"unknown field \\\"dat\\\"\"", "{media}");
        let ignored = ask("fieldValidation=Ignore", media, body.clone()).await;
        assert_eq!((ignored.status().as_u16(), ignored.headers().get("warning")), (200, None), "{media}");
        let nonsense = ask("fieldValidation=nonsense", media, body).await;
        assert_eq!(nonsense.status(), 422, "{media}");
    }
}
