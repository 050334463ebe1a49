//! Where a pod came from: the API, or a file of this node, which an object of the API may mirror.

use api::annotations::{CONFIG_MIRROR, CONFIG_SOURCE};
use k8s_openapi::api::core::v1::Pod;

/// What `kubernetes.io/config.source` says of a pod that came from a file.
pub(crate) const FROM_FILE: &str = "file";

/// Whether a pod came from a file of this node and not from the API.
pub(crate) fn is_static(pod: &Pod) -> bool {
    annotation(pod, CONFIG_SOURCE) == Some(FROM_FILE) && !is_mirror(pod)
}

/// Whether an object of the API only shows a static pod.
pub(crate) fn is_mirror(pod: &Pod) -> bool {
    annotation(pod, CONFIG_MIRROR).is_some()
}

/// An annotation of a pod.
pub(crate) fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}
