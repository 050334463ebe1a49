//! Pods with claims.

use std::sync::Arc;

use informer::ObjectKey;
use serde_json::{Value, json};

use super::super::board::Act;
use super::super::volumes::Fulfilment;
use super::{Desk, node, on, pod};

fn claim(name: &str, changes: Value) -> Value {
    let mut claim = json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}});
    super::merge(&mut claim, &changes);
    claim
}

fn volume(name: &str, changes: Value) -> Value {
    let mut volume = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"}});
    super::merge(&mut volume, &changes);
    volume
}

fn on_node(name: &str) -> Value {
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]}}}})
}

fn bound_to(volume: &str) -> Value {
    json!({"spec": {"volumeName": volume}, "status": {"phase": "Bound"}})
}

impl Desk {
    fn claim(&mut self, claim: &Value) {
        let claim: k8s_openapi::api::core::v1::PersistentVolumeClaim =
            serde_json::from_value(claim.clone()).expect("a claim");
        self.board.see_claim(ObjectKey::of(&claim), Some(Arc::new(claim)));
    }

    fn volume(&mut self, volume: &Value) {
        let name = volume["metadata"]["name"].as_str().expect("a name").to_owned();
        let volume = serde_json::from_value(volume.clone()).expect("a volume");
        self.board.see_volume(name, Some(Arc::new(volume)));
    }

    fn class(&mut self, name: &str, provisioner: &str, mode: &str) {
        let class =
            json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
        self.board
            .see_class(name.to_owned(), Some(Arc::new(serde_json::from_value(class).expect("a class"))));
    }
}

fn desk() -> Desk {
    let mut desk = Desk::new(&[node("a", json!({})), node("b", json!({}))]);
    desk.class("local", "coracle.dev/directory", "WaitForFirstConsumer");
    desk.class("hand", "kubernetes.io/no-provisioner", "WaitForFirstConsumer");
    desk.class("soon", "coracle.dev/directory", "Immediate");
    desk
}

fn user(name: &str) -> Value {
    pod(name, json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}))
}

