//! What the node's own tables say: the way out, host ports, and what pods may not reach. There is one table for each family of
//! which pods have addresses; that of IPv6 lacks the ways to the API and the DNS, which are services of IPv4.
//!
//! ```text
//! guard        (before everything)  from a pod to 127.0.0.0/8 or 169.254.0.0/16: dropped; over IPv6 also under another
//!                                   address than its own (for IPv4 `rp_filter` does that)
//! forward                           to 169.254.0.0/16 from a pod, also after a redirection: dropped
//! arriving, leaving (destination)   to an address of this machine: see host_ports
//! host_ports                        one rule for each host port of each pod
//! api_arriving, api_leaving         to the service of the API: to where this node's API listens for its pods
//! api_guard    (before everything)  from a pod to a port of this machine on which the API listens: dropped, because the
//!                                   service is the only way
//! dns_guard, dns_arriving, dns_leaving   see [`crate::dns_route`]
//! way_out      (source)             a pod that talks to itself over a redirection, the machine's own loopback address
//!                                   towards a pod, a pod towards anything that is no pod of this node: masqueraded
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};

use crate::allocations::{Allocation, Allocations, Protocol};
use crate::dns_route::{self, DnsRoute};
use crate::dual_stack::closed_to_pods;
use crate::identity::NodeIdentity;
use crate::netlink::{Message, NetlinkError, NetlinkSocket};
use crate::nftables::{
    ChainType, Hook, Rule, Table, TransportNumber, add_address_pairs, commit, flush_chain,
    make_address_pair_set, make_base_chain, make_chain, make_table, remove_address_pairs, remove_table,
};
use crate::range::{AddressRange, Family};

const TCP: TransportNumber = TransportNumber(6);
const HOST_PORTS: &str = "host_ports";
const ITSELF: &str = "pod_itself";

const API_ARRIVING: &str = "api_arriving";
const API_LEAVING: &str = "api_leaving";
const API_GUARD: &str = "api_guard";

/// How pods reach the API: at the address of its service, and in no other way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRoute {
    /// Address and port of the service.
    pub service: SocketAddrV4,
    /// The port of the node's own address on which the API listens for pods.
    pub port: u16,
    /// Ports of this machine on which the API listens for others.
    pub closed_ports: Vec<u16>,
}

/// One family in the packet filter.
#[derive(Clone, Debug)]
struct Side {
    table: Table,
    /// Where pods have their addresses.
    range: AddressRange,
    /// What the node is called by its pods.
    node: IpAddr,
}

impl Side {
    /// Addresses that only the machine itself may use.
    fn loopback(&self) -> AddressRange {
        match self.table.family {
            Family::V4 => AddressRange::around(Ipv4Addr::LOCALHOST, 8),
            Family::V6 => AddressRange::around(Ipv6Addr::LOCALHOST, 128),
        }
    }

    fn rule(&self, chain: &str) -> Rule {
        Rule::new(&self.table, chain)
    }

    /// The table with nothing of any pod.
    fn base(&self, links: &str) -> Vec<Message> {
        let table = &self.table;
        let mut changes = vec![
            // Removing what is not there fails, and the whole batch with it: make, remove, make.
            make_table(table),
            remove_table(table),
            make_table(table),
            make_address_pair_set(table, ITSELF),
            make_chain(table, HOST_PORTS),
            make_base_chain(table, "guard", ChainType::Filter, Hook::Prerouting, -300),
            make_base_chain(table, "forward", ChainType::Filter, Hook::Forward, 0),
            make_base_chain(table, "arriving", ChainType::Nat, Hook::Prerouting, -100),
            make_base_chain(table, "leaving", ChainType::Nat, Hook::Output, -100),
            make_base_chain(table, API_GUARD, ChainType::Filter, Hook::Prerouting, -299),
            make_base_chain(table, "way_out", ChainType::Nat, Hook::Postrouting, 100),
            self.rule("guard").in_from_links(links).destination_in(self.loopback()).drop_it(),
        ];
        for closed in closed_to_pods(self.table.family) {
            changes.push(self.rule("guard").in_from_links(links).destination_in(closed).drop_it());
            changes.push(self.rule("forward").in_from_links(links).destination_in(closed).drop_it());
        }
        let as_node = |rule: Rule| match self.table.family {
            // The node's address is on the link over which the packet leaves.
            Family::V4 => rule.masquerade(),
            Family::V6 => rule.come_from(self.node),
        };
        match self.table.family {
            Family::V4 => {
                changes.push(make_base_chain(table, API_ARRIVING, ChainType::Nat, Hook::Prerouting, -101));
                changes.push(make_base_chain(table, API_LEAVING, ChainType::Nat, Hook::Output, -101));
                changes.extend(dns_route::chains(table));
            }
            Family::V6 => {
                changes.push(self.rule("guard").in_from_links(links).source_is_elsewhere().drop_it())
            }
        }
        changes.extend([
            as_node(self.rule("way_out").addresses_in_set(ITSELF)),
            as_node(self.rule("way_out").source_in(self.loopback()).out_to_links(links)),
            self.rule("way_out").source_in(self.range).destination_beyond(self.range).masquerade(),
        ]);
        changes
    }

