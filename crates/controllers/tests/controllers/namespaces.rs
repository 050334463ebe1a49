//! What each namespace has, and how one ends: what it takes along, in which order, and what keeps it.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::{Cluster, PATIENCE, ROOT};
use informer::Kind;

/// A cluster without nodes, in which namespaces are seen to.
async fn housekeeping() -> Cluster {
    let mut cluster = Cluster::bare().await;
    cluster.start_housekeeping();
    cluster
}

fn namespaces(cluster: &Cluster) -> Api<Namespace> {
    Api::all(cluster.client.clone())
}

async fn create_namespace(cluster: &Cluster, name: &str, finalizers: &[&str]) -> Namespace {
    let namespace = json!({"metadata": {"name": name}, "spec": {"finalizers": finalizers}});
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    namespaces(cluster).create(&PostParams::default(), &namespace).await.expect("created")
}

async fn create_in<K>(cluster: &Cluster, namespace: &str, object: Value) -> K
where
    K: Kind + Serialize + kube::Resource<Scope = NamespaceResourceScope>,
{
    let object: K = serde_json::from_value(object).expect("an object of that kind");
    let api: Api<K> = Api::namespaced(cluster.client.clone(), namespace);
    api.create(&PostParams::default(), &object).await.expect("created")
}

/// Waits until an object is as it should be; `None` is one that is gone.
async fn until<K: Kind>(api: &Api<K>, name: &str, what: &str, holds: impl Fn(Option<&K>) -> bool) {
    use futures::StreamExt as _;
    let wait = async {
        loop {
            let params = WatchParams::default().fields(&format!("metadata.name={name}"));
            let mut events = std::pin::pin!(api.watch(&params, "0").await.expect("a watch"));
            if holds(api.get_opt(name).await.expect("an answer").as_ref()) {
                return;
            }
            while let Some(Ok(event)) = events.next().await {
                let found = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => Some(object),
                    WatchEvent::Deleted(_) => None,
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(_) => break,
                };
                if holds(found.as_ref()) {
                    return;
                }
            }
        }
    };
    assert!(
        tokio::time::timeout(PATIENCE, wait).await.is_ok(),
        "in {PATIENCE:?} it did not come true that {what}"
    );
}

fn conditions(namespace: &Namespace) -> Vec<(String, String)> {
    let conditions = namespace.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    conditions.map(|one| (text(&one.reason), text(&one.message))).collect()
}

#[tokio::test]
async fn a_namespace_that_ends_says_what_keeps_it_and_goes_when_nothing_does() {
    let cluster = housekeeping().await;
    create_namespace(&cluster, "n", &[]).await;
    let map = json!({"metadata": {"name": "kept", "finalizers": ["example.com/keep"]}});
    create_in::<ConfigMap>(&cluster, "n", map).await;
    create_in::<Secret>(&cluster, "n", json!({"metadata": {"name": "s"}})).await;
    let api = namespaces(&cluster);
    api.delete("n", &DeleteParams::default()).await.expect("marked");
    until(&api, "n", "it says what keeps it", |found| {
        let told = found.map(conditions).unwrap_or_default();
        let expected = |at: usize, reason: &str, message: &str| {
            told.get(at).is_some_and(|one| one.0 == reason && one.1 == message)
        };
        expected(
            3,
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ) && expected(
            4,
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances",
        )
    })
    .await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "n");
    assert!(secrets.get_opt("s").await.expect("an answer").is_none(), "what nobody keeps is gone");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "n");
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("kept", &PatchParams::default(), &patch).await.expect("patched");
    until(&api, "n", "it is gone", |found| found.is_none()).await;
}

