//! No rule can forget a list of containers: the lists are those that the table of types has, and each rule is tried
//! in each list (the pattern behind several escapes from policies in the past).

use admission::{AdmissionRequest, needed_sources, prepare_create};
use schema::{FieldValidation, Shape, builtin, decode_value, resource};
use serde_json::{Value, json};

/// The fields of a pod's spec whose items have an environment.
fn container_lists() -> Vec<&'static str> {
    let spec = builtin().type_named("api/core/v1", "PodSpec").expect("built in");
    spec.fields()
        .into_iter()
        .filter(|field| match field.shape() {
            Shape::List(item) => item.shape().named().is_some_and(|ty| ty.field("env").is_some()),
            _ => false,
        })
        .map(|field| field.json())
        .collect()
}

fn pod_with(list: &str, container: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let mut container = container;
    container["name"] = "x".into();
    container["image"] = "i".into();
    spec[list] = json!([container]);
    let pod = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec});
    let ty = builtin().type_for("v1", "Pod").expect("built in");
    decode_value(ty, &pod, FieldValidation::Strict).expect("well-formed").value
}

#[test]
fn each_rule_of_the_environment_holds_in_each_list() {
    let lists = container_lists();
    assert_eq!(lists, ["initContainers", "containers", "ephemeralContainers"]);
    let rules = [
        (json!({"env": [{"name": "A=B"}]}), "env[0].name: Invalid value: \"A=B\""),
        (
            json!({"env": [{"name": "A", "value": "\u{0}"}]}),
            "env[0].value: Invalid value: must not contain a NUL",
        ),
        (json!({"envFrom": [{}]}), "envFrom: Invalid value: \"\": must specify one of"),
        (
            json!({"envFrom": [{"prefix": "=", "secretRef": {"name": "s"}}]}),
            "envFrom[0].prefix: Invalid value: \"=\"",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "e", "key": "K"}}}]}),
            "env[0].valueFrom.fileKeyRef.volumeName: Not found: \"v\"",
        ),
        (json!({"args": ["\u{0}"]}), "args[0]: Invalid value: must not contain a NUL"),
        (
            json!({"volumeMounts": [{"name": "v", "mountPath": "/m"}]}),
            "volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false}}),
            "securityContext: Invalid value",
        ),
    ];
    let pods = resource("", "v1", "pods").expect("built in");
    for list in lists {
        for (container, want) in &rules {
            let mut pod = pod_with(list, container.clone());
            let told = prepare_create(pods, &mut pod, &AdmissionRequest::default())
                .expect_err("refused")
                .to_string();
            assert!(told.contains(&format!("spec.{list}[0].{want}")), "{list} {container}: {told}");
        }
    }
}

#[test]
fn each_reference_to_a_secret_is_seen_in_each_list() {
    let pods = resource("", "v1", "pods").expect("built in");
    for list in container_lists() {
        for container in [
            json!({"envFrom": [{"secretRef": {"name": "s"}}]}),
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
        ] {
            assert_eq!(needed_sources(pods, &pod_with(list, container)).secrets, ["s"], "{list}");
        }
    }
}
