//! What of an object counts for names. Pure: objects in, facts out.

use std::net::IpAddr;

use hickory_proto::rr::Name;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The label of a slice that names its service
/// (<https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#ownership>).
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Namespace and name, in small letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

fn lower(text: &str) -> Box<str> {
    text.to_ascii_lowercase().into()
}

impl Place {
    pub(super) fn of(meta: &ObjectMeta) -> Place {
        Place {
            namespace: lower(meta.namespace.as_deref().unwrap_or_default()),
            name: lower(meta.name.as_deref().unwrap_or_default()),
        }
    }
}

/// What a service is for those who ask for its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Its own addresses; none as long as it has got none.
    Cluster(Vec<IpAddr>),
    /// Those of its endpoints.
    Endpoints,
    /// Another name; none if what it says is not a name.
    External(Option<Name>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Empty for a port without a name.
    pub(super) name: Box<str>,
    pub(super) protocol: Box<str>,
    pub(super) number: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceFacts {
    pub(super) target: Target,
    pub(super) ports: Vec<Port>,
    pub(super) publishes_not_ready: bool,
}

fn port(name: Option<&str>, protocol: Option<&str>, number: i32) -> Option<Port> {
    Some(Port {
        name: lower(name.unwrap_or_default()),
        protocol: lower(protocol.unwrap_or("TCP")),
        number: u16::try_from(number).ok()?,
    })
}

/// A name that a manifest gives, always meant from the root.
fn external_name(text: &str) -> Option<Name> {
    if text.parse::<IpAddr>().is_ok() || text.is_empty() {
        return None;
    }
    let mut name = Name::from_ascii(text).ok()?;
    name.set_fqdn(true);
    Some(name)
}

pub(super) fn service(service: &Service) -> ServiceFacts {
    let spec = service.spec.clone().unwrap_or_default();
    let single = spec.cluster_ip.iter();
    let all: Vec<&String> = match &spec.cluster_ips {
        Some(all) if !all.is_empty() => all.iter().collect(),
        _ => single.collect(),
    };
    let target = if spec.type_.as_deref() == Some("ExternalName") {
        Target::External(spec.external_name.as_deref().and_then(external_name))
    } else if all.iter().any(|address| *address == "None") {
        Target::Endpoints
    } else {
        Target::Cluster(all.iter().filter_map(|address| address.parse().ok()).collect())
    };
    let ports = spec.ports.iter().flatten();
    ServiceFacts {
        target,
        ports: ports
            .filter_map(|each| port(each.name.as_deref(), each.protocol.as_deref(), each.port))
            .collect(),
        publishes_not_ready: spec.publish_not_ready_addresses == Some(true),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Its `hostname`, or its address in a form that a label can hold.
    pub(super) host: Box<str>,
    pub(super) address: IpAddr,
    pub(super) ready: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SliceFacts {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) ports: Vec<Port>,
}

/// An address as a label: `10-1-2-3`, `fd00--1`.
fn dashed(address: IpAddr) -> Box<str> {
    address.to_string().replace(['.', ':'], "-").into()
}

/// The service that a slice belongs to, if any.
pub(super) fn service_of(slice: &EndpointSlice) -> Option<Place> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(Place { name: lower(name), ..Place::of(&slice.metadata) })
}

pub(super) fn slice(slice: &EndpointSlice) -> SliceFacts {
    let endpoints = slice.endpoints.iter().flatten().flat_map(|endpoint| {
        // Unknown counts as ready.
        let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false);
        let addresses = endpoint.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
        let host = endpoint.hostname.as_deref().filter(|host| !host.is_empty());
        addresses.map(move |address| Endpoint {
            host: host.map_or_else(|| dashed(address), lower),
            address,
            ready,
        })
    });
    let ports = slice.ports.iter().flatten();
    SliceFacts {
        endpoints: endpoints.collect(),
        ports: ports
            .filter_map(|each| port(each.name.as_deref(), each.protocol.as_deref(), each.port?))
            .collect(),
    }
}

/// The addresses of a pod that has not ended.
pub(super) fn pod_addresses(pod: &Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else { return Vec::new() };
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Vec::new();
    }
    let mut all: Vec<IpAddr> =
        status.pod_ips.iter().flatten().filter_map(|each| each.ip.parse().ok()).collect();
    let first = status.pod_ip.as_deref().and_then(|text| text.parse().ok());
    all.extend(first.filter(|first| !all.contains(first)));
    all
}

/// The address that a label of a pod's record means, in either family.
pub(super) fn undashed(label: &str) -> Option<IpAddr> {
    let v4 = label.replace('-', ".");
    v4.parse().ok().or_else(|| label.replace('-', ":").parse().ok())
}
