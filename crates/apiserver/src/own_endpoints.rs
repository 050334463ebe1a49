//! Where pods reach this API: Endpoints and the slice of the service `default/kubernetes`, both of that name. They have no
//! controller; the server keeps them itself, as upstream's does, and sets right what somebody else makes of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use serde_json::{Value, json};
use store::{Event, Watch};
use tokio::sync::watch;

use crate::kinds::Kind;
use crate::namespaces::ensure_of;
use crate::object::map_mut;
use crate::server::Server;
use crate::status::ApiError;
use crate::writing::{Candidate, Part, Write, update_object};

/// Name of service, Endpoints and slice.
const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";
/// When it is tried again after a write failed.
const AGAIN: Duration = Duration::from_secs(5);

/// The address, as far as it is known; whoever changes it wakes the task.
pub(crate) type ReachedAt = watch::Sender<Option<SocketAddr>>;

/// Starts the task that keeps both objects true.
pub(crate) fn spawn(server: &Arc<Server>) {
    let closing = server.closing().clone();
    let mut address = server.reached_at.subscribe();
    let server = Arc::downgrade(server);
    tokio::spawn(async move {
        let work = async {
            loop {
                let Some(reached) = *address.borrow_and_update() else {
                    if address.changed().await.is_err() {
                        return;
                    }
                    continue;
                };
                let Some(owner) = server.upgrade() else { return };
                // Watches first: what happens meanwhile wakes the task again.
                let changed = changed(&owner);
                let kept = keep(&owner, reached).await;
                drop(owner);
                let pause = if kept.is_ok() { Duration::MAX } else { AGAIN };
                tokio::select! {
                    told = address.changed() => if told.is_err() { return },
                    goes_on = changed => if !goes_on { return },
                    () = tokio::time::sleep(pause) => {}
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = closing.cancelled() => {}
        }
    });
}

fn kinds(server: &Server) -> Option<[&Arc<Kind>; 2]> {
    Some([server.kinds.core("endpoints")?, server.kinds.find("discovery.k8s.io", "v1", "endpointslices")?])
}

/// Resolves when one of the two objects changes; false when the store is closed.
fn changed(server: &Server) -> impl Future<Output = bool> + use<> {
    let revision = server.store.revision();
    let watches = kinds(server)
        .map(|kinds| kinds.map(|kind| server.store.watch(kind.collection(), Some(NAMESPACE), revision).ok()));
    async move {
        let Some([Some(endpoints), Some(slices)]) = watches else { return true };
        let (one, other) = (Box::pin(changed_in(endpoints)), Box::pin(changed_in(slices)));
        select(one, other).await.factor_first().0
    }
}

async fn changed_in(mut watch: Watch) -> bool {
    loop {
        match watch.next().await {
            Ok(Some(events)) => {
                let is_own = |event: &Event| event.object.key().name() == NAME;
                if events.iter().any(is_own) {
                    return true;
                }
            }
            Ok(None) => return false,
            // Something was missed.
            Err(_) => return true,
        }
    }
}

/// Makes both objects true.
pub(crate) async fn keep(server: &Arc<Server>, address: SocketAddr) -> Result<(), ApiError> {
    let Some([endpoints, slices]) = kinds(server) else { return Ok(()) };
    let outcome = match keep_one(server, endpoints, endpoints_of(address)).await {
        Ok(()) => keep_one(server, slices, slice_of(address)).await,
        failed => failed,
    };
    if let Err(error) = &outcome {
        tracing::warn!(%address, %error, "the endpoints of default/kubernetes cannot be kept");
    }
    outcome
}

async fn keep_one(server: &Arc<Server>, kind: &Arc<Kind>, wanted: Value) -> Result<(), ApiError> {
    ensure_of(server, kind, NAMESPACE, wanted.clone()).await?;
    let write = Write::of_server(server, kind, NAMESPACE);
    let make = |old: &Value| {
        let mut object = old.clone();
        for name in ["subsets", "addressType", "endpoints", "ports"] {
            if let Some(value) = wanted.get(name) {
                object[name] = value.clone();
            }
        }
        let labels = map_mut(&mut object["metadata"], "labels");
        labels.extend(wanted["metadata"]["labels"].as_object().cloned().unwrap_or_default());
        Ok(Candidate { object, warnings: Vec::new(), keeps_version: false })
    };
    match Box::pin(update_object(&write, NAME, Part::Main, make)).await {
        Ok(_) => Ok(()),
        // The family of a slice never changes: another one takes its place.
        Err(ApiError::Invalid { .. }) if kind.plural() == "endpointslices" => {
            let _ = server.store.delete(write.key(NAME), None).await;
            ensure_of(server, kind, NAMESPACE, wanted).await
        }
        Err(error) => Err(error),
    }
}

fn endpoints_of(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{
            "addresses": [{"ip": address.ip().to_string()}],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
        }],
    })
}

fn slice_of(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    })
}
