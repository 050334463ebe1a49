//! The service proxy of a node: from Services and EndpointSlices to the routes that [`network`] keeps.
//!
//! What a service becomes is decided in [`service_ports`], which is pure. The task ([`run`]) hears of changes from two informers, notes which
//! services they concern, and hands what those are now to the network, all that came together in one step. While one step is
//! done, the next is collected; nothing waits for a clock.

mod conversion;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informer::{Change, Informer, ObjectKey};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use network::{AddressRange, RouteServicesError, ServiceTable, ServiceUpdate};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use conversion::{SERVICE_NAME, service_ports};

/// Waited before everything is written again after the kernel refused, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Whose services are routed where.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// All services.
    pub services: Informer<Service>,
    /// All slices.
    pub slices: Informer<EndpointSlice>,
    /// The node that routes, by which backends are known to be its own.
    pub node: String,
    /// The addresses that services may have, as far as that is known: a range for each family.
    pub ranges: Vec<AddressRange>,
}

/// What changed since it was asked last.
#[derive(Default)]
struct Notes {
    /// Slices by the service to which they belong, then by name.
    slices: BTreeMap<ObjectKey, BTreeMap<String, Arc<EndpointSlice>>>,
    changed: BTreeSet<ObjectKey>,
}

impl Notes {
    fn slice_changed(&mut self, change: &Change<EndpointSlice>) {
        // A slice may be given to another service: it leaves the one it had.
        let (gone, here) = match change {
            Change::Added(now) => (None, Some(now)),
            Change::Changed { before, now } => (Some(before), Some(now)),
            Change::Removed(gone) => (Some(gone), None),
        };
        if let Some((service, name)) = gone.and_then(|slice| place(slice)) {
            if let Some(slices) = self.slices.get_mut(&service) {
                slices.remove(&name);
                if slices.is_empty() {
                    self.slices.remove(&service);
                }
            }
            self.changed.insert(service);
        }
        if let Some((slice, (service, name))) = here.and_then(|slice| Some((slice, place(slice)?))) {
            self.slices.entry(service.clone()).or_default().insert(name, Arc::clone(slice));
            self.changed.insert(service);
        }
    }
}

/// The service of a slice, and the slice's name.
fn place(slice: &EndpointSlice) -> Option<(ObjectKey, String)> {
    let service = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    let namespace = slice.metadata.namespace.clone().unwrap_or_default();
    Some((ObjectKey::new(namespace, service.clone()), slice.metadata.name.clone().unwrap_or_default()))
}

#[derive(Default)]
struct Shared {
    notes: Mutex<Notes>,
    news: Notify,
}

impl Shared {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // No holder can panic half-way through a change.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Notes)) {
        change(&mut self.notes());
        self.news.notify_one();
    }
}

/// Routes services until `shutdown`, by `route`: the network of the node. What is routed stays when it ends.
pub async fn run<F, R>(config: ProxyConfig, route: R, shutdown: CancellationToken)
where
    R: Fn(ServiceUpdate) -> F,
    F: Future<Output = Result<(), RouteServicesError>>,
{
    let shared = Arc::new(Shared::default());
    let for_services = Arc::clone(&shared);
    config.services.on_change(move |change| {
        let key = ObjectKey::of(&**change.object());
        for_services.note(|notes| {
            notes.changed.insert(key);
        });
    });
    let for_slices = Arc::clone(&shared);
    config.slices.on_change(move |change| for_slices.note(|notes| notes.slice_changed(change)));
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = fault::carried_on("proxy", || follow(&config, &shared, &route)) => {}
    }
}

async fn follow<F, R>(config: &ProxyConfig, shared: &Shared, route: &R)
where
    R: Fn(ServiceUpdate) -> F,
    F: Future<Output = Result<(), RouteServicesError>>,
{
    config.services.synced().await;
    config.slices.synced().await;
    let mut everything = true;
    let mut pause = PAUSES.0;
    loop {
        let update = if everything { config.all(shared) } else { config.changed(shared) };
        let routed = match &update {
            // Woken for what was already in the last step.
            ServiceUpdate::Some(changed) if changed.is_empty() => Ok(()),
            ServiceUpdate::Some(_) | ServiceUpdate::All { .. } => route(update).await,
        };
        match routed {
            Ok(()) => {
                everything = false;
                pause = PAUSES.0;
                shared.news.notified().await;
            }
            // Said when the network was opened; it stays so.
            Err(RouteServicesError::Unsupported | RouteServicesError::Closed) => std::future::pending().await,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(%error, cause, again_in = ?pause, "services are not routed as they are");
                everything = true;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

impl ProxyConfig {
    fn all(&self, shared: &Shared) -> ServiceUpdate {
        let mut notes = shared.notes();
        // Before the services are read: what changes from here on is noted.
        notes.changed.clear();
        let services = self
            .services
            .all()
            .iter()
            .map(|service| self.ports(&notes, &ObjectKey::of(&**service)))
            .collect();
        ServiceUpdate::All { services, ranges: self.ranges.clone() }
    }

    fn changed(&self, shared: &Shared) -> ServiceUpdate {
        let mut notes = shared.notes();
        let changed = std::mem::take(&mut notes.changed);
        ServiceUpdate::Some(changed.iter().map(|key| self.ports(&notes, key)).collect::<ServiceTable>())
    }

    fn ports(&self, notes: &Notes, key: &ObjectKey) -> (String, Vec<network::ServicePort>) {
        let ports = self.services.get(key).map(|service| {
            let slices = notes.slices.get(key).into_iter().flat_map(BTreeMap::values);
            service_ports(&service, slices.map(Arc::as_ref), &self.node)
        });
        (key.to_string(), ports.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
