//! Endpoints, slices and pods that nobody ends, against a real API server.

use informer::{Informer, ObjectKey};
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;

fn service(name: &str, selector: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": selector, "ports": [{"port": 80, "targetPort": 8080}]}})
}

fn pod(name: &str, app: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// The slices of a service of the namespace `default`, as JSON.
fn slices(seen: &Informer<EndpointSlice>, service: &str) -> Vec<Value> {
    let all = seen.in_namespace("default");
    let of = |slice: &&std::sync::Arc<EndpointSlice>| {
        let labels = slice.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get("kubernetes.io/service-name")).is_some_and(|name| name == service)
    };
    all.iter().filter(of).map(|slice| serde_json::to_value(&**slice).expect("JSON")).collect()
}

/// Names and readiness of the pods in the only slice of a service, sorted.
fn shown(seen: &Informer<EndpointSlice>, service: &str) -> Vec<(String, bool)> {
    let slices = slices(seen, service);
    let [slice] = slices.as_slice() else { return vec![(format!("{} slices", slices.len()), false)] };
    let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    let mut shown: Vec<_> = endpoints
        .iter()
        .map(|endpoint| {
            let name = endpoint["targetRef"]["name"].as_str().or(endpoint["addresses"][0].as_str());
            (name.unwrap_or_default().to_owned(), endpoint["conditions"]["ready"] == true)
        })
        .collect();
    shown.sort();
    shown
}

/// How many ready addresses and others the Endpoints of a service have.
fn counted(seen: &Informer<Endpoints>, service: &str) -> Option<(usize, usize)> {
    let endpoints = seen.get(&ObjectKey::new("default", service))?;
    let subsets = endpoints.subsets.clone().unwrap_or_default();
    let ready = subsets.iter().map(|subset| subset.addresses.as_ref().map_or(0, Vec::len)).sum();
    let others = subsets.iter().map(|subset| subset.not_ready_addresses.as_ref().map_or(0, Vec::len)).sum();
    Some((ready, others))
}

#[tokio::test]
async fn endpoints_follow_the_pods_of_a_service_and_go_with_it() {
    let cluster = Cluster::new().await;
    cluster.create::<Service>(service("web", json!({"app": "web"}))).await;
    cluster.until("there is an empty slice", |seen| slices(&seen.endpoint_slices, "web").len() == 1).await;
    for name in ["a", "b"] {
        cluster.create::<Pod>(pod(name, "web")).await;
    }
    cluster.create::<Pod>(pod("c", "other")).await;
    let ready = |name: &str| (name.to_owned(), true);
    cluster
        .until("both pods are ready endpoints", |seen| {
            shown(&seen.endpoint_slices, "web") == [ready("a"), ready("b")]
                && counted(&seen.endpoints, "web") == Some((2, 0))
        })
        .await;
    let slice = slices(&cluster.seen.endpoint_slices, "web").remove(0);
    assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
    assert!(
        slice["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"].is_string(),
        "{slice}"
    );

    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let pods = cluster.api::<Pod>();
    pods.patch_status("a", &PatchParams::default(), &Patch::Strategic(unready)).await.expect("patched");
    cluster
        .until("one is not ready", |seen| {
            shown(&seen.endpoint_slices, "web") == [("a".to_owned(), false), ready("b")]
                && counted(&seen.endpoints, "web") == Some((1, 1))
        })
        .await;
    let relabel = json!({"metadata": {"labels": {"app": "other"}}});
    pods.patch("b", &PatchParams::default(), &Patch::Merge(relabel)).await.expect("patched");
    cluster
        .until("one is no longer chosen", |seen| {
            shown(&seen.endpoint_slices, "web") == [("a".to_owned(), false)]
                && counted(&seen.endpoints, "web") == Some((0, 1))
        })
        .await;
    cluster.api::<Service>().delete("web", &DeleteParams::default()).await.expect("deleted");
    cluster
        .until("both are gone", |seen| {
            slices(&seen.endpoint_slices, "web").is_empty() && counted(&seen.endpoints, "web").is_none()
        })
        .await;
}

/// Families and addresses of the slices of a service, sorted.
fn by_family(seen: &Informer<EndpointSlice>, service: &str) -> Vec<String> {
    let of = |slice: &Value| {
        let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        let mut all: Vec<String> =
            endpoints.iter().map(|endpoint| endpoint["addresses"][0].to_string()).collect();
        all.sort();
        format!("{} {}", slice["addressType"].as_str().unwrap_or_default(), all.join(" ").replace('"', ""))
    };
    let mut shown: Vec<String> = slices(seen, service).iter().map(of).collect();
    shown.sort();
    shown
}

