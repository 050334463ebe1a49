//! The schema walk: every field of a pod's spec has a rule, every rule that supports names a test that exists, and every rule
//! that warns or refuses does so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use admission::{
    AdmissionRequest, FIELD_RULES, FieldSupport, FieldValues, canonical_path, prepare_create, rules_of,
};
use schema::{FieldValidation, Shape, Special, Type, builtin, decode_value, resource};
use serde_json::{Value, json};

/// Tests that rules name and that are still to be written. It only ever gets shorter.
const TO_BE_WRITTEN: &[&str] = &[];

fn pod_spec() -> Type {
    builtin().type_named("api/core/v1", "PodSpec").expect("built in")
}

/// Every path of a type's fields: `containers[].env[].name`.
fn walk(ty: Type, prefix: &str, paths: &mut Vec<String>) {
    for field in ty.fields() {
        let path =
            if prefix.is_empty() { field.json().to_owned() } else { format!("{prefix}.{}", field.json()) };
        paths.push(path.clone());
        walk_shape(field.shape(), path, paths);
    }
}

fn walk_shape(shape: Shape, path: String, paths: &mut Vec<String>) {
    match shape.resolved() {
        Shape::Named(ty) if ty.special().is_none() => walk(ty, &path, paths),
        Shape::List(item) => walk_shape(item.shape(), format!("{path}[]"), paths),
        // The keys of a map are data, not fields.
        _ => {}
    }
}

fn all_paths() -> Vec<String> {
    let mut paths = Vec::new();
    walk(pod_spec(), "", &mut paths);
    paths
}

#[test]
fn every_field_of_a_pod_is_supported_or_warned_about_or_refused() {
    let paths = all_paths();
    assert!(paths.len() > 1000, "the walk sees the whole schema: {}", paths.len());
    let without: Vec<&String> = paths.iter().filter(|path| rules_of(path).is_empty()).collect();
    assert!(without.is_empty(), "no rule says what is made of: {without:#?}");
}

#[test]
fn every_rule_is_about_a_field_that_exists() {
    let known: BTreeSet<String> = all_paths().iter().map(|path| canonical_path(path)).collect();
    let unknown: Vec<String> =
        FIELD_RULES.iter().flat_map(|rule| rule.paths()).filter(|path| !known.contains(path)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project is here")
}

/// Names of tests by the file (or the directory of a `tests` module) that holds them.
fn tests_of_the_project() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut pending = vec![project().join("crates"), project().join("e2e")];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).expect("readable").map(|entry| entry.expect("readable")) {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("text");
                let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
                let parent = path.parent().and_then(Path::file_name).expect("a parent").to_string_lossy();
                let holder = if stem == "tests" || stem == "main" { parent.into_owned() } else { stem };
                found.entry(holder).or_default().extend(tests_in(&text));
            }
        }
    }
    found
}

/// Functions that stand directly behind a test attribute.
fn tests_in(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_attribute = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    lines
        .windows(2)
        .filter(|pair| is_attribute(pair[0]))
        .filter_map(|pair| pair[1].strip_prefix("async ").unwrap_or(pair[1]).strip_prefix("fn "))
        .filter_map(|rest| rest.split_once('(').map(|(name, _)| name.to_owned()))
        .collect()
}

#[test]
fn every_supported_field_names_a_test_that_exists() {
    let tests = tests_of_the_project();
    let mut missing = BTreeSet::new();
    for rule in FIELD_RULES {
        let FieldSupport::Supported { test } = rule.support else { continue };
        let (holder, name) = test.split_once("::").expect("file and function");
        if !tests.get(holder).is_some_and(|names| names.contains(name)) {
            missing.insert(test);
        }
    }
    let to_be_written: BTreeSet<&str> = TO_BE_WRITTEN.iter().copied().collect();
    assert_eq!(missing, to_be_written, "left: named and not there; right: known to be still to be written");
}

/// A value of the shape with as little in it as possible.
fn sample(shape: Shape) -> Value {
    match shape.resolved() {
        Shape::String => json!("x"),
        Shape::Bool => json!(true),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => json!(1),
        Shape::Bytes => json!("eA=="),
        Shape::List(item) => json!([sample(item.shape())]),
        Shape::Map { value, .. } => json!({"x": sample(value.shape())}),
        Shape::Named(ty) => match ty.special() {
            Some(Special::Quantity) => json!("1"),
            Some(Special::IntOrString) => json!(1),
            Some(_) => json!({}),
            None => match ty.fields().first() {
                Some(field) => json!({field.json(): sample(field.shape())}),
                None => json!({}),
            },
        },
        Shape::Any | Shape::Pointer(_) => json!({}),
    }
}