    /// What the table says of pods.
    fn pods(&self, pods: &Allocations) -> Vec<Message> {
        let pairs: Vec<_> = pods.addresses_of(self.table.family).map(|address| (address, address)).collect();
        if pairs.is_empty() { Vec::new() } else { add_address_pairs(&self.table, ITSELF, &pairs) }
    }

    fn host_ports(&self, pods: &Allocations) -> Vec<Message> {
        let table = &self.table;
        let mut changes = vec![
            flush_chain(table, HOST_PORTS),
            flush_chain(table, "arriving"),
            flush_chain(table, "leaving"),
            self.rule("arriving").destination_is_local().jump(HOST_PORTS),
            self.rule("leaving").destination_is_local().jump(HOST_PORTS),
        ];
        for (address, port) in pods.host_ports(table.family) {
            let mut rule = self.rule(HOST_PORTS);
            if let Some(host_address) = port.host_address {
                rule = rule.destination_is(host_address);
            }
            let protocol = TransportNumber(match port.protocol {
                Protocol::Tcp => TCP.0,
                Protocol::Udp => 17,
                Protocol::Sctp => 132,
            });
            changes.push(rule.destination_port(protocol, port.host_port).redirect_to(address, port.pod_port));
        }
        changes
    }

    /// The ports of the API are closed to pods; the guard sees packets before they are redirected.
    fn api_guard(&self, links: &str, api: &ApiRoute) -> Vec<Message> {
        let closed = api.closed_ports.iter().chain([&api.port]).map(|port| {
            self.rule(API_GUARD)
                .in_from_links(links)
                .destination_is_local()
                .destination_port(TCP, *port)
                .drop_it()
        });
        [flush_chain(&self.table, API_GUARD)].into_iter().chain(closed).collect()
    }
}

/// The node's tables in the packet filter.
pub(crate) struct PacketFilter {
    socket: NetlinkSocket,
    link_prefix: String,
    v4: Side,
    v6: Option<Box<Side>>,
}

