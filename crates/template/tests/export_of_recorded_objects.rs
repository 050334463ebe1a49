//! Objects as a real API server recorded them: exported without its defaults, and whole again once it fills them in.

use admission::{AdmissionRequest, prepare_create};
use schema::{FieldValidation, Resource, builtin, decode, resources};
use serde_json::Value;
use template::export::{Options, export};

fn resource_of(object: &Value) -> Option<&'static Resource> {
    resources()
        .iter()
        .find(|entry| object["apiVersion"] == entry.group_version && object["kind"] == entry.kind)
}

/// What creating an object makes of it.
fn created(object: &Value) -> Option<Value> {
    let resource = resource_of(object)?;
    let ty = builtin().type_for(resource.group_version, resource.kind)?;
    let text = serde_json::to_vec(object).ok()?;
    let mut object = decode(ty, &text, FieldValidation::Ignore).ok()?.value;
    if resource.namespaced && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "default".into();
    }
    // The server gives it before everything else; Jobs are selected by it.
    object["metadata"]["uid"] = "6f0e1a34-0000-4000-8000-000000000001".into();
    prepare_create(resource, &mut object, &AdmissionRequest::default()).ok()?;
    Some(object)
}

/// How many values a tree has that are no lists and no maps.
fn leaves(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(leaves).sum(),
        Value::Object(map) => map.values().map(leaves).sum(),
        Value::Null => 0,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

#[test]
fn what_was_recorded_is_exported_as_short_as_it_was_written_and_loses_nothing() {
    let table: Value =
        serde_json::from_str(include_str!("../../admission/tests/vectors/defaulting.json")).expect("JSON");
    let mut count = 0;
    for case in table["cases"].as_array().expect("cases") {
        let (name, input) = (&case["name"], &case["input"]);
        let options = Options { name: "recorded", ..Options::default() };
        // Namespaces and endpoint slices are made by others.
        let Ok(exported) = export(&[case["want"].clone()], &options, Some(&created)) else { continue };
        let object = exported.objects[0].to_json();
        count += 1;
        // No longer than what a person wrote; a count of replicas is kept in any case.
        let most = leaves(input) + usize::from(input["spec"]["replicas"].is_null());
        assert!(leaves(&object) <= most, "{name}: {object}\nwritten {input}");
        // What a cluster adds by itself, such as volumes with random names, is cleaned away from both.
        let whole = |object: &Value| {
            let whole = created(object).expect("it can be created");
            export(&[whole], &options, None).expect("an object").objects[0].to_json()
        };
        let (again, first) = (whole(&object), whole(input));
        assert_eq!(again, first, "{name}: {object}");
    }
    assert!(count >= 25, "{count} objects");
}