/// Sets the value at a path of the schema; answers the path that messages name.
fn set(spec: &mut Value, ty: Type, path: &str, value: Option<Value>) -> String {
    let (segment, rest) = path.split_once('.').map_or((path, None), |(segment, rest)| (segment, Some(rest)));
    let name = segment.trim_end_matches("[]");
    let shape = ty.field(name).expect("a field of the schema").shape();
    if segment.ends_with("[]") {
        let Shape::List(item) = shape.resolved() else { panic!("{name} is a list") };
        if !spec[name].is_array() {
            spec[name] = json!([{"name": "x"}]);
        }
        let inner = item.shape().named().expect("a list of objects");
        let below = set(&mut spec[name][0], inner, rest.expect("something in the item"), value);
        return format!("{name}[0].{below}");
    }
    match rest {
        None => {
            spec[name] = value.unwrap_or_else(|| sample(shape));
            name.to_owned()
        }
        Some(rest) => {
            let inner = shape.named().expect("an object");
            if !spec[name].is_object() {
                spec[name] = json!({});
            }
            let below = set(&mut spec[name], inner, rest, value);
            format!("{name}.{below}")
        }
    }
}

/// Everything that admission says about a pod with this spec: errors and warnings.
fn said(spec: Value) -> Vec<String> {
    let pods = resource("", "v1", "pods").expect("built in");
    let ty = builtin().type_for("v1", "Pod").expect("built in");
    let pod = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec});
    let mut pod = decode_value(ty, &pod, FieldValidation::Strict).expect("well-formed").value;
    match prepare_create(pods, &mut pod, &AdmissionRequest::default()) {
        Ok(warnings) => warnings.into_iter().map(|warning| warning.0).collect(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

fn minimal() -> Value {
    json!({"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]})
}

#[test]
fn what_is_refused_is_refused_by_name_wherever_it_stands() {
    let mut seen = 0;
    for path in all_paths() {
        for rule in rules_of(&path) {
            let FieldSupport::Refused { message } = rule.support else { continue };
            // What lies below a refused field is refused with it.
            if !rule.paths().any(|covered| covered == canonical_path(&path)) {
                continue;
            }
            let value = match rule.values {
                FieldValues::All => None,
                FieldValues::Some { sample, .. } => Some(serde_json::from_str(sample).expect("JSON")),
            };
            let mut spec = minimal();
            let place = set(&mut spec, pod_spec(), &path, value);
            let want = format!("spec.{place}: Forbidden: {message}");
            let said = said(spec);
            assert!(said.contains(&want), "{want}\n{said:#?}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn what_has_no_effect_is_warned_about_by_name_wherever_it_stands() {
    let mut seen = 0;
    for path in all_paths() {
        for rule in rules_of(&path) {
            let FieldSupport::Warned { message } = rule.support else { continue };
            if !rule.paths().any(|covered| covered == canonical_path(&path)) {
                continue;
            }
            let value = match rule.values {
                FieldValues::All => None,
                FieldValues::Some { sample, .. } => Some(serde_json::from_str(sample).expect("JSON")),
            };
            let mut spec = minimal();
            let place = set(&mut spec, pod_spec(), &path, value);
            let want = format!("spec.{place}: {message}");
            let found = admission::field_warnings(&spec);
            assert!(found.contains(&want), "{want}\n{found:#?}");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn an_ordinary_pod_is_not_warned_about() {
    let spec = json!({
        "automountServiceAccountToken": true,
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}}, "ports": [{"containerPort": 80}]}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}}],
    });
    assert_eq!(said(spec), Vec::<String>::new());
}

#[test]
fn a_warning_reaches_the_answer_of_the_api() {
    let mut spec = minimal();
    spec["volumes"] = json!([{"name": "v", "nfs": {"server": "s", "path": "/p"}}]);
    let said = said(spec);
    assert!(
        said.iter().any(|one| one.starts_with("spec.volumes[0].nfs: this node has no volumes of this kind"))
    );
}

#[test]
fn the_operating_system_is_linux() {
    let mut spec = minimal();
    spec["os"] = json!({"name": "linux"});
    assert_eq!(said(spec.clone()), Vec::<String>::new());
    spec["os"] = json!({"name": "windows"});
    assert_eq!(said(spec), ["spec.os.name: Forbidden: this node runs Linux containers only"]);
}

#[test]
fn without_apparmor_only_unconfined_is_true() {
    let mut spec = minimal();
    spec["securityContext"] = json!({"appArmorProfile": {"type": "Unconfined"}});
    assert_eq!(said(spec.clone()), Vec::<String>::new());
    spec["securityContext"] = json!({"appArmorProfile": {"type": "RuntimeDefault"}});
    assert_eq!(
        said(spec),
        [
            "spec.securityContext.appArmorProfile.type: Forbidden: this node does not apply AppArmor profiles; only Unconfined is true here"
        ]
    );
}

#[test]
fn resources_of_a_pod_bound_those_of_its_containers() {
    let mut spec = minimal();
    spec["resources"] = json!({"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "500m"}});
    spec["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}});
    assert_eq!(said(spec.clone()), Vec::<String>::new());
    spec["resources"] =
        json!({"limits": {"cpu": "1", "ephemeral-storage": "1Gi"}, "requests": {"cpu": "100m"}});
    spec["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}});
    assert_eq!(
        said(spec),
        [
            "spec.resources.limits[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"memory\"",
            "spec.containers[0].resources.limits[cpu]: Invalid value: \"2\": must be less than or equal to pod limits of 1",
            "spec.resources.requests[cpu]: Invalid value: \"100m\": must be greater than or equal to aggregate container requests of 500m",
        ]
    );
}
