//! The labels and annotations by which a kubelet recognises what it made in a runtime. The names are Kubernetes', so that
//! `crictl` shows pods and containers by name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use sha2::{Digest as _, Sha256};

pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
pub(crate) const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
pub(crate) const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
pub(crate) const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
pub(crate) const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
pub(crate) const TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";

/// Labels of a pod's sandbox: its own, and those that name it.
pub(crate) fn sandbox_labels(pod: &Pod) -> BTreeMap<String, String> {
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(pod_labels(pod));
    labels
}

fn pod_labels(pod: &Pod) -> [(String, String); 3] {
    let metadata = &pod.metadata;
    [
        (POD_NAME.to_owned(), metadata.name.clone().unwrap_or_default()),
        (POD_NAMESPACE.to_owned(), metadata.namespace.clone().unwrap_or_default()),
        (POD_UID.to_owned(), metadata.uid.clone().unwrap_or_default()),
    ]
}

/// Labels of a container.
pub(crate) fn container_labels(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = pod_labels(pod).into_iter().collect();
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

/// Annotations of a container.
pub(crate) fn container_annotations(
    pod: &Pod,
    container: &Container,
    attempt: u32,
) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::from([
        (CONTAINER_HASH.to_owned(), container_hash(container)),
        (RESTART_COUNT.to_owned(), attempt.to_string()),
    ]);
    if let Some(path) = &container.termination_message_path {
        annotations.insert(TERMINATION_MESSAGE_PATH.to_owned(), path.clone());
    }
    if let Some(policy) = &container.termination_message_policy {
        annotations.insert(TERMINATION_MESSAGE_POLICY.to_owned(), policy.clone());
    }
    if let Some(grace) = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds) {
        annotations.insert(TERMINATION_GRACE_PERIOD.to_owned(), grace.to_string());
    }
    annotations
}

/// Hash of what may change in a running container: its image.
pub(crate) fn container_hash(container: &Container) -> String {
    let text = format!("{}\0{}", container.name, container.image.as_deref().unwrap_or_default());
    hex::encode(&Sha256::digest(text.as_bytes())[..8])
}
