//! The API as a Rust client sees it: objects, conflicts, watches, deletion, pages; in memory and over TLS.
#![allow(missing_docs)]

mod support;

use std::time::Duration;

use apiserver::Identity;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Namespace, Node, Pod, Secret, Service};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams,
};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use support::{Running, config_map, pod};

fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("of this type")
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_every_cluster_has_is_there_at_once() {
    let running = Running::start().await;
    let client = running.tls_client().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let names: Vec<String> = namespaces
        .list(&ListParams::default())
        .await
        .expect("a list")
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let service = services.get("kubernetes").await.expect("there");
    assert_eq!(service.spec.and_then(|spec| spec.cluster_ip).as_deref(), Some("10.43.0.1"));
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    let root = maps.get("kube-root-ca.crt").await.expect("there");
    assert!(root.data.expect("data")["ca.crt"].starts_with("-----BEGIN CERTIFICATE"));
    let version = client.apiserver_version().await.expect("a version");
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
}

#[tokio::test]
async fn writes_are_compared_and_swapped_by_resource_version() {
    let running = Running::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.client(Identity::admin()));
    let params = PostParams::default();
    let first = maps.create(&params, &typed(config_map("c"))).await.expect("created");
    assert!(
        first.uid().is_some() && first.creation_timestamp().is_some() && first.metadata.generation.is_none()
    );
    assert_eq!(code(&maps.create(&params, &typed(config_map("c"))).await.expect_err("exists")), 409);
    let mut changed = first.clone();
    changed.data = Some([("k".to_owned(), "w".to_owned())].into());
    let second = maps.replace("c", &params, &changed).await.expect("replaced");
    assert_ne!(second.resource_version(), first.resource_version());
    let error = maps.replace("c", &params, &changed).await.expect_err("stale");
    let words = "the object has been modified; please apply your changes to the latest version and try again";
    assert!(error.to_string().contains(words), "{error}");
    let same = maps.replace("c", &params, &second).await.expect("no change");
    assert_eq!(same.resource_version(), second.resource_version(), "what changes nothing is no new version");
    changed.metadata.resource_version = None;
    maps.replace("c", &params, &changed).await.expect("unconditional");
    changed.metadata.uid = Some("other".to_owned());
    assert_eq!(code(&maps.replace("c", &params, &changed).await.expect_err("another object")), 409);
}

#[tokio::test]
async fn concurrent_patches_and_updates_lose_nothing() {
    let running = Running::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.client(Identity::admin()));
    maps.create(&PostParams::default(), &typed(config_map("c"))).await.expect("created");
    let mut tasks = Vec::new();
    for writer in 0..8 {
        let maps = maps.clone();
        tasks.push(tokio::spawn(async move {
            for count in 0..25 {
                let patch = json!({"data": {format!("w{writer}-{count}"): "x"}});
                maps.patch("c", &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let end = maps.get("c").await.expect("there");
    assert_eq!(end.data.expect("data").len(), 201);
}

#[tokio::test]
async fn the_three_patch_formats_work() {
    let running = Running::start().await;
    let pods: Api<Pod> = Api::default_namespaced(running.client(Identity::admin()));
    pods.create(&PostParams::default(), &typed(pod("p"))).await.expect("created");
    let params = PatchParams::default();
    let strategic = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "main", "image": "other"}]}});
    let patched = pods.patch("p", &params, &Patch::Strategic(strategic)).await.expect("patched");
    let spec = patched.spec.as_ref().expect("a spec");
    assert_eq!(spec.containers.len(), 1);
    assert_eq!(spec.containers[0].image.as_deref(), Some("other"));
    assert_eq!(patched.metadata.generation, Some(2), "a new spec is a new generation");
    let merge = json!({"metadata": {"labels": {"a": null, "b": "2"}}});
    let patched = pods.patch("p", &params, &Patch::Merge(merge)).await.expect("patched");
    assert_eq!(
        patched.labels().iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
        ["b=2"]
    );
    assert_eq!(patched.metadata.generation, Some(2));
    let operations = serde_json::from_value(
        json!([{"op": "test", "path": "/metadata/labels/b", "value": "2"}, {"op": "add", "path": "/metadata/labels/c", "value": "3"}]),
    );
    let patched =
        pods.patch("p", &params, &Patch::<()>::Json(operations.expect("a patch"))).await.expect("patched");
    assert_eq!(patched.labels().len(), 2);
    let status = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"c": "4"}}, "spec": {"nodeName": "forged"}});
    let patched = pods.patch_status("p", &params, &Patch::Merge(status)).await.expect("patched");
    assert_eq!(patched.status.expect("a status").phase.as_deref(), Some("Running"));
    assert_eq!(patched.spec.expect("a spec").node_name, None, "the status is all that changes");
    assert_eq!(code(&pods.patch("none", &params, &Patch::Merge(json!({}))).await.expect_err("missing")), 404);
}

