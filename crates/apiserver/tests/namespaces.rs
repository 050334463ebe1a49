//! The end of a namespace, as far as it is the server's: what comes into it no more, who lets it go, and what may not go. What
//! empties it is a controller.
#![allow(missing_docs)]

mod support;

use serde_json::json;
use support::{Running, create};

#[tokio::test]
async fn a_namespace_that_ends_takes_nothing_new_and_some_may_not_end() {
    let running = Running::start().await;
    let named = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let namespaces = "/api/v1/namespaces";
    let namespace = create(&running, namespaces, &named("n")).await;
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    let inside = "/api/v1/namespaces/n";
    // Nobody can take the finalizer away by an ordinary update.
    let headers = [("content-type", "application/merge-patch+json")];
    let (_, patched) = running.call("PATCH", inside, &headers, br#"{"spec": {"finalizers": []}}"#).await;
    assert_eq!(patched["spec"]["finalizers"], json!(["kubernetes"]));
    let (code, answer) = running.call("DELETE", inside, &[], b"").await;
    assert_eq!(code, 200);
    assert_eq!(answer["status"]["phase"], "Terminating");
    let (code, answer) = running.post(&format!("{inside}/configmaps"), &support::config_map("late")).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "configmaps \"late\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
    assert_eq!(
        answer["details"]["causes"],
        json!([{"reason": "NamespaceTerminating", "message": "namespace n is being terminated", "field": "metadata.namespace"}])
    );
    for (name, code) in
        [("default", 403), ("kube-system", 403), ("kube-public", 403), ("kube-node-lease", 200)]
    {
        let (got, answer) = running.call("DELETE", &format!("{namespaces}/{name}"), &[], b"").await;
        assert_eq!(got, code, "{answer}");
        if code == 403 {
            assert_eq!(
                answer["message"],
                format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted")
            );
        }
    }
}

#[tokio::test]
async fn a_namespace_is_finalized_by_whoever_asks() {
    let running = Running::start().await;
    let path = "/api/v1/namespaces/n";
    let mut namespace = create(
        &running,
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/x"]}}),
    )
    .await;
    assert_eq!(namespace["spec"]["finalizers"], json!(["example.com/x", "kubernetes"]));
    running.call("DELETE", path, &[], b"").await;
    namespace["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let headers = [("content-type", "application/json")];
    namespace["spec"]["finalizers"] = json!(["example.com/new", "kubernetes"]);
    let body = namespace.to_string();
    let (code, answer) = running.call("PUT", &format!("{path}/finalize"), &headers, body.as_bytes()).await;
    assert_eq!(code, 400, "{answer}");
    for (finalizers, code_after) in [(json!(["example.com/x"]), 200), (json!([]), 404)] {
        namespace["spec"]["finalizers"] = finalizers.clone();
        let body = namespace.to_string();
        let (code, answer) =
            running.call("PUT", &format!("{path}/finalize"), &headers, body.as_bytes()).await;
        assert_eq!(code, 200, "{answer}");
        assert_eq!(answer["status"]["phase"], "Terminating");
        let (code, found) = running.get(path).await;
        assert_eq!(code, code_after, "{found}");
        if code == 200 {
            assert_eq!(found["spec"]["finalizers"], finalizers);
        }
    }
}
