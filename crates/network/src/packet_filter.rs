//! What the node's own table says: the way out, host ports, and what pods may not reach.
//!
//! ```text
//! guard        (before everything)  from a pod to 127.0.0.0/8 or 169.254.0.0/16: dropped
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

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::allocations::{Allocations, Protocol};
use crate::dns_route::{self, DnsRoute};
use crate::identity::NodeIdentity;
use crate::netlink::{Message, NetlinkError, NetlinkSocket};
use crate::nftables::{
    ChainType, Hook, Rule, TransportNumber, add_address_pairs, commit, flush_chain, make_address_pair_set,
    make_base_chain, make_chain, make_table, remove_address_pairs, remove_table,
};
use crate::range::AddressRange;

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

/// The node's table in the packet filter.
pub(crate) struct PacketFilter {
    socket: NetlinkSocket,
    table: String,
    link_prefix: String,
    node_address: Ipv4Addr,
}

impl PacketFilter {
    /// Makes the table anew, with the pods that are known, in one step: nothing is ever open in between.
    pub(crate) fn install(
        table: String,
        link_prefix: String,
        range: AddressRange,
        pods: &Allocations,
        api: Option<&ApiRoute>,
        dns: Option<&DnsRoute>,
    ) -> Result<Self, NetlinkError> {
        let socket = NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER)?;
        let mut filter = Self { socket, table, link_prefix, node_address: pods.node_address() };
        let mut changes = filter.base(range);
        if let Some(api) = api {
            changes.extend(filter.api_rules(api));
        }
        let pairs: Vec<_> = pods.addresses().map(|address| (address, address)).collect();
        if !pairs.is_empty() {
            changes.extend(add_address_pairs(&filter.table, ITSELF, &pairs));
        }
        commit(&mut filter.socket, changes)?;
        if let Some(dns) = dns {
            filter.set_dns(dns)?;
        }
        if pods.has_host_ports() {
            filter.set_host_ports(pods)?;
        }
        Ok(filter)
    }

    fn base(&self, range: AddressRange) -> Vec<Message> {
        let (table, links) = (self.table.as_str(), self.link_prefix.as_str());
        let loopback = AddressRange::around(Ipv4Addr::LOCALHOST, 8);
        let link_local = AddressRange::around(Ipv4Addr::new(169, 254, 0, 0), 16);
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
            make_base_chain(table, API_ARRIVING, ChainType::Nat, Hook::Prerouting, -101),
            make_base_chain(table, API_LEAVING, ChainType::Nat, Hook::Output, -101),
            make_base_chain(table, "way_out", ChainType::Nat, Hook::Postrouting, 100),
            Rule::new(table, "guard").in_from_links(links).destination_in(loopback).drop_it(),
            Rule::new(table, "guard").in_from_links(links).destination_in(link_local).drop_it(),
            Rule::new(table, "forward").in_from_links(links).destination_in(link_local).drop_it(),
            Rule::new(table, "way_out").addresses_in_set(ITSELF).masquerade(),
            Rule::new(table, "way_out").source_in(loopback).out_to_links(links).masquerade(),
            Rule::new(table, "way_out").source_in(range).destination_beyond(range).masquerade(),
        ];
        changes.extend(dns_route::chains(table));
        changes
    }

    /// Opens the way to the cluster's DNS, instead of the one that was there.
    pub(crate) fn set_dns(&mut self, dns: &DnsRoute) -> Result<(), NetlinkError> {
        let rules = dns_route::rules(&self.table, &self.link_prefix, dns);
        commit(&mut self.socket, rules)?;
        let guard = dns_route::guard_rules(&self.table, &self.link_prefix, dns);
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
        let (table, links) = (self.table.as_str(), self.link_prefix.as_str());
        let mut changes: Vec<Message> =
            [API_GUARD, API_ARRIVING, API_LEAVING].map(|chain| flush_chain(table, chain)).into();
        let to_service = |rule: Rule| {
            rule.destination_is(*api.service.ip())
                .destination_port(TCP, api.service.port())
                .redirect_to(self.node_address, api.port)
        };
        // Each node of this machine has pods of its own, and they find its API; processes of the machine itself (pods with
        // its network) find the API of the node whose table was made first.
        changes.push(to_service(Rule::new(table, API_ARRIVING).in_from_links(links)));
        changes.push(to_service(Rule::new(table, API_LEAVING)));
        // The guard sees packets before they are redirected.
        for port in api.closed_ports.iter().chain([&api.port]) {
            changes.push(
                Rule::new(table, API_GUARD)
                    .in_from_links(links)
                    .destination_is_local()
                    .destination_port(TCP, *port)
                    .drop_it(),
            );
        }
        changes
    }

    /// A pod came: it may talk to itself over a redirection.
    pub(crate) fn add_pod(&mut self, address: Ipv4Addr) -> Result<(), NetlinkError> {
        commit(&mut self.socket, add_address_pairs(&self.table, ITSELF, &[(address, address)]))
    }

    /// A pod went.
    pub(crate) fn remove_pod(&mut self, address: Ipv4Addr) -> Result<(), NetlinkError> {
        match commit(&mut self.socket, remove_address_pairs(&self.table, ITSELF, &[(address, address)])) {
            Err(error) if !error.is_absent() => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the host ports of all pods anew, in one step.
    pub(crate) fn set_host_ports(&mut self, pods: &Allocations) -> Result<(), NetlinkError> {
        let table = self.table.as_str();
        let mut changes = vec![
            flush_chain(table, HOST_PORTS),
            flush_chain(table, "arriving"),
            flush_chain(table, "leaving"),
            Rule::new(table, "arriving").destination_is_local().jump(HOST_PORTS),
            Rule::new(table, "leaving").destination_is_local().jump(HOST_PORTS),
        ];
        for (address, port) in pods.host_ports() {
            let mut rule = Rule::new(table, HOST_PORTS);
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
        commit(&mut self.socket, changes)
    }

    /// Removes the table of a node that is gone.
    pub(crate) fn remove_table_of(identity: &NodeIdentity) -> Result<(), NetlinkError> {
        let mut socket = NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER)?;
        let table = identity.table();
        commit(&mut socket, vec![make_table(&table), remove_table(&table)])
    }

    /// Removes the table.
    pub(crate) fn remove(&mut self) -> Result<(), NetlinkError> {
        commit(&mut self.socket, vec![make_table(&self.table), remove_table(&self.table)])
    }
}