#[tokio::test]
async fn a_namespace_that_others_keep_is_emptied_and_goes_with_their_finalizer() {
    let cluster = housekeeping().await;
    create_namespace(&cluster, "n", &["example.com/x"]).await;
    create_in::<ConfigMap>(&cluster, "n", json!({"metadata": {"name": "c"}})).await;
    let api = namespaces(&cluster);
    api.delete("n", &DeleteParams::default()).await.expect("marked");
    let finalizers = |found: Option<&Namespace>| found.and_then(|found| found.spec.clone()?.finalizers);
    until(&api, "n", "only the finalizer of others is left", |found| {
        finalizers(found).as_deref() == Some(&["example.com/x".to_owned()])
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "n");
    assert!(maps.list(&kube::api::ListParams::default()).await.expect("a list").items.is_empty());
    let mut left = api.get("n").await.expect("there");
    assert_eq!(conditions(&left)[3].0, "ContentRemoved");
    left.spec = None;
    api.replace_subresource("finalize", "n", &PostParams::default(), &left).await.expect("finalized");
    assert!(api.get_opt("n").await.expect("an answer").is_none());
}

#[tokio::test]
async fn pods_of_a_namespace_that_ends_go_before_what_they_use() {
    let cluster = housekeeping().await;
    create_namespace(&cluster, "n", &[]).await;
    create_in::<Secret>(&cluster, "n", json!({"metadata": {"name": "s"}})).await;
    let spec = json!({"nodeName": "elsewhere", "containers": [{"name": "c", "image": "i"}]});
    create_in::<Pod>(&cluster, "n", json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let api = namespaces(&cluster);
    api.delete("n", &DeleteParams::default()).await.expect("marked");
    until(&api, "n", "it waits for its pod", |found| {
        found.map(conditions).unwrap_or_default().get(3).is_some_and(|one| one.1.contains("pods. has 1 "))
    })
    .await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "n");
    secrets.get("s").await.expect("the pod may still need it");
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "n");
    accounts.get("default").await.expect("the pod may still need it");
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "n");
    let pod = pods.get("p").await.expect("its node has not ended it yet");
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(30), "it may end in its own time");
    // Its node says that it has ended.
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    until(&api, "n", "it is gone", |found| found.is_none()).await;
}

#[tokio::test]
async fn a_namespace_with_a_hundred_pods_and_their_controllers_goes_whole() {
    let cluster = Cluster::new().await;
    create_namespace(&cluster, "n", &[]).await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 100, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    create_in::<k8s_openapi::api::apps::v1::Deployment>(
        &cluster,
        "n",
        json!({"metadata": {"name": "web"}, "spec": spec}),
    )
    .await;
    cluster
        .until("a hundred pods run", |seen| {
            let runs = |pod: &&std::sync::Arc<Pod>| {
                pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"))
            };
            seen.pods.in_namespace("n").iter().filter(runs).count() == 100
        })
        .await;
    let api = namespaces(&cluster);
    api.delete("n", &DeleteParams::default()).await.expect("marked");
    until(&api, "n", "it is gone", |found| found.is_none()).await;
    cluster.until("its pods are gone", |seen| seen.pods.in_namespace("n").is_empty()).await;
    let sets: Api<k8s_openapi::api::apps::v1::ReplicaSet> = Api::all(cluster.client.clone());
    assert!(sets.list(&kube::api::ListParams::default()).await.expect("a list").items.is_empty());
}

#[tokio::test]
async fn a_namespace_that_began_to_end_while_nobody_was_there_is_ended_by_who_comes_next() {
    let mut cluster = Cluster::bare().await;
    create_namespace(&cluster, "n", &[]).await;
    create_in::<ConfigMap>(&cluster, "n", json!({"metadata": {"name": "c"}})).await;
    let api = namespaces(&cluster);
    let marked = api.delete("n", &DeleteParams::default()).await.expect("marked");
    assert!(marked.left().is_some_and(|marked| marked.metadata.deletion_timestamp.is_some()));
    cluster.start_housekeeping();
    until(&api, "n", "it is gone", |found| found.is_none()).await;
}