#[tokio::test]
async fn a_pod_is_bound_watched_by_its_node_and_deleted_with_grace() {
    let running = Running::start().await;
    let admin: Api<Pod> = Api::default_namespaced(running.client(Identity::admin()));
    let node: Api<Pod> = Api::all(running.client(Identity::node("n1")));
    let params = WatchParams::default().fields("spec.nodeName=n1");
    let events = node.watch(&params, "0").await.expect("a watch");
    futures::pin_mut!(events);
    let created = admin.create(&PostParams::default(), &typed(pod("p"))).await.expect("created");
    assert_eq!(created.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Pending"));
    let binding: Binding =
        typed(json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}));
    let own: Api<Pod> = Api::namespaced(running.client(Identity::node("n1")), "default");
    own.create_subresource::<Binding, Value>("binding", "p", &PostParams::default(), &binding)
        .await
        .expect("bound");
    let Some(Ok(WatchEvent::Added(seen))) = events.next().await else {
        panic!("a bound pod comes into the selection")
    };
    assert_eq!(seen.spec.as_ref().and_then(|spec| spec.node_name.as_deref()), Some("n1"));
    let conditions = seen.status.and_then(|status| status.conditions).unwrap_or_default();
    assert!(
        conditions.iter().any(|condition| condition.type_ == "PodScheduled" && condition.status == "True")
    );

    let marked = admin.delete("p", &DeleteParams::default().grace_period(20)).await.expect("marked");
    let marked = marked.left().expect("still there");
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(20));
    let left = marked.metadata.deletion_timestamp.expect("marked").0.as_second()
        - jiff::Timestamp::now().as_second();
    assert!((18..=20).contains(&left), "{left}");
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Modified(_)))));
    let wrong = DeleteParams {
        preconditions: Some(Preconditions { uid: Some("other".to_owned()), ..Preconditions::default() }),
        ..DeleteParams::default().grace_period(0)
    };
    let local: Api<Pod> = Api::namespaced(running.client(Identity::node("n1")), "default");
    assert_eq!(code(&local.delete("p", &wrong).await.expect_err("another pod")), 409);
    let right = DeleteParams {
        preconditions: Some(Preconditions { uid: created.uid(), ..Preconditions::default() }),
        ..DeleteParams::default().grace_period(0)
    };
    local.delete("p", &right).await.expect("removed");
    let Some(Ok(WatchEvent::Deleted(last))) = events.next().await else { panic!("the deletion is seen") };
    assert!(last.resource_version().expect("one").parse::<u64>().expect("a number") > 0);
    assert_eq!(code(&admin.get("p").await.expect_err("gone")), 404);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    let running = Running::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.client(Identity::admin()));
    let mut held = config_map("c");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    maps.create(&PostParams::default(), &typed(held)).await.expect("created");
    let marked =
        maps.delete("c", &DeleteParams::default()).await.expect("marked").left().expect("still there");
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert!(maps.get_opt("c").await.expect("readable").is_some());
    maps.patch("c", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await
        .expect("released");
    assert!(maps.get_opt("c").await.expect("readable").is_none());
}

