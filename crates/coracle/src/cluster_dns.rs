//! The cluster's DNS on this node: its sockets, the way of pods to them, its service. Without a packet filter nobody is led from
//! the service's address to it: pods ask it at the node's own address then, which is said once.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::str::FromStr;

use apiserver::ServiceRanges;
use dns::{DnsConfig, Sockets, Sources};
use informer::Informer;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use network::{AddressRange, DnsRoute, Network, RouteDnsError};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The domain of a cluster, unless another is wanted.
pub(crate) const USUAL_DOMAIN: &str = "cluster.local";
const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-dns";
const DNS_PORT: u16 = 53;

/// What `--cluster-dns` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// At this address.
    At(Ipv4Addr),
    /// Nowhere: pods ask the machine's resolvers.
    Nowhere,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<Ipv4Addr>() {
            _ if text == "none" => Ok(Self::Nowhere),
            Ok(address)
                if address.is_unspecified()
                    || address.is_loopback()
                    || address.is_link_local()
                    || address.is_multicast()
                    || address.is_broadcast() =>
            {
                Err("pods cannot ask there; name an address of the services' range, such as 10.43.0.10"
                    .to_owned())
            }
            Ok(address) => Ok(Self::At(address)),
            Err(_) => Err("must be an IPv4 address such as 10.43.0.10, or `none`".to_owned()),
        }
    }
}

impl Wanted {
    /// The address of the cluster's DNS on a node that has an API of its own.
    pub(crate) fn or_usual(wanted: Option<Wanted>, services: ServiceRanges) -> Option<Ipv4Addr> {
        match wanted {
            None => services.dns(),
            Some(Wanted::At(address)) => Some(address),
            Some(Wanted::Nowhere) => None,
        }
    }
}

/// The domain of a cluster.
pub(crate) fn domain(text: &str) -> Result<String, String> {
    DnsConfig::check_domain(text).map_err(|error| error.to_string())?;
    let domain = text.trim_end_matches('.').to_ascii_lowercase();
    match names::DnsSubdomain::parse(&domain) {
        Ok(_) => Ok(domain),
        Err(error) => Err(format!("{}; write a domain such as cluster.local", error.messages().join("; "))),
    }
}

/// What the DNS of a node answers for.
pub(crate) struct Names<'n> {
    /// The cluster's domain.
    pub(crate) domain: &'n str,
    /// The address at which it is asked.
    pub(crate) address: Ipv4Addr,
    /// The addresses of services.
    pub(crate) services: Vec<AddressRange>,
}

/// A DNS that runs.
pub(crate) struct ClusterDns {
    /// Where it listens for pods.
    for_pods: SocketAddrV4,
    /// Where pods ask.
    asked_at: Ipv4Addr,
    end: CancellationToken,
    tasks: JoinSet<()>,
}

impl ClusterDns {
    /// Starts it for the pods of a network; none where pods cannot reach it.
    pub(crate) async fn start(names: Names<'_>, network: &Network, sources: Sources) -> Option<ClusterDns> {
        match Self::try_to_start(names, network, sources).await {
            Ok(dns) => Some(dns),
            Err(reason) => {
                tracing::warn!(
                    reason,
                    "there is no cluster DNS on this node: its pods ask the machine's resolvers, and names of services are \
                     not found"
                );
                None
            }
        }
    }

    async fn try_to_start(
        names: Names<'_>,
        network: &Network,
        sources: Sources,
    ) -> Result<ClusterDns, String> {
        let Names { domain, address, services } = names;
        let IpAddr::V4(node) = network.node_address() else {
            return Err("the node has no IPv4 address for its pods".to_owned());
        };
        let sockets = Sockets::bind(node).map_err(|error| format!("it cannot listen: {error}"))?;
        let route = DnsRoute { service: address, pods: sockets.for_pods(), machine: sockets.for_machine() };
        let asked_at = match network.route_dns(route).await {
            Ok(()) => address,
            // Pods can name no port to their resolver.
            Err(RouteDnsError::Unsupported) if sockets.for_pods().port() == DNS_PORT => {
                tracing::warn!(
                    address = %node,
                    "without nf_tables the pods of this node ask the cluster DNS at the node's own address; names are found, \
                     also of services that have no route"
                );
                node
            }
            Err(error) => return Err(error.to_string()),
        };
        let config = DnsConfig::new(domain.to_owned(), address, services, network.ranges().to_vec());
        let for_pods = sockets.for_pods();
        let end = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let ending = end.clone();
        tasks.spawn(async move {
            if let Err(error) = dns::serve(config, sources, sockets, ending).await {
                tracing::error!(%error, "the cluster DNS did not start");
            }
        });
        Ok(ClusterDns { for_pods, asked_at, end, tasks })
    }

