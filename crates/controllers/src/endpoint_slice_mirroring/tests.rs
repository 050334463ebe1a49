use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::decision::{Decision, decide};
use super::*;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("readable")
}

fn endpoints(extra: Value) -> Endpoints {
    let mut whole = json!({
        "metadata": {"name": "db", "namespace": "n", "uid": "e1", "labels": {"a": "b"},
            "annotations": {"x": "y", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "subsets": [{"addresses": [{"ip": "192.0.2.1", "hostname": "one"}], "notReadyAddresses": [{"ip": "192.0.2.2"}],
            "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]}],
    });
    json_patch::merge(&mut whole, &extra);
    read(whole)
}

fn service(selector: Value) -> Service {
    read(json!({"metadata": {"name": "db", "namespace": "n"}, "spec": {"selector": selector}}))
}

fn stored(decision: Decision) -> Vec<Arc<EndpointSlice>> {
    let plan = decision.plan;
    assert!(plan.delete.is_empty());
    let named = plan.create.into_iter().enumerate().map(|(n, mut slice)| {
        slice.metadata.name.get_or_insert(format!("db-{n}"));
        slice
    });
    named.chain(plan.update).map(Arc::new).collect()
}

#[test]
fn endpoints_of_a_service_without_selector_stand_in_slices_too() {
    let slices = stored(decide(Some(&endpoints(json!({}))), Some(&service(Value::Null)), &[]));
    assert_eq!(slices.len(), 1);
    assert_eq!(
        serde_json::to_value(&*slices[0]).expect("JSON"),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "db-0", "generateName": "db-", "namespace": "n", "annotations": {"x": "y"},
                "labels": {"a": "b", "kubernetes.io/service-name": "db",
                    "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Endpoints", "name": "db", "uid": "e1", "controller": true,
                    "blockOwnerDeletion": true}],
            },
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["192.0.2.1"], "conditions": {"ready": true}, "hostname": "one"},
                {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
            ],
            "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
        })
    );
    let again = decide(Some(&endpoints(json!({}))), Some(&service(Value::Null)), &slices);
    assert_eq!(again, Decision::default());
    let other = json!({"subsets": [{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"port": 1}]}]});
    let changed = decide(Some(&endpoints(other)), Some(&service(Value::Null)), &slices);
    assert_eq!((changed.plan.update.len(), changed.plan.create.len(), changed.plan.delete.len()), (1, 0, 0));
}

#[test]
fn each_family_and_list_of_ports_has_a_slice() {
    let both = json!({"subsets": [
        {"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], "ports": [{"port": 1}]},
        {"addresses": [{"ip": "192.0.2.3"}], "ports": [{"port": 2}]},
        {"addresses": [{"ip": "192.0.2.4"}], "ports": [{"port": 1}]},
    ]});
    let slices = stored(decide(Some(&endpoints(both)), Some(&service(Value::Null)), &[]));
    let mut shown: Vec<(String, usize)> = slices
        .iter()
        .map(|slice| (slice.address_type.clone(), slice.endpoints.iter().flatten().count()))
        .collect();
    shown.sort();
    assert_eq!(shown, [("IPv4".to_owned(), 1), ("IPv4".to_owned(), 2), ("IPv6".to_owned(), 1)]);
}

#[test]
fn what_is_not_to_be_mirrored_loses_its_slices() {
    let slices = stored(decide(Some(&endpoints(json!({}))), Some(&service(Value::Null)), &[]));
    let skipped =
        endpoints(json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}));
    let lock =
        endpoints(json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}}));
    let plain = endpoints(json!({}));
    for (endpoints, service) in [
        (Some(&skipped), Some(service(Value::Null))),
        (Some(&lock), Some(service(Value::Null))),
        (Some(&plain), Some(service(json!({"app": "db"})))),
        (Some(&plain), None),
        (None, Some(service(Value::Null))),
    ] {
        let decision = decide(endpoints, service.as_ref(), &slices);
        assert_eq!(decision.plan.delete.len(), 1);
        assert!(decision.plan.create.is_empty() && decision.plan.update.is_empty());
    }
}

#[test]
fn addresses_beyond_the_limit_and_those_that_are_none_are_counted() {
    let many: Vec<Value> = (0..1003)
        .map(|n| json!({"ip": format!("10.{}.{}.1", n / 250, n % 250)}))
        .chain([json!({"ip": "nonsense"})])
        .collect();
    let decision = decide(
        Some(&endpoints(json!({"subsets": [{"addresses": many, "ports": [{"port": 1}]}]}))),
        Some(&service(Value::Null)),
        &[],
    );
    assert_eq!((decision.invalid, decision.beyond), (1, 3));
    assert_eq!(decision.plan.create[0].endpoints.iter().flatten().count(), 1000);
}
