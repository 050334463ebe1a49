//! The rules of `env` and `envFrom` through the public entry points: upstream's rows, both gates, ratcheting, env files,
//! NUL bytes, sizes, warnings.

use admission::{
    AdmissionRequest, EnvFileMounts, SourceLookup, needed_sources, prepare_create, prepare_update,
};
use api::FeatureGates;
use schema::{FieldValidation, Resource, builtin, decode_value, resource};
use serde_json::{Value, json};

fn pods() -> &'static Resource {
    resource("", "v1", "pods").expect("pods are built in")
}

fn gates(relaxed: bool, env_files: bool) -> AdmissionRequest {
    let gates = FeatureGates { relaxed_environment_variable_validation: relaxed, env_files };
    AdmissionRequest { gates, ..AdmissionRequest::default() }
}

fn decoded(pod: &Value) -> Value {
    let ty = builtin().type_for("v1", "Pod").expect("Pod is built in");
    decode_value(ty, pod, FieldValidation::Strict).expect("a well-formed pod").value
}

/// A pod whose spec is made whole: container names and images, volume `v`.
fn pod(mut spec: Value) -> Value {
    spec["automountServiceAccountToken"] = false.into();
    for list in ["containers", "initContainers"] {
        for (index, container) in
            spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            container["name"] = format!("{}{index}", &list[..1]).into();
            container["image"] = "busybox".into();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec})
}

fn create(spec: Value, request: &AdmissionRequest) -> Result<(Value, Vec<String>), String> {
    let mut object = decoded(&pod(spec));
    let warnings = prepare_create(pods(), &mut object, request).map_err(|errors| errors.to_string())?;
    Ok((object, warnings.into_iter().map(|warning| warning.0).collect()))
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/env_validation.json")).expect("the vectors are JSON")
}

fn rows<'a>(table: &'a Value, name: &str) -> &'a [Value] {
    table[name].as_array().expect("a list of rows")
}

const VOLUMES: &str = r#"[{"name": "v", "emptyDir": {}}, {"name": "volume-name", "emptyDir": {}}]"#;

fn volumes() -> Value {
    serde_json::from_str(VOLUMES).expect("JSON")
}

#[test]
fn upstream_rows_of_env_hold() {
    let table = vectors();
    for row in rows(&table, "envValid") {
        let request = gates(row["relaxed"] == true, true);
        let result = create(json!({"containers": [{"env": [row["env"]]}]}), &request);
        assert!(result.is_ok(), "{row}: {result:?}");
    }
    for row in rows(&table, "envInvalid") {
        let mut object = decoded(&pod(json!({"containers": [{"env": row["env"]}]})));
        let request = gates(row["relaxed"] == true, true);
        let want =
            row["errorContains"].as_str().expect("a text").replace("field[", "spec.containers[0].env[");
        if want.contains("fieldRef.apiVersion: Required") {
            // Defaulting fills it in; only a template that nobody defaulted could miss it.
            assert!(prepare_create(pods(), &mut object, &request).is_ok());
            continue;
        }
        let errors =
            prepare_create(pods(), &mut object, &request).expect_err("an invalid variable").to_string();
        assert!(errors.contains(&want), "{row}: {errors}");
    }
}

#[test]
fn the_list_of_sources_depends_on_the_gate() {
    let table = vectors();
    let row = rows(&table, "envInvalid")
        .iter()
        .find(|row| row["fullWithEnvFilesGateOn"].is_string())
        .expect("listed");
    for (on, key) in [(true, "fullWithEnvFilesGateOn"), (false, "fullWithEnvFilesGateOff")] {
        let told =
            create(json!({"containers": [{"env": row["env"]}]}), &gates(true, on)).expect_err("no source");
        assert_eq!(told, format!("spec.containers[0].env{}", row[key].as_str().expect("a text")));
    }
}

