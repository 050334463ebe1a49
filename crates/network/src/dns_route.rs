//! How pods reach the cluster's DNS at the address of its service, and how many questions each may ask.
//!
//! ```text
//! dns_guard    (before everything)  more questions a second from one pod than it may ask: dropped, before they cost anything
//! dns_arriving                      from a pod, to the service: to the node's own address, where this node's DNS listens
//! dns_leaving                       from the machine itself (pods with its network), to the service: to a loopback address
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::netlink::Message;
use crate::nftables::{
    ChainType, Hook, Rate, Rule, Table, TransportNumber, flush_chain, make_base_chain, make_counted_addresses,
};

const GUARD: &str = "dns_guard";
const ARRIVING: &str = "dns_arriving";
const LEAVING: &str = "dns_leaving";
const ASKERS: &str = "dns_askers";

const TCP: TransportNumber = TransportNumber(6);
const UDP: TransportNumber = TransportNumber(17);
/// The port of DNS.
const PORT: u16 = 53;

/// What one pod may ask over UDP. An answer costs some microseconds, so that a pod that floods takes a small part of one core.
const RATE: Rate = Rate { packets_per_second: 10_000, burst: 10_000 };
/// Addresses whose questions are counted at the same time; more pods have not even the largest range. Each is forgotten soon.
const MAX_ASKERS: u32 = 1 << 16;
const FORGOTTEN_AFTER_MS: u64 = 10_000;

/// How the cluster's DNS is reached at the address of its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsRoute {
    /// The address of the service; its port is 53, over UDP and TCP.
    pub service: Ipv4Addr,
    /// Where the DNS listens for pods, over UDP and TCP.
    pub pods: SocketAddrV4,
    /// Where it listens for the machine itself, over UDP and TCP.
    pub machine: SocketAddrV4,
}

/// The chains, made before anything is in them. The redirections come before those of other services.
pub(crate) fn chains(table: &Table) -> Vec<Message> {
    vec![
        make_base_chain(table, GUARD, ChainType::Filter, Hook::Prerouting, -299),
        make_base_chain(table, ARRIVING, ChainType::Nat, Hook::Prerouting, -103),
        make_base_chain(table, LEAVING, ChainType::Nat, Hook::Output, -103),
    ]
}

/// The rules, instead of those that were there.
pub(crate) fn rules(table: &Table, links: &str, route: &DnsRoute) -> Vec<Message> {
    let mut changes: Vec<Message> = [ARRIVING, LEAVING].map(|chain| flush_chain(table, chain)).into();
    for protocol in [UDP, TCP] {
        let to_service = |rule: Rule| rule.destination_is(route.service).destination_port(protocol, PORT);
        changes.push(
            to_service(Rule::new(table, ARRIVING).in_from_links(links))
                .redirect_to(*route.pods.ip(), route.pods.port()),
        );
        changes.push(
            to_service(Rule::new(table, LEAVING)).redirect_to(*route.machine.ip(), route.machine.port()),
        );
    }
    changes
}

/// The rules that keep a pod from flooding; a kernel may lack what they need.
pub(crate) fn guard_rules(table: &Table, links: &str, route: &DnsRoute) -> Vec<Message> {
    let limited = |address: Ipv4Addr, port: u16| {
        Rule::new(table, GUARD)
            .in_from_links(links)
            .destination_is(address)
            .destination_port(UDP, port)
            .source_is_over(ASKERS, RATE)
            .drop_it()
    };
    vec![
        flush_chain(table, GUARD),
        make_counted_addresses(table, ASKERS, MAX_ASKERS, FORGOTTEN_AFTER_MS),
        limited(route.service, PORT),
        limited(*route.pods.ip(), route.pods.port()),
    ]
}
