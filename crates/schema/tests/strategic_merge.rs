//! The recorded strategic merge patches of a real API server. What an API server fills in afterwards (defaults) is
//! compared by crate `admission`.

use schema::{FieldValidation, builtin, convert_unstructured, go_print, strategic_merge};
use serde_json::Value;

#[test]
fn recorded_patches_give_the_recorded_objects() {
    let table: Value =
        serde_json::from_str(include_str!("vectors/strategic_merge.json")).expect("the vectors are JSON");
    let cases = table["cases"].as_array().expect("a list of cases");
    assert_eq!(cases.len(), 14);
    for case in cases {
        let name = &case["name"];
        let ty = builtin().type_for("apps/v1", "Deployment").expect("Deployment is built in");
        let merged = strategic_merge(ty, &case["live"], &case["patch"]);
        if case["code"] == 500 {
            let error = merged.expect_err("the patch is malformed");
            assert_eq!(Value::from(error.to_string()), case["status"]["message"], "{name}");
            assert_eq!(error.status_code(), 500);
            continue;
        }
        let merged = merged.expect("the patch is well-formed");
        let converted = convert_unstructured(ty, &merged, FieldValidation::Strict);
        if case["code"] == 422 {
            let error = converted.expect_err("the patched object has a wrong type");
            let told = format!("Invalid value: \"{}\": {error}", go_print(&case["patch"]));
            assert_eq!(Value::from(told), case["status"]["details"]["causes"][0]["message"], "{name}");
            continue;
        }
        let mut got = converted.expect("the patched object is a Deployment").value;
        fill_recorded_defaults(&mut got);
        let mut want = case["want"].clone();
        forget_what_controllers_wrote(&mut got);
        forget_what_controllers_wrote(&mut want);
        assert_eq!(got, want, "{name}");
    }
}

/// The defaults that these patches call for.
fn fill_recorded_defaults(deployment: &mut Value) {
    let spec = &mut deployment["spec"]["template"]["spec"];
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port["protocol"] = "TCP".into();
        }
        for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
                reference["apiVersion"] = "v1".into();
            }
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(secret) = volume.get_mut("secret") {
            secret["defaultMode"] = 420.into();
        }
    }
}

/// The recording server's deployment controller was at work between the patch and the answer.
fn forget_what_controllers_wrote(deployment: &mut Value) {
    deployment["status"].take();
    let metadata = deployment["metadata"].as_object_mut().expect("objects have metadata");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("deployment.kubernetes.io/revision");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}
