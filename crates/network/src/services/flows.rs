//! Flows of UDP that the kernel remembers: it leads all packets of one as it led the first, also to a backend that is gone, for as
//! long as they keep coming. Those are made to begin anew.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::routes::{Frontend, Led};
use crate::allocations::Protocol;
use crate::netlink::{ACK, DUMP, Message, NetlinkError, NetlinkSocket, attribute};
use crate::range::Family;

const SUBSYSTEM: u16 = 1;
const GET: u16 = 1;
const DELETE: u16 = 2;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ZONE: u16 = 18;
const UDP: u8 = 17;

/// One direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Direction {
    source: SocketAddr,
    destination: SocketAddr,
}

/// A flow: its first packet, and what a packet in answer looks like before it is translated back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    original: Direction,
    reply: Direction,
}

/// Whether the flow goes where nobody answers for that frontend any more, or went nowhere when somebody does now. Pure.
fn is_stale(flow: &Flow, changed: &Led) -> bool {
    let target = flow.original.destination;
    let at = |address| changed.get(&Frontend { address, protocol: Protocol::Udp, port: target.port() });
    let led_to = flow.reply.source;
    if let Some(backends) = at(target.ip()) {
        return if led_to == target { !backends.is_empty() } else { !backends.contains(&led_to) };
    }
    let Some(backends) = at(Family::of(target.ip()).unspecified()) else { return false };
    if led_to == target {
        // Perhaps to the port of another machine: then at least nothing is lost, because nothing is translated.
        !backends.is_empty() && flow.reply.destination == flow.original.source
    } else {
        !backends.contains(&led_to)
    }
}

fn direction(bytes: &[u8]) -> Option<Direction> {
    let (addresses, protocol) = (attribute(bytes, 1)?, attribute(bytes, 2)?);
    // Addresses of IPv6 have numbers of their own, two above those of IPv4.
    let address = |kind| -> Option<IpAddr> {
        if let Some(bytes) = attribute(addresses, kind) {
            return <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
        }
        let octets: [u8; 16] = attribute(addresses, kind + 2)?.try_into().ok()?;
        Some(Ipv6Addr::from(octets).into())
    };
    let port = |kind| Some(u16::from_be_bytes(attribute(protocol, kind)?.try_into().ok()?));
    (attribute(protocol, 1)? == [UDP]).then_some(())?;
    Some(Direction {
        source: SocketAddr::new(address(1)?, port(2)?),
        destination: SocketAddr::new(address(2)?, port(3)?),
    })
}

fn head(family: Family) -> [u8; 4] {
    match family {
        Family::V4 => [2, 0, 0, 0],
        Family::V6 => [10, 0, 0, 0],
    }
}

/// Makes the kernel forget what leads elsewhere now; answers how many flows that were.
pub(super) fn forget_stale(socket: &mut NetlinkSocket, changed: &Led) -> Result<usize, NetlinkError> {
    let families: BTreeSet<Family> = changed.keys().map(Frontend::family).collect();
    let mut forgotten = 0;
    for family in families {
        forgotten += forget_stale_of(socket, family, changed)?;
    }
    Ok(forgotten)
}

