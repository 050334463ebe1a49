//! Writes a pod's status to the API: only what changed, and only to the very pod that it is about.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusWritten {
    /// The API has it.
    Written,
    /// The object is gone, or another one has its name now.
    Gone,
}

/// Which of two statuses a write has to turn into the other.
pub(crate) struct StatusChange<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) from: Option<&'a PodStatus>,
    pub(crate) to: &'a PodStatus,
}

/// Writes the status.
///
/// # Errors
///
/// What the API says; try again later.
pub(crate) async fn write_status(
    client: &kube::Client,
    change: StatusChange<'_>,
) -> kube::Result<StatusWritten> {
    let metadata = &change.pod.metadata;
    let Some(name) = metadata.name.as_deref() else {
        return Ok(StatusWritten::Gone);
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), metadata.namespace.as_deref().unwrap_or("default"));
    let patch = json!({"metadata": {"uid": metadata.uid}, "status": status_patch(change.from, change.to)});
    match pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(StatusWritten::Written),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(StatusWritten::Gone),
        // The UID is immutable: a patch that would change it is refused, because the name belongs to another pod now.
        Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains("uid") => {
            Ok(StatusWritten::Gone)
        }
        Err(error) => Err(error),
    }
}

/// A merge patch from one status to another: fields that went away are null.
fn status_patch(from: Option<&PodStatus>, to: &PodStatus) -> Value {
    let mut patch = serde_json::to_value(to).expect("a status is plain JSON");
    let old = from.and_then(|from| serde_json::to_value(from).ok()).unwrap_or(Value::Null);
    if let (Value::Object(patch), Value::Object(old)) = (&mut patch, old) {
        for key in old.keys() {
            patch.entry(key.clone()).or_insert(Value::Null);
        }
    }
    patch
}

/// Deletes the object for good, if it is still the same pod.
///
/// # Errors
///
/// What the API says, unless the object is gone already.
pub(crate) async fn delete_finally(client: &kube::Client, pod: &Pod) -> kube::Result<()> {
    let metadata = &pod.metadata;
    let Some(name) = metadata.name.as_deref() else {
        return Ok(());
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), metadata.namespace.as_deref().unwrap_or("default"));
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: metadata.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match pods.delete(name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::status_patch;
    use k8s_openapi::api::core::v1::PodStatus;

    #[test]
    fn fields_that_went_away_become_null() {
        let from = PodStatus { reason: Some("x".to_owned()), ..PodStatus::default() };
        let to = PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() };
        let patch = status_patch(Some(&from), &to);
        assert_eq!(patch, serde_json::json!({"phase": "Running", "reason": null}));
    }
}
