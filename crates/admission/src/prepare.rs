//! The entry points: what the API server calls before it stores an object.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schema::Resource;
use serde_json::{Value, json};

use crate::errors::FieldErrors;
use crate::kinds::rules;
use crate::path::Path;
use crate::pod_spec::{self, SpecRules};
use crate::request::{AdmissionRequest, NeededSources, Warning};
use crate::tree::{default_field, is_set, remove};
use crate::workload::Review;
use crate::{
    config_map, containers, defaults, env, event, findings, hooks, metadata, namespace, node, pod, rbac,
    secret, service, template,
};

/// Most warnings of one answer: each is a header.
const SHOWN: usize = 100;

/// Names the ConfigMaps and Secrets that the environment of a decoded pod, or of a pod made from its template, reads.
#[must_use]
pub fn needed_sources(resource: &Resource, object: &Value) -> NeededSources {
    match pod_of(resource, object) {
        Some((pod, _)) => findings::needed(&pod),
        None => NeededSources::default(),
    }
}

/// The object with its defaults, as a decoder of upstream's hands it on; nothing else is done to it.
#[must_use]
pub fn with_defaults<'o>(resource: &Resource, object: &'o Value) -> Cow<'o, Value> {
    // What is written most has none.
    let has_none = matches!(
        (resource.group, resource.kind),
        ("", "ConfigMap" | "Event" | "ServiceAccount") | ("coordination.k8s.io", "Lease")
    );
    if has_none {
        return Cow::Borrowed(object);
    }
    let mut defaulted = object.clone();
    if is_core(resource, "Secret") {
        secret::merge_text(&mut defaulted);
    }
    defaults::apply(resource, &mut defaulted);
    Cow::Owned(defaulted)
}

/// Defaults and validates a new object, in place. Call it after name, namespace and `metadata.uid` are set (Job
/// writes the uid into labels) and before cluster addresses and node ports are allocated.
///
/// # Errors
///
/// Every problem of the object.
pub fn prepare_create(
    resource: &Resource,
    object: &mut Value,
    request: &AdmissionRequest,
) -> Result<Vec<Warning>, FieldErrors> {
    let dropped = drop_disabled(resource, object, None, request);
    if is_core(resource, "Secret") {
        secret::merge_text(object);
    }
    rules(resource).generate(object);
    defaults::apply(resource, object);
    if is_core(resource, "Service") {
        service::settle(None, object, request.families)?;
    }
    if is_core(resource, "Pod") {
        pod::admit(object, request);
    }
    defaults::start(resource, object);
    rules(resource).start(object);
    let (mut errors, mut warnings) = (FieldErrors::default(), Vec::new());
    validate(&mut errors, &mut warnings, resource, object, None, request);
    if is_core(resource, "Pod") {
        pod::validate_create(&mut errors, object);
    }
    rules(resource).validate_create(&mut errors, object);
    dropped.explain(&mut errors);
    let mut warnings = errors.into_result(warnings)?;
    warnings.extend(dropped.warnings());
    warnings.extend(metadata::warnings(object));
    add_findings(&mut warnings, resource, object, request);
    Ok(warnings)
}