#[test]
fn upstream_rows_of_env_from_hold() {
    let table = vectors();
    for row in rows(&table, "envFromValid") {
        let request = gates(row["relaxed"] == true, true);
        let result = create(json!({"containers": [{"envFrom": [row["envFrom"]]}]}), &request);
        assert!(result.is_ok(), "{row}: {result:?}");
    }
    for row in rows(&table, "envFromInvalid") {
        let request = gates(row["relaxed"] == true, true);
        let told =
            create(json!({"containers": [{"envFrom": row["envFrom"]}]}), &request).expect_err("invalid");
        let want =
            row["errorContains"].as_str().expect("a text").replacen("field", "spec.containers[0].envFrom", 1);
        assert!(told.contains(&want), "{row}: {told}");
    }
}

#[test]
fn upstream_rows_of_file_references_hold_in_all_container_lists() {
    let table = vectors();
    for row in rows(&table, "fileKeyRef") {
        for list in ["containers", "initContainers"] {
            let mut spec = json!({"containers": [{}], "volumes": volumes()});
            spec[list] = json!([{"env": [row["env"]]}]);
            let want: Vec<String> = rows(row, "errors")
                .iter()
                .map(|error| {
                    format!("spec.{list}[0].env[0].{}: {}", text(&error["field"]), text(&error["error"]))
                })
                .collect();
            let told = create(spec, &gates(true, true)).err().unwrap_or_default();
            for sentence in &want {
                assert!(told.contains(sentence.as_str()), "{row}: {told}");
            }
            assert_eq!(told.is_empty(), want.is_empty(), "{row}: {told}");
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn upstream_rows_of_env_file_volumes_hold() {
    let table = vectors();
    for row in rows(&table, "fileKeyRefVolume") {
        let mut spec = row["podSpec"].clone();
        if spec["containers"].is_null() {
            spec["containers"] = json!([{}]);
        }
        for (index, container) in spec
            .get_mut("ephemeralContainers")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .enumerate()
        {
            container["name"] = format!("e{index}").into();
            container["image"] = "busybox".into();
        }
        let forbidden = "spec.ephemeralContainers: Forbidden: cannot be set on create";
        let told = create(spec, &gates(true, true)).err().unwrap_or_default();
        let told = told.trim_start_matches('[').trim_end_matches(']');
        let got: Vec<&str> =
            told.split(", ").filter(|error| !error.is_empty() && *error != forbidden).collect();
        let want: Vec<&str> = rows(row, "errors").iter().map(text).collect();
        assert_eq!(got, want, "{row}");
    }
}

#[test]
fn names_of_the_table_are_judged_by_the_gate() {
    let table: Value =
        serde_json::from_str(include_str!("vectors/envname.json")).expect("the vectors are JSON");
    for row in rows(&table, "names") {
        let name = text(&row["name"]);
        for (relaxed, valid, messages) in
            [(false, "strict", "strictMessages"), (true, "relaxed", "relaxedMessages")]
        {
            let told = create(
                json!({"containers": [{"env": [{"name": name, "value": "x"}]}]}),
                &gates(relaxed, true),
            );
            if name.is_empty() {
                assert_eq!(told.expect_err("empty"), "spec.containers[0].env[0].name: Required value");
                continue;
            }
            assert_eq!(told.is_ok(), row[valid] == true, "{row}: {told:?}");
            for message in rows(row, messages).iter().filter(|_| row[valid] != true) {
                let told = told.as_ref().expect_err("an invalid name");
                assert!(told.contains(text(message)), "{row}: {told}");
            }
        }
    }
}

/// A stored template and a change of it; a Deployment's environment may change, a pod's may not.
fn update_template(old_names: &[&str], new_names: &[&str]) -> Result<(), String> {
    let deployments = resource("apps", "v1", "deployments").expect("built in");
    let ty = builtin().type_for("apps/v1", "Deployment").expect("built in");
    let object = |names: &[&str]| {
        let env: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        let tree = json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}}});
        decode_value(ty, &tree, FieldValidation::Strict).expect("well-formed").value
    };
    let (mut old, mut new) = (object(old_names), object(new_names));
    prepare_create(deployments, &mut old, &gates(true, true)).expect("stored while the gate was on");
    prepare_update(deployments, &old, &mut new, &gates(false, true))
        .map(|_| ())
        .map_err(|errors| errors.to_string())
}

