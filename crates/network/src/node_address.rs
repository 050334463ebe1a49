//! The node's own address exists on the machine for as long as the node has a network, also while no pod has a link: pods in the
//! machine's network are reached at it, and so is the API behind its service. It is a route of the kernel's own table
//! (`ip route show table local proto 197`) and not an address of a link, so that no program takes it for one of the machine's.

use std::net::Ipv4Addr;

use crate::links::{LOOPBACK, ROUTE_ORIGIN, Routing};
use crate::netlink::{ACK, CREATE, Message, NetlinkError, REPLACE};

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

/// From now on the address is one of the machine's.
pub(crate) fn keep(routing: &mut Routing, address: Ipv4Addr) -> Result<(), NetlinkError> {
    routing.apply(&[route(RTM_NEWROUTE, ACK | CREATE | REPLACE, address)])
}

/// Takes it away, if it is there.
pub(crate) fn give_up(routing: &mut Routing, address: Ipv4Addr) -> Result<(), NetlinkError> {
    match routing.apply(&[route(RTM_DELROUTE, ACK, address)]) {
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