/// Defaults and validates a replacement of `old`, in place; keeps `status` and what an update may not touch, and
/// counts `metadata.generation` up when the spec changes.
///
/// # Errors
///
/// Every problem of the object and every forbidden change.
pub fn prepare_update(
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    request: &AdmissionRequest,
) -> Result<Vec<Warning>, FieldErrors> {
    metadata::keep(old, new);
    let has_status = resource.subresources.iter().any(|entry| entry.name == "status");
    if has_status {
        replace_field(new, "status", &old["status"]);
    }
    let old_spec = spec_pointer(resource).and_then(|pointer| old.pointer(&pointer));
    let dropped = drop_disabled(resource, new, old_spec, request);
    if is_core(resource, "Secret") {
        secret::merge_text(new);
    }
    if is_core(resource, "Pod") {
        pod::admit_update(old, new);
    }
    defaults::apply(resource, new);
    if is_core(resource, "Service") {
        service::settle(Some(old), new, request.families)?;
    }
    rules(resource).keep(old, new);
    let (mut errors, mut warnings) = (FieldErrors::default(), Vec::new());
    metadata::validate_update(&mut errors, old, new);
    let is_new_generation = rules(resource).is_new_generation(old, new);
    match (resource.group, resource.kind) {
        // A stored pod is valid, or was so by the rules of its day: only changes count.
        ("", "Pod") => {
            metadata::validate(&mut errors, resource, &new["metadata"]);
            let annotations = &new["metadata"]["annotations"];
            if *annotations != old["metadata"]["annotations"] {
                let path = Path::root("metadata").child("annotations");
                hooks::validate(&mut errors, &path, annotations, &new["spec"]);
            }
            pod::validate_update(&mut errors, old, new);
            update_environment(&mut errors, old, new, request);
        }
        _ => validate(&mut errors, &mut warnings, resource, new, Some(old), request),
    }
    match (resource.group, resource.kind) {
        ("", "Service") => service::validate_update(&mut errors, old, new),
        ("", "ConfigMap") => config_map::validate_update(&mut errors, old, new),
        ("", "Secret") => secret::validate_update(&mut errors, old, new),
        ("", "Node") => node::validate_update(&mut errors, old, new),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            rbac::validate_update(&mut errors, old, new);
        }
        _ => {}
    }
    rules(resource).validate_update(&mut errors, old, new);
    dropped.explain(&mut errors);
    let mut warnings = errors.into_result(warnings)?;
    warnings.extend(dropped.warnings());
    if is_new_generation && let Some(generation) = old["metadata"]["generation"].as_i64() {
        new["metadata"]["generation"] = (generation + 1).into();
    }
    if spec_pointer(resource).is_some_and(|pointer| old.pointer(&pointer) != new.pointer(&pointer)) {
        add_findings(&mut warnings, resource, new, request);
    }
    Ok(warnings)
}

/// What of a pod's status says where it is. A stored one is not judged again.
const ADDRESSES: [&str; 4] = ["podIP", "podIPs", "hostIP", "hostIPs"];

/// Prepares an update of the subresource `status`: everything but `status`, labels and annotations is taken from `old`.
///
/// # Errors
///
/// Every problem of the new metadata.
pub fn prepare_status_update(
    resource: &Resource,
    old: &Value,
    new: &mut Value,
) -> Result<Vec<Warning>, FieldErrors> {
    let mut updated = old.clone();
    for name in ["metadata", "status"] {
        replace_field(&mut updated, name, &new[name]);
    }
    *new = updated;
    metadata::keep(old, new);
    for name in ["ownerReferences", "finalizers"] {
        replace_field(&mut new["metadata"], name, &old["metadata"][name]);
    }
    if is_core(resource, "Pod") {
        default_field(&mut new["status"], "qosClass", old["status"]["qosClass"].clone());
        pod::addresses::settle(&mut new["status"]);
    }
    let mut errors = FieldErrors::default();
    if is_core(resource, "Pod") && ADDRESSES.iter().any(|name| old["status"][*name] != new["status"][*name]) {
        pod::addresses::validate(&mut errors, &new["status"]);
    }
    rules(resource).keep(old, new);
    metadata::validate_update(&mut errors, old, new);
    metadata::validate(&mut errors, resource, &new["metadata"]);
    rules(resource).validate_status(&mut errors, old, new);
    errors.into_result(Vec::new())
}

/// Prepares an update of a pod's subresource `ephemeralcontainers`: everything but that list is taken from `old`.
///
/// # Errors
///
/// Every problem of the pod with the new containers, and every change of those that were there.
pub fn prepare_ephemeral_containers_update(
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    request: &AdmissionRequest,
) -> Result<Vec<Warning>, FieldErrors> {
    let mut updated = old.clone();
    replace_field(&mut updated["spec"], "ephemeralContainers", &new["spec"]["ephemeralContainers"]);
    *new = updated;
    let path = Path::root("spec");
    let dropped = pod::drop_disabled_fields(&mut new["spec"], &path, Some(&old["spec"]), request);
    defaults::apply(resource, new);
    let (mut errors, mut warnings) = (FieldErrors::default(), Vec::new());
    validate(&mut errors, &mut warnings, resource, new, Some(old), request);
    pod::validate_ephemeral_update(&mut errors, old, new);
    dropped.explain(&mut errors);
    let mut warnings = errors.into_result(warnings)?;
    warnings.extend(dropped.warnings());
    if old["spec"] != new["spec"] {
        add_findings(&mut warnings, resource, new, request);
    }
    Ok(warnings)
}

/// Defaults a pod's spec in place as creation of a pod does, without what admission adds (token volume, tolerations).
pub fn default_pod_spec(spec: &mut Value) {
    let mut pod = json!({"spec": spec.take()});
    defaults::pod::pod(&mut pod);
    *spec = pod["spec"].take();
}