#[test]
fn with_the_gate_off_relaxed_names_stay_as_long_as_one_of_them_is_kept() {
    assert_eq!(update_template(&["a:b"], &["a:b"]), Ok(()));
    assert_eq!(update_template(&["a:b"], &["a:b", "c:d"]), Ok(()), "one kept name relaxes the whole spec");
    assert!(
        update_template(&["a:b"], &["c:d"])
            .is_err_and(|told| told.contains("env[0].name: Invalid value: \"c:d\""))
    );
    assert!(update_template(&["A"], &["A", "c:d"]).is_err());
    assert_eq!(update_template(&["a:b"], &["A"]), Ok(()));
}

#[test]
fn with_the_gate_off_file_references_are_dropped_unless_the_old_object_has_them() {
    let spec = json!({
        "containers": [{"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "e", "key": "K"}}}]}],
        "volumes": volumes()
    });
    let told =
        create(spec.clone(), &gates(true, false)).expect_err("without its source the variable has none");
    assert!(told.contains("must specify one of"), "{told}");
    assert!(told.contains("the feature gate EnvFiles is off"), "the gate is named: {told}");
    let (old, _) = create(spec, &gates(true, true)).expect("the gate is on");
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    let warnings =
        prepare_update(pods(), &old, &mut new, &gates(true, false)).expect("the old object uses it");
    assert!(warnings.is_empty(), "nothing of the spec has changed: {warnings:?}");
    assert!(new["spec"]["containers"][0]["env"][0]["valueFrom"]["fileKeyRef"].is_object());
}

/// An env file's volume, read by one container and mounted by the named ones.
fn mounted_by(init: bool, reader: bool, sidecar: bool) -> Value {
    let mount = |wanted: bool| if wanted { json!([{"name": "v", "mountPath": "/e"}]) } else { json!([]) };
    json!({
        "initContainers": [
            {"volumeMounts": mount(init)},
            {"restartPolicy": "Always", "volumeMounts": mount(sidecar)}
        ],
        "containers": [{
            "volumeMounts": mount(reader),
            "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "e", "key": "K"}}}]
        }],
        "volumes": volumes()
    })
}

#[test]
fn env_file_volumes_may_be_mounted_by_init_containers() {
    let strict = AdmissionRequest { env_file_mounts: EnvFileMounts::InitOnly, ..AdmissionRequest::default() };
    let (_, warnings) =
        create(mounted_by(true, false, false), &strict).expect("as the design of env files wants it");
    assert_eq!(warnings, Vec::<String>::new());
    for (spec, place) in [
        (mounted_by(true, true, false), "spec.containers[0].volumeMounts[0]"),
        (mounted_by(true, false, true), "spec.initContainers[1].volumeMounts[0]"),
    ] {
        let (_, warnings) = create(spec.clone(), &AdmissionRequest::default()).expect("allowed by default");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with(&format!("{place}: volume \"v\": ")), "{warnings:?}");
        let told = create(spec, &strict).expect_err("refused");
        assert!(told.starts_with(&format!("{place}: Forbidden: volume \"v\": ")), "{told}");
    }
}

#[test]
fn nul_bytes_are_refused_everywhere_without_showing_the_value() {
    let bad = "geheim\0x";
    let cases = [
        (json!({"containers": [{"env": [{"name": "A", "value": bad}]}]}), "spec.containers[0].env[0].value"),
        (json!({"containers": [{"command": ["a", bad]}]}), "spec.containers[0].command[1]"),
        (json!({"containers": [{"args": [bad]}]}), "spec.containers[0].args[0]"),
        (
            json!({"containers": [{"lifecycle": {"preStop": {"exec": {"command": [bad]}}}}]}),
            "spec.containers[0].lifecycle.preStop.exec.command[0]",
        ),
        (
            json!({"containers": [{"livenessProbe": {"exec": {"command": [bad]}}}]}),
            "spec.containers[0].livenessProbe.exec.command[0]",
        ),
        (
            json!({"containers": [{}], "initContainers": [{"env": [{"name": "A", "value": bad}]}]}),
            "spec.initContainers[0].env[0].value",
        ),
    ];
    for (spec, place) in cases {
        let told = create(spec, &AdmissionRequest::default()).expect_err("refused");
        assert!(told.starts_with(&format!("{place}: Invalid value: must not contain a NUL byte")), "{told}");
        assert!(!told.contains("geheim"), "{told}");
    }
}

#[test]
fn variables_that_no_kernel_accepts_are_warned_about() {
    let warned = |value: String| {
        let spec = json!({"containers": [{"env": [{"name": "A", "value": value}]}]});
        create(spec, &AdmissionRequest::default()).expect("allowed, as on Kubernetes").1
    };
    assert_eq!(warned("x".repeat(1000)), Vec::<String>::new());
    let warnings = warned("x".repeat(131_072));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("spec.containers[0].env[0]") && warnings[0].contains("\"A\""),
        "{warnings:?}"
    );
    assert!(warnings[0].len() < 500, "the value is not shown");
}