fn forget_stale_of(socket: &mut NetlinkSocket, family: Family, changed: &Led) -> Result<usize, NetlinkError> {
    let list = Message::new("list the connections", (SUBSYSTEM << 8) | GET, DUMP, &head(family));
    let mut stale = Vec::new();
    socket.dump_each(&list, |entry| {
        let Some(rest) = entry.get(4..) else { return };
        let (Some(original), Some(reply)) = (attribute(rest, ORIGINAL), attribute(rest, REPLY)) else {
            return;
        };
        let Some(flow) = direction(original).zip(direction(reply)) else { return };
        let flow = Flow { original: flow.0, reply: flow.1 };
        if is_stale(&flow, changed) {
            let mut message =
                Message::new("forget a connection", (SUBSYSTEM << 8) | DELETE, ACK, &head(family));
            message.put_nested(ORIGINAL, original);
            if let Some(zone) = attribute(rest, ZONE) {
                message.put(ZONE, zone);
            }
            stale.push(message);
        }
    })?;
    for message in &stale {
        match socket.exchange(std::slice::from_ref(message)) {
            // It ended by itself.
            Err(error) if error.is_absent() => {}
            other => other?,
        }
    }
    Ok(stale.len())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address with a port")
    }

    #[test]
    fn a_flow_is_stale_when_its_backend_is_gone_or_when_it_went_nowhere_and_somebody_is_there_now() {
        let frontend = |address: &str, port| Frontend {
            address: address.parse().expect("an address"),
            protocol: Protocol::Udp,
            port,
        };
        let one = BTreeSet::from([at("10.128.0.2:53")]);
        let table = [
            // frontends with backends of now; client, target, who answers, to whom
            ("10.43.0.9", 53, Some(&one), "10.43.0.9:53", "10.128.0.2:53", false, "it still answers"),
            ("10.43.0.9", 53, Some(&one), "10.43.0.9:53", "10.128.0.3:53", true, "another answered"),
            ("10.43.0.9", 53, None, "10.43.0.9:53", "10.128.0.3:53", true, "nobody answers"),
            ("10.43.0.9", 53, Some(&one), "10.43.0.9:53", "10.43.0.9:53", true, "it went nowhere"),
            ("10.43.0.9", 53, None, "10.43.0.9:53", "10.43.0.9:53", false, "and still does"),
            ("10.43.0.9", 53, None, "10.43.0.8:53", "10.128.0.3:53", false, "another service"),
            ("10.43.0.9", 53, None, "10.43.0.9:54", "10.128.0.3:53", false, "another port"),
            ("0.0.0.0", 3053, Some(&one), "192.0.2.1:3053", "10.128.0.2:53", false, "at the node's port"),
            (
                "0.0.0.0",
                3053,
                Some(&one),
                "192.0.2.1:3053",
                "10.128.0.3:53",
                true,
                "gone from the node's port",
            ),
            ("0.0.0.0", 3053, Some(&one), "192.0.2.1:3053", "192.0.2.1:3053", true, "it met a closed port"),
            ("0.0.0.0", 3053, None, "192.0.2.1:3053", "192.0.2.1:3053", false, "and still does"),
        ];
        let one_v6 = BTreeSet::from([at("[fd12::2]:53")]);
        let table_v6 = [
            ("fd43::9", 53, Some(&one_v6), "[fd43::9]:53", "[fd12::3]:53", true, "IPv6: another answered"),
            ("::", 3053, Some(&one_v6), "[fd00::2]:3053", "[fd12::2]:53", false, "IPv6: at the node's port"),
            ("::", 3053, Some(&one_v6), "192.0.2.1:3053", "10.128.0.3:53", false, "the other family's port"),
        ];
        for (address, port, backends, target, led_to, expected, why) in table.into_iter().chain(table_v6) {
            let changed = BTreeMap::from([(frontend(address, port), backends.cloned().unwrap_or_default())]);
            let client = at("10.128.0.7:4000");
            let flow = Flow {
                original: Direction { source: client, destination: at(target) },
                reply: Direction { source: at(led_to), destination: client },
            };
            assert_eq!(is_stale(&flow, &changed), expected, "{why}");
        }
    }

    #[test]
    fn a_masqueraded_flow_to_a_like_port_of_another_machine_is_left_alone() {
        let frontend =
            Frontend { address: Ipv4Addr::UNSPECIFIED.into(), protocol: Protocol::Udp, port: 3053 };
        let changed = BTreeMap::from([(frontend, BTreeSet::from([at("10.128.0.2:53")]))]);
        let flow = Flow {
            original: Direction { source: at("10.128.0.7:4000"), destination: at("198.51.100.1:3053") },
            reply: Direction { source: at("198.51.100.1:3053"), destination: at("192.0.2.1:4000") },
        };
        assert!(!is_stale(&flow, &changed));
    }
}
