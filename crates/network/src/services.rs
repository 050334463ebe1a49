//! Services: where packets for their addresses go. This is the model, which knows no object of any API; what it becomes in the
//! packet filter is in `table`, what a change of it changes there is in `routes`, and `router` carries it out.
//!
//! A service port has frontends (addresses and ports that clients use) and backends (addresses and ports that answer). Which
//! backends count (ready, serving, terminating) is decided before it comes here.

mod flows;
mod router;
mod routes;
mod table;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::allocations::Protocol;
use crate::netlink::NetlinkError;
use crate::range::{AddressRange, Family};

pub(crate) use router::{LoopbackReach, RouterConfig, ServiceRouter, remove_services_of};

/// Which backends clients are led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// All.
    #[default]
    Cluster,
    /// Those on this node.
    Local,
}

/// One port of a service, for one family of addresses: a service of two families has each port twice. Addresses of the other
/// family count for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// What it is called where people look: `namespace/service:port`. Among the ports of its service it is the only one.
    pub name: String,
    /// The family of all addresses here, and of those of the machine at which the node's port is.
    pub family: Family,
    /// The transport protocol.
    pub protocol: Protocol,
    /// The port at its addresses, not 0.
    pub port: u16,
    /// Addresses that exist only here.
    pub cluster_addresses: Vec<IpAddr>,
    /// Addresses that others route to this machine.
    pub external_addresses: Vec<IpAddr>,
    /// The port at every address of this machine.
    pub node_port: Option<u16>,
    /// For so many seconds after its last connection a client is led to the same backend; not 0.
    pub affinity_seconds: Option<u32>,
    /// For clients of the cluster addresses.
    pub internal_policy: TrafficPolicy,
    /// For clients from outside, at external addresses and the node port. Pods and the machine itself are led to all backends.
    pub external_policy: TrafficPolicy,
    /// Who answers for the whole cluster.
    pub backends: Vec<SocketAddr>,
    /// Who answers on this node.
    pub local_backends: Vec<SocketAddr>,
}

impl ServicePort {
    /// The same without what is of the other family.
    fn of_its_family(mut self) -> Self {
        let family = self.family;
        for addresses in [&mut self.cluster_addresses, &mut self.external_addresses] {
            addresses.retain(|address| Family::of(*address) == family);
        }
        for backends in [&mut self.backends, &mut self.local_backends] {
            backends.retain(|backend| Family::of(backend.ip()) == family);
        }
        self
    }
}

/// Services by name (`namespace/service`), each with its ports. In a change, a service without ports is one that is gone.
pub type ServiceTable = BTreeMap<String, Vec<ServicePort>>;

/// What is done with the services of a node.
#[derive(Clone, Debug)]
pub enum ServiceUpdate {
    /// These are all there are.
    All {
        /// The services.
        services: ServiceTable,
        /// The addresses that services may have: one that none has is answered "no route" and does not leave the machine.
        ranges: Vec<AddressRange>,
    },
    /// These are other than before; the rest is as it was.
    Some(ServiceTable),
}

/// Why services are not routed as they should be.
#[derive(Debug, thiserror::Error)]
pub enum RouteServicesError {
    /// Redirections need nf_tables.
    #[error("this machine has no packet filter to redirect with")]
    Unsupported,
    /// The kernel refused.
    #[error("cannot write the routes of services to the packet filter")]
    Kernel(#[source] NetlinkError),
    /// The network is closed.
    #[error("the network of the node is closed")]
    Closed,
}

#[cfg(test)]
mod both_families;
#[cfg(test)]
mod tests;
