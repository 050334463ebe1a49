//! What a Service and its EndpointSlices are as ports that the network routes: for each family of which the service has addresses,
//! with the slices of that family. Pure.
//!
//! Facts: <https://kubernetes.io/docs/reference/networking/virtual-ips/>,
//! <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#conditions>.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use network::{Family, Protocol, ServicePort, TrafficPolicy};

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
    let of_family = |addresses: &[IpAddr], family: Family| -> Vec<IpAddr> {
        addresses.iter().copied().filter(|address| Family::of(*address) == family).collect()
    };
    let families = [Family::V4, Family::V6].into_iter().filter_map(|family| {
        let own = of_family(&cluster_addresses, family);
        (!own.is_empty()).then_some((family, own))
    });
    let backends = Backends::of(slices);
    let external_addresses = external_addresses(service, spec);
    let has_node_ports = matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"));
    let meta = &service.metadata;
    let full_name = format!(
        "{}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    );
    let port_of = |(family, own): &(Family, Vec<IpAddr>), port: &k8s_openapi::api::core::v1::ServicePort| {
        let protocol = protocol(port.protocol.as_deref())?;
        let name = port.name.as_deref().unwrap_or_default();
        let candidates = backends.by_port.get(&(*family, name, protocol)).map_or(&[][..], Vec::as_slice);
        Some(ServicePort {
            name: if name.is_empty() { full_name.clone() } else { format!("{full_name}:{name}") },
            family: *family,
            protocol,
            port: number(port.port)?,
            cluster_addresses: own.clone(),
            external_addresses: of_family(&external_addresses, *family),
            node_port: port.node_port.filter(|_| has_node_ports).and_then(number),
            affinity_seconds: affinity(spec),
            internal_policy: policy(spec.internal_traffic_policy.as_deref()),
            external_policy: policy(spec.external_traffic_policy.as_deref()),
            backends: chosen(candidates.iter()),
            local_backends: chosen(candidates.iter().filter(|one| one.node == Some(node))),
        })
    };
    let ports = spec.ports.as_deref().unwrap_or_default();
    families
        .flat_map(|family| ports.iter().filter_map(|port| port_of(&family, port)).collect::<Vec<_>>())
        .collect()
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
fn routable(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let is_special = match address {
        IpAddr::V4(address) => is_special_v4(address),
        IpAddr::V6(address) => is_special_v6(address),
    };
    (!is_special && !network::is_closed_to_pods(address)).then_some(address)
}

fn is_special_v4(address: Ipv4Addr) -> bool {
    address.is_unspecified()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
}

/// Addresses of IPv4 in the form of IPv6 are none of IPv6.
fn is_special_v6(address: Ipv6Addr) -> bool {
    address.is_unspecified()
        || address.is_loopback()
        || address.is_unicast_link_local()
        || address.is_multicast()
        || address.to_ipv4_mapped().is_some()
}

fn sorted(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    addresses.collect::<BTreeSet<_>>().into_iter().collect()
}

fn cluster_addresses(spec: &ServiceSpec) -> Vec<IpAddr> {
    let all = spec.cluster_ips.as_deref().unwrap_or_default().iter().chain(&spec.cluster_ip);
    // `None` of a headless service is no address.
    sorted(all.filter_map(|text| routable(text)))
}

/// External addresses, and those that a load balancer outside leads here. One that only some may use is nobody's here.
fn external_addresses(service: &Service, spec: &ServiceSpec) -> Vec<IpAddr> {
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
    address: SocketAddr,
    ready: bool,
    /// It ends, and still answers.
    serving_its_end: bool,
    node: Option<&'s str>,
}

/// What the slices of a service hold, by family, name and protocol of the port.
struct Backends<'s> {
    by_port: BTreeMap<(Family, &'s str, Protocol), Vec<Candidate<'s>>>,
}

impl<'s> Backends<'s> {
    fn of(slices: impl Iterator<Item = &'s EndpointSlice>) -> Self {
        let mut by_port: BTreeMap<_, Vec<Candidate<'s>>> = BTreeMap::new();
        for slice in slices {
            let family = match slice.address_type.as_str() {
                "IPv4" => Family::V4,
                "IPv6" => Family::V6,
                // Names, which others look up.
                _ => continue,
            };
            for port in slice.ports.as_deref().unwrap_or_default() {
                let Some(protocol) = protocol(port.protocol.as_deref()) else { continue };
                // A slice may leave the number out: "all ports", which a service cannot mean.
                let Some(number) = port.port.and_then(number) else { continue };
                let name = port.name.as_deref().unwrap_or_default();
                let candidates = by_port.entry((family, name, protocol)).or_default();
                for endpoint in slice.endpoints.as_deref().unwrap_or_default() {
                    candidates.extend(candidate(endpoint, family, number));
                }
            }
        }
        Self { by_port }
    }
}

/// Only the first address of an endpoint counts; all of one endpoint are the same pod.
fn candidate(endpoint: &Endpoint, family: Family, port: u16) -> Option<Candidate<'_>> {
    let address = endpoint.addresses.first().and_then(|text| routable(text))?;
    if Family::of(address) != family {
        return None;
    }
    let conditions = endpoint.conditions.as_ref();
    let unless_said = |said: Option<bool>| said.unwrap_or(true);
    let terminating = conditions.and_then(|conditions| conditions.terminating).unwrap_or(false);
    Some(Candidate {
        address: SocketAddr::new(address, port),
        ready: unless_said(conditions.and_then(|conditions| conditions.ready)),
        serving_its_end: terminating && unless_said(conditions.and_then(|conditions| conditions.serving)),
        node: endpoint.node_name.as_deref(),
    })
}

/// Who is ready; if nobody is, who ends and still answers.
fn chosen<'c>(candidates: impl Iterator<Item = &'c Candidate<'c>>) -> Vec<SocketAddr> {
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
