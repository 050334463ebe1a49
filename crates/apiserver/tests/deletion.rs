//! Deletion with everything that can hold it up or follow from it: options, finalizers, owners and dependents.
#![allow(missing_docs)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::{ApiServer, ApiServerConfig, NoNodes};
use serde_json::{Value, json};
use store::{Collection, Key, Store};
use support::{Running, config_map};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn make(running: &Running, name: &str, metadata: Value) -> Value {
    let mut object = config_map(name);
    for (key, value) in metadata.as_object().expect("a map") {
        object["metadata"][key] = value.clone();
    }
    let (code, answer) = running.post(MAPS, &object).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

fn owner(object: &Value, blocks: bool) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "blockOwnerDeletion": blocks})
}

async fn delete(running: &Running, path: &str, options: Value) -> (u16, Value) {
    let (code, answer) = running.call("DELETE", path, &JSON, options.to_string().as_bytes()).await;
    (code.as_u16(), answer)
}

async fn names(running: &Running) -> Vec<String> {
    let (_, list) = running.get(MAPS).await;
    let names = list["items"].as_array().expect("a list").iter();
    names
        .map(|item| item["metadata"]["name"].as_str().expect("text").to_owned())
        .filter(|name| name != "kube-root-ca.crt")
        .collect()
}

/// Waits until `wanted` holds of what is asked for again and again.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let begin = Instant::now();
    loop {
        let found = ask().await;
        if wanted(&found) {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "still not: {what}");
        tokio::task::yield_now().await;
    }
}

async fn until_names(running: &Running, wanted: &[&str]) {
    until(&format!("{wanted:?}"), async || names(running).await, |found| *found == wanted).await;
}

