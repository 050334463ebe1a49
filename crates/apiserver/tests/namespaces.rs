//! The end of a namespace: what it takes along, what keeps it, and what may not go.
#![allow(missing_docs)]

mod support;

use serde_json::json;
use support::{Running, create, until};

#[tokio::test]
async fn a_namespace_that_ends_says_what_keeps_it_and_takes_nothing_new() {
    let running = Running::start().await;
    let named = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let namespaces = "/api/v1/namespaces";
    let namespace = create(&running, namespaces, &named("n")).await;
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    let inside = "/api/v1/namespaces/n";
    let mut kept = support::config_map("kept");
    kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
    create(&running, &format!("{inside}/configmaps"), &kept).await;
    create(
        &running,
        "/apis/policy/v1/namespaces/n/poddisruptionbudgets",
        &json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {}}),
    )
    .await;
    // Nobody can take the finalizer away by an ordinary update.
    let headers = [("content-type", "application/merge-patch+json")];
    let (_, patched) = running.call("PATCH", inside, &headers, br#"{"spec": {"finalizers": []}}"#).await;
    assert_eq!(patched["spec"]["finalizers"], json!(["kubernetes"]));
    let (code, answer) = running.call("DELETE", inside, &[], b"").await;
    assert_eq!(code, 200);
    assert_eq!(answer["status"]["phase"], "Terminating");
    let shown = until(&running, inside, |namespace| {
        namespace["status"]["conditions"][3]["message"]
            == "Some resources are remaining: configmaps. has 1 resource instances"
    })
    .await;
    assert_eq!(
        shown["status"]["conditions"][4]["message"],
        "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances"
    );
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
    running
        .call(
            "PATCH",
            &format!("{inside}/configmaps/kept"),
            &headers,
            br#"{"metadata": {"finalizers": null}}"#,
        )
        .await;
    until(&running, inside, |answer| answer["code"] == 404).await;
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
    until(&running, path, |namespace| namespace["spec"]["finalizers"] == json!(["example.com/x"])).await;
    namespace["spec"]["finalizers"] = json!([]);
    namespace["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let headers = [("content-type", "application/json")];
    let (code, answer) =
        running.call("PUT", &format!("{path}/finalize"), &headers, namespace.to_string().as_bytes()).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(running.get(path).await.0, 404);
}

/// The paths of every resource in namespaces that can be listed, from discovery: `/apis/apps/v1 deployments`.
async fn namespaced_resources(running: &Running) -> Vec<(String, String)> {
    let mut roots = vec!["/api/v1".to_owned()];
    let (_, groups) = running.get("/apis").await;
    for group in groups["groups"].as_array().expect("groups") {
        for version in group["versions"].as_array().expect("versions") {
            roots.push(format!("/apis/{}", version["groupVersion"].as_str().expect("text")));
        }
    }
    let mut found = Vec::new();
    for root in roots {
        let (_, list) = running.get(&root).await;
        for resource in list["resources"].as_array().expect("resources") {
            let verbs = resource["verbs"].as_array().expect("verbs");
            let name = resource["name"].as_str().expect("a name");
            if resource["namespaced"] == true && verbs.contains(&json!("list")) && !name.contains('/') {
                found.push((root.clone(), name.to_owned()));
            }
        }
    }
    found
}

#[tokio::test]
async fn a_namespace_takes_objects_of_every_kind_with_it() {
    let running = Running::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    create(&running, "/api/v1/namespaces", &namespace).await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let mut job = json!({"template": template});
    job["template"]["spec"]["restartPolicy"] = json!("Never");
    let specs = [
        ("pods", template["spec"].clone()),
        ("services", json!({"ports": [{"port": 80}]})),
        (
            "persistentvolumeclaims",
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}),
        ),
        ("replicationcontrollers", json!({"selector": {"a": "b"}, "template": template})),
        ("resourcequotas", json!({"hard": {"pods": "9"}})),
        ("limitranges", json!({"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "9"}}]})),
        ("deployments", json!({"selector": selector, "template": template})),
        ("replicasets", json!({"selector": selector, "template": template})),
        ("daemonsets", json!({"selector": selector, "template": template})),
        ("statefulsets", json!({"selector": selector, "template": template, "serviceName": "s"})),
        ("jobs", job.clone()),
        ("cronjobs", json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}})),
        ("ingresses", json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}})),
        ("networkpolicies", json!({"podSelector": {}})),
        ("poddisruptionbudgets", json!({"minAvailable": 1})),
        ("leases", json!({"holderIdentity": "h"})),
    ];
    let others = [
        ("podtemplates", json!({"template": template})),
        ("endpointslices", json!({"addressType": "IPv4", "endpoints": []})),
        ("controllerrevisions", json!({"revision": 1, "data": {}})),
        ("roles", json!({"rules": []})),
        (
            "rolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}}),
        ),
        ("events", json!({"involvedObject": {"namespace": "n"}})),
        ("templates", json!({"objects": []})),
    ];
    let resources = namespaced_resources(&running).await;
    let mut made = 0;
    for (root, plural) in &resources {
        // The first are made by their other path, the second never.
        if root == "/apis/events.k8s.io/v1" || plural == "horizontalpodautoscalers" {
            continue;
        }
        let (_, list) = running.get(&format!("{root}/namespaces/n/{plural}")).await;
        let list_kind = list["kind"].as_str().expect("a list");
        let mut object = json!({"apiVersion": list["apiVersion"], "metadata": {"name": "r"},
            "kind": list_kind.strip_suffix("List").expect("a list")});
        if let Some((_, spec)) = specs.iter().find(|(name, _)| name == plural) {
            object["spec"] = spec.clone();
        }
        if let Some((_, fields)) = others.iter().find(|(name, _)| name == plural) {
            object.as_object_mut().expect("a map").extend(fields.as_object().expect("a map").clone());
        }
        let (code, answer) = running.post(&format!("{root}/namespaces/n/{plural}"), &object).await;
        assert_eq!(code, 201, "{root} {plural}: {answer}");
        made += 1;
    }
    assert!(made >= 25, "{made}");
    running.call("DELETE", "/api/v1/namespaces/n", &[], b"").await;
    until(&running, "/api/v1/namespaces/n", |answer| answer["code"] == 404).await;
    for (root, plural) in &resources {
        let (_, list) = running.get(&format!("{root}/namespaces/n/{plural}")).await;
        assert_eq!(list["items"], json!([]), "{root} {plural}");
    }
}
