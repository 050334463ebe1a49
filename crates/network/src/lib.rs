//! The pod network: an address and a routed link for each pod, the way out, host ports, and the files that name things
//! (`resolv.conf`, `hosts`, the host name).
//!
//! A pod is reached over a pair of virtual links: the pod's end is `eth0` with a /32 address and a default route over the
//! constant neighbour 169.254.1.1; the node's end carries a host route. There is no bridge. The way out is masqueraded in
//! an nf_tables table of the node's own. Where the machine has both families ([`has_both_families`]) there is the same again for
//! IPv6. Names and address range follow from the data directory, so that several nodes on
//! one machine do not collide.
//!
//! Tasks: one thread, started by [`Network::open`], owns the allocations, the netlink sockets and the packet filter. It reads
//! commands from a channel, answers each, and stops when the last [`Network`] handle is dropped. Nothing here runs on an
//! async worker, and no thread that outlives its call ever changes its network namespace.
//!
//! What a machine lacks (no nf_tables, no CAP_NET_ADMIN, forwarding that cannot be switched on) is a [`NetworkWarning`], said
//! once; pods then get what is left.

mod allocations;
mod claims;
mod dns_route;
mod dual_stack;
mod hosts;
mod identity;
mod links;
#[cfg(test)]
mod machine;
mod netlink;
mod nftables;
mod node_address;
mod packet_filter;
mod pods;
mod range;
mod resolver;
mod services;
mod sockets;

pub use allocations::{AllocateError, AllocationsError, HostPort, Protocol};
pub use claims::{ClaimRangeError, data_directories_on_this_machine};
pub use dns_route::DnsRoute;
pub use dual_stack::{NoIpv6, has_both_families, is_closed_to_pods};
pub use hosts::{HostAlias, HostnameError, HostnameFields, HostsFile, PodHostname, hosts_file, pod_hostname};
pub use identity::NodeIdentity;
pub use links::NamespaceError;
pub use netlink::NetlinkError;
pub use packet_filter::ApiRoute;
pub use pods::{
    GATEWAY, GATEWAY_V6, Ipv6Wish, Network, NetworkConfig, NetworkWarning, OpenNetworkError, PodNetwork,
    RouteApiError, RouteDnsError, SetupPodError, TeardownPodError,
};
pub use range::{AddressRange, Family, ParseRangeError};
pub use resolver::{
    ClusterDns, DnsConfig, DnsLimit, DnsPolicy, MISSING_CLUSTER_DNS, PodDns, ReadResolverError, ResolvConf,
    ResolverFiles, ResolverStamp, machine_resolv_conf, missing_cluster_dns_message, pod_dns,
};
pub use services::{RouteServicesError, ServicePort, ServiceTable, ServiceUpdate, TrafficPolicy};
pub use sockets::{ConnectInsideError, connect_inside, is_link_local};