#[tokio::test]
async fn a_service_of_both_families_has_slices_of_both_and_endpoints_of_its_first_one() {
    let cluster = Cluster::new().await;
    for (name, families) in [("web", json!(["IPv4", "IPv6"])), ("six", json!(["IPv6", "IPv4"]))] {
        let mut both = service(name, json!({"app": "web"}));
        both["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
        both["spec"]["ipFamilies"] = families;
        cluster.create::<Service>(both).await;
    }
    let mut headless = service("names", json!({"app": "web"}));
    headless["spec"]["clusterIP"] = json!("None");
    headless["spec"]["ipFamilies"] = json!(["IPv6"]);
    cluster.create::<Service>(headless).await;
    cluster.create::<Pod>(pod("a", "web")).await;
    let address = |seen: &controllers::Informers, name: &str| {
        seen.pods.get(&ObjectKey::new("default", name)).and_then(|pod| pod.status.clone()?.pod_ip)
    };
    cluster.until("the pod has an address", |seen| address(seen, "a").is_some()).await;
    let first = address(&cluster.seen, "a").expect("an address");
    let pods = cluster.api::<Pod>();
    let both = json!({"status": {"podIPs": [{"ip": first}, {"ip": "fd00:1::a"}]}});
    pods.patch_status("a", &PatchParams::default(), &Patch::Merge(both)).await.expect("patched");
    let expected = [format!("IPv4 {first}"), "IPv6 fd00:1::a".to_owned()];
    let endpoints = |seen: &controllers::Informers, name: &str| {
        let endpoints = seen.endpoints.get(&ObjectKey::new("default", name))?;
        Some(endpoints.subsets.as_ref()?.first()?.addresses.as_ref()?.first()?.ip.clone())
    };
    cluster
        .until("each slice has its address", |seen| {
            by_family(&seen.endpoint_slices, "web") == expected
                && by_family(&seen.endpoint_slices, "six") == expected
                && by_family(&seen.endpoint_slices, "names") == expected[1..]
                && endpoints(seen, "web").as_ref() == Some(&first)
                && endpoints(seen, "six").as_deref() == Some("fd00:1::a")
                && endpoints(seen, "names").as_deref() == Some("fd00:1::a")
        })
        .await;
    // A pod of one family only stands behind the other one with nothing.
    cluster.create::<Pod>(pod("b", "web")).await;
    cluster.until("the other pod has an address", |seen| address(seen, "b").is_some()).await;
    let second = address(&cluster.seen, "b").expect("an address");
    let mut v4 = [first.clone(), second];
    v4.sort();
    cluster
        .until("the other pod is there once", |seen| {
            by_family(&seen.endpoint_slices, "web") == [format!("IPv4 {}", v4.join(" ")), expected[1].clone()]
        })
        .await;
    let single = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let services = cluster.api::<Service>();
    services.patch("web", &PatchParams::default(), &Patch::Merge(&single)).await.expect("patched");
    services.patch("six", &PatchParams::default(), &Patch::Merge(&single)).await.expect("patched");
    cluster
        .until("the second family is gone", |seen| {
            by_family(&seen.endpoint_slices, "web") == [format!("IPv4 {}", v4.join(" "))]
                && by_family(&seen.endpoint_slices, "six") == expected[1..]
        })
        .await;
}

#[tokio::test]
async fn endpoints_of_both_families_made_by_hand_are_mirrored_into_a_slice_of_each() {
    let cluster = Cluster::new().await;
    cluster.create::<Service>(service("db", Value::Null)).await;
    let by_hand = json!({"metadata": {"name": "db"},
        "subsets": [{"addresses": [{"ip": "192.0.2.7"}, {"ip": "2001:db8::7"}], "ports": [{"port": 5432}]}]});
    cluster.create::<Endpoints>(by_hand).await;
    cluster
        .until("they are mirrored", |seen| {
            by_family(&seen.endpoint_slices, "db") == ["IPv4 192.0.2.7", "IPv6 2001:db8::7"]
        })
        .await;
}

#[tokio::test]
async fn what_happened_while_no_controller_ran_is_made_up_for() {
    let mut cluster = Cluster::new().await;
    for name in ["stays", "goes"] {
        cluster.create::<Service>(service(name, json!({"app": "web"}))).await;
    }
    cluster.create::<Pod>(pod("a", "web")).await;
    let both = [("a".to_owned(), true)];
    cluster
        .until("both services have it", |seen| {
            ["stays", "goes"].iter().all(|name| shown(&seen.endpoint_slices, name) == both)
                && counted(&seen.endpoints, "goes") == Some((1, 0))
        })
        .await;
    cluster.stop().await;
    cluster.api::<Service>().delete("goes", &DeleteParams::default()).await.expect("deleted");
    let slice = slices(&cluster.seen.endpoint_slices, "stays").remove(0);
    let name = slice["metadata"]["name"].as_str().expect("a name");
    cluster.api::<EndpointSlice>().delete(name, &DeleteParams::default()).await.expect("deleted");
    cluster.until("the slice is gone", |seen| slices(&seen.endpoint_slices, "stays").is_empty()).await;
    cluster.start();
    cluster
        .until("what is missing is there and what is left over is gone", |seen| {
            shown(&seen.endpoint_slices, "stays") == both && counted(&seen.endpoints, "goes").is_none()
        })
        .await;
}

#[tokio::test]
async fn endpoints_made_by_hand_are_mirrored_and_left_alone() {
    let cluster = Cluster::new().await;
    cluster.create::<Service>(service("db", Value::Null)).await;
    let by_hand = json!({"metadata": {"name": "db"},
        "subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 5432}]}]});
    cluster.create::<Endpoints>(by_hand).await;
    cluster
        .until("they are mirrored", |seen| {
            shown(&seen.endpoint_slices, "db") == [("192.0.2.7".to_owned(), true)]
        })
        .await;
    let changed = json!({"subsets": [{"addresses": [{"ip": "192.0.2.8"}], "ports": [{"port": 5432}]}]});
    let api = cluster.api::<Endpoints>();
    api.patch("db", &PatchParams::default(), &Patch::Merge(changed)).await.expect("patched");
    cluster
        .until("the mirror follows", |seen| {
            shown(&seen.endpoint_slices, "db") == [("192.0.2.8".to_owned(), true)]
        })
        .await;
    assert_eq!(slices(&cluster.seen.endpoint_slices, "db").len(), 1, "it was changed, not made anew");
    let select = json!({"spec": {"selector": {"app": "db"}}});
    cluster
        .api::<Service>()
        .patch("db", &PatchParams::default(), &Patch::Merge(select))
        .await
        .expect("patched");
    cluster
        .until("the mirror makes room for slices of pods", |seen| {
            let slices = slices(&seen.endpoint_slices, "db");
            slices.len() == 1
                && slices[0]["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
                    == "endpointslice-controller.k8s.io"
        })
        .await;
}

#[tokio::test]
async fn five_hundred_services_and_their_pods_settle_with_few_writes() {
    let mut cluster = Cluster::new().await;
    for number in 0..5 {
        cluster.create::<Pod>(pod(&format!("p{number}"), &format!("a{number}"))).await;
    }
    let is_ready = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()).is_some();
    cluster
        .until("the pods run", |seen| seen.pods.all().iter().filter(|pod| is_ready(pod)).count() == 5)
        .await;
    cluster.stop().await;
    for number in 0..500 {
        let name = format!("s{number}");
        cluster.create::<Service>(service(&name, json!({"app": format!("a{}", number % 5)}))).await;
    }
    cluster.start();
    cluster
        .until("each service has its pod", |seen| {
            seen.endpoint_slices.count() >= 500
                && (0..500).all(|number| {
                    shown(&seen.endpoint_slices, &format!("s{number}"))
                        == [(format!("p{}", number % 5), true)]
                })
        })
        .await;
    cluster.until("so in Endpoints", |seen| seen.endpoints.count() >= 500).await;
    let generations: Vec<i64> =
        cluster.seen.endpoint_slices.all().iter().filter_map(|slice| slice.metadata.generation).collect();
    assert!(generations.iter().all(|generation| *generation == 1), "each was written once");
}

#[tokio::test]
async fn pods_that_nobody_will_end_are_removed() {
    let mut cluster = Cluster::bare().await;
    cluster.start();
    cluster.add_node("node-1").await;
    // Pods of a node that is gone wait for it for a while, and others are not touched.
    let lost = json!({"metadata": {"name": "lost"},
        "spec": {"nodeName": "nowhere", "terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "i"}]}});
    cluster.create::<Pod>(lost).await;
    cluster.create::<Pod>(pod("fine", "x")).await;
    let taint = json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoSchedule"}]},
        "metadata": {"name": "out"}});
    let node: Node = serde_json::from_value(taint).expect("a node");
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.create(&Default::default(), &node).await.expect("created");
    let stuck = json!({"metadata": {"name": "stuck"},
        "spec": {"nodeName": "out", "containers": [{"name": "c", "image": "i"}]}});
    cluster.create::<Pod>(stuck).await;
    cluster.api::<Pod>().delete("stuck", &DeleteParams::default()).await.expect("deleted");
    let key = |name: &str| ObjectKey::new("default", name);
    cluster.until("the stuck pod is gone", |seen| seen.pods.get(&key("stuck")).is_none()).await;
    assert!(cluster.seen.pods.get(&key("lost")).is_some(), "its node may come back");
    assert!(cluster.seen.pods.get(&key("fine")).is_some());
}
