use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::decision::{CAPACITY, Decision, OVER_CAPACITY, decide};
use super::*;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("readable")
}

fn service(spec: Value) -> Service {
    let mut whole = json!({"clusterIP": "10.43.0.7", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "admin", "port": 81, "targetPort": "admin"}]});
    json_patch::merge(&mut whole, &spec);
    read(json!({"metadata": {"name": "web", "namespace": "n", "labels": {"tier": "front"}}, "spec": whole}))
}

fn pod(name: &str, address: &str, ready: bool, extra: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}")},
        "spec": {"nodeName": "one", "containers": [{"name": "c", "ports": [{"name": "admin", "containerPort": 9000}]}]},
        "status": {"phase": "Running", "podIP": address,
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    });
    json_patch::merge(&mut pod, &extra);
    Arc::new(read(pod))
}

fn created(service: &Service, pods: &[Arc<Pod>]) -> Endpoints {
    match decide(Some(service), pods, None, None) {
        Decision::Create(endpoints) => *endpoints,
        other => panic!("{other:?}"),
    }
}

/// `ready addresses / others : ports` of each subset.
fn shown(endpoints: &Endpoints) -> Vec<String> {
    let subsets = endpoints.subsets.iter().flatten();
    subsets
        .map(|subset| {
            let addresses = |list: &Option<Vec<k8s_openapi::api::core::v1::EndpointAddress>>| {
                list.iter().flatten().map(|one| one.ip.clone()).collect::<Vec<_>>().join(",")
            };
            let ports: Vec<String> =
                subset.ports.iter().flatten().map(|port| port.port.to_string()).collect();
            format!(
                "{}/{}:{}",
                addresses(&subset.addresses),
                addresses(&subset.not_ready_addresses),
                ports.join(",")
            )
        })
        .collect()
}

#[test]
fn ready_pods_and_others_stand_in_one_subset_with_the_ports_that_they_share() {
    let pods = [
        pod("b", "10.0.0.2", true, json!({})),
        pod("a", "10.0.0.1", true, json!({})),
        pod("c", "10.0.0.3", false, json!({})),
    ];
    let endpoints = created(&service(json!({})), &pods);
    assert_eq!(shown(&endpoints), ["10.0.0.1,10.0.0.2/10.0.0.3:8080,9000"]);
    assert_eq!(
        serde_json::to_value(&endpoints.metadata).expect("JSON"),
        json!({"name": "web", "namespace": "n",
            "labels": {"tier": "front", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}})
    );
    let first = &endpoints.subsets.as_ref().expect("some")[0].addresses.as_ref().expect("some")[0];
    assert_eq!(
        serde_json::to_value(first).expect("JSON"),
        json!({"ip": "10.0.0.1", "nodeName": "one", "targetRef": {"kind": "Pod", "namespace": "n", "name": "a", "uid": "uid-a"}})
    );
    let again = decide(Some(&service(json!({}))), &pods, Some(&endpoints), None);
    assert_eq!(again, Decision::Nothing);
}

#[test]
fn ports_with_other_addresses_have_a_subset_of_their_own() {
    let other =
        json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "admin", "containerPort": 9001}]}]}});
    let without = json!({"spec": {"containers": [{"name": "c"}]}});
    let pods = [
        pod("a", "10.0.0.1", true, json!({})),
        pod("b", "10.0.0.2", true, other),
        pod("c", "10.0.0.3", true, without),
    ];
    let endpoints = created(&service(json!({})), &pods);
    assert_eq!(shown(&endpoints), ["10.0.0.1,10.0.0.2,10.0.0.3/:8080", "10.0.0.1/:9000", "10.0.0.2/:9001"]);
}

#[test]
fn terminating_pods_are_dropped_unless_everything_is_published() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let pods = [pod("a", "10.0.0.1", true, going), pod("b", "10.0.0.2", false, json!({}))];
    assert_eq!(shown(&created(&service(json!({})), &pods)), ["/10.0.0.2:8080,9000"]);
    let publishing = service(json!({"publishNotReadyAddresses": true}));
    assert_eq!(shown(&created(&publishing, &pods)), ["10.0.0.1,10.0.0.2/:8080,9000"]);
}

#[test]
fn a_headless_service_without_ports_has_addresses_and_says_that_it_is_headless() {
    let headless = service(json!({"clusterIP": "None", "ports": null}));
    let named = json!({"spec": {"hostname": "web-0", "subdomain": "web"}});
    let endpoints = created(&headless, &[pod("a", "10.0.0.1", true, named)]);
    assert_eq!(shown(&endpoints), ["10.0.0.1/:"]);
    let labels = endpoints.metadata.labels.as_ref().expect("some");
    assert_eq!(labels.get("service.kubernetes.io/headless").map(String::as_str), Some(""));
    let address = &endpoints.subsets.as_ref().expect("some")[0].addresses.as_ref().expect("some")[0];
    assert_eq!(address.hostname.as_deref(), Some("web-0"));
}

#[test]
fn services_whose_endpoints_are_the_users_are_left_alone() {
    for spec in [
        json!({"selector": null}),
        json!({"selector": {"app": null}}),
        json!({"type": "ExternalName", "externalName": "example.com"}),
    ] {
        assert_eq!(decide(Some(&service(spec.clone())), &[], None, None), Decision::Nothing, "{spec}");
    }
}

#[test]
fn endpoints_go_with_their_service() {
    let endpoints = created(&service(json!({})), &[]);
    assert_eq!(decide(None, &[], Some(&endpoints), None), Decision::Delete);
    assert_eq!(decide(None, &[], None, None), Decision::Nothing);
}

#[test]
fn more_than_a_thousand_addresses_are_cut_and_said_to_be_cut_those_that_are_not_ready_first() {
    let many = |ready: usize, others: usize| -> Vec<Arc<Pod>> {
        (0..ready + others)
            .map(|n| {
                pod(&format!("p{n}"), &format!("10.1.{}.{}", n / 250, n % 250 + 1), n < ready, json!({}))
            })
            .collect()
    };
    let one_port = service(json!({"ports": [{"port": 80}]}));
    for (ready, others, expected, is_cut) in
        [(1000, 0, (1000, 0), false), (600, 600, (600, 400), true), (1100, 100, (1000, 0), true)]
    {
        let pods = many(ready, others);
        let endpoints = created(&one_port, &pods);
        let count = |pick: fn(&k8s_openapi::api::core::v1::EndpointSubset) -> usize| -> usize {
            endpoints.subsets.iter().flatten().map(pick).sum()
        };
        let shown = (
            count(|subset| subset.addresses.as_ref().map_or(0, Vec::len)),
            count(|subset| subset.not_ready_addresses.as_ref().map_or(0, Vec::len)),
        );
        assert_eq!(shown, expected, "{ready} {others}");
        assert!(shown.0 + shown.1 <= CAPACITY);
        let said = endpoints.metadata.annotations.as_ref().and_then(|all| all.get(OVER_CAPACITY));
        assert_eq!(said.map(String::as_str), is_cut.then_some("truncated"));
        assert_eq!(
            decide(Some(&one_port), &pods, Some(&endpoints), None),
            Decision::Nothing,
            "no write for nothing"
        );
    }
}
