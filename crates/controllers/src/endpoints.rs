//! The controller of Endpoints, the older form of EndpointSlices: one object a service with a selector.

pub(crate) mod decision;

use std::sync::{Arc, Mutex, PoisonError};

use events::{EventRecorder, EventType};
use informer::{Change, ObjectKey};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use crate::backends::{self, Triggers};
use crate::controller::{
    Next, ReconcileError, Reconciler, is_already_there, is_conflict, is_namespace_terminating, run,
};
use crate::deletion::delete;
use crate::ownership::object_reference;
use crate::pod_control::said;
use crate::queue::Queue;
use crate::{Informers, Speaker, Start};
use decision::{Decision, MANAGED_BY, MANAGER, decide};

/// How many services are looked at at once.
const WORKERS: usize = 4;

/// Starts it. Services and pods ask for looks by `queue` ([`backends::follow`]).
pub(crate) fn start(start: &Start<'_>, queue: Arc<Queue>) {
    let (client, events) = start.speaker(Speaker::Controller("endpoint-controller"));
    let informers = start.informers().clone();
    let looks = Arc::clone(&queue);
    informers.endpoints.on_change(move |change| match change {
        // What is left of a service that went while nobody looked goes as well.
        Change::Added(endpoints) | Change::Changed { now: endpoints, .. } => {
            let labels = endpoints.metadata.labels.as_ref();
            if labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|own| own == MANAGER) {
                looks.add(ObjectKey::of(&**endpoints));
            }
        }
        Change::Removed(endpoints) => looks.add(ObjectKey::of(&**endpoints)),
    });
    let caches = informers.clone();
    let synced = async move {
        caches.pods.synced().await;
        caches.services.synced().await;
        caches.endpoints.synced().await;
    };
    let controller = EndpointsController { informers, client, events, triggers: Mutex::default() };
    start.task(run(Arc::new(controller), queue, WORKERS, synced, start.shutdown.clone()));
}

struct EndpointsController {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
    triggers: Mutex<Triggers>,
}

impl EndpointsController {
    fn look(&self, service: Option<&Service>, current: Option<&Endpoints>, key: &ObjectKey) -> Decision {
        let mut triggers = self.triggers.lock().unwrap_or_else(PoisonError::into_inner);
        match service.filter(|service| backends::is_kept(service)) {
            Some(service) => {
                let pods = backends::pods_of(&self.informers.pods, service);
                let trigger = triggers.look(service, &pods);
                drop(triggers);
                decide(Some(service), &pods, current, trigger)
            }
            None => {
                triggers.forget(key);
                drop(triggers);
                decide(service, &[], current, None)
            }
        }
    }

    async fn carry_out(
        &self,
        key: &ObjectKey,
        current: Option<&Endpoints>,
        decision: Decision,
    ) -> kube::Result<()> {
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
        let cache = &self.informers.endpoints;
        if !matches!(decision, Decision::Nothing) {
            fault::point("endpoints.due");
        }
        match decision {
            Decision::Nothing => return Ok(()),
            Decision::Create(endpoints) => match api.create(&PostParams::default(), &endpoints).await {
                Ok(created) => cache.learn(created),
                // Somebody was quicker: the watch brings it.
                Err(error) if is_namespace_terminating(&error) || is_already_there(&error) => {}
                Err(error) => return Err(error),
            },
            Decision::Update(endpoints) => {
                match api.replace(&key.name, &PostParams::default(), &endpoints).await {
                    Ok(updated) => cache.learn(updated),
                    Err(error) if is_namespace_terminating(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Decision::Delete => {
                if let Some(current) = current {
                    delete(current, &api, cache, DeleteParams::default()).await?;
                }
            }
        }
        fault::point("endpoints.written");
        Ok(())
    }
}

impl Reconciler for EndpointsController {
    const NAME: &'static str = "endpoint-controller";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let service = self.informers.services.get(&key);
        let current = self.informers.endpoints.get(&key);
        let decision = self.look(service.as_deref(), current.as_deref(), &key);
        let reason = match &decision {
            Decision::Create(_) => Some(("FailedToCreateEndpoint", "create")),
            Decision::Update(_) => Some(("FailedToUpdateEndpoint", "update")),
            Decision::Nothing | Decision::Delete => None,
        };
        let done = self.carry_out(&key, current.as_deref(), decision).await;
        if let (Err(error), Some((reason, verb)), Some(service)) = (&done, reason, &service)
            && !is_conflict(error)
        {
            let message = format!("Failed to {verb} endpoint {key}: {}", said(error));
            self.events.record(object_reference(&**service), EventType::Warning, reason, message);
        }
        done?;
        Ok(Next::Change)
    }
}

#[cfg(test)]
mod tests;
