//! The controller that shows Endpoints made by hand, of services without a selector, as EndpointSlices: who routes reads slices
//! only.

pub(crate) mod decision;

use std::sync::Arc;

use events::{EventRecorder, EventType};
use informer::ObjectKey;

use crate::controller::{Next, ReconcileError, Reconciler, is_conflict, run};
use crate::endpoint_slices::{follow_slices, slices_of, write};
use crate::ownership::object_reference;
use crate::pod_control::said;
use crate::queue::Queue;
use crate::{Informers, Speaker, Start};
use decision::{CAPACITY, MANAGER, decide, wants_mirror};

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Controller("endpointslicemirroring-controller"));
    let informers = start.informers().clone();
    let queue = Arc::new(Queue::default());
    let looks = Arc::clone(&queue);
    informers.endpoints.on_change(move |change| looks.add(ObjectKey::of(&**change.object())));
    let (looks, endpoints) = (Arc::clone(&queue), informers.endpoints.clone());
    informers.services.on_change(move |change| {
        let key = ObjectKey::of(&**change.object());
        if endpoints.get(&key).is_some() {
            looks.add(key);
        }
    });
    follow_slices(&informers, &queue, MANAGER);
    let caches = informers.clone();
    let synced = async move {
        caches.services.synced().await;
        caches.endpoints.synced().await;
        caches.endpoint_slices.synced().await;
    };
    let controller = Mirroring { informers, client, events };
    start.task(run(Arc::new(controller), queue, 1, synced, start.shutdown.clone()));
}

struct Mirroring {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
}

impl Reconciler for Mirroring {
    const NAME: &'static str = "endpointslicemirroring-controller";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let endpoints = self.informers.endpoints.get(&key);
        let service = self.informers.services.get(&key);
        let owner = endpoints.as_ref().and_then(|endpoints| endpoints.metadata.uid.as_deref());
        let slices = slices_of(&self.informers.endpoint_slices, &key, owner, MANAGER);
        let decision = decide(endpoints.as_deref(), service.as_deref(), &slices);
        let changes = !decision.plan.create.is_empty() || !decision.plan.update.is_empty();
        let tell = |reason: &'static str, message: String| {
            if let Some(endpoints) =
                endpoints.as_deref().filter(|endpoints| changes && wants_mirror(endpoints))
            {
                self.events.record(object_reference(endpoints), EventType::Warning, reason, message);
            }
        };
        if decision.invalid > 0 {
            tell(
                "InvalidAddresses",
                format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", decision.invalid),
            );
        }
        if decision.beyond > 0 {
            tell(
                "TooManyAddressesToMirror",
                format!(
                    "A max of {CAPACITY} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were \
                     skipped",
                    decision.beyond
                ),
            );
        }
        if changes {
            fault::point("mirroring.due");
        }
        let written =
            write(&self.client, &self.informers.endpoint_slices, &key.namespace, decision.plan).await;
        if let (Err(error), Some(endpoints)) = (&written, &endpoints)
            && !is_conflict(error)
        {
            let message = format!("Error updating EndpointSlices for Endpoints {key}: {}", said(error));
            let reference = object_reference(&**endpoints);
            self.events.record(reference, EventType::Warning, "FailedToUpdateEndpointSlices", message);
        }
        written?;
        if changes {
            fault::point("mirroring.written");
        }
        Ok(Next::Change)
    }
}

#[cfg(test)]
mod tests;