async fn names_until_ready(
    stream: impl futures::Stream<Item = watcher::Result<Event<ConfigMap>>>,
    change: impl AsyncFnOnce(),
) -> Vec<String> {
    futures::pin_mut!(stream);
    let mut seen = Vec::new();
    loop {
        match stream.try_next().await.expect("no error").expect("never ends") {
            Event::Init => {}
            Event::InitApply(object) => seen.push(format!("init {}", object.name_any())),
            Event::InitDone => break,
            other => panic!("{other:?}"),
        }
    }
    change().await;
    for _ in 0..3 {
        let event = stream.try_next().await.expect("no error").expect("never ends");
        seen.push(match event {
            Event::Apply(object) => format!("apply {}", object.name_any()),
            Event::Delete(object) => format!("delete {}", object.name_any()),
            other => panic!("{other:?}"),
        });
    }
    seen
}

#[tokio::test]
async fn watchers_see_the_state_and_then_every_change_in_both_styles() {
    let running = Running::start().await;
    let client = running.tls_client().await;
    let config = watcher::Config::default().labels("seen=yes");
    for (style, config) in [("list", config.clone()), ("stream", config.streaming_lists())] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": style}});
        namespaces.create(&PostParams::default(), &typed(namespace)).await.expect("created");
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), style);
        let labelled = |name: &str| -> ConfigMap {
            let mut map = config_map(name);
            map["metadata"]["labels"] = json!({"seen": "yes"});
            typed(map)
        };
        maps.create(&PostParams::default(), &labelled("a")).await.expect("created");
        maps.create(&PostParams::default(), &typed(config_map("other"))).await.expect("created");
        let seen = names_until_ready(watcher(maps.clone(), config), async || {
            maps.create(&PostParams::default(), &labelled("b")).await.expect("created");
            // Out of the selection is a deletion for those who select.
            let unlabel = json!({"metadata": {"labels": {"seen": "no"}}});
            maps.patch("a", &PatchParams::default(), &Patch::Merge(unlabel)).await.expect("patched");
            maps.delete("b", &DeleteParams::default()).await.expect("deleted");
        })
        .await;
        assert_eq!(seen, ["init a", "apply b", "delete a", "delete b"], "{style}");
    }
}

#[tokio::test]
async fn a_watch_from_a_forgotten_version_is_told_so() {
    let running = Running::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.client(Identity::admin()));
    let first = maps.create(&PostParams::default(), &typed(config_map("c"))).await.expect("created");
    let old = first.resource_version().expect("one");
    for count in 0..4200 {
        let patch = json!({"data": {"k": count.to_string()}});
        maps.patch("c", &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
    }
    let events: Vec<_> = maps.watch(&WatchParams::default(), &old).await.expect("a watch").collect().await;
    let [Ok(WatchEvent::Error(told))] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(told.code, 410);
    let exact = ListParams {
        resource_version: Some(old),
        ..ListParams::default().matching(kube::api::VersionMatch::Exact)
    };
    assert_eq!(code(&maps.list(&exact).await.expect_err("forgotten")), 410);
}

#[tokio::test]
async fn bookmarks_come_before_a_watch_ends_and_timeouts_hold() {
    let running = Running::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.client(Identity::admin()));
    let version =
        maps.list(&ListParams::default()).await.expect("a list").metadata.resource_version.expect("one");
    let secrets: Api<Secret> = Api::default_namespaced(running.client(Identity::admin()));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let newer =
        secrets.create(&PostParams::default(), &typed(secret)).await.expect("created").resource_version();
    let begin = std::time::Instant::now();
    let events: Vec<_> =
        maps.watch(&WatchParams::default().timeout(1), &version).await.expect("a watch").collect().await;
    assert!(begin.elapsed() < Duration::from_secs(5));
    let [Ok(WatchEvent::Bookmark(bookmark))] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(
        Some(&bookmark.metadata.resource_version),
        newer.as_ref(),
        "the bookmark is as new as the store"
    );
}