#[test]
fn hidden_definitions_are_warned_about() {
    let warned = |second: Value| {
        let mut second = second;
        second["name"] = "A".into();
        let env = json!([{"name": "A", "value": "1"}, second]);
        create(json!({"containers": [{"env": env}]}), &AdmissionRequest::default()).expect("allowed").1
    };
    let sentence = "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply";
    assert_eq!(warned(json!({"value": "2"})), [sentence]);
    assert_eq!(warned(json!({"value": "$(A)"})), [sentence]);
    assert_eq!(warned(json!({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})), [sentence]);
    assert_eq!(warned(json!({"value": "$(A):more"})), Vec::<String>::new());
}

#[test]
fn unresolved_references_are_warned_about_unless_they_may_still_resolve() {
    let warned = |env: Value, env_from: Value, request: &AdmissionRequest| {
        create(json!({"containers": [{"env": env, "envFrom": env_from}]}), request).expect("allowed").1
    };
    let plain = AdmissionRequest::default();
    let told = warned(json!([{"name": "A", "value": "$(MISSING)"}]), json!([]), &plain);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("spec.containers[0].env[0].value: ") && told[0].contains("MISSING"),
        "{told:?}"
    );
    for name in ["DB_SERVICE_HOST", "DB_SERVICE_PORT", "DB_PORT_80_TCP"] {
        let told = warned(json!([{"name": "A", "value": format!("$({name})")}]), json!([]), &plain);
        assert_eq!(told, Vec::<String>::new(), "services may come later");
    }
    let from_map = json!([{"configMapRef": {"name": "m"}}]);
    let told = warned(json!([{"name": "A", "value": "$(MISSING)"}]), from_map.clone(), &plain);
    assert_eq!(told, Vec::<String>::new(), "the ConfigMap may come later");
    let mut request = AdmissionRequest::default();
    let map = json!({"metadata": {"name": "m", "namespace": "default"}, "data": {"OTHER": "1"}});
    request.sources.config_maps.insert("m".to_owned(), SourceLookup::Present(map));
    let told = warned(json!([{"name": "A", "value": "$(MISSING)"}]), from_map, &request);
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn what_the_environment_reads_is_named_for_all_containers() {
    let object = decoded(&pod(json!({
        "initContainers": [{"envFrom": [{"secretRef": {"name": "s1"}}]}],
        "containers": [
            {"envFrom": [{"configMapRef": {"name": "m1"}}]},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s0", "key": "k"}}}]}
        ]
    })));
    let needed = needed_sources(pods(), &object);
    assert_eq!(needed.config_maps, ["m1"]);
    assert_eq!(needed.secrets, ["s0", "s1"]);
    assert!(needed.services);
}