#[tokio::test]
async fn the_default_account_and_the_certificates_of_a_namespace_come_back_and_a_wrong_certificate_is_replaced()
 {
    let cluster = housekeeping().await;
    create_namespace(&cluster, "n", &[]).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "n");
    let first = accounts.get("default").await.expect("there from the beginning");
    accounts.delete("default", &DeleteParams::default()).await.expect("deleted");
    until(&accounts, "default", "there is an account again", |found| {
        found.is_some_and(|found| found.metadata.uid != first.metadata.uid)
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "n");
    let is_right = |found: Option<&ConfigMap>| {
        found.and_then(|found| found.data.as_ref()?.get("ca.crt").cloned()).as_deref() == Some(ROOT)
    };
    until(&maps, "kube-root-ca.crt", "the certificates are told", is_right).await;
    let wrong = Patch::Merge(json!({"data": {"ca.crt": "another"}, "metadata": {"labels": {"mine": "yes"}}}));
    maps.patch("kube-root-ca.crt", &PatchParams::default(), &wrong).await.expect("patched");
    until(&maps, "kube-root-ca.crt", "the certificates are right again", |found| {
        let is_labelled = found.is_some_and(|found| found.metadata.labels.is_some());
        is_right(found) && is_labelled
    })
    .await;
    maps.delete("kube-root-ca.crt", &DeleteParams::default()).await.expect("deleted");
    until(&maps, "kube-root-ca.crt", "the certificates are told again", is_right).await;
}

#[tokio::test]
async fn a_pod_that_is_created_right_after_its_default_account_was_deleted_is_not_refused() {
    let cluster = housekeeping().await;
    create_namespace(&cluster, "n", &[]).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "n");
    for round in 0..5 {
        accounts.delete("default", &DeleteParams::default()).await.expect("deleted");
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": format!("p{round}")}, "spec": spec});
        let pod = create_in::<Pod>(&cluster, "n", pod).await;
        assert_eq!(pod.spec.and_then(|spec| spec.service_account_name).as_deref(), Some("default"));
    }
}

/// An answer to a raw request, in JSON.
async fn raw(cluster: &Cluster, method: &str, path: &str, body: Option<&Value>) -> kube::Result<Value> {
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    cluster.client.request(request.body(body).expect("a request")).await
}

/// The paths of every resource in namespaces that can be listed, from discovery: `/apis/apps/v1 deployments`.
async fn namespaced_resources(cluster: &Cluster) -> Vec<(String, String)> {
    let mut roots = vec!["/api/v1".to_owned()];
    let groups = raw(cluster, "GET", "/apis", None).await.expect("groups");
    for group in groups["groups"].as_array().expect("groups") {
        for version in group["versions"].as_array().expect("versions") {
            roots.push(format!("/apis/{}", version["groupVersion"].as_str().expect("text")));
        }
    }
    let mut found = Vec::new();
    for root in roots {
        let list = raw(cluster, "GET", &root, None).await.expect("resources");
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
    let cluster = housekeeping().await;
    create_namespace(&cluster, "n", &[]).await;
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
    let resources = namespaced_resources(&cluster).await;
    let mut made = 0;
    for (root, plural) in &resources {
        // The first are made by their other path, the second never.
        if root == "/apis/events.k8s.io/v1" || plural == "horizontalpodautoscalers" {
            continue;
        }
        let path = format!("{root}/namespaces/n/{plural}");
        let list = raw(&cluster, "GET", &path, None).await.expect("a list");
        let list_kind = list["kind"].as_str().expect("a list");
        let mut object = json!({"apiVersion": list["apiVersion"], "metadata": {"name": "r"},
            "kind": list_kind.strip_suffix("List").expect("a list")});
        if let Some((_, spec)) = specs.iter().find(|(name, _)| name == plural) {
            object["spec"] = spec.clone();
        }
        if let Some((_, fields)) = others.iter().find(|(name, _)| name == plural) {
            object.as_object_mut().expect("a map").extend(fields.as_object().expect("a map").clone());
        }
        raw(&cluster, "POST", &path, Some(&object)).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        made += 1;
    }
    assert!(made >= 25, "{made}");
    let api = namespaces(&cluster);
    api.delete("n", &DeleteParams::default()).await.expect("marked");
    until(&api, "n", "it is gone", |found| found.is_none()).await;
    for (root, plural) in &resources {
        let path = format!("{root}/namespaces/n/{plural}");
        let list = raw(&cluster, "GET", &path, None).await.expect("a list");
        assert_eq!(list["items"], json!([]), "{root} {plural}");
    }
}