#[tokio::test]
async fn pages_show_one_revision_whatever_happens_meanwhile() {
    let running = Running::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.client(Identity::admin()));
    for number in 0..7 {
        maps.create(&PostParams::default(), &typed(config_map(&format!("m{number}"))))
            .await
            .expect("created");
    }
    let mut params = ListParams::default().limit(3).fields("metadata.name!=kube-root-ca.crt");
    let mut seen = Vec::new();
    let mut versions = std::collections::BTreeSet::new();
    loop {
        let page = maps.list(&params).await.expect("a page");
        versions.insert(page.metadata.resource_version.clone());
        seen.extend(page.items.iter().map(ResourceExt::name_any));
        let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else { break };
        params = params.continue_token(&token);
        if seen.len() == 3 {
            maps.delete("m5", &DeleteParams::default()).await.expect("deleted");
            maps.create(&PostParams::default(), &typed(config_map("m55"))).await.expect("created");
        }
    }
    assert_eq!(seen, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    assert_eq!(versions.len(), 1, "{versions:?}");
}

#[tokio::test]
async fn a_node_may_not_do_what_it_need_not() {
    let running = Running::start().await;
    let client = running.client(Identity::node("n1"));
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    secrets.list(&ListParams::default()).await.expect("reading is needed");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let refused = secrets.create(&PostParams::default(), &typed(secret)).await.expect_err("writing is not");
    assert!(
        refused.to_string().contains(r#"secrets is forbidden: User "system:node:n1" cannot create resource "secrets" in API group "" in the namespace "default""#),
        "{refused}"
    );
    let nodes: Api<Node> = Api::all(client);
    let node: Node = typed(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}));
    nodes.create(&PostParams::default(), &node).await.expect("its own object");
    assert_eq!(Node::kind(&()), "Node");
}

#[tokio::test]
async fn generated_names_and_dry_runs() {
    let running = Running::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.client(Identity::admin()));
    let generated: ConfigMap = typed(json!({"metadata": {"generateName": "job-"}}));
    let made = maps.create(&PostParams::default(), &generated).await.expect("created");
    let name = made.name_any();
    assert!(name.starts_with("job-") && name.len() == 9, "{name}");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let shown = maps.create(&dry, &typed(config_map("dry"))).await.expect("would work");
    assert!(shown.uid().is_some());
    assert!(maps.get_opt("dry").await.expect("readable").is_none());
    let services: Api<Service> = Api::default_namespaced(running.client(Identity::admin()));
    let service: Service = typed(
        json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "10.43.7.7", "ports": [{"port": 80}]}}),
    );
    services.create(&dry, &service).await.expect("would work");
    let made = services.create(&PostParams::default(), &service).await.expect("the dry run took no address");
    assert_eq!(made.spec.and_then(|spec| spec.cluster_ip).as_deref(), Some("10.43.7.7"));
    services.delete("s", &DeleteParams::default()).await.expect("deleted");
    services.create(&PostParams::default(), &service).await.expect("the address is free again");
}

#[tokio::test]
async fn a_server_that_starts_again_keeps_everything_and_tells_its_new_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.db");
    let mut versions = Vec::new();
    for port in [1111, 2222] {
        let store = store::Store::open(&path).expect("opens").store;
        let config = apiserver::ApiServerConfig {
            advertise: Some(([127, 0, 0, 1], port).into()),
            authority_pem: Some(format!("authority {port}")),
            ..apiserver::ApiServerConfig::default()
        };
        let server =
            apiserver::ApiServer::new(config, store.clone(), std::sync::Arc::new(apiserver::NoNodes))
                .await
                .expect("starts");
        let running = support::client_of(&server, Identity::admin());
        let services: Api<Service> = Api::default_namespaced(running.clone());
        let service = services.get("kubernetes").await.expect("there");
        let ports = service.spec.and_then(|spec| spec.ports).expect("ports");
        assert_eq!(
            ports[0].target_port,
            Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(port.into()))
        );
        let maps: Api<ConfigMap> = Api::default_namespaced(running);
        if port == 1111 {
            maps.create(&PostParams::default(), &typed(config_map("kept"))).await.expect("created");
        }
        let kept = maps.get("kept").await.expect("kept");
        versions.push((kept.uid(), kept.resource_version()));
        store.close().await;
    }
    assert_eq!(versions[0], versions[1]);
}

