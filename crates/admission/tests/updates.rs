//! What updates may change, and what they keep.

use admission::{AdmissionRequest, prepare_create, prepare_status_update, prepare_update};
use schema::{FieldValidation, Resource, builtin, decode_value, resource};
use serde_json::{Value, json};

fn stored(plural: &str, mut object: Value) -> (&'static Resource, Value) {
    let resource = resource("", "v1", plural).expect("a core resource");
    let ty = builtin().type_for("v1", resource.kind).expect("a built-in type");
    object["metadata"] =
        json!({"name": "x", "namespace": "default", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z"});
    let mut object = decode_value(ty, &object, FieldValidation::Strict).expect("well-formed").value;
    prepare_create(resource, &mut object, &AdmissionRequest::default()).expect("valid");
    (resource, object)
}

/// Stores an object, changes it, and tells what the update answers.
fn updated(plural: &str, object: Value, change: impl FnOnce(&mut Value)) -> Result<Value, String> {
    let (resource, old) = stored(plural, object);
    let mut new = old.clone();
    change(&mut new);
    prepare_update(resource, &old, &mut new, &AdmissionRequest::default())
        .map(|_| new)
        .map_err(|errors| errors.to_string())
}

fn pod() -> Value {
    json!({"spec": {
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": -1,
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "secret-1"}]}]
    }})
}

#[test]
fn a_pod_may_change_its_image_and_its_labels() {
    let new = updated("pods", pod(), |new| {
        new["spec"]["containers"][0]["image"] = "j".into();
        new["metadata"]["labels"] = json!({"a": "b"});
    })
    .expect("allowed");
    assert_eq!(new["metadata"]["generation"], 2);
    let new = updated("pods", pod(), |new| new["metadata"]["labels"] = json!({"a": "b"})).expect("allowed");
    assert_eq!(new["metadata"]["generation"], 1);
}

#[test]
fn a_pod_may_not_change_its_environment_and_the_answer_shows_no_value() {
    let told =
        updated("pods", pod(), |new| new["spec"]["containers"][0]["env"][0]["value"] = "secret-2".into())
            .expect_err("immutable");
    assert_eq!(
        told,
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
         tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n\
         ~ spec.containers[0].env[0].value"
    );
}

#[test]
fn a_pod_may_change_these_settings_in_one_direction() {
    assert!(updated("pods", pod(), |new| new["spec"]["terminationGracePeriodSeconds"] = 1.into()).is_ok());
    assert!(updated("pods", pod(), |new| new["spec"]["terminationGracePeriodSeconds"] = 5.into()).is_err());
    assert!(updated("pods", pod(), |new| new["spec"]["activeDeadlineSeconds"] = 5.into()).is_ok());
    let more = |new: &mut Value| {
        let list = new["spec"]["tolerations"].as_array_mut().expect("defaulted");
        list.push(json!({"key": "k", "operator": "Exists"}));
    };
    assert!(updated("pods", pod(), more).is_ok());
    let fewer = |new: &mut Value| new["spec"]["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    assert!(updated("pods", pod(), fewer).is_ok(), "the standard ones are added again");
    let told = updated("pods", pod(), |new| {
        new["spec"]["containers"].as_array_mut().expect("a list").push(json!({"name": "d", "image": "i"}));
    });
    assert_eq!(
        told.expect_err("refused"),
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    );
}

#[test]
fn what_the_server_owns_is_kept() {
    let (resource, old) = stored("pods", pod());
    let mut new = old.clone();
    new["status"] = json!({"phase": "Running"});
    let metadata = new["metadata"].as_object_mut().expect("metadata");
    metadata.remove("uid");
    metadata.remove("creationTimestamp");
    metadata.remove("generation");
    prepare_update(resource, &old, &mut new, &AdmissionRequest::default()).expect("allowed");
    assert_eq!(new, old);
    new["metadata"]["uid"] = "other".into();
    let told = prepare_update(resource, &old, &mut new, &AdmissionRequest::default()).expect_err("refused");
    assert_eq!(told.to_string(), "metadata.uid: Invalid value: \"other\": field is immutable");
}

#[test]
fn a_status_update_changes_nothing_else() {
    let (resource, old) = stored("pods", pod());
    let mut new = old.clone();
    new["status"] = json!({"phase": "Running"});
    new["spec"]["containers"][0]["image"] = "j".into();
    new["metadata"]["annotations"] = json!({"a": "b"});
    prepare_status_update(resource, &old, &mut new).expect("allowed");
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(new["status"], json!({"phase": "Running", "qosClass": "BestEffort"}));
    assert_eq!(new["metadata"]["annotations"], json!({"a": "b"}));
}

#[test]
fn immutable_maps_and_secrets_stay() {
    let map = || json!({"immutable": true, "data": {"a": "1"}});
    let sentence = "Forbidden: field is immutable when `immutable` is set";
    let told = updated("configmaps", map(), |new| new["data"]["a"] = "2".into()).expect_err("refused");
    assert_eq!(told, format!("data: {sentence}"));
    let told = updated("configmaps", map(), |new| new["immutable"] = false.into()).expect_err("refused");
    assert_eq!(told, format!("immutable: {sentence}"));
    assert!(updated("configmaps", map(), |new| new["metadata"]["labels"] = json!({"a": "b"})).is_ok());
    let secret = json!({"immutable": true, "stringData": {"a": "1"}});
    let told = updated("secrets", secret, |new| new["stringData"] = json!({"a": "2"})).expect_err("refused");
    assert_eq!(told, format!("data: {sentence}"));
    let told = updated("secrets", json!({}), |new| new["type"] = "x".into()).expect_err("refused");
    assert_eq!(told, "type: Invalid value: \"x\": field is immutable");
}

#[test]
fn a_service_keeps_its_address_and_node_port() {
    let service = || json!({"spec": {"type": "NodePort", "clusterIP": "10.43.0.7", "ports": [{"port": 80, "nodePort": 30080}]}});
    let new = updated("services", service(), |new| {
        let spec = new["spec"].as_object_mut().expect("a spec");
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
        spec["ports"][0].as_object_mut().expect("a port").remove("nodePort");
    })
    .expect("filled in again");
    assert_eq!(
        (&new["spec"]["clusterIP"], &new["spec"]["ports"][0]["nodePort"]),
        (&json!("10.43.0.7"), &json!(30080))
    );
    let told = updated("services", service(), |new| {
        new["spec"]["clusterIP"] = "10.43.0.8".into();
        new["spec"]["clusterIPs"] = json!(["10.43.0.8"]);
    });
    assert_eq!(
        told.expect_err("fixed"),
        "spec.clusterIPs[0]: Invalid value: [\"10.43.0.8\"]: may not change once set"
    );
    let new =
        updated("services", service(), |new| new["spec"]["type"] = "ClusterIP".into()).expect("allowed");
    assert_eq!(new["spec"]["ports"][0]["nodePort"], Value::Null);
    assert_eq!(new["spec"]["externalTrafficPolicy"], Value::Null);
}

#[test]
fn a_mirror_of_a_static_pod_gets_no_token() {
    let resource = resource("", "v1", "pods").expect("a core resource");
    let ty = builtin().type_for("v1", "Pod").expect("a built-in type");
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default", "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}
    });
    let mut pod = decode_value(ty, &pod, FieldValidation::Strict).expect("well-formed").value;
    prepare_create(resource, &mut pod, &AdmissionRequest::default()).expect("valid");
    assert_eq!(pod["spec"]["volumes"], Value::Null);
    assert_eq!(pod["spec"]["serviceAccountName"], Value::Null);
}
