//! What the Endpoints of a service are to hold. Pure.
//!
//! Names and rules are those of Kubernetes 1.36 (<https://kubernetes.io/docs/concepts/services-networking/service/#endpoints>).

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service, ServicePort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::backends::{self, Family, HEADLESS};
use crate::endpoint_slices::decision::set_trigger;
use crate::selector::Labels;

/// Names who keeps Endpoints.
pub(crate) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// What stands in [`MANAGED_BY`].
pub(crate) const MANAGER: &str = "endpoint-controller";
/// Says that addresses were left out.
pub(crate) const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Most addresses of one object.
pub(crate) const CAPACITY: usize = 1000;

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    Nothing,
    Create(Box<Endpoints>),
    Update(Box<Endpoints>),
    /// The service is gone, and takes them with it.
    Delete,
}

/// Decides about the Endpoints of a service; `pods` are those that its selector chooses.
pub(crate) fn decide(
    service: Option<&Service>,
    pods: &[Arc<Pod>],
    current: Option<&Endpoints>,
    trigger: Option<Timestamp>,
) -> Decision {
    let Some(service) = service else {
        return if current.is_some() { Decision::Delete } else { Decision::Nothing };
    };
    if !backends::is_kept(service) {
        return Decision::Nothing;
    }
    let (subsets, truncated) = truncated(subsets(service, pods));
    let mut labels: Labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if !backends::has_cluster_address(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if let Some(current) = current {
        let said = current.metadata.annotations.as_ref().and_then(|all| all.get(OVER_CAPACITY));
        if current.subsets.as_deref().unwrap_or_default() == subsets
            && current.metadata.labels.as_ref() == Some(&labels)
            && said.map(String::as_str) == truncated.then_some("truncated")
        {
            return Decision::Nothing;
        }
    }
    let mut metadata = current.map_or_else(
        || ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        |current| current.metadata.clone(),
    );
    metadata.labels = Some(labels);
    set_trigger(&mut metadata, trigger);
    if truncated {
        metadata.annotations.get_or_insert_default().insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(OVER_CAPACITY);
    }
    let endpoints = Box::new(Endpoints { metadata, subsets: Some(subsets) });
    match current {
        Some(_) => Decision::Update(endpoints),
        None if service.metadata.deletion_timestamp.is_some() => Decision::Nothing,
        None => Decision::Create(endpoints),
    }
}

/// An address, and whether its pod is ready.
type Address = (EndpointAddress, bool);

/// The ports of a service with the addresses behind each; ports with the same addresses share a subset.
fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let publishes = backends::publishes_not_ready(service);
    let family = backends::families(service).first().copied().unwrap_or(Family::V4);
    let mut behind: Vec<(Option<EndpointPort>, Vec<Address>)> = Vec::new();
    let mut put =
        |port: Option<EndpointPort>, address: &Address| match behind.iter_mut().find(|(own, _)| *own == port)
        {
            Some((_, addresses)) => addresses.push(address.clone()),
            None => behind.push((port, vec![address.clone()])),
        };
    let ports = backends::ports(service);
    let is_headless = service.spec.as_ref().is_some_and(backends::is_headless);
    for pod in pods.iter().filter(|pod| backends::may_serve(pod, publishes)) {
        let Some(address) = address(service, pod, family) else { continue };
        let address = (address, publishes || backends::is_ready(pod));
        if ports.is_empty() && is_headless {
            put(None, &address);
        }
        for port in ports {
            if let Some(number) = backends::target_port(pod, port) {
                put(Some(endpoint_port(port, number)), &address);
            }
        }
    }
    // Ports that stand in the order of the service, wherever their pods come first.
    let place = |port: &Option<EndpointPort>| {
        ports.iter().position(|own| {
            port.as_ref().is_some_and(|port| own.name == port.name && own.protocol == port.protocol)
        })
    };
    behind.sort_by_key(|(port, addresses)| {
        (place(port), addresses.iter().map(|(one, _)| one.ip.clone()).min())
    });
    let mut subsets: Vec<(BTreeSet<(String, String)>, EndpointSubset)> = Vec::new();
    for (port, mut addresses) in behind {
        addresses
            .sort_by(|(one, _), (other, _)| one.ip.cmp(&other.ip).then_with(|| uid(one).cmp(&uid(other))));
        let key: BTreeSet<_> = addresses.iter().map(|(one, _)| (one.ip.clone(), uid(one))).collect();
        if let Some((_, subset)) = subsets.iter_mut().find(|(own, _)| *own == key) {
            subset.ports.get_or_insert_default().extend(port);
            continue;
        }
        let of = |ready: bool| {
            let some: Vec<_> =
                addresses.iter().filter(|(_, own)| *own == ready).map(|(one, _)| one.clone()).collect();
            (!some.is_empty()).then_some(some)
        };
        let subset = EndpointSubset {
            addresses: of(true),
            not_ready_addresses: of(false),
            ports: port.map(|port| vec![port]),
        };
        subsets.push((key, subset));
    }
    subsets.into_iter().map(|(_, subset)| subset).collect()
}

fn uid(address: &EndpointAddress) -> String {
    address.target_ref.as_ref().and_then(|target| target.uid.clone()).unwrap_or_default()
}

fn address(service: &Service, pod: &Pod, family: Family) -> Option<EndpointAddress> {
    let ip = backends::pod_addresses(pod).into_iter().find(|address| Family::of(address) == Some(family))?;
    Some(EndpointAddress {
        ip: ip.to_owned(),
        hostname: backends::hostname(pod, service).map(str::to_owned),
        node_name: backends::node_name(pod).map(str::to_owned),
        target_ref: Some(backends::pod_reference(pod)),
    })
}

fn endpoint_port(port: &ServicePort, number: i32) -> EndpointPort {
    EndpointPort {
        name: port.name.clone(),
        port: number,
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    }
}

/// Leaves addresses out beyond the capacity, those that are not ready first, from each subset its share; answers whether it did.
fn truncated(mut subsets: Vec<EndpointSubset>) -> (Vec<EndpointSubset>, bool) {
    let count = |addresses: &Option<Vec<EndpointAddress>>| addresses.as_ref().map_or(0, Vec::len);
    let ready: usize = subsets.iter().map(|subset| count(&subset.addresses)).sum();
    let others: usize = subsets.iter().map(|subset| count(&subset.not_ready_addresses)).sum();
    if ready + others <= CAPACITY {
        return (subsets, false);
    }
    let cuts_ready = ready > CAPACITY;
    let (total, room) = if cuts_ready { (ready, CAPACITY) } else { (others, CAPACITY - ready) };
    let mut left = room;
    for subset in &mut subsets {
        if cuts_ready {
            subset.not_ready_addresses = None;
        }
        let cut = if cuts_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        let share = (count(cut) * room).div_ceil(total).min(left);
        left -= share.min(count(cut));
        if let Some(addresses) = cut {
            addresses.truncate(share);
        }
        if cut.as_ref().is_some_and(Vec::is_empty) {
            *cut = None;
        }
    }
    // The server takes no subset without addresses.
    subsets.retain(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some());
    (subsets, true)
}