#[tokio::test]
async fn stopping_the_server_ends_watches() {
    let mut running = Running::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.tls_client().await);
    let events = maps.watch(&WatchParams::default(), "0").await.expect("a watch");
    futures::pin_mut!(events);
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(_)))));
    running.stop().await;
    let rest: Vec<_> = events.collect().await;
    assert!(rest.iter().all(Result::is_ok) || rest.len() == 1, "{rest:?}");
}

#[tokio::test]
async fn ephemeral_containers_are_added_through_their_subresource_only() {
    let running = Running::start().await;
    let pods: Api<Pod> = Api::default_namespaced(running.client(Identity::admin()));
    pods.create(&PostParams::default(), &typed(pod("p"))).await.expect("created");
    let added = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i", "targetContainerName": "main"}]}});
    let params = PatchParams::default();
    let error = pods.patch("p", &params, &Patch::Strategic(&added)).await.expect_err("not so");
    assert_eq!(code(&error), 422);
    let patched =
        pods.patch_ephemeral_containers("p", &params, &Patch::Strategic(&added)).await.expect("added");
    assert_eq!(patched.metadata.generation, Some(2));
    let second = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
    pods.patch_ephemeral_containers("p", &params, &Patch::Strategic(&second)).await.expect("added");
    let mut whole = pods.get_ephemeral_containers("p").await.expect("the whole pod");
    let names = |pod: &Pod| -> Vec<String> {
        let list = pod.spec.as_ref().and_then(|spec| spec.ephemeral_containers.clone());
        let mut names: Vec<String> = list.into_iter().flatten().map(|one| one.name).collect();
        names.sort();
        names
    };
    assert_eq!(names(&whole), ["d", "e"]);
    if let Some(list) = whole.spec.as_mut().and_then(|spec| spec.ephemeral_containers.as_mut()) {
        list.push(typed(json!({"name": "f", "image": "i"})));
    }
    let replaced =
        pods.replace_ephemeral_containers("p", &PostParams::default(), &whole).await.expect("added");
    assert_eq!(names(&replaced), ["d", "e", "f"]);
    let error =
        pods.replace_ephemeral_containers("p", &PostParams::default(), &whole).await.expect_err("stale");
    assert_eq!(code(&error), 409);
    let (status, found) = running.get("/api/v1").await;
    assert_eq!(status, 200);
    let listed = found["resources"].as_array().expect("resources");
    let entry =
        listed.iter().find(|entry| entry["name"] == "pods/ephemeralcontainers").expect("in discovery");
    assert_eq!(entry["verbs"], json!(["get", "patch", "update"]));
}

#[tokio::test]
async fn a_json_patch_may_test_that_something_is_not_there() {
    let running = Running::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    running.post(maps, &config_map("guarded")).await;
    let patch = br#"[{"op": "test", "path": "/data/once", "value": null}, {"op": "add", "path": "/data/once", "value": "x"}]"#;
    let json = [("content-type", "application/json-patch+json")];
    let (code, answer) = running.call("PATCH", &format!("{maps}/guarded"), &json, patch).await;
    assert_eq!((code.as_u16(), answer["data"]["once"].as_str()), (200, Some("x")), "{answer}");
    let (code, _) = running.call("PATCH", &format!("{maps}/guarded"), &json, patch).await;
    assert_eq!(code.as_u16(), 422, "now it is there");
}
