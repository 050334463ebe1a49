//! The services at a server's start: what those of the store hold, and the one that leads to the server itself.

use std::net::IpAddr;
use std::sync::Arc;

use admission::IpFamily;
use serde_json::{Value, json};
use store::Key;

use super::core;
use crate::object::{self, text};
use crate::server::Server;
use crate::status::ApiError;
use crate::writing::{Candidate, Part, Write, update_object};

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";

/// Notes what the stored services hold. Those that have addresses of no range keep them, and are told once.
pub(super) fn note_all(server: &Server) -> Result<(), ApiError> {
    let services = core(server, "services")?;
    let listing = server.store.list(services.collection(), None, None, None).map_err(ApiError::from_read)?;
    let mut outside: Vec<(String, IpAddr)> = Vec::new();
    for service in &listing.objects {
        let (key, service) = (service.key(), object::tree(service));
        let is_own = (key.namespace(), key.name()) == (NAMESPACE, NAME);
        let addresses = server.addresses.note(&service);
        // That one is made anew.
        outside.extend(
            addresses
                .into_iter()
                .filter(|_| !is_own)
                .map(|address| (format!("{}/{}", key.namespace(), key.name()), address)),
        );
    }
    if let Some((service, address)) = outside.first() {
        tracing::warn!(
            count = outside.len(),
            service,
            %address,
            ranges = %server.addresses.ranges(),
            "services have addresses that are of no range of this server: they keep them, and their other addresses work on; \
             set --service-cidr as it was, or make these services anew"
        );
    }
    Ok(())
}

/// Makes sure that there is the service that leads to this server, at the first address and with the port that it has now.
pub(super) async fn ensure(server: &Arc<Server>) -> Result<(), ApiError> {
    let kind = core(server, "services")?;
    let port = server.config.advertise.map_or(6443, |address| address.port());
    let address = server.addresses.ranges().kubernetes();
    let wanted = address.to_string();
    let key = Key::new(kind.collection(), NAMESPACE, NAME);
    if let Some(stored) = server.store.get(&key).map(|stored| object::tree(&stored))
        && text(&stored, &["spec", "clusterIP"]) != wanted
    {
        // The address of a service never changes: it was made for other ranges.
        server.store.delete(key, None).await.map_err(|error| ApiError::from_write(kind, NAME, error))?;
        server.addresses.release_service(&stored);
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": wanted,
            "ipFamilies": [IpFamily::of(address).name()],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    });
    match super::ensure(server, "services", NAMESPACE, service).await {
        // Another one of the ranges before has the address: it is not taken away, and this is no reason not to serve.
        Err(error @ ApiError::Invalid { .. }) => {
            tracing::warn!(%error, "there is no service default/kubernetes: delete the one that has its address");
            return Ok(());
        }
        done => done?,
    }
    renew_port(server, port).await
}

/// The server may listen elsewhere than the last time.
async fn renew_port(server: &Arc<Server>, port: u16) -> Result<(), ApiError> {
    let write = Write::of_server(server, core(server, "services")?, NAMESPACE);
    let make = |old: &Value| {
        let mut object = old.clone();
        if let Some(target) = object.pointer_mut("/spec/ports/0/targetPort") {
            *target = json!(port);
        }
        Ok(Candidate { object, warnings: Vec::new(), keeps_version: false })
    };
    update_object(&write, NAME, Part::Main, make).await.map(drop)
}