#[tokio::test]
async fn preconditions_hold_or_the_object_stays() {
    let running = Running::start().await;
    let made = make(&running, "c", json!({})).await;
    let path = format!("{MAPS}/c");
    let (code, status) = delete(&running, &path, json!({"preconditions": {"uid": "other"}})).await;
    let uid = made["metadata"]["uid"].as_str().expect("text");
    assert_eq!(code, 409);
    assert_eq!(
        status["message"],
        format!(
            "Operation cannot be fulfilled on ConfigMap \"c\": the UID in the precondition (other) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    let (code, status) = delete(&running, &path, json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    assert!(status["message"].as_str().expect("text").ends_with("The object might have been modified"));
    let options = json!({"dryRun": ["All"], "preconditions": {"uid": uid}});
    assert_eq!(delete(&running, &path, options).await.0, 200);
    assert_eq!(delete(&running, &format!("{path}?dryRun=All"), json!({})).await.0, 200);
    assert_eq!(names(&running).await, ["c"], "those were rehearsals");
    let options =
        json!({"preconditions": {"uid": uid, "resourceVersion": made["metadata"]["resourceVersion"]}});
    let (code, status) = delete(&running, &path, options).await;
    assert_eq!((code, &status["status"]), (200, &json!("Success")));
    assert_eq!(status["details"], json!({"name": "c", "kind": "configmaps", "uid": uid}));
    assert!(names(&running).await.is_empty());
}

#[tokio::test]
async fn an_object_goes_when_its_last_finalizer_does_and_takes_no_new_ones() {
    let running = Running::start().await;
    make(&running, "c", json!({"finalizers": ["example.com/a", "example.com/b"]})).await;
    let path = format!("{MAPS}/c");
    let (code, marked) = delete(&running, &path, json!({})).await;
    assert_eq!((code, &marked["kind"]), (200, &json!("ConfigMap")));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let patch = async |finalizers: Value| {
        let body = json!({"metadata": {"finalizers": finalizers}}).to_string();
        running
            .call("PATCH", &path, &[("content-type", "application/merge-patch+json")], body.as_bytes())
            .await
    };
    let (code, status) = patch(json!(["example.com/a", "example.com/b", "example.com/c"])).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "ConfigMap \"c\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/c\"}"
    );
    assert_eq!(patch(json!(["example.com/b"])).await.0, 200);
    assert_eq!(names(&running).await, ["c"]);
    assert_eq!(patch(json!(null)).await.0, 200);
    assert!(names(&running).await.is_empty());
    let both = json!({"finalizers": ["orphan", "foregroundDeletion"]});
    let mut object = config_map("d");
    object["metadata"]["finalizers"] = both["finalizers"].clone();
    let (code, status) = running.post(MAPS, &object).await;
    assert_eq!(code, 422, "{status}");
}

#[tokio::test]
async fn dependents_go_in_the_background_after_their_owner_and_theirs_after_them() {
    let running = Running::start().await;
    let first = make(&running, "a", json!({})).await;
    let second = make(&running, "b", json!({"ownerReferences": [owner(&first, false)]})).await;
    make(&running, "c", json!({"ownerReferences": [owner(&second, false)]})).await;
    make(&running, "other", json!({})).await;
    let (code, _) = delete(&running, &format!("{MAPS}/a"), json!({"propagationPolicy": "Background"})).await;
    assert_eq!(code, 200);
    until_names(&running, &["other"]).await;
}

#[tokio::test]
async fn an_owner_that_is_deleted_in_the_foreground_waits_for_those_that_block() {
    let running = Running::start().await;
    let first = make(&running, "a", json!({})).await;
    let held = json!({"ownerReferences": [owner(&first, true)], "finalizers": ["example.com/held"]});
    make(&running, "b", held).await;
    make(&running, "c", json!({"ownerReferences": [owner(&first, false)]})).await;
    let (code, marked) =
        delete(&running, &format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(code, 202);
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    until_names(&running, &["a", "b"]).await;
    let body = json!({"metadata": {"finalizers": null}}).to_string();
    let merge = [("content-type", "application/merge-patch+json")];
    let marked = until(
        "b is marked",
        async || running.get(&format!("{MAPS}/b")).await.1,
        |found| found["metadata"]["deletionTimestamp"].is_string(),
    )
    .await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["example.com/held"]));
    assert_eq!(running.call("PATCH", &format!("{MAPS}/b"), &merge, body.as_bytes()).await.0, 200);
    until_names(&running, &[]).await;
}

