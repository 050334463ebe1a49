//! The controller of ephemeral volumes: makes the claim of each, which belongs to the pod and goes with it.
//!
//! Source: <https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes> and the behaviour of
//! Kubernetes 1.36.

use std::sync::Arc;

use events::{EventRecorder, EventType};
use informer::ObjectKey;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;

use crate::controller::{self, Next, ReconcileError, Reconciler, is_already_there, is_namespace_terminating};
use crate::ownership::{controller_of, object_reference, owner_reference};
use crate::pod_control::said;
use crate::pod_state::is_active;
use crate::queue::Queue;
use crate::{Informers, Speaker, Start};

/// Its name, and that of its service account.
const NAME: &str = "ephemeral-volume-controller";
/// Pods that are looked at at the same time.
const WORKERS: usize = 2;

/// The claims that a pod's ephemeral volumes are. Pure.
fn claims_of(pod: &Pod) -> Vec<PersistentVolumeClaim> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let templates = volumes.filter_map(|volume| {
        Some((&volume.name, volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?))
    });
    templates
        .map(|(volume, template)| {
            let meta = template.metadata.clone().unwrap_or_default();
            let own = pod.metadata.name.as_deref().unwrap_or_default();
            PersistentVolumeClaim {
                metadata: ObjectMeta {
                    name: Some(format!("{own}-{volume}")),
                    namespace: pod.metadata.namespace.clone(),
                    labels: meta.labels,
                    annotations: meta.annotations,
                    owner_references: Some(vec![owner_reference(pod)]),
                    ..ObjectMeta::default()
                },
                spec: Some(template.spec.clone()),
                status: None,
            }
        })
        .collect()
}

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Controller(NAME));
    let informers = start.informers().clone();
    let queue = Arc::new(Queue::default());
    let has_ephemeral = |pod: &Pod| {
        let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        is_active(pod) && volumes.any(|volume| volume.ephemeral.is_some())
    };
    informers.pods.on_change({
        let queue = Arc::clone(&queue);
        move |change| {
            if let informer::Change::Added(pod) = change
                && has_ephemeral(pod)
            {
                queue.add(ObjectKey::of(&**pod));
            }
        }
    });
    informers.persistent_volume_claims.on_change({
        let (queue, pods) = (Arc::clone(&queue), informers.pods.clone());
        move |change| {
            // One that is missing again, or that stood in the way.
            if let informer::Change::Removed(claim) = change {
                for pod in pods.in_namespace(claim.metadata.namespace.as_deref().unwrap_or_default()) {
                    if has_ephemeral(&pod)
                        && claims_of(&pod).iter().any(|wanted| wanted.metadata.name == claim.metadata.name)
                    {
                        queue.add(ObjectKey::of(&*pod));
                    }
                }
            }
        }
    });
    let synced = {
        let informers = informers.clone();
        async move {
            informers.pods.synced().await;
            informers.persistent_volume_claims.synced().await;
        }
    };
    let reconciler = Arc::new(EphemeralClaims { informers, client, events });
    start.task(controller::run(reconciler, queue, WORKERS, synced, start.shutdown.clone()));
}

struct EphemeralClaims {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
}

impl Reconciler for EphemeralClaims {
    const NAME: &'static str = "ephemeral claims";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let Some(pod) = self.informers.pods.get(&key).filter(|pod| is_active(pod)) else {
            return Ok(Next::Change);
        };
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        for claim in claims_of(&pod) {
            let name = claim.metadata.name.clone().unwrap_or_default();
            let found = self.informers.persistent_volume_claims.get(&ObjectKey::new(&*key.namespace, &*name));
            if let Some(found) = found {
                self.check(&pod, &found);
                continue;
            }
            match claims.create(&PostParams::default(), &claim).await {
                Ok(created) => {
                    fault::point("ephemeral_claim.created");
                    self.informers.persistent_volume_claims.learn(created);
                }
                Err(error) if is_already_there(&error) => self.check(&pod, &claims.get(&name).await?),
                Err(error) if is_namespace_terminating(&error) => {}
                Err(error) => {
                    let message = format!("ephemeral volume claim {name}: {}", said(&error));
                    self.events.record(object_reference(&*pod), EventType::Warning, "FailedBinding", message);
                    return Err(error.into());
                }
            }
        }
        Ok(Next::Change)
    }
}

impl EphemeralClaims {
    /// A claim of that name that is not the pod's stays as it is; the pod waits.
    fn check(&self, pod: &Pod, claim: &PersistentVolumeClaim) {
        if controller_of(&claim.metadata).is_some_and(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref()) {
            return;
        }
        let (claim, pod_key) = (ObjectKey::of(claim), ObjectKey::of(pod));
        let message = format!("PVC {claim} was not created for pod {pod_key} (pod is not owner)");
        self.events.record(object_reference(pod), EventType::Warning, "FailedBinding", message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_ephemeral_volume_is_a_claim_that_belongs_to_its_pod() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"containers": [], "volumes": [
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }}},
                {"name": "other", "emptyDir": {}},
            ]},
        }))
        .expect("a pod");
        assert_eq!(
            serde_json::to_value(claims_of(&pod)).expect("JSON"),
            json!([{
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": "p-scratch", "namespace": "n", "labels": {"a": "b"},
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u",
                        "controller": true, "blockOwnerDeletion": true}],
                },
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }])
        );
    }
}
