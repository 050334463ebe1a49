//! What only a cluster knows, kind by kind; and which objects others make.

use manifest::{Entry, Node, NodeValue};
use serde_json::{Map, Value};

use super::text;
use crate::INSTANCE_LABEL;
use crate::kinds::Kind;

/// An object that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why, in a few words.
    pub reason: &'static str,
}

/// Kinds that a cluster makes by itself.
const MADE_BY_THE_CLUSTER: [&str; 8] = [
    "ControllerRevision",
    "Endpoints",
    "EndpointSlice",
    "Event",
    "Lease",
    "Namespace",
    "Node",
    "PersistentVolume",
];

/// Why an object does not belong into a template.
pub(super) fn reason_to_skip(object: &Value) -> Option<Skipped> {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let labels = object.pointer("/metadata/labels");
    let keeps_parameters = kind == "Secret"
        && labels
            .and_then(|labels| labels.get(INSTANCE_LABEL))
            .and_then(Value::as_str)
            .is_some_and(|instance| crate::instance::secret_name(instance) == name);
    let reason = if owners.is_some_and(|owners| !owners.is_empty()) {
        "another object makes it"
    } else if MADE_BY_THE_CLUSTER.contains(&kind) {
        "the cluster makes it"
    } else if keeps_parameters {
        "it keeps the parameters of an instance"
    } else if !object.pointer("/metadata/deletionTimestamp").unwrap_or(&Value::Null).is_null() {
        "it is being deleted"
    } else if !object
        .pointer("/metadata/annotations/kubernetes.io~1config.mirror")
        .unwrap_or(&Value::Null)
        .is_null()
    {
        "it mirrors a pod of a node"
    } else {
        match (kind, name, text(object, "/type")) {
            ("ServiceAccount", "default", _)
            | ("ConfigMap", "kube-root-ca.crt", _)
            | ("Service", "kubernetes", _) => "every namespace has it",
            ("Secret", _, "kubernetes.io/service-account-token") => "the cluster makes it",
            _ => return None,
        }
    };
    Some(Skipped { kind: kind.to_owned(), name: name.to_owned(), reason })
}

/// Annotations that say what a cluster did, by how they begin.
const CLUSTER_ANNOTATIONS: [&str; 7] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "kubectl.kubernetes.io/restartedAt",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
];

/// Removes what only a cluster knows.
pub(super) fn clean(object: &mut Value) {
    remove_nulls(object);
    let Some(root) = object.as_object_mut() else { return };
    root.remove("status");
    if let Some(metadata) = map(root, "metadata") {
        metadata.retain(|key, _| ["name", "generateName", "labels", "annotations"].contains(&key.as_str()));
        if metadata.contains_key("name") {
            metadata.remove("generateName");
        }
        if let Some(annotations) = map(metadata, "annotations") {
            annotations.retain(|key, _| !CLUSTER_ANNOTATIONS.iter().any(|start| key.starts_with(start)));
        }
        remove_empty(metadata, "annotations");
    }
    let kind = text(object, "/kind").to_owned();
    let group = crate::kinds::group_of(text(object, "/apiVersion")).to_owned();
    match (group.as_str(), kind.as_str()) {
        ("", "Service") => clean_service(object),
        ("", "PersistentVolumeClaim") => remove(object, "/spec", &["volumeName"]),
        ("", "ServiceAccount") => clean_service_account(object),
        ("batch", "Job") => clean_job(object),
        _ => {}
    }
    forget_instance(object, &kind);
    let template = Kind::of(text(object, "/apiVersion"), &kind).and_then(|kind| kind.template);
    if let Some(path) = template {
        let pointer: String = path.iter().chain(&["spec"]).map(|key| format!("/{key}")).collect();
        if let Some(spec) = object.pointer_mut(&pointer).and_then(Value::as_object_mut) {
            clean_pod(spec);
        }
        let pointer: String = path.iter().map(|key| format!("/{key}")).collect();
        if let Some(template) = object.pointer_mut(&pointer).and_then(Value::as_object_mut)
            && let Some(metadata) = map(template, "metadata")
        {
            if let Some(annotations) = map(metadata, "annotations") {
                annotations.retain(|key, _| !CLUSTER_ANNOTATIONS.iter().any(|start| key.starts_with(start)));
            }
            remove_empty(metadata, "annotations");
        }
    }
}