#[tokio::test]
async fn orphans_stay_and_forget_their_owner() {
    let running = Running::start().await;
    let first = make(&running, "a", json!({})).await;
    let other = make(&running, "other", json!({})).await;
    for name in ["b", "c"] {
        let owners = json!([owner(&first, true), owner(&other, false)]);
        make(&running, name, json!({"ownerReferences": owners})).await;
    }
    let (code, marked) = delete(&running, &format!("{MAPS}/a"), json!({"propagationPolicy": "Orphan"})).await;
    assert_eq!((code, &marked["metadata"]["finalizers"]), (200, &json!(["orphan"])));
    until_names(&running, &["b", "c", "other"]).await;
    for name in ["b", "c"] {
        let (_, left) = running.get(&format!("{MAPS}/{name}")).await;
        assert_eq!(left["metadata"]["ownerReferences"][0]["name"], "other", "{left}");
        assert_eq!(left["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
        assert!(left["metadata"].get("deletionTimestamp").is_none());
    }
}

#[tokio::test]
async fn circles_of_owners_end() {
    for policy in ["Background", "Foreground"] {
        let running = Running::start().await;
        let first = make(&running, "a", json!({})).await;
        let second = make(&running, "b", json!({"ownerReferences": [owner(&first, true)]})).await;
        let third = make(&running, "c", json!({"ownerReferences": [owner(&second, true)]})).await;
        let body = json!({"metadata": {"ownerReferences": [owner(&third, true)]}}).to_string();
        let merge = [("content-type", "application/merge-patch+json")];
        assert_eq!(running.call("PATCH", &format!("{MAPS}/a"), &merge, body.as_bytes()).await.0, 200);
        delete(&running, &format!("{MAPS}/b"), json!({"propagationPolicy": policy})).await;
        until_names(&running, &[]).await;
    }
}

#[tokio::test]
async fn references_that_lead_nowhere_are_no_reason_to_stay() {
    let running = Running::start().await;
    let stays = make(&running, "stays", json!({})).await;
    let mut stale = owner(&stays, false);
    stale["uid"] = json!("the uid of an earlier object");
    make(&running, "stale", json!({"ownerReferences": [stale]})).await;
    let mut absent = owner(&stays, false);
    absent["name"] = json!("absent");
    make(&running, "absent", json!({"ownerReferences": [absent.clone()]})).await;
    make(&running, "two", json!({"ownerReferences": [absent, owner(&stays, false)]})).await;
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u"});
    make(&running, "unknown", json!({"ownerReferences": [unknown]})).await;
    until_names(&running, &["stays", "two", "unknown"]).await;
    let two = until(
        "one reference is left",
        async || running.get(&format!("{MAPS}/two")).await.1,
        |found| found["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1),
    )
    .await;
    assert_eq!(two["metadata"]["ownerReferences"][0]["name"], "stays");
}

#[tokio::test]
async fn references_into_another_namespace_are_told() {
    let running = Running::start().await;
    let mut map = config_map("o");
    map["metadata"]["namespace"] = json!("kube-public");
    let (_, elsewhere) = running.post("/api/v1/namespaces/kube-public/configmaps", &map).await;
    make(&running, "confused", json!({"ownerReferences": [owner(&elsewhere, false)]})).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "owned", "ownerReferences": [owner(&elsewhere, false)]}});
    assert_eq!(running.post("/api/v1/namespaces", &namespace).await.0, 201);
    let events = until(
        "both are told",
        async || running.get("/api/v1/namespaces/default/events").await.1["items"].clone(),
        |events| events.as_array().map(Vec::len) == Some(2),
    )
    .await;
    for event in events.as_array().expect("a list") {
        assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
        let message = event["message"].as_str().expect("text");
        assert!(message.starts_with("ownerRef [v1/ConfigMap, namespace: "), "{message}");
    }
    until_names(&running, &[]).await;
    let (code, kept) = running.get("/api/v1/namespaces/owned").await;
    assert_eq!(code, 200);
    assert!(kept["metadata"].get("deletionTimestamp").is_none(), "nothing is known about its owner");
}

