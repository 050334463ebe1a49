//! What the subresource `ephemeralcontainers` lets through.

use admission::{AdmissionRequest, Warning, prepare_create, prepare_ephemeral_containers_update};
use schema::{FieldValidation, Resource, builtin, decode_value, resource};
use serde_json::{Value, json};

fn stored(annotations: Value) -> (&'static Resource, Value) {
    let resource = resource("", "v1", "pods").expect("a core resource");
    let ty = builtin().type_for("v1", resource.kind).expect("a built-in type");
    let object = json!({
        "metadata": {"name": "x", "namespace": "default", "uid": "u", "annotations": annotations},
        "spec": {"automountServiceAccountToken": false, "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [{"name": "i", "image": "i"}], "containers": [{"name": "c", "image": "i"}]},
    });
    let mut object = decode_value(ty, &object, FieldValidation::Strict).expect("well-formed").value;
    prepare_create(resource, &mut object, &AdmissionRequest::default()).expect("valid");
    (resource, object)
}

fn with_debugger(old: &Value, fields: Value) -> Value {
    let mut debugger = json!({"name": "d", "image": "i"});
    for (name, value) in fields.as_object().expect("fields") {
        debugger[name] = value.clone();
    }
    let mut new = old.clone();
    new["spec"]["ephemeralContainers"] = json!([debugger]);
    new
}

fn update(old: &Value, mut new: Value) -> Result<(Value, Vec<String>), Vec<String>> {
    let (resource, _) = stored(Value::Null);
    prepare_ephemeral_containers_update(resource, old, &mut new, &AdmissionRequest::default())
        .map(|warnings| (new, warnings.into_iter().map(|Warning(text)| text).collect()))
        .map_err(|errors| errors.0.iter().map(ToString::to_string).collect())
}

fn refused(fields: Value) -> Vec<String> {
    let (_, old) = stored(json!({}));
    update(&old, with_debugger(&old, fields)).expect_err("refused")
}

#[test]
fn a_container_is_added_with_its_defaults_and_nothing_else_changes() {
    let (_, old) = stored(json!({}));
    let mut new = with_debugger(&old, json!({"targetContainerName": "c", "stdin": true}));
    new["spec"]["containers"][0]["image"] = "other".into();
    new["metadata"]["labels"] = json!({"a": "b"});
    new["status"]["phase"] = "Failed".into();
    let (made, _) = update(&old, new).expect("allowed");
    assert_eq!(made["spec"]["containers"], old["spec"]["containers"]);
    assert_eq!((&made["metadata"]["labels"], &made["status"]), (&old["metadata"]["labels"], &old["status"]));
    let debugger = &made["spec"]["ephemeralContainers"][0];
    assert_eq!(debugger["imagePullPolicy"], "Always");
    assert_eq!(debugger["terminationMessagePath"], "/dev/termination-log");
}

#[test]
fn what_an_ephemeral_container_may_not_have_is_refused_by_name() {
    let at = "spec.ephemeralContainers[0]";
    for field in
        ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicyRules"]
    {
        let value = match field {
            "ports" => json!([{"containerPort": 80, "protocol": "TCP"}]),
            "lifecycle" => json!({"preStop": {"sleep": {"seconds": 1}}}),
            "restartPolicyRules" => json!([{"action": "Restart"}]),
            _ => json!({"exec": {"command": ["x"]}}),
        };
        let told = refused(json!({(field): value}));
        let wanted = format!("{at}.{field}: Forbidden: cannot be set for an Ephemeral Container");
        assert!(told.contains(&wanted), "{field}: {told:?}");
    }
    let told = refused(json!({"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}]}));
    assert_eq!(
        told,
        [format!("{at}.volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container")]
    );
    assert_eq!(refused(json!({"name": "c"})), [format!("{at}.name: Duplicate value: \"c\"")]);
    assert_eq!(
        refused(json!({"targetContainerName": "nope"})),
        [format!("{at}.targetContainerName: Not found: \"nope\"")]
    );
    let told = refused(json!({"env": [{"name": "A=B", "value": "x"}]}));
    assert!(told[0].starts_with(&format!("{at}.env[0].name: Invalid value: \"A=B\"")), "{told:?}");
    let told = refused(
        json!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "w", "path": "p", "key": "k"}}}]}),
    );
    assert_eq!(told, [format!("{at}.env[0].valueFrom.fileKeyRef.volumeName: Not found: \"w\"")]);
}

#[test]
fn containers_that_are_there_stay_as_they_are_in_any_order() {
    let (_, pod) = stored(json!({}));
    let (old, _) = update(&pod, with_debugger(&pod, json!({"env": [{"name": "A", "value": "secret-1"}]})))
        .expect("added");
    let mut more = old.clone();
    let second = json!({"name": "e", "image": "i"});
    let list = more["spec"]["ephemeralContainers"].as_array_mut().expect("a list");
    list.insert(0, second);
    update(&old, more).expect("allowed");
    let told = update(&old, pod.clone()).expect_err("removed");
    assert_eq!(
        told,
        ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n"]
    );
    let mut changed = old.clone();
    changed["spec"]["ephemeralContainers"][0]["env"][0]["value"] = "secret-2".into();
    let told = update(&old, changed).expect_err("changed").join(" ");
    assert!(told.contains("existing ephemeral containers \"d\" may not be changed\n~ "), "{told}");
    assert!(!told.contains("secret"), "values are not shown: {told}");
}

#[test]
fn a_mirror_of_a_static_pod_takes_none() {
    let (_, old) = stored(json!({"kubernetes.io/config.mirror": "hash"}));
    let told = update(&old, with_debugger(&old, json!({}))).expect_err("refused");
    assert_eq!(told, [": Forbidden: static pods do not support ephemeral containers"]);
}

#[test]
fn unresolved_references_of_a_new_one_are_warned_about() {
    let (_, old) = stored(json!({}));
    let new = with_debugger(&old, json!({"env": [{"name": "A", "value": "$(NOPE)"}]}));
    let (_, warnings) = update(&old, new).expect("allowed");
    assert!(warnings.iter().any(|text| text.contains("ephemeralContainers[0].env[0]")), "{warnings:?}");
}
