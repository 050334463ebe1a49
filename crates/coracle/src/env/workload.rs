//! Which objects of the input have a pod template, where it is in them, and the pod that it makes.

use k8s_openapi::api::core::v1::Pod;
use manifest::Node;
use serde_json::{Value, json};

use super::survey::DecodeMistake;
use crate::input::InputObject;

/// Where a kind keeps its pod template.
struct TemplatePlace {
    kind: &'static str,
    /// Field path of the template; empty for a pod, which is its own.
    path: &'static str,
}

const TEMPLATES: [TemplatePlace; 9] = [
    TemplatePlace { kind: "Pod", path: "" },
    TemplatePlace { kind: "Deployment", path: "spec.template" },
    TemplatePlace { kind: "StatefulSet", path: "spec.template" },
    TemplatePlace { kind: "DaemonSet", path: "spec.template" },
    TemplatePlace { kind: "ReplicaSet", path: "spec.template" },
    TemplatePlace { kind: "ReplicationController", path: "spec.template" },
    TemplatePlace { kind: "Job", path: "spec.template" },
    TemplatePlace { kind: "CronJob", path: "spec.jobTemplate.spec.template" },
    TemplatePlace { kind: "PodTemplate", path: "template" },
];

/// A pod, or the pod that an object's template makes.
pub(super) struct Workload {
    /// The pod; a template's has no name yet.
    pub(super) pod: Pod,
    /// Field path of the pod spec in the object.
    pub(super) spec_path: String,
}

/// Whether objects of this kind have pods.
pub(super) fn has_pods(object: &InputObject) -> bool {
    let (group, _) = object.api_version.split_once('/').unwrap_or(("", ""));
    kind_has_pods(group, &object.kind)
}

/// Whether objects of a kind have pods.
pub(super) fn kind_has_pods(group: &str, kind: &str) -> bool {
    // Kinds of the same name exist elsewhere; theirs have other fields.
    matches!(group, "" | "apps" | "batch" | "extensions") && TEMPLATES.iter().any(|each| each.kind == kind)
}

/// The workload of an object that [`has_pods`]; `value` is what its kind makes of it.
pub(super) fn workload(
    object: &InputObject,
    value: &Value,
    namespace: &str,
) -> Result<Option<Workload>, DecodeMistake> {
    let Some(place) = TEMPLATES.iter().find(|each| each.kind == object.kind) else {
        return Ok(None);
    };
    let root = &object.document.root;
    let (template, spec_path) = if place.path.is_empty() {
        (Some(value), "spec".to_owned())
    } else {
        let pointer = format!("/{}", place.path.replace('.', "/"));
        (value.pointer(&pointer), format!("{}.spec", place.path))
    };
    let template = template.unwrap_or(&Value::Null);
    if object.document.find(&spec_path).is_none_or(Node::is_null) {
        return Err(DecodeMistake::missing_spec(root, &spec_path));
    }
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({"containers": []}));
    let metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    // Of a pod that runs, its status knows the addresses.
    let status = template.get("status").filter(|_| place.path.is_empty()).cloned().unwrap_or(Value::Null);
    let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status}))
        .map_err(|cause| DecodeMistake::unreadable(root, cause.to_string()))?;
    pod.metadata.namespace = Some(namespace.to_owned());
    if !place.path.is_empty() {
        // Who makes a pod from a template chooses its name.
        pod.metadata.name = None;
        pod.metadata.generate_name = Some(format!("{}-", object.name));
    }
    Ok(Some(Workload { pod, spec_path }))
}