#[tokio::test]
async fn a_pod_that_loses_its_owner_ends_within_its_grace() {
    let running = Running::start().await;
    let first = make(&running, "a", json!({})).await;
    let mut pod = support::pod("p");
    pod["metadata"]["ownerReferences"] = json!([owner(&first, true)]);
    pod["spec"]["nodeName"] = json!("n");
    assert_eq!(running.post("/api/v1/namespaces/default/pods", &pod).await.0, 201);
    delete(&running, &format!("{MAPS}/a"), json!({})).await;
    let marked = until(
        "the pod is told to end",
        async || running.get("/api/v1/namespaces/default/pods/p").await.1,
        |found| found["metadata"]["deletionTimestamp"].is_string(),
    )
    .await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[tokio::test]
async fn two_thousand_dependents_follow_their_owner() {
    let running = Running::start().await;
    let first = make(&running, "a", json!({})).await;
    for at in 0..20 {
        let made = (0..100).map(|count| {
            let references = json!({"ownerReferences": [owner(&first, true)]});
            let running = &running;
            async move { make(running, &format!("d{at}-{count}"), references).await }
        });
        futures::future::join_all(made).await;
    }
    delete(&running, &format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"})).await;
    until_names(&running, &[]).await;
}

#[tokio::test]
async fn what_was_left_to_collect_when_the_server_died_is_collected_after_its_start() {
    let store = Store::in_memory().expect("opens");
    let maps = Collection::new("", "configmaps");
    let object = |name: &str, owners: Value, extra: Value| {
        let mut metadata =
            json!({"name": name, "namespace": "default", "uid": name, "ownerReferences": owners});
        for (key, value) in extra.as_object().expect("a map") {
            metadata[key] = value.clone();
        }
        let text = json!({"metadata": metadata, "kind": "ConfigMap", "apiVersion": "v1"}).to_string();
        let at = text.find("\"metadata\":{").expect("there") + "\"metadata\":{".len();
        let bytes = format!("{}\"resourceVersion\":\"\",{}", &text[..at], &text[at..]);
        let at = bytes.find("resourceVersion\":\"").expect("there") + "resourceVersion\":\"".len();
        (Key::new(&maps, "default", name), store::Draft::new(bytes.into_bytes(), at).expect("inside"))
    };
    let reference = |name: &str| json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "blockOwnerDeletion": true}]);
    let ending = |finalizer: &str| json!({"finalizers": [finalizer], "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
    for (key, draft) in [
        object("dangling", reference("gone"), json!({})),
        object("foreground", json!([]), ending("foregroundDeletion")),
        object("blocks", reference("foreground"), json!({})),
        object("leaves", json!([]), ending("orphan")),
        object("orphan", reference("leaves"), json!({})),
        object("stays", json!([]), json!({})),
    ] {
        store.create(key, draft).await.expect("stored");
    }
    let server =
        ApiServer::new(ApiServerConfig::default(), store.clone(), Arc::new(NoNodes)).await.expect("starts");
    let left = async || {
        let listing = store.list(&maps, Some("default"), None, None).expect("a list");
        listing.objects.iter().map(|object| object.key().name().to_owned()).collect::<Vec<_>>()
    };
    until("what has to go is gone", left, |names| *names == ["orphan", "stays"]).await;
    let orphan = store.get(&Key::new(&maps, "default", "orphan")).expect("stays");
    assert!(!String::from_utf8_lossy(orphan.value()).contains("ownerReferences"));
    drop(server);
}

#[tokio::test]
async fn a_collection_is_deleted_as_selected_page_by_page() {
    let running = Running::start().await;
    for name in ["a", "b", "c", "d"] {
        let labels = json!({"labels": {"even": (name == "b" || name == "d").to_string()}});
        make(&running, name, labels).await;
    }
    let (code, list) =
        running.call("DELETE", &format!("{MAPS}?labelSelector=even%3Dtrue&dryRun=All"), &[], b"").await;
    assert_eq!((code.as_u16(), list["items"].as_array().map(Vec::len)), (200, Some(2)));
    assert_eq!(names(&running).await.len(), 4);
    let (_, list) = running.call("DELETE", &format!("{MAPS}?labelSelector=even%3Dtrue"), &[], b"").await;
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(names(&running).await, ["a", "c"]);
    let (_, list) =
        running.call("DELETE", &format!("{MAPS}?limit=1&labelSelector=even%3Dfalse"), &[], b"").await;
    assert_eq!(names(&running).await, ["c"]);
    let token = list["metadata"]["continue"].as_str().expect("there is more").to_owned();
    let path = format!("{MAPS}?limit=1&labelSelector=even%3Dfalse&continue={token}");
    let (_, list) = running.call("DELETE", &path, &[], b"").await;
    assert!(list["metadata"].get("continue").is_none());
    assert!(names(&running).await.is_empty());
    let first = make(&running, "owner", json!({"labels": {"x": "y"}})).await;
    make(&running, "dependent", json!({"ownerReferences": [owner(&first, false)]})).await;
    let options = json!({"propagationPolicy": "Orphan"}).to_string();
    running.call("DELETE", &format!("{MAPS}?labelSelector=x"), &JSON, options.as_bytes()).await;
    until_names(&running, &["dependent"]).await;
}
