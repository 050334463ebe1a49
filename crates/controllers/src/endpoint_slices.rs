//! The controller of EndpointSlices: for each service with a selector, slices that say which pods stand behind it.

pub(crate) mod decision;
pub(crate) mod packing;

use std::sync::{Arc, Mutex, PoisonError};

use events::{EventRecorder, EventType};
use futures::future::try_join_all;
use informer::{Change, Informer, ObjectKey};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use crate::backends::{self, Triggers, ZONE};
use crate::controller::{
    Next, ReconcileError, Reconciler, is_conflict, is_namespace_terminating, is_not_found, run,
};
use crate::deletion::delete;
use crate::ownership::object_reference;
use crate::pod_control::said;
use crate::queue::Queue;
use crate::{Informers, Speaker, Start};
use decision::{MANAGED_BY, MANAGER, NodeFact, SERVICE_NAME, View, decide};
use packing::Plan;

/// Most endpoints of a slice, as upstream has it by default.
const CAPACITY: usize = 100;
/// How many services are looked at at once. A pod may stand behind hundreds of them, and the store commits together what is
/// written at the same time. Many more than of Endpoints, because it is the slices that are routed by.
const WORKERS: usize = 32;

/// Starts it. Services and pods ask for looks by `queue` ([`backends::follow`]).
pub(crate) fn start(start: &Start<'_>, queue: Arc<Queue>) {
    let (client, events) = start.speaker(Speaker::Controller("endpointslice-controller"));
    let informers = start.informers().clone();
    follow_slices(&informers, &queue, MANAGER);
    let caches = informers.clone();
    let synced = async move {
        caches.pods.synced().await;
        caches.services.synced().await;
        caches.endpoint_slices.synced().await;
        caches.nodes.synced().await;
    };
    let controller = EndpointSlices { informers, client, events, triggers: Mutex::default() };
    start.task(run(Arc::new(controller), queue, WORKERS, synced, start.shutdown.clone()));
}

/// Asks `queue` for a look at the service of each slice of `manager` that somebody changes or deletes.
pub(crate) fn follow_slices(informers: &Informers, queue: &Arc<Queue>, manager: &'static str) {
    let queue = Arc::clone(queue);
    informers.endpoint_slices.on_change(move |change| {
        let slice = match change {
            // One that is new was made by us, or is none of ours.
            Change::Added(_) => return,
            Change::Changed { now, .. } => now,
            Change::Removed(slice) => slice,
        };
        if let Some(service) = service_of(slice, manager) {
            queue.add(ObjectKey::new(slice.metadata.namespace.clone().unwrap_or_default(), service));
        }
    });
}

/// The service of a slice that `manager` keeps.
fn service_of<'s>(slice: &'s EndpointSlice, manager: &str) -> Option<&'s str> {
    let labels = slice.metadata.labels.as_ref()?;
    let is_ours = labels.get(MANAGED_BY).is_some_and(|own| own == manager);
    is_ours.then(|| labels.get(SERVICE_NAME)).flatten().map(String::as_str)
}

/// The slices of `manager` for a name: those that `owner` controls, and those that nobody does. Those of an owner that is gone
/// are left to the garbage collector.
pub(crate) fn slices_of(
    slices: &Informer<EndpointSlice>,
    key: &ObjectKey,
    owner: Option<&str>,
    manager: &str,
) -> Vec<Arc<EndpointSlice>> {
    let mut found = owner.map(|uid| slices.controlled_by(&key.namespace, uid)).unwrap_or_default();
    found.extend(slices.uncontrolled_in(&key.namespace));
    found.retain(|slice| {
        service_of(slice, manager) == Some(key.name.as_str()) && slice.metadata.deletion_timestamp.is_none()
    });
    found
}

struct EndpointSlices {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
    triggers: Mutex<Triggers>,
}

impl EndpointSlices {
    fn look(&self, service: &Service, key: &ObjectKey) -> Plan {
        let pods = backends::pods_of(&self.informers.pods, service);
        let slices =
            slices_of(&self.informers.endpoint_slices, key, service.metadata.uid.as_deref(), MANAGER);
        let node = |name: &str| match self.informers.nodes.get(&ObjectKey::new("", name)) {
            None => NodeFact::Missing,
            Some(node) => NodeFact::Present {
                zone: node.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE)).cloned(),
            },
        };
        let trigger = self.triggers.lock().unwrap_or_else(PoisonError::into_inner).look(service, &pods);
        let view = View { service, pods: &pods, slices: &slices, node: &node, trigger, capacity: CAPACITY };
        let decision = decide(&view);
        if !decision.without_node.is_empty() {
            // It is looked at again when the node comes.
            tracing::debug!(service = %key, pods = ?decision.without_node, "left out: their node is not there");
        }
        decision.plan
    }
}

impl Reconciler for EndpointSlices {
    const NAME: &'static str = "endpointslice-controller";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let service = self.informers.services.get(&key).filter(|service| backends::is_kept(service));
        let Some(service) = service else {
            // The slices of a service that is gone go with it.
            self.triggers.lock().unwrap_or_else(PoisonError::into_inner).forget(&key);
            return Ok(Next::Change);
        };
        let plan = self.look(&service, &key);
        let written = write(&self.client, &self.informers.endpoint_slices, &key.namespace, plan).await;
        if let Err(error) = &written
            && !is_conflict(error)
        {
            let message = format!("Error updating Endpoint Slices for Service {key}: {}", said(error));
            let reference = object_reference(&*service);
            self.events.record(reference, EventType::Warning, "FailedToUpdateEndpointSlices", message);
        }
        written?;
        Ok(Next::Change)
    }
}

/// Carries out what is planned: what is new and what changes first, so that no endpoint is ever missing.
///
/// # Errors
///
/// What the API says first; the rest is then done at the next look.
pub(crate) async fn write(
    client: &kube::Client,
    informer: &Informer<EndpointSlice>,
    namespace: &str,
    plan: Plan,
) -> kube::Result<()> {
    let api: &Api<EndpointSlice> = &Api::namespaced(client.clone(), namespace);
    let is_new = !plan.create.is_empty() || !plan.update.is_empty();
    let created = plan.create.into_iter().map(|slice| async move {
        match api.create(&PostParams::default(), &slice).await {
            Ok(created) => informer.learn(created),
            Err(error) if is_namespace_terminating(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    });
    let updated = plan.update.into_iter().map(|slice| async move {
        let key = ObjectKey::of(&slice);
        match api.replace(&key.name, &PostParams::default(), &slice).await {
            Ok(updated) => informer.learn(updated),
            // Its namespace goes, or somebody deleted it: then that is a change of its own.
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    });
    if is_new {
        fault::point("endpointslices.due");
        futures::future::try_join(try_join_all(created), try_join_all(updated)).await?;
        fault::point("endpointslices.written");
    }
    let deleted = plan.delete.iter().map(|slice| async move {
        delete(&**slice, api, informer, DeleteParams::default()).await?;
        fault::point("endpointslices.deleted");
        Ok::<(), kube::Error>(())
    });
    try_join_all(deleted).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
