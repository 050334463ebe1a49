//! Recorded answers of a real API server: what create fills in, and what it refuses in which words.

use admission::{AdmissionRequest, prepare_create};
use schema::{FieldValidation, Resource, builtin, decode, resources};
use serde_json::{Value, json};

fn cases(text: &str) -> Vec<Value> {
    let table: Value = serde_json::from_str(text).expect("the vectors are JSON");
    table["cases"].as_array().expect("a list of cases").clone()
}

fn resource_of(object: &Value) -> &'static Resource {
    resources()
        .iter()
        .find(|entry| object["apiVersion"] == entry.group_version && object["kind"] == entry.kind)
        .expect("a built-in kind")
}

/// What the API server does before admission: decode, namespace of the path.
fn decoded(input: &Value, resource: &Resource) -> Result<Value, String> {
    let ty =
        builtin().type_for(resource.group_version, resource.kind).expect("every resource here has a type");
    let text = serde_json::to_vec(input).expect("trees can be written");
    let mut object = decode(ty, &text, FieldValidation::Strict).map_err(|error| error.to_string())?.value;
    if resource.namespaced && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "default".into();
    }
    Ok(object)
}

#[test]
fn create_fills_in_what_the_recorded_server_filled_in() {
    let cases = cases(include_str!("vectors/defaulting.json"));
    assert_eq!(cases.len(), 29);
    for case in cases {
        let name = &case["name"];
        let resource = resource_of(&case["input"]);
        let mut got = decoded(&case["input"], resource).expect("well-formed input");
        let mut want = case["want"].clone();
        if resource.kind == "Job" {
            got["metadata"]["uid"] = want["metadata"]["labels"]["controller-uid"].clone();
        }
        prepare_create(resource, &mut got, &AdmissionRequest::default())
            .unwrap_or_else(|errors| panic!("{name}: {errors}"));
        for object in [&mut got, &mut want] {
            forget_what_varies(object);
        }
        assert_eq!(got, want, "{name}\n got {got}\nwant {want}");
    }
}

/// Allocated addresses, random names, and fields that the recording left out.
fn forget_what_varies(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().expect("objects have metadata");
    metadata.remove("uid");
    metadata.remove("generation");
    let spec = &mut object["spec"];
    if spec["clusterIP"] != "None" && spec.is_object() {
        for name in ["clusterIP", "clusterIPs"] {
            spec.as_object_mut().expect("checked").remove(name);
        }
    }
    for pointer in ["/spec/volumes/0/name", "/spec/containers/0/volumeMounts/0/name"] {
        if let Some(name) = object.pointer_mut(pointer)
            && name.as_str().is_some_and(|name| name.starts_with("kube-api-access-") && name.len() == 21)
        {
            *name = "kube-api-access-".into();
        }
    }
}

#[test]
fn bad_objects_are_refused_in_the_recorded_words() {
    let cases = cases(include_str!("vectors/bad_objects.json"));
    assert_eq!(cases.len(), 18);
    for case in cases {
        let name = &case["name"];
        let resource = resource_of(&case["input"]);
        let want = &case["status"];
        let mut object = match decoded(&case["input"], resource) {
            Ok(object) => object,
            Err(told) => {
                let prefix = format!(
                    "{0} in version \"{1}\" cannot be handled as a {0}",
                    resource.kind, resource.version
                );
                assert_eq!(Value::from(format!("{prefix}: {told}")), want["message"], "{name}");
                assert_eq!(case["code"], 400);
                continue;
            }
        };
        let errors =
            prepare_create(resource, &mut object, &AdmissionRequest::default()).expect_err("a bad object");
        let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
        let object_name = object["metadata"]["name"].as_str().expect("all have names");
        let message = format!("{}{group} \"{object_name}\" is invalid: {errors}", resource.kind);
        assert_eq!(Value::from(message), want["message"], "{name}");
        let causes: Vec<Value> = errors
            .causes()
            .into_iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect();
        assert_eq!(Value::from(causes), want["details"]["causes"], "{name}");
        assert_eq!(case["code"], 422);
    }
}

#[test]
fn doing_it_twice_changes_nothing() {
    for case in cases(include_str!("vectors/defaulting.json")) {
        let resource = resource_of(&case["want"]);
        let mut stored = decoded(&case["want"], resource).expect("well-formed");
        if resource.kind == "Job" {
            // The recording left it out.
            stored["metadata"]["uid"] = stored["metadata"]["labels"]["controller-uid"].clone();
        }
        let mut again = stored.clone();
        if resource.kind == "Service" {
            // The recorded address stands for what the API server allocates.
            again["spec"].as_object_mut().expect("a spec").remove("clusterIPs");
        }
        let result = admission::prepare_update(resource, &stored, &mut again, &AdmissionRequest::default());
        assert_eq!(result.map_err(|errors| errors.to_string()).map(|_| ()), Ok(()), "{}", case["name"]);
        assert_eq!(again, stored, "{}", case["name"]);
    }
}
