//! Binds pods that have no node to this one, as the only node of its API server. An ordinary client of the API: a real
//! scheduler can take its place.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};

use api::reasons::event;

use crate::events::{EventRecorder, EventType, pod_reference};

/// The scheduler whose pods are bound.
const SCHEDULER: &str = "default-scheduler";

/// Whether a pod waits for this scheduler.
fn wants_binding(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else {
        return false;
    };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == SCHEDULER);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    let bound = spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
    ours && !gated && !bound && pod.metadata.deletion_timestamp.is_none()
}

/// Binds, for ever.
pub(crate) async fn bind_unscheduled(client: kube::Client, node: String, events: EventRecorder) {
    let selector = watcher::Config::default().fields("spec.nodeName=");
    let api: Api<Pod> = Api::all(client.clone());
    let mut stream = std::pin::pin!(watcher::watcher(api, selector).default_backoff());
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) if wants_binding(&pod) => {
                bind(&client, &node, &pod, &events).await;
            }
            Ok(Event::Apply(_) | Event::InitApply(_) | Event::Delete(_) | Event::Init | Event::InitDone) => {}
            Err(error) => tracing::warn!(%error, "the watch of unscheduled pods was interrupted"),
        }
    }
}

async fn bind(client: &kube::Client, node: &str, pod: &Pod, events: &EventRecorder) {
    let namespace = pod.namespace().unwrap_or_default();
    let name = pod.name_any();
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            uid: pod.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            api_version: Some("v1".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let result = api
        .create_subresource::<_, k8s_openapi::apimachinery::pkg::apis::meta::v1::Status>(
            "binding",
            &name,
            &PostParams::default(),
            &binding,
        )
        .await;
    match result {
        Ok(_) => {
            let message = format!("Successfully assigned {namespace}/{name} to {node}");
            events.record(pod_reference(pod, None), EventType::Normal, event::SCHEDULED, message);
        }
        // Somebody else bound or deleted it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => {
            let message = format!("binding rejected: {error}");
            events.record(pod_reference(pod, None), EventType::Warning, event::FAILED_SCHEDULING, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::wants_binding;
    use serde_json::{Value, json};

    #[test]
    fn only_pods_that_wait_for_the_default_scheduler_are_bound() {
        let wants = |spec: Value| {
            wants_binding(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).expect("a pod"))
        };
        assert!(wants(json!({"containers": []})));
        assert!(wants(json!({"containers": [], "schedulerName": "default-scheduler"})));
        assert!(!wants(json!({"containers": [], "schedulerName": "mine"})));
        assert!(!wants(json!({"containers": [], "nodeName": "n"})));
        assert!(!wants(json!({"containers": [], "schedulingGates": [{"name": "g"}]})));
    }
}