#[test]
fn a_pod_waits_for_its_claims_with_the_words_of_kubernetes() {
    let class = |name: &str| json!({"spec": {"storageClassName": name}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let lost = json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Lost"}});
    let rows = [
        (None, "persistentvolumeclaim \"data\" not found"),
        (Some(json!({})), "pod has unbound immediate PersistentVolumeClaims"),
        (Some(class("soon")), "pod has unbound immediate PersistentVolumeClaims"),
        (Some(class("unheard-of")), "pod has unbound immediate PersistentVolumeClaims"),
        (Some(going), "persistentvolumeclaim \"data\" is being deleted"),
        (Some(lost), "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv\""),
        (Some(bound_to("pv")), "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        (Some(class("hand")), "2 node(s) didn't find available persistent volumes to bind"),
    ];
    for (changes, expected) in rows {
        let mut desk = desk();
        if let Some(changes) = &changes {
            desk.claim(&claim("data", changes.clone()));
        }
        assert_eq!(desk.outcome(&user("p")), format!("0/2 nodes are available: {expected}"), "{changes:?}");
        // When the claim is fulfilled, the pod goes on.
        desk.volume(&volume("pv", on_node("b")));
        let mut fulfilled = claim("data", bound_to("pv"));
        fulfilled["metadata"]["deletionTimestamp"] = Value::Null;
        desk.claim(&fulfilled);
        assert_eq!(desk.turn().last().map(String::as_str), Some("p: b"), "{changes:?}");
    }
    let own =
        pod("p", json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}));
    assert_eq!(
        desk().outcome(&own),
        "0/2 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-v\""
    );
}

#[test]
fn nothing_is_said_of_a_claim_that_is_fulfilled_at_once() {
    let mut desk = desk();
    desk.claim(&claim("data", json!({"spec": {"storageClassName": "soon"}})));
    desk.see(&user("p"));
    assert!(desk.turn().is_empty());
    desk.volume(&volume("pv", on_node("b")));
    desk.claim(&claim("data", bound_to("pv")));
    assert_eq!(desk.turn(), ["p: b"]);
    desk.later(1);
    assert!(desk.turn().is_empty());
}

#[test]
fn a_pod_goes_where_its_volume_is() {
    let mut desk = desk();
    desk.volume(&volume("pv", on_node("b")));
    desk.claim(&claim("data", bound_to("pv")));
    assert_eq!(desk.outcome(&user("p")), "b");
    let mut elsewhere = user("q");
    elsewhere["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "a"});
    assert_eq!(
        desk.outcome(&elsewhere),
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) didn't match Pod's node affinity/selector"
    );
}

#[test]
fn a_claim_that_waits_for_its_consumer_is_told_the_node_and_the_pod_follows_when_it_is_bound() {
    let mut desk = desk();
    let open = json!({"spec": {"storageClassName": "local"}});
    desk.claim(&claim("data", open.clone()));
    desk.see(&user("p"));
    let key = ObjectKey::new("ns", "data");
    let Some(Act::Prepare { node, claims, .. }) = desk.board.next(desk.now) else {
        panic!("claims come first")
    };
    assert_eq!((&*node, claims), ("a", vec![Fulfilment::Provision(key)]));
    let mut told = claim("data", open);
    told["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "a"});
    desk.claim(&told);
    desk.board.preparing("p");
    assert!(desk.turn().is_empty(), "there is no volume yet");
    // A scheduler that was killed here chooses the same node again.
    let mut second = self::desk();
    second.claim(&told);
    second.node(&node_with_room("b"));
    second.see(&user("p"));
    assert!(second.turn()[0].starts_with("p: a after"));
    super::merge(&mut told, &bound_to("pv"));
    desk.volume(&volume("pv", on_node("a")));
    desk.claim(&told);
    assert_eq!(desk.turn(), ["p: a"]);
}

fn node_with_room(name: &str) -> Value {
    node(name, json!({"status": {"allocatable": {"cpu": "64", "memory": "256Gi"}}}))
}

#[test]
fn a_pod_whose_claim_cannot_be_fulfilled_there_is_decided_about_again() {
    let mut desk = desk();
    let open = json!({"spec": {"storageClassName": "local"}});
    let told = json!({"spec": {"storageClassName": "local"}, "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}});
    desk.claim(&claim("data", open.clone()));
    desk.see(&user("p"));
    assert!(matches!(desk.board.next(desk.now), Some(Act::Prepare { .. })));
    desk.claim(&claim("data", told));
    desk.board.preparing("p");
    desk.node(&node("a", json!({"spec": {"unschedulable": true}})));
    desk.claim(&claim("data", open));
    assert!(desk.turn()[0].starts_with("p: b after"));
}

#[test]
fn volumes_that_were_made_by_hand_are_given_the_smallest_that_fits_first() {
    let mut desk = desk();
    desk.claim(&claim("data", json!({"spec": {"storageClassName": "hand"}})));
    let of_class = |size: &str, node: &str| {
        let mut volume = on_node(node);
        super::merge(
            &mut volume,
            &json!({"spec": {"storageClassName": "hand", "capacity": {"storage": size}}}),
        );
        volume
    };
    desk.volume(&volume("large", of_class("9Gi", "b")));
    desk.volume(&volume("right", of_class("2Gi", "b")));
    desk.volume(&volume("small", of_class("1Mi", "a")));
    desk.see(&user("p"));
    let Some(Act::Prepare { node, claims, .. }) = desk.board.next(desk.now) else {
        panic!("claims come first")
    };
    assert_eq!(
        (&*node, claims),
        ("b", vec![Fulfilment::Give(ObjectKey::new("ns", "data"), "right".to_owned())])
    );
}

#[test]
fn a_claim_for_one_pod_is_used_by_one_pod() {
    let mut desk = desk();
    desk.volume(&volume("pv", json!({})));
    let mut exclusive = bound_to("pv");
    super::merge(&mut exclusive, &json!({"spec": {"accessModes": ["ReadWriteOncePod"]}}));
    desk.claim(&claim("data", exclusive));
    desk.see(&on(user("first"), "a"));
    assert_eq!(
        desk.outcome(&user("p")),
        "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    );
    desk.board.forget_pod("first");
    assert_eq!(desk.turn(), ["p: a"]);
}
