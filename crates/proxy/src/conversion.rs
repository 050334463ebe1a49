//! What a Service and its EndpointSlices are as ports that the network routes. Pure.
//!
//! Facts: <https://kubernetes.io/docs/reference/networking/virtual-ips/>,
//! <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#conditions>.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use network::{Protocol, ServicePort, TrafficPolicy};

/// The label that says which Service a slice belongs to.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Labels of services that somebody else routes, or nobody.
const NOT_OURS: [&str; 2] = ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"];
/// How long a client keeps its backend when nothing else is said.
const AFFINITY_SECONDS: u32 = 10_800;

/// The ports of a service as the node of that name routes them. None for a service without addresses of its own.
#[must_use]
pub fn service_ports<'s>(
    service: &Service,
    slices: impl Iterator<Item = &'s EndpointSlice>,
    node: &str,
) -> Vec<ServicePort> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let labels = service.metadata.labels.as_ref();
    if labels.is_some_and(|labels| NOT_OURS.iter().any(|label| labels.contains_key(*label))) {
        return Vec::new();
    }
    let cluster_addresses = cluster_addresses(spec);
    if spec.type_.as_deref() == Some("ExternalName") || cluster_addresses.is_empty() {
        return Vec::new();
    }
    let backends = Backends::of(slices);
    let external_addresses = external_addresses(service, spec);
    let has_node_ports = matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"));
    let meta = &service.metadata;
    let full_name = format!(
        "{}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    );
    let ports = spec.ports.as_deref().unwrap_or_default().iter().filter_map(|port| {
        let protocol = protocol(port.protocol.as_deref())?;
        let name = port.name.as_deref().unwrap_or_default();
        let candidates = backends.by_port.get(&(name, protocol)).map_or(&[][..], Vec::as_slice);
        Some(ServicePort {
            name: if name.is_empty() { full_name.clone() } else { format!("{full_name}:{name}") },
            protocol,
            port: number(port.port)?,
            cluster_addresses: cluster_addresses.clone(),
            external_addresses: external_addresses.clone(),
            node_port: port.node_port.filter(|_| has_node_ports).and_then(number),
            affinity_seconds: affinity(spec),
            internal_policy: policy(spec.internal_traffic_policy.as_deref()),
            external_policy: policy(spec.external_traffic_policy.as_deref()),
            backends: chosen(candidates.iter()),
            local_backends: chosen(candidates.iter().filter(|one| one.node == Some(node))),
        })
    });
    ports.collect()
}

fn protocol(text: Option<&str>) -> Option<Protocol> {
    match text {
        None | Some("TCP" | "") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

fn number(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port != 0)
}

fn policy(text: Option<&str>) -> TrafficPolicy {
    if text == Some("Local") { TrafficPolicy::Local } else { TrafficPolicy::Cluster }
}

fn affinity(spec: &ServiceSpec) -> Option<u32> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| config.timeout_seconds);
    Some(seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|seconds| *seconds > 0))
        .map(|seconds| seconds.unwrap_or(AFFINITY_SECONDS))
}

/// An address to which packets may be led: whoever may write a slice must not reach what only the machine itself reaches.
fn routable(text: &str) -> Option<Ipv4Addr> {
    let address: Ipv4Addr = text.parse().ok()?;
    let special = address.is_unspecified()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast();
    (!special).then_some(address)
}

fn sorted(addresses: impl Iterator<Item = Ipv4Addr>) -> Vec<Ipv4Addr> {
    addresses.collect::<BTreeSet<_>>().into_iter().collect()
}

fn cluster_addresses(spec: &ServiceSpec) -> Vec<Ipv4Addr> {
    let all = spec.cluster_ips.as_deref().unwrap_or_default().iter().chain(&spec.cluster_ip);
    // `None` of a headless service is no address.
    sorted(all.filter_map(|text| routable(text)))
}

/// External addresses, and those that a load balancer outside leads here. One that only some may use is nobody's here.
fn external_addresses(service: &Service, spec: &ServiceSpec) -> Vec<Ipv4Addr> {
    let balanced = spec.type_.as_deref() == Some("LoadBalancer")
        && spec.load_balancer_source_ranges.as_ref().is_none_or(Vec::is_empty);
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|status| status.ingress.as_deref()).unwrap_or_default();
    let ingress = ingress
        .iter()
        .filter(|one| balanced && one.ip_mode.as_deref() != Some("Proxy"))
        .filter_map(|one| one.ip.as_ref());
    let external = spec.external_ips.as_deref().unwrap_or_default().iter();
    sorted(external.chain(ingress).filter_map(|text| routable(text)))
}

/// An address of an endpoint at a port.
struct Candidate<'s> {
    address: SocketAddrV4,
    ready: bool,
    /// It ends, and still answers.
    serving_its_end: bool,
    node: Option<&'s str>,
}

/// What the slices of a service hold, by name and protocol of the port.
struct Backends<'s> {
    by_port: BTreeMap<(&'s str, Protocol), Vec<Candidate<'s>>>,
}

impl<'s> Backends<'s> {
    fn of(slices: impl Iterator<Item = &'s EndpointSlice>) -> Self {
        let mut by_port: BTreeMap<_, Vec<Candidate<'s>>> = BTreeMap::new();
        for slice in slices.filter(|slice| slice.address_type == "IPv4") {
            for port in slice.ports.as_deref().unwrap_or_default() {
                let Some(protocol) = protocol(port.protocol.as_deref()) else { continue };
                // A slice may leave the number out: "all ports", which a service cannot mean.
                let Some(number) = port.port.and_then(number) else { continue };
                let name = port.name.as_deref().unwrap_or_default();
                let candidates = by_port.entry((name, protocol)).or_default();
                for endpoint in slice.endpoints.as_deref().unwrap_or_default() {
                    candidates.extend(candidate(endpoint, number));
                }
            }
        }
        Self { by_port }
    }
}

/// Only the first address of an endpoint counts; all of one endpoint are the same pod.
fn candidate(endpoint: &Endpoint, port: u16) -> Option<Candidate<'_>> {
    let address = endpoint.addresses.first().and_then(|text| routable(text))?;
    let conditions = endpoint.conditions.as_ref();
    let unless_said = |said: Option<bool>| said.unwrap_or(true);
    let terminating = conditions.and_then(|conditions| conditions.terminating).unwrap_or(false);
    Some(Candidate {
        address: SocketAddrV4::new(address, port),
        ready: unless_said(conditions.and_then(|conditions| conditions.ready)),
        serving_its_end: terminating && unless_said(conditions.and_then(|conditions| conditions.serving)),
        node: endpoint.node_name.as_deref(),
    })
}

/// Who is ready; if nobody is, who ends and still answers.
fn chosen<'c>(candidates: impl Iterator<Item = &'c Candidate<'c>>) -> Vec<SocketAddrV4> {
    let (mut ready, mut ending) = (BTreeSet::new(), BTreeSet::new());
    for candidate in candidates {
        if candidate.ready {
            ready.insert(candidate.address);
        } else if candidate.serving_its_end {
            ending.insert(candidate.address);
        }
    }
    if ready.is_empty() { ending } else { ready }.into_iter().collect()
}

#[cfg(test)]
mod tests;
