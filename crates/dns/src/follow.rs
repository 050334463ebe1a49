//! From the caches of the API to the zone: each change of an object, as it comes.

use std::sync::{Arc, PoisonError, RwLock};

use informer::{Change, Informer, Kind};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::zone::Zone;

/// Where names come from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// All services.
    pub services: Informer<Service>,
    /// All slices of endpoints.
    pub endpoint_slices: Informer<EndpointSlice>,
    /// All pods.
    pub pods: Informer<Pod>,
}

impl Sources {
    /// Puts all that is known, and each change from now on, into the zone.
    pub(crate) fn fill(&self, zone: &Arc<RwLock<Zone>>) {
        hear(&self.services, zone, |zone, change| match change {
            Change::Added(now) | Change::Changed { now, .. } => zone.set_service(now),
            Change::Removed(last) => zone.remove_service(last),
        });
        hear(&self.endpoint_slices, zone, |zone, change| match change {
            Change::Added(now) => zone.set_slice(now, None),
            Change::Changed { before, now } => zone.set_slice(now, Some(before)),
            Change::Removed(last) => zone.remove_slice(last),
        });
        hear(&self.pods, zone, |zone, change| match change {
            Change::Added(now) => zone.set_pod(now, None),
            Change::Changed { before, now } => zone.set_pod(now, Some(before)),
            Change::Removed(last) => zone.remove_pod(last),
        });
    }

    /// Waits until all that the API had is known.
    pub(crate) async fn filled(&self) {
        self.services.synced().await;
        self.endpoint_slices.synced().await;
        self.pods.synced().await;
    }
}

fn hear<K: Kind>(informer: &Informer<K>, zone: &Arc<RwLock<Zone>>, put: fn(&mut Zone, &Change<K>)) {
    let zone = Arc::clone(zone);
    informer.on_change(move |change| {
        // A change of a zone ends before anything else can be asked of it.
        put(&mut zone.write().unwrap_or_else(PoisonError::into_inner), change);
    });
}