fn clean_service(object: &mut Value) {
    let is_headless = text(object, "/spec/clusterIP") == "None";
    remove(object, "/spec", &["clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"]);
    if !is_headless {
        remove(object, "/spec", &["clusterIP"]);
    }
    for port in object.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        remove(port, "", &["nodePort"]);
    }
}

fn clean_service_account(object: &mut Value) {
    let name = text(object, "/metadata/name").to_owned();
    for (field, middle) in [("secrets", "-token-"), ("imagePullSecrets", "-dockercfg-")] {
        let Some(Value::Array(references)) = object.get_mut(field) else { continue };
        let start = format!("{name}{middle}");
        references.retain(|reference| !text(reference, "/name").starts_with(&start));
        if references.is_empty() {
            remove(object, "", &[field]);
        }
    }
}

fn clean_job(object: &mut Value) {
    if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    remove(object, "/spec", &["selector"]);
    for pointer in ["/metadata/labels", "/spec/template/metadata/labels"] {
        let made = [
            "controller-uid",
            "job-name",
            "batch.kubernetes.io/controller-uid",
            "batch.kubernetes.io/job-name",
        ];
        remove(object, pointer, &made);
    }
}

/// The label of the instance: a new instance gets its own.
fn forget_instance(object: &mut Value, kind: &str) {
    let mut places = vec!["/metadata/labels".to_owned()];
    if let Some(kind) = Kind::of(text(object, "/apiVersion"), kind) {
        let below = |path: &[&str]| path.iter().map(|key| format!("/{key}")).collect::<String>();
        places.extend(kind.template.map(|path| below(path) + "/metadata/labels"));
        places.extend(kind.made.iter().map(|path| below(path) + "/metadata/labels"));
        if let Some((path, _)) = kind.selector {
            places.push(below(path));
            places.push(below(path) + "/matchLabels");
        }
    }
    for place in places {
        remove(object, &place, &[INSTANCE_LABEL]);
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        remove_empty(metadata, "labels");
    }
}

fn clean_pod(spec: &mut Map<String, Value>) {
    for field in ["nodeName", "serviceAccount", "priority", "preemptionPolicy"] {
        spec.remove(field);
    }
    if spec.get("serviceAccountName").and_then(Value::as_str) == Some("default") {
        spec.remove("serviceAccountName");
    }
    let is_token = |volume: &Value| text(volume, "/name").starts_with("kube-api-access-");
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes.retain(|volume| !is_token(volume));
    }
    remove_empty(spec, "volumes");
    if let Some(Value::Array(tolerations)) = spec.get_mut("tolerations") {
        let is_added = |toleration: &Value| {
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
                .contains(&text(toleration, "/key"))
                && toleration["tolerationSeconds"] == 300
        };
        tolerations.retain(|toleration| !is_added(toleration));
    }
    remove_empty(spec, "tolerations");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                mounts.retain(|mount| !is_token(mount));
            }
            remove_empty(container, "volumeMounts");
            remove_empty(container, "resources");
        }
    }
    spec.remove("ephemeralContainers");
}

fn map<'m>(map: &'m mut Map<String, Value>, key: &str) -> Option<&'m mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

fn remove(object: &mut Value, pointer: &str, keys: &[&str]) {
    if let Some(map) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

fn remove_empty(map: &mut Map<String, Value>, key: &str) {
    let is_empty = match map.get(key) {
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(entries)) => entries.is_empty(),
        _ => false,
    };
    if is_empty {
        map.remove(key);
    }
}

/// What is null is not there.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The tree with the keys that people look for first in front; the others by their letters.
pub(super) fn ordered(value: &Value) -> Node {
    const FIRST: [&str; 9] =
        ["apiVersion", "kind", "metadata", "name", "image", "labels", "annotations", "type", "replicas"];
    match value {
        Value::Object(map) => {
            let rank = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by(|(one, _), (other, _)| (rank(one), one).cmp(&(rank(other), other)));
            let entries = entries.into_iter().map(|(key, value)| Entry::unplaced(key, ordered(value)));
            Node::unplaced(NodeValue::Map(entries.collect()))
        }
        Value::Array(items) => items.iter().map(ordered).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Node::from_json(value),
    }
}