impl PacketFilter {
    /// Makes the table of IPv4 anew, with the pods that are known, in one step: nothing is ever open in between.
    pub(crate) fn install(
        identity: &NodeIdentity,
        pods: &Allocations,
        api: Option<&ApiRoute>,
        dns: Option<&DnsRoute>,
    ) -> Result<Self, NetlinkError> {
        let socket = NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER)?;
        let v4 = Side {
            table: Table::new(Family::V4, identity.table()),
            range: pods.range(),
            node: pods.node_address().into(),
        };
        let mut filter = Self { socket, link_prefix: identity.interface_prefix(), v4, v6: None };
        let mut changes = filter.v4.base(&filter.link_prefix);
        if let Some(api) = api {
            changes.extend(filter.api_rules(api));
        }
        changes.extend(filter.v4.pods(pods));
        commit(&mut filter.socket, changes)?;
        if let Some(dns) = dns {
            filter.set_dns(dns)?;
        }
        if pods.has_host_ports() {
            filter.set_host_ports(pods)?;
        }
        Ok(filter)
    }

    /// Makes the table of IPv6 anew, if pods have such addresses.
    pub(crate) fn install_v6(
        &mut self,
        pods: &Allocations,
        api: Option<&ApiRoute>,
    ) -> Result<(), NetlinkError> {
        let (Some(range), Some(node)) = (pods.range_v6(), pods.node_address_v6()) else { return Ok(()) };
        let table = Table::new(Family::V6, self.v4.table.name.clone());
        let side = Side { table, range, node: node.into() };
        let mut changes = side.base(&self.link_prefix);
        changes.extend(side.pods(pods));
        changes.extend(api.into_iter().flat_map(|api| side.api_guard(&self.link_prefix, api)));
        if pods.has_host_ports() {
            changes.extend(side.host_ports(pods));
        }
        commit(&mut self.socket, changes)?;
        self.v6 = Some(Box::new(side));
        Ok(())
    }

    fn sides(&self) -> impl Iterator<Item = &Side> {
        [&self.v4].into_iter().chain(self.v6.as_deref())
    }

    /// Opens the way to the cluster's DNS, instead of the one that was there.
    pub(crate) fn set_dns(&mut self, dns: &DnsRoute) -> Result<(), NetlinkError> {
        let rules = dns_route::rules(&self.v4.table, &self.link_prefix, dns);
        commit(&mut self.socket, rules)?;
        let guard = dns_route::guard_rules(&self.v4.table, &self.link_prefix, dns);
        if let Err(error) = commit(&mut self.socket, guard) {
            // The DNS has limits of its own; these only spare it the packets.
            tracing::debug!(%error, "the kernel cannot limit what a pod asks the DNS");
        }
        Ok(())
    }

    /// Opens the way to the API, instead of the one that was there.
    pub(crate) fn set_api(&mut self, api: &ApiRoute) -> Result<(), NetlinkError> {
        let changes = self.api_rules(api);
        commit(&mut self.socket, changes)
    }

    fn api_rules(&self, api: &ApiRoute) -> Vec<Message> {
        let (table, links) = (&self.v4.table, self.link_prefix.as_str());
        let mut changes: Vec<Message> =
            [API_ARRIVING, API_LEAVING].map(|chain| flush_chain(table, chain)).into();
        let to_service = |rule: Rule| {
            rule.destination_is(*api.service.ip())
                .destination_port(TCP, api.service.port())
                .redirect_to(self.v4.node, api.port)
        };
        // Each node of this machine has pods of its own, and they find its API; processes of the machine itself (pods with
        // its network) find the API of the node whose table was made first.
        changes.push(to_service(self.v4.rule(API_ARRIVING).in_from_links(links)));
        changes.push(to_service(self.v4.rule(API_LEAVING)));
        changes.extend(self.sides().flat_map(|side| side.api_guard(links, api)));
        changes
    }

    /// A pod came: it may talk to itself over a redirection.
    pub(crate) fn add_pod(&mut self, pod: &Allocation) -> Result<(), NetlinkError> {
        let changes = self.of_pod(pod, |table, pair| add_address_pairs(table, ITSELF, &[pair]));
        commit(&mut self.socket, changes)
    }

    /// A pod went.
    pub(crate) fn remove_pod(&mut self, pod: &Allocation) -> Result<(), NetlinkError> {
        let changes = self.of_pod(pod, |table, pair| remove_address_pairs(table, ITSELF, &[pair]));
        match commit(&mut self.socket, changes) {
            Err(error) if !error.is_absent() => Err(error),
            _ => Ok(()),
        }
    }

    fn of_pod(
        &self,
        pod: &Allocation,
        change: impl Fn(&Table, (IpAddr, IpAddr)) -> Vec<Message>,
    ) -> Vec<Message> {
        self.sides()
            .filter_map(|side| Some((side, pod.of_family(side.table.family)?)))
            .flat_map(|(side, address)| change(&side.table, (address, address)))
            .collect()
    }

    /// Writes the host ports of all pods anew, in one step.
    pub(crate) fn set_host_ports(&mut self, pods: &Allocations) -> Result<(), NetlinkError> {
        let changes = self.sides().flat_map(|side| side.host_ports(pods)).collect();
        commit(&mut self.socket, changes)
    }

    /// Removes the tables of a node that is gone.
    pub(crate) fn remove_tables_of(identity: &NodeIdentity) -> Result<(), NetlinkError> {
        let mut socket = NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER)?;
        remove_tables(&mut socket, &identity.table())
    }

    /// Removes the tables.
    pub(crate) fn remove(&mut self) -> Result<(), NetlinkError> {
        remove_tables(&mut self.socket, &self.v4.table.name)
    }
}

/// Removes the tables of that name of both families, also where there is only one.
pub(crate) fn remove_tables(socket: &mut NetlinkSocket, name: &str) -> Result<(), NetlinkError> {
    let removed = [Family::V4, Family::V6].map(|family| {
        let table = Table::new(family, name);
        (family, commit(socket, vec![make_table(&table), remove_table(&table)]))
    });
    removed.into_iter().try_for_each(|(family, outcome)| match family {
        Family::V4 => outcome,
        // A kernel may have no IPv6, and then there is no table.
        Family::V6 => Ok(()),
    })
}
