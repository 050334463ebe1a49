//! PodDisruptionBudgets and evictions.
#![allow(missing_docs)]

mod support;

use serde_json::{Value, json};
use support::{DEFAULT, Running, create, until};

#[tokio::test]
async fn an_eviction_respects_the_budget_of_the_pod() {
    let running = Running::start().await;
    let pods = format!("{DEFAULT}/pods");
    for name in ["a", "b"] {
        let mut pod = support::pod(name);
        pod["metadata"]["labels"] = json!({"app": "x"});
        create(&running, &pods, &pod).await;
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let headers = [("content-type", "application/merge-patch+json")];
        let (code, answer) = running
            .call("PATCH", &format!("{pods}/{name}/status"), &headers, status.to_string().as_bytes())
            .await;
        assert_eq!(code, 200, "{answer}");
    }
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    create(&running, budgets, &budget).await;
    let path = format!("{budgets}/b");
    let shown = until(&running, &path, |budget| budget["status"]["disruptionsAllowed"] == 1).await;
    assert_eq!(shown["status"]["observedGeneration"], 1);
    let eviction = |name: &str, options: Value| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options});
    let (code, answer) =
        running.post(&format!("{pods}/a/eviction"), &eviction("a", json!({"dryRun": ["All"]}))).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(running.get(&format!("{pods}/a")).await.0, 200, "a rehearsal");
    let (code, answer) = running.post(&format!("{pods}/a/eviction"), &eviction("a", json!({}))).await;
    assert_eq!((code.as_u16(), &answer["status"]), (201, &json!("Success")));
    assert_eq!(running.get(&format!("{pods}/a")).await.0, 404);
    let (code, answer) = running.post(&format!("{pods}/b/eviction"), &eviction("b", json!({}))).await;
    assert_eq!(code, 429);
    assert_eq!(answer["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(
        answer["details"]["causes"],
        json!([{"reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}])
    );
    create(
        &running,
        budgets,
        &json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "c"},
        "spec": {"minAvailable": 0, "selector": {}}}),
    )
    .await;
    let (code, answer) = running.post(&format!("{pods}/b/eviction"), &eviction("b", json!({}))).await;
    assert_eq!(code, 500);
    assert_eq!(
        answer["message"],
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
    for name in ["b", "c"] {
        running.call("DELETE", &format!("{budgets}/{name}"), &[], b"").await;
    }
    // Controllers written in Go say it in protobuf: type, then metadata with the name.
    let mut envelope = b"k8s\0\x0a\x15\x0a\x09policy/v1\x12\x08Eviction\x12\x05\x0a\x03\x0a\x01b".to_vec();
    envelope.extend(b"\x1a\0\"\0");
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    let (code, answer) = running.call("POST", &format!("{pods}/b/eviction"), &headers, &envelope).await;
    assert_eq!(code, 201, "{answer}");
    let (code, _) = running.post(&format!("{pods}/b/eviction"), &eviction("b", json!({}))).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn a_budget_in_percent_follows_the_size_of_what_controls_the_pods() {
    let running = Running::start().await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "s"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let set = create(&running, sets, &set).await;
    let mut pod = support::pod("p");
    pod["metadata"]["labels"] = json!({"a": "b"});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s",
        "uid": set["metadata"]["uid"], "controller": true}]);
    create(&running, &format!("{DEFAULT}/pods"), &pod).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    create(&running, budgets, &budget).await;
    let path = format!("{budgets}/b");
    let shown = until(&running, &path, |budget| budget["status"]["expectedPods"] == 2).await;
    assert_eq!(
        (&shown["status"]["desiredHealthy"], &shown["status"]["currentHealthy"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(shown["status"]["conditions"][0]["reason"], "InsufficientPods");
    let headers = [("content-type", "application/merge-patch+json")];
    running.call("PATCH", &format!("{sets}/s"), &headers, br#"{"spec": {"replicas": 8}}"#).await;
    until(&running, &path, |budget| budget["status"]["desiredHealthy"] == 4).await;
}
