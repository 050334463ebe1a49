//! Fields of a pod as files of a downward API volume. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Container, DownwardAPIVolumeFile, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource;
use quantity::{Quantity, ResourceUnit};

/// The node's allocatable resources, for limits that are not set.
pub(crate) type Allocatable = BTreeMap<String, resource::Quantity>;

/// Why a field cannot be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DownwardError {
    /// No such field.
    #[error("unsupported fieldPath: {0}")]
    UnsupportedField(String),
    /// No such container.
    #[error("container {0} not found")]
    ContainerNotFound(String),
    /// No such resource.
    #[error("unsupported container resource : {0}")]
    UnsupportedResource(String),
    /// A quantity that is none.
    #[error("resource {0} is not a quantity")]
    InvalidQuantity(String),
    /// Neither a field nor a resource.
    #[error("neither fieldRef nor resourceFieldRef is set for {0:?}")]
    Nothing(String),
}

/// The content of one file.
pub(crate) fn volume_file(
    pod: &Pod,
    allocatable: &Allocatable,
    file: &DownwardAPIVolumeFile,
) -> Result<String, DownwardError> {
    if let Some(field) = &file.field_ref {
        return pod_field(pod, &field.field_path);
    }
    if let Some(resource) = &file.resource_field_ref {
        return container_resource(pod, allocatable, resource);
    }
    Err(DownwardError::Nothing(file.path.clone()))
}

fn pod_field(pod: &Pod, path: &str) -> Result<String, DownwardError> {
    let metadata = &pod.metadata;
    let empty = BTreeMap::new();
    let labels = metadata.labels.as_ref().unwrap_or(&empty);
    let annotations = metadata.annotations.as_ref().unwrap_or(&empty);
    let subscript = |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
    Ok(match path {
        "metadata.name" => metadata.name.clone().unwrap_or_default(),
        "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
        "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
        "metadata.labels" => map_lines(labels),
        "metadata.annotations" => map_lines(annotations),
        _ => match (subscript("metadata.labels"), subscript("metadata.annotations")) {
            (Some(key), _) => labels.get(key).cloned().unwrap_or_default(),
            (None, Some(key)) => annotations.get(key).cloned().unwrap_or_default(),
            (None, None) => return Err(DownwardError::UnsupportedField(path.to_owned())),
        },
    })
}

/// `key="value"` lines, sorted, values quoted as Go quotes them.
fn map_lines(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<String> = map.iter().map(|(key, value)| format!("{key}={}", go_quote(value))).collect();
    lines.join("\n")
}

/// Quotes text as Go's `%q` does.
pub(crate) fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let _ = match character {
            '"' => write!(quoted, "\\\""),
            '\\' => write!(quoted, "\\\\"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            '\u{7}' => write!(quoted, "\\a"),
            '\u{8}' => write!(quoted, "\\b"),
            '\u{b}' => write!(quoted, "\\v"),
            '\u{c}' => write!(quoted, "\\f"),
            control if u32::from(control) < 0x20 || u32::from(control) == 0x7f => {
                write!(quoted, "\\x{:02x}", u32::from(control))
            }
            other => write!(quoted, "{other}"),
        };
    }
    quoted.push('"');
    quoted
}

fn container_resource(
    pod: &Pod,
    allocatable: &Allocatable,
    selector: &ResourceFieldSelector,
) -> Result<String, DownwardError> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let container = find_container(pod, name)?;
    let (kind, resource) = selector
        .resource
        .split_once('.')
        .ok_or_else(|| DownwardError::UnsupportedResource(selector.resource.clone()))?;
    let resources = container.resources.as_ref();
    let set = match kind {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return Err(DownwardError::UnsupportedResource(selector.resource.clone())),
    };
    let known =
        matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if !known {
        return Err(DownwardError::UnsupportedResource(selector.resource.clone()));
    }
    let fallback =
        allocatable.get(resource).filter(|_| kind == "limits" && !resource.starts_with("hugepages-"));
    let value = set.and_then(|set| set.get(resource)).or(fallback).map_or("0", |value| value.0.as_str());
    let divisor = selector.divisor.as_ref().map_or("1", |divisor| divisor.0.as_str());
    let parse = |text: &str| {
        Quantity::parse(text).map_err(|_| DownwardError::InvalidQuantity(selector.resource.clone()))
    };
    let divisor = parse(divisor)?;
    let divisor = if divisor.is_zero() { parse("1")? } else { divisor };
    Ok(parse(value)?.ceil_divide(&divisor, ResourceUnit::of(resource)).to_string())
}

fn find_container<'a>(pod: &'a Pod, name: &str) -> Result<&'a Container, DownwardError> {
    lifecycle::pod_container(pod, name)
        .map(|container| container.spec)
        .ok_or_else(|| DownwardError::ContainerNotFound(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Allocatable, volume_file};
    use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod};
    use serde_json::{Value, json};

    fn check(file: Value, expected: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u",
                "labels": {"b": "2", "a": "1 \"x\""}, "annotations": {"k/v": "line\nnext"}},
            "spec": {"containers": [{"name": "c", "resources": {
                "limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}}}]},
        }))
        .expect("a pod");
        let allocatable: Allocatable = serde_json::from_value(json!({"cpu": "2"})).expect("quantities");
        let file: DownwardAPIVolumeFile = serde_json::from_value(file).expect("a file");
        let shown = match volume_file(&pod, &allocatable, &file) {
            Ok(text) => text,
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn fields_and_resources_become_text() {
        let field = |path: &str| json!({"path": "f", "fieldRef": {"fieldPath": path}});
        let resource = |resource: &str, divisor: &str| json!({"path": "f", "resourceFieldRef": {"containerName": "c", "resource": resource, "divisor": divisor}});
        check(field("metadata.name"), "p");
        check(field("metadata.labels"), "a=\"1 \\\"x\\\"\"\nb=\"2\"");
        check(field("metadata.labels['a']"), "1 \"x\"");
        check(field("metadata.annotations"), "k/v=\"line\\nnext\"");
        check(field("metadata.annotations['absent']"), "");
        check(field("spec.nodeName"), "unsupported fieldPath: spec.nodeName");
        check(resource("limits.memory", "1Mi"), "64");
        check(resource("limits.cpu", "0"), "2");
        check(resource("requests.cpu", "1"), "1");
        check(resource("requests.memory", "1"), "0");
        check(resource("limits.frogs", "1"), "unsupported container resource : limits.frogs");
    }
}
