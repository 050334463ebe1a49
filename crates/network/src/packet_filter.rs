//! What the node's own table says: the way out, host ports, and what pods may not reach.
//!
//! ```text
//! guard        (before everything)  from a pod to 127.0.0.0/8 or 169.254.0.0/16: dropped
//! forward                           to 169.254.0.0/16 from a pod, also after a redirection: dropped
//! arriving, leaving (destination)   to an address of this machine: see host_ports
//! host_ports                        one rule for each host port of each pod
//! way_out      (source)             a pod that talks to itself over a redirection, the machine's own loopback address
//!                                   towards a pod, a pod towards anything that is no pod of this node: masqueraded
//! ```

use std::net::Ipv4Addr;

use crate::allocations::{Allocations, Protocol};
use crate::identity::NodeIdentity;
use crate::netlink::{Message, NetlinkError, NetlinkSocket};
use crate::nftables::{
    ChainType, Hook, Rule, TransportNumber, add_address_pairs, commit, flush_chain, make_address_pair_set,
    make_base_chain, make_chain, make_table, remove_address_pairs, remove_table,
};
use crate::range::AddressRange;

const HOST_PORTS: &str = "host_ports";
const ITSELF: &str = "pod_itself";

/// The node's table in the packet filter.
pub(crate) struct PacketFilter {
    socket: NetlinkSocket,
    table: String,
    link_prefix: String,
}

impl PacketFilter {
    /// Makes the table anew, with the pods that are known, in one step: nothing is ever open in between.
    pub(crate) fn install(
        table: String,
        link_prefix: String,
        range: AddressRange,
        pods: &Allocations,
    ) -> Result<Self, NetlinkError> {
        let socket = NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER)?;
        let mut filter = Self { socket, table, link_prefix };
        let mut changes = filter.base(range);
        let pairs: Vec<_> = pods.addresses().map(|address| (address, address)).collect();
        if !pairs.is_empty() {
            changes.push(add_address_pairs(&filter.table, ITSELF, &pairs));
        }
        commit(&mut filter.socket, changes)?;
        if pods.has_host_ports() {
            filter.set_host_ports(pods)?;
        }
        Ok(filter)
    }

    fn base(&self, range: AddressRange) -> Vec<Message> {
        let (table, links) = (self.table.as_str(), self.link_prefix.as_str());
        let loopback = AddressRange::around(Ipv4Addr::LOCALHOST, 8);
        let link_local = AddressRange::around(Ipv4Addr::new(169, 254, 0, 0), 16);
        vec![
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
            make_base_chain(table, "way_out", ChainType::Nat, Hook::Postrouting, 100),
            Rule::new(table, "guard").in_from_links(links).destination_in(loopback).drop_it(),
            Rule::new(table, "guard").in_from_links(links).destination_in(link_local).drop_it(),
            Rule::new(table, "forward").in_from_links(links).destination_in(link_local).drop_it(),
            Rule::new(table, "way_out").addresses_in_set(ITSELF).masquerade(),
            Rule::new(table, "way_out").source_in(loopback).out_to_links(links).masquerade(),
            Rule::new(table, "way_out").source_in(range).destination_beyond(range).masquerade(),
        ]
    }

    /// A pod came: it may talk to itself over a redirection.
    pub(crate) fn add_pod(&mut self, address: Ipv4Addr) -> Result<(), NetlinkError> {
        commit(&mut self.socket, vec![add_address_pairs(&self.table, ITSELF, &[(address, address)])])
    }

    /// A pod went.
    pub(crate) fn remove_pod(&mut self, address: Ipv4Addr) -> Result<(), NetlinkError> {
        match commit(&mut self.socket, vec![remove_address_pairs(&self.table, ITSELF, &[(address, address)])])
        {
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
                Protocol::Tcp => 6,
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