    /// The address at which pods of this node ask it.
    pub(crate) fn asked_at(&self) -> Ipv4Addr {
        self.asked_at
    }

    /// Lets its service lead to it, where others look for it.
    pub(crate) fn publish(&mut self, client: kube::Client) {
        let address = self.for_pods;
        let end = self.end.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = end.cancelled() => {}
                published = publish(&client, address) => {
                    if let Err(error) = published {
                        tracing::debug!(%error, "the slice of the cluster DNS was not written");
                    }
                }
            }
        });
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) {
        self.end.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Makes the service of the DNS, as every cluster has it, if there is none. Without it names are found all the same.
pub(crate) async fn ensure_service(client: &kube::Client, address: Ipv4Addr) {
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let found = match services.get_opt(NAME).await {
        Ok(None) => services.create(&PostParams::default(), &service(address)).await.map(|_| ()),
        Ok(Some(known)) => {
            let at = known.spec.and_then(|spec| spec.cluster_ip).unwrap_or_default();
            if at != address.to_string() {
                tracing::warn!(
                    service = at,
                    dns = %address,
                    "the service kube-system/kube-dns has another address than the cluster DNS; delete it, or set --cluster-dns"
                );
            }
            Ok(())
        }
        Err(error) => Err(error),
    };
    if let Err(error) = found {
        tracing::warn!(%error, "there is no service kube-system/kube-dns");
    }
}

fn service(address: Ipv4Addr) -> Service {
    let object = json!({
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {
            "k8s-app": NAME, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": address.to_string(),
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            ],
        },
    });
    // Each field is one of the type.
    serde_json::from_value(object).unwrap_or_default()
}

async fn publish(client: &kube::Client, at: SocketAddrV4) -> kube::Result<()> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), NAMESPACE);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {
            "kubernetes.io/service-name": NAME, "endpointslice.kubernetes.io/managed-by": "coracle"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [at.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [
            {"name": "dns", "port": at.port(), "protocol": "UDP"},
            {"name": "dns-tcp", "port": at.port(), "protocol": "TCP"},
        ],
    });
    slices.patch(NAME, &PatchParams::apply("coracle").force(), &Patch::Apply(slice)).await?;
    Ok(())
}

/// Caches of what names come from, filled for this process alone until `end`.
pub(crate) fn own_sources(client: &kube::Client, end: &CancellationToken) -> Sources {
    let sources =
        Sources { services: Informer::idle(), endpoint_slices: Informer::idle(), pods: Informer::idle() };
    tokio::spawn(sources.services.clone().follow(Api::all(client.clone()), "", end.clone()));
    tokio::spawn(sources.endpoint_slices.clone().follow(Api::all(client.clone()), "", end.clone()));
    tokio::spawn(sources.pods.clone().follow(Api::all(client.clone()), "", end.clone()));
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_dns_is_one_that_pods_can_ask() {
        assert_eq!("10.43.0.10".parse(), Ok(Wanted::At(Ipv4Addr::new(10, 43, 0, 10))));
        assert_eq!("none".parse(), Ok(Wanted::Nowhere));
        for wrong in ["", "::1", "127.0.0.53", "169.254.20.10", "0.0.0.0", "10.43.0", "10.43.0.10:53"] {
            assert!(wrong.parse::<Wanted>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_domain_is_made_of_labels() {
        assert_eq!(domain("Cluster.Example."), Ok("cluster.example".to_owned()));
        for wrong in ["", ".", "a b", "a_b", "-a", &"a.".repeat(60)] {
            assert!(domain(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_service_of_the_dns_is_as_users_know_it() {
        let service = service(Ipv4Addr::new(10, 43, 0, 10));
        let spec = service.spec.expect("a spec");
        assert_eq!(spec.cluster_ip.as_deref(), Some("10.43.0.10"));
        let names: Vec<_> = spec.ports.iter().flatten().filter_map(|port| port.name.clone()).collect();
        assert_eq!(names, ["dns", "dns-tcp"]);
    }
}
