//! The node's own addresses exist on the machine for as long as the node has a network, also while no pod has a link: pods in the
//! machine's network are reached at them, and so is the API behind its service. That of IPv4 is a route of the kernel's own table
//! (`ip route show table local proto 197`) and not an address of a link, so that no program takes it for one of the machine's. For
//! IPv6 the kernel wants an address of a link, or it would not speak from it: the loopback's, marked as one for answers only.

use std::net::{IpAddr, Ipv4Addr};

use crate::allocations::node_address_in;
use crate::links::{LOOPBACK, ROUTE_ORIGIN, Routing, add_address_for_answers};
use crate::netlink::{ACK, CREATE, Message, NetlinkError, REPLACE};
use crate::range::AddressRange;

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const AF_INET: u8 = 2;
const TABLE_LOCAL: u8 = 255;
const SCOPE_HOST: u8 = 254;
const ROUTE_LOCAL: u8 = 2;
/// The kernel makes such a route for each pod's link that has the address, with the priority 0: this one is another.
const PRIORITY: u32 = 1;

/// From now on the node's address in a range is one of the machine's.
pub(crate) fn keep(routing: &mut Routing, range: AddressRange) -> Result<(), NetlinkError> {
    match node_address_in(range) {
        Some(IpAddr::V4(address)) => routing.apply(&[route(RTM_NEWROUTE, ACK | CREATE | REPLACE, address)]),
        Some(IpAddr::V6(address)) => routing.apply(&[add_address_for_answers(LOOPBACK, address)]),
        None => Ok(()),
    }
}

/// Takes it away, if it is there.
pub(crate) fn give_up(routing: &mut Routing, range: AddressRange) -> Result<(), NetlinkError> {
    let removed = match node_address_in(range) {
        Some(IpAddr::V4(address)) => routing.apply(&[route(RTM_DELROUTE, ACK, address)]),
        Some(address @ IpAddr::V6(_)) => routing.remove_address(LOOPBACK, address),
        None => Ok(()),
    };
    match removed {
        Err(error) if !error.is_absent() => Err(error),
        _ => Ok(()),
    }
}

fn route(kind: u16, flags: u16, address: Ipv4Addr) -> Message {
    let head = [AF_INET, 32, 0, 0, TABLE_LOCAL, ROUTE_ORIGIN, SCOPE_HOST, ROUTE_LOCAL, 0, 0, 0, 0];
    let mut message = Message::new(format!("keep the node's address {address}"), kind, flags, &head);
    message.put(RTA_DST, &address.octets()).put(RTA_PREFSRC, &address.octets());
    message.put_u32(RTA_OIF, LOOPBACK).put_u32(RTA_PRIORITY, PRIORITY);
    message
}