/// Removes the fields whose gate is off from the pod spec of an object, if it has one.
fn drop_disabled(
    resource: &Resource,
    object: &mut Value,
    old_spec: Option<&Value>,
    request: &AdmissionRequest,
) -> pod::DroppedFields {
    let Some(pointer) = spec_pointer(resource) else { return pod::DroppedFields::default() };
    let path = Path::root(&pointer.trim_start_matches('/').replace('/', "."));
    match object.pointer_mut(&pointer) {
        Some(spec) => pod::drop_disabled_fields(spec, &path, old_spec, request),
        None => pod::DroppedFields::default(),
    }
}

fn is_core(resource: &Resource, kind: &str) -> bool {
    resource.group.is_empty() && resource.kind == kind
}

/// Sets a field of an object to a stored value, or removes it where there is none.
fn replace_field(object: &mut Value, name: &str, stored: &Value) {
    if is_set(stored) {
        object[name] = stored.clone();
    } else {
        remove(object, name);
    }
}

/// The JSON pointer of the pod spec in an object of the kind.
fn spec_pointer(resource: &Resource) -> Option<String> {
    if is_core(resource, "Pod") {
        return Some("/spec".to_owned());
    }
    rules(resource).template().map(|place| format!("{}/spec", place.pointer))
}

/// The pod that an object is, or that its template makes; and where the spec stands in the object.
fn pod_of<'a>(resource: &Resource, object: &'a Value) -> Option<(Cow<'a, Value>, String)> {
    if is_core(resource, "Pod") {
        return Some((Cow::Borrowed(object), "spec".to_owned()));
    }
    let place = rules(resource).template()?;
    let template = object.pointer(place.pointer).unwrap_or(&Value::Null);
    let pod = findings::pod_of_template(template, &object["metadata"]["namespace"]);
    Some((Cow::Owned(pod), format!("{}.spec", place.path)))
}

fn validate(
    errors: &mut FieldErrors,
    warnings: &mut Vec<Warning>,
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
    request: &AdmissionRequest,
) {
    metadata::validate(errors, resource, &object["metadata"]);
    rules(resource).validate(errors, warnings, object);
    match (resource.group, resource.kind) {
        ("", "Pod") => {
            let annotations = Path::root("metadata").child("annotations");
            hooks::validate(errors, &annotations, &object["metadata"]["annotations"], &object["spec"]);
            let rules = SpecRules::new(&object["spec"], old.map(|old| &old["spec"]), request, true);
            pod_spec::validate(errors, warnings, &Path::root("spec"), &object["spec"], rules, request);
        }
        ("", "Service") => service::validate(errors, object),
        ("", "ConfigMap") => config_map::validate(errors, object),
        ("", "Secret") => secret::validate(errors, object),
        ("", "Namespace") => namespace::validate(errors, object),
        ("", "Node") => node::validate(errors, object),
        ("", "Event") => event::validate(errors, object),
        ("rbac.authorization.k8s.io", _) => rbac::validate(errors, resource, object),
        ("template.coracle.dev", "Template") | ("", "Template") => {
            template::validate(errors, warnings, object);
        }
        _ => {}
    }
    let template = rules(resource).template();
    rules(resource).review(&mut Review { errors, warnings, old, request, template }, object);
}

/// The environment of a stored pod cannot change, so its names need no second look; new images do not bring any.
fn update_environment(errors: &mut FieldErrors, old: &Value, new: &Value, request: &AdmissionRequest) {
    let rules = SpecRules::new(&new["spec"], Some(&old["spec"]), request, true);
    for container in containers::all(&new["spec"], &Path::root("spec")) {
        let path = container.path.child("env");
        env::variables(errors, &path, &container.value["env"], rules.grammar, rules.env_files);
        env::sources(errors, &container.path.child("envFrom"), &container.value["envFrom"], rules.grammar);
    }
}

fn add_findings(
    warnings: &mut Vec<Warning>,
    resource: &Resource,
    object: &Value,
    request: &AdmissionRequest,
) {
    let Some((pod, path)) = pod_of(resource, object) else { return };
    let found = findings::warnings(&pod, &path, request);
    warnings.extend(found);
    let mut seen = BTreeSet::new();
    warnings.retain(|warning| seen.insert(warning.0.clone()));
    warnings.truncate(SHOWN);
}
