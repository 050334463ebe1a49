//! Links, addresses and routes over the route family of netlink, and the step into another network namespace.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::netlink::{
    ACK, CREATE, DUMP, EXCLUSIVE, Message, NetlinkError, NetlinkSocket, REPLACE, attribute, attributes,
};
use crate::range::{AddressRange, Family, octets};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_NEWQDISC: u16 = 36;

const TCA_KIND: u16 = 1;
const TC_ROOT: u32 = 0xffff_ffff;
const OPERATIONAL: u8 = 6;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_GROUP: u16 = 27;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const GENERATE_NO_ADDRESS: u8 = 1;
/// Nobody is asked whether the address is free: the kernel would wait a second for that.
const NO_QUESTION: u32 = 0x02;
/// No route for a network around the address.
const NO_NETWORK: u32 = 0x200;
/// Addresses that the kernel does not use yet, or not any more, or not for something new.
const NOT_IN_USE: u32 = 0x08 | 0x20 | 0x40;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_TABLE: u16 = 15;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const AF_INET6_ATTRIBUTE: u16 = 10;
const IFF_UP: u32 = 1;
const TABLE_MAIN: u8 = 254;
const TABLE_LOCAL: u8 = 255;
const SCOPE_LINK: u8 = 253;
const ROUTE_UNICAST: u8 = 1;
const ROUTE_LOCAL: u8 = 2;
const ROUTE_UNREACHABLE: u8 = 7;
const ROUTE_ONLINK: u32 = 4;
/// A way that the kernel keeps for one destination, not a route.
const ROUTE_COPIED: u32 = 0x200;
/// The origin that our routes carry (`ip route` shows it as `proto 197`), so that an administrator can tell them apart.
pub(crate) const ROUTE_ORIGIN: u8 = 197;

/// The group of the links of pods of every node, by which a node knows the pods of others (`ip link show group 49372`).
pub(crate) const LINK_GROUP: u32 = 0xc0dc;

/// The group of links that are about to be taken away: the kernel takes all links of a group apart in one go, while each alone
/// waits for every processor some 20 ms. Links of another node in it are about to go, too.
const ENDING_GROUP: u32 = 0xc0dd;

/// The index of the loopback link in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// Why work in another network namespace could not begin.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The namespace could not be entered.
    #[error("cannot enter the pod's network namespace")]
    Enter(#[source] io::Error),
    /// No socket could be made in it.
    #[error("cannot talk to the kernel in the pod's network namespace")]
    Socket(#[source] NetlinkError),
    /// The thread for it could not be started.
    #[error("cannot start a thread for the pod's network namespace")]
    Thread(#[source] io::Error),
}

/// A link as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) alias: Option<String>,
    pub(crate) mtu: u32,
    /// Whether packets given to it now go out.
    pub(crate) operational: bool,
}

/// A route as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination: AddressRange,
    pub(crate) table: u32,
    pub(crate) kind: u8,
    pub(crate) priority: u32,
    pub(crate) link: Option<u32>,
    pub(crate) ours: bool,
}

impl Route {
    /// Whether it is the one of [`unreachable_range`] with that priority.
    pub(crate) fn is_closed_by(&self, priority: u32) -> bool {
        self.ours && self.kind == ROUTE_UNREACHABLE && self.priority == priority
    }
}

/// The two ends of a pod's link.
pub(crate) struct PodLink<'a> {
    pub(crate) name: &'a str,
    pub(crate) hardware: [u8; 6],
    pub(crate) peer_name: &'a str,
    pub(crate) peer_hardware: [u8; 6],
    pub(crate) peer_namespace: BorrowedFd<'a>,
    pub(crate) mtu: u32,
    /// The group of the near end.
    pub(crate) group: u32,
}

/// Netlink's route family in one network namespace.
pub(crate) struct Routing {
    socket: NetlinkSocket,
}

impl Routing {
    /// In the namespace of the calling thread.
    pub(crate) fn here() -> Result<Self, NetlinkError> {
        Ok(Self { socket: NetlinkSocket::open(netlink_sys::protocols::NETLINK_ROUTE)? })
    }

    /// In the namespace behind `namespace`. A thread made for it enters and ends; the caller stays where it is.
    pub(crate) fn inside(namespace: BorrowedFd<'_>) -> Result<Self, NamespaceError> {
        Self::inside_after(namespace, || {})
    }

    /// The same, and `first` is done in the namespace before.
    pub(crate) fn inside_after(
        namespace: BorrowedFd<'_>,
        first: impl FnOnce() + Send,
    ) -> Result<Self, NamespaceError> {
        let enter = || {
            move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
                .map_err(|error| NamespaceError::Enter(error.into()))?;
            first();
            Self::here().map_err(NamespaceError::Socket)
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("network-namespace".into())
                .spawn_scoped(scope, enter)
                .map_err(NamespaceError::Thread)?;
            thread.join().expect("entering a namespace does not panic")
        })
    }

    /// Sends what was prepared; the first refusal is the answer.
    pub(crate) fn apply(&mut self, messages: &[Message]) -> Result<(), NetlinkError> {
        self.socket.exchange(messages)
    }

    /// All links.
    pub(crate) fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let message = Message::new("list the links", RTM_GETLINK, DUMP, &link_head(0, 0));
        self.socket.dump(&message)?.iter().map(|entry| read_link(entry)).collect()
    }

    /// The link of that name.
    pub(crate) fn link(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let mut message = Message::new(format!("find the link {name}"), RTM_GETLINK, 0, &link_head(0, 0));
        message.put_text(IFLA_IFNAME, name);
        read_link(&self.socket.get(&message)?)
    }

    /// All routes of a family, of all tables.
    pub(crate) fn routes(&mut self, family: Family) -> Result<Vec<Route>, NetlinkError> {
        let mut head = [0; 12];
        head[0] = number_of(family);
        let message = Message::new("list the routes", RTM_GETROUTE, DUMP, &head);
        let entries = self.socket.dump(&message)?;
        // A kernel without a family lists all others.
        let of_family = entries.iter().filter(|entry| entry.first() == Some(&number_of(family)));
        of_family.filter_map(|entry| read_route(entry, family).transpose()).collect()
    }

    /// All addresses of IPv6 that are in use, each with its link.
    pub(crate) fn addresses_v6(&mut self) -> Result<Vec<(u32, Ipv6Addr)>, NetlinkError> {
        let message = Message::new("list the addresses", RTM_GETADDR, DUMP, &[AF_INET6, 0, 0, 0, 0, 0, 0, 0]);
        let entries = self.socket.dump(&message)?;
        Ok(entries.iter().filter_map(|entry| read_address_v6(entry)).collect())
    }

    /// Removes an address, if it is there.
    pub(crate) fn remove_address(&mut self, index: u32, address: IpAddr) -> Result<(), NetlinkError> {
        let mut message = Message::new(
            format!("remove the address {address}"),
            RTM_DELADDR,
            ACK,
            &address_head(index, address),
        );
        message.put(IFA_LOCAL, &octets(address)).put(IFA_ADDRESS, &octets(address));
        match self.apply(&[message]) {
            Err(error) if !error.is_absent() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns when packets given to the link go out.
    ///
    /// The end that was switched on first learns from a worker of the kernel that the other end is on too, and drops what it
    /// is given until then: the first packet of a connection would be sent again only after a second. To ask for one link
    /// makes the kernel (from 6.8 on) do that work at once; an older one does it when its (absent) queue is set.
    pub(crate) fn await_operation(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let link = self.link(name)?;
        if !link.operational {
            // The worker comes in any case; without this it may only come later.
            let _ = self.apply(&[set_no_queue(link.index)]);
        }
        Ok(link)
    }

    /// Lets the machine's loopback address of a family lead to the pod behind a link, over a port of the machine.
    ///
    /// The answers come from the pod's link, and the kernel takes none for a loopback address from there: for IPv4 unless a
    /// switch allows it, for IPv6 unless the address is one of that link. That opens nothing to the pod itself: the packet
    /// filter drops what it sends there, and for IPv6 the kernel does as well.
    pub(crate) fn reach_from_loopback(&mut self, link: &str, family: Family) -> Result<(), NetlinkError> {
        match family {
            Family::V4 => set_link_switch("ipv4", link, "route_localnet", "1").map_err(NetlinkError::Socket),
            Family::V6 => {
                let index = self.link(link)?.index;
                self.apply(&[add_local_route(index, Ipv6Addr::LOCALHOST)])
            }
        }
    }

    /// Removes a link; `false` when there is none of that name.
    pub(crate) fn remove_link(&mut self, name: &str) -> Result<bool, NetlinkError> {
        let mut message = Message::new(format!("remove the link {name}"), RTM_DELLINK, ACK, &link_head(0, 0));
        message.put_text(IFLA_IFNAME, name);
        match self.apply(&[message]) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes links together. Those that could not be put together with others are left: [`Routing::remove_link`] tells why.
    pub(crate) fn remove_links(&mut self, names: &[String]) -> Result<(), NetlinkError> {
        for name in names {
            let mut message =
                Message::new(format!("put the link {name} away"), RTM_SETLINK, ACK, &link_head(0, 0));
            message.put_text(IFLA_IFNAME, name).put_u32(IFLA_GROUP, ENDING_GROUP);
            // One that is gone already is as good as removed.
            let _ = self.apply(&[message]);
        }
        let mut message = Message::new("remove the links that end", RTM_DELLINK, ACK, &link_head(0, 0));
        message.put_u32(IFLA_GROUP, ENDING_GROUP);
        match self.apply(&[message]) {
            Err(error) if !error.is_absent() => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the route that holds a range, if it is there.
    pub(crate) fn remove_held_range(&mut self, range: AddressRange) -> Result<(), NetlinkError> {
        let message = held_range(RTM_DELROUTE, ACK, range);
        match self.apply(&[message]) {
            Err(error) if !error.is_absent() => Err(error),
            _ => Ok(()),
        }
    }
}

fn link_head(index: u32, flags: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head[12..16].copy_from_slice(&flags.to_ne_bytes());
    head
}

/// Makes both ends, the near one on, the far one directly inside the pod's namespace: no move, no rename.
pub(crate) fn make_pod_link(link: &PodLink<'_>) -> Message {
    let mut message = Message::new(
        format!("make the link {}", link.name),
        RTM_NEWLINK,
        ACK | CREATE | EXCLUSIVE,
        &link_head(0, IFF_UP),
    );
    message.put_text(IFLA_IFNAME, link.name).put(IFLA_ADDRESS, &link.hardware).put_u32(IFLA_MTU, link.mtu);
    message.put_u32(IFLA_GROUP, link.group);
    message.nest(IFLA_LINKINFO, |message| {
        message.put(IFLA_INFO_KIND, b"veth").nest(IFLA_INFO_DATA, |message| {
            message.nest(VETH_INFO_PEER, |message| {
                // The kernel refuses to switch on the end that is made first (ENOTCONN); the pod's side does it.
                message.put_raw(&link_head(0, 0));
                message.put_text(IFLA_IFNAME, link.peer_name).put(IFLA_ADDRESS, &link.peer_hardware);
                message.put_u32(IFLA_MTU, link.mtu);
                message.put(IFLA_NET_NS_FD, &link.peer_namespace.as_raw_fd().to_ne_bytes());
            });
        });
    });
    message
}

/// Packets leave the link as they come, which is what such a link does anyway.
pub(crate) fn set_no_queue(index: u32) -> Message {
    let mut head = [0; 20];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[12..16].copy_from_slice(&TC_ROOT.to_ne_bytes());
    let mut message = Message::new("set the link's queue", RTM_NEWQDISC, ACK | CREATE | REPLACE, &head);
    message.put_text(TCA_KIND, "noqueue");
    message
}

/// Switches a link on.
pub(crate) fn set_up(index: u32) -> Message {
    Message::new("switch the link on", RTM_NEWLINK, ACK, &link_head(index, IFF_UP))
}

/// Puts a link into the group of pods' links.
pub(crate) fn join_group(index: u32) -> Message {
    let mut message =
        Message::new("put the link into the group of pods", RTM_NEWLINK, ACK, &link_head(index, 0));
    message.put_u32(IFLA_GROUP, LINK_GROUP);
    message
}

/// Writes what a link is for where `ip link` shows it.
pub(crate) fn set_alias(index: u32, alias: &str) -> Message {
    let mut message = Message::new("name the purpose of the link", RTM_NEWLINK, ACK, &link_head(index, 0));
    message.put(IFLA_IFALIAS, alias.as_bytes());
    message
}

/// The link gets no address of IPv6 by itself.
pub(crate) fn generate_no_address(index: u32) -> Message {
    let mut message =
        Message::new("keep the link without an address of its own", RTM_NEWLINK, ACK, &link_head(index, 0));
    message.nest(IFLA_AF_SPEC, |families| {
        families.nest(AF_INET6_ATTRIBUTE, |family| {
            family.put(IFLA_INET6_ADDR_GEN_MODE, &[GENERATE_NO_ADDRESS]);
        });
    });
    message
}

fn number_of(family: Family) -> u8 {
    match family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

fn address_head(index: u32, address: IpAddr) -> [u8; 8] {
    let family = Family::of(address);
    let mut head = [number_of(family), family.bits(), 0, 0, 0, 0, 0, 0];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head
}

/// Gives a link one address and no network around it.
pub(crate) fn add_address(index: u32, address: impl Into<IpAddr>) -> Message {
    let address = address.into();
    let head = address_head(index, address);
    let mut message =
        Message::new(format!("add the address {address}"), RTM_NEWADDR, ACK | CREATE | REPLACE, &head);
    message.put(IFA_LOCAL, &octets(address)).put(IFA_ADDRESS, &octets(address));
    if address.is_ipv6() {
        message.put_u32(IFA_FLAGS, NO_QUESTION | NO_NETWORK);
    }
    message
}

/// Gives a link an address that is used only where it is asked for, never because the machine needs one to speak from.
pub(crate) fn add_address_for_answers(index: u32, address: Ipv6Addr) -> Message {
    const FOR_EVER: u32 = u32::MAX;
    let mut message = add_address(index, address);
    // Preferred for no time, valid for ever; and two times that the kernel fills in.
    let times = [0, FOR_EVER, 0, 0].map(u32::to_ne_bytes).concat();
    message.put(IFA_CACHEINFO, &times);
    message
}

fn route_head(family: Family, prefix_length: u8, scope: u8, kind: u8, flags: u32) -> [u8; 12] {
    let mut head =
        [number_of(family), prefix_length, 0, 0, TABLE_MAIN, ROUTE_ORIGIN, scope, kind, 0, 0, 0, 0];
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head
}

/// The node's route to one pod. `source` is what the node calls itself when it talks to the pod.
pub(crate) fn add_pod_route(index: u32, pod: impl Into<IpAddr>, source: impl Into<IpAddr>) -> Message {
    let (pod, source) = (pod.into(), source.into());
    let family = Family::of(pod);
    let scope = match family {
        Family::V4 => SCOPE_LINK,
        // This family has no such thing.
        Family::V6 => 0,
    };
    let head = route_head(family, family.bits(), scope, ROUTE_UNICAST, 0);
    let mut message =
        Message::new(format!("add the route to {pod}"), RTM_NEWROUTE, ACK | CREATE | REPLACE, &head);
    message.put(RTA_DST, &octets(pod)).put(RTA_PREFSRC, &octets(source)).put_u32(RTA_OIF, index);
    message
}

/// Packets for an address of this side arrive. The kernel has a route of its own for each address, but makes it for IPv6 only
/// a moment later, and the first packet would be lost.
pub(crate) fn add_local_route(index: u32, address: Ipv6Addr) -> Message {
    let mut head = route_head(Family::V6, Family::V6.bits(), 0, ROUTE_LOCAL, 0);
    head[4] = TABLE_LOCAL;
    let what = format!("add the route to the own address {address}");
    let mut message = Message::new(what, RTM_NEWROUTE, ACK | CREATE | REPLACE, &head);
    message.put(RTA_DST, &address.octets()).put_u32(RTA_OIF, index);
    message
}

/// The pod's only route: everything goes to `gateway`, which is taken to be on the link although no network says so.
pub(crate) fn add_default_route(
    index: u32,
    gateway: impl Into<IpAddr>,
    source: impl Into<IpAddr>,
) -> Message {
    let (gateway, source) = (gateway.into(), source.into());
    let head = route_head(Family::of(gateway), 0, 0, ROUTE_UNICAST, ROUTE_ONLINK);
    let mut message =
        Message::new("add the pod's default route", RTM_NEWROUTE, ACK | CREATE | REPLACE, &head);
    message.put(RTA_GATEWAY, &octets(gateway)).put(RTA_PREFSRC, &octets(source)).put_u32(RTA_OIF, index);
    message
}

/// A neighbour whose hardware address is known for good, so that nobody has to ask for it.
pub(crate) fn add_neighbour(index: u32, address: impl Into<IpAddr>, hardware: [u8; 6]) -> Message {
    let address = address.into();
    let mut head = [0; 12];
    head[0] = number_of(Family::of(address));
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
    let mut message =
        Message::new(format!("add the neighbour {address}"), RTM_NEWNEIGH, ACK | CREATE | REPLACE, &head);
    message.put(NDA_DST, &octets(address)).put(NDA_LLADDR, &hardware);
    message
}

/// The route that says "nobody is here" for every address of the range that no pod has: such packets do not leave the
/// machine, and another program that looks for a free range sees this one taken.
pub(crate) fn hold_range(range: AddressRange) -> Message {
    held_range(RTM_NEWROUTE, ACK | CREATE | REPLACE, range)
}

fn held_range(kind: u16, flags: u16, range: AddressRange) -> Message {
    // The worst priority: any route that somebody else has for the same range wins.
    closed_range(kind, flags, range, u32::MAX)
}

fn closed_range(kind: u16, flags: u16, range: AddressRange, priority: u32) -> Message {
    let head = route_head(range.family(), range.prefix_length(), 0, ROUTE_UNREACHABLE, 0);
    let mut message = Message::new(format!("hold the range {range}"), kind, flags, &head);
    message.put(RTA_DST, &octets(range.network())).put_u32(RTA_PRIORITY, priority);
    message
}

/// The route that says "nobody is here" for addresses that only a packet filter could lead anywhere. The priority is the node's, so that
/// several nodes can have one for the same range.
pub(crate) fn unreachable_range(range: AddressRange, priority: u32) -> Message {
    closed_range(RTM_NEWROUTE, ACK | CREATE | REPLACE, range, priority)
}

/// Takes that route away.
pub(crate) fn without_range(range: AddressRange, priority: u32) -> Message {
    closed_range(RTM_DELROUTE, ACK, range, priority)
}

/// Sets a switch of a link. The thread that calls this is in the node's namespace, so `/proc/sys/net` is the node's.
pub(crate) fn set_link_switch(family: &str, link: &str, switch: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/{family}/conf/{link}/{switch}"), value)
}

fn read_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn read_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

fn read_link(entry: &[u8]) -> Result<Link, NetlinkError> {
    let index = entry.get(4..8).and_then(read_u32).ok_or(NetlinkError::Malformed)?;
    let rest = entry.get(16..).ok_or(NetlinkError::Malformed)?;
    Ok(Link {
        index,
        name: attribute(rest, IFLA_IFNAME).map(read_text).ok_or(NetlinkError::Malformed)?,
        alias: attribute(rest, IFLA_IFALIAS).map(read_text),
        mtu: attribute(rest, IFLA_MTU).and_then(read_u32).unwrap_or(1500),
        operational: attribute(rest, IFLA_OPERSTATE) == Some(&[OPERATIONAL]),
    })
}

/// `None` for what the kernel lists beside routes.
fn read_route(entry: &[u8], family: Family) -> Result<Option<Route>, NetlinkError> {
    let head = entry.get(..12).ok_or(NetlinkError::Malformed)?;
    let (prefix_length, table, origin, kind) = (head[1], head[4], head[5], head[7]);
    if read_u32(&head[8..]).is_some_and(|flags| flags & ROUTE_COPIED != 0) {
        return Ok(None);
    }
    let mut route = Route {
        destination: AddressRange::around(family.unspecified(), prefix_length),
        table: u32::from(table),
        kind,
        priority: 0,
        link: None,
        ours: origin == ROUTE_ORIGIN,
    };
    for (kind, value) in attributes(&entry[12..]) {
        match kind {
            RTA_DST => {
                let address = read_octets(value, family).ok_or(NetlinkError::Malformed)?;
                route.destination = AddressRange::around(address, prefix_length);
            }
            RTA_OIF => route.link = read_u32(value),
            RTA_PRIORITY => route.priority = read_u32(value).unwrap_or(0),
            RTA_TABLE => route.table = read_u32(value).unwrap_or(route.table),
            _ => {}
        }
    }
    Ok(Some(route))
}

fn read_octets(bytes: &[u8], family: Family) -> Option<IpAddr> {
    match family {
        Family::V4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        Family::V6 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

fn read_address_v6(entry: &[u8]) -> Option<(u32, Ipv6Addr)> {
    let head = entry.get(..8)?;
    let index = read_u32(&head[4..])?;
    let flags = attribute(&entry[8..], IFA_FLAGS).and_then(read_u32).unwrap_or_else(|| u32::from(head[2]));
    let octets: [u8; 16] = attribute(&entry[8..], IFA_ADDRESS)?.try_into().ok()?;
    (head[0] == AF_INET6 && flags & NOT_IN_USE == 0).then(|| (index, octets.into()))
}

/// The link over which the machine reaches the rest of the world: that of the default route with the best priority.
pub(crate) fn uplink(routes: &[Route]) -> Option<u32> {
    routes
        .iter()
        .filter(|route| {
            route.destination.prefix_length() == 0
                && route.table == u32::from(TABLE_MAIN)
                && route.kind == ROUTE_UNICAST
                && route.link.is_some()
        })
        .min_by_key(|route| route.priority)
        .and_then(|route| route.link)
}

/// A route of the machine that already uses addresses of `range`; default routes and `own` (the same range held by us)
/// do not count, nor does what runs over the links in `own_links`.
pub(crate) fn overlapping_route<'a>(
    routes: &'a [Route],
    range: AddressRange,
    own: Option<AddressRange>,
    own_links: &[u32],
) -> Option<&'a Route> {
    routes.iter().find(|route| {
        route.destination.prefix_length() > 0
            && (route.table != u32::from(TABLE_LOCAL)
                || route.destination.prefix_length() < range.family().bits())
            && route.destination.overlaps(&range)
            && !route.link.is_some_and(|link| own_links.contains(&link))
            && !(route.ours && route.kind == ROUTE_UNREACHABLE && own == Some(route.destination))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(destination: &str) -> Route {
        Route {
            destination: destination.parse().expect("a range"),
            table: 254,
            kind: ROUTE_UNICAST,
            priority: 0,
            link: Some(2),
            ours: false,
        }
    }

    #[test]
    fn the_default_route_with_the_best_priority_is_the_way_out() {
        let wireless = Route { priority: 600, link: Some(3), ..route("0.0.0.0/0") };
        let cable = Route { priority: 100, link: Some(2), ..route("0.0.0.0/0") };
        let elsewhere = Route { table: 52, link: Some(9), ..route("0.0.0.0/0") };
        assert_eq!(uplink(&[route("10.0.0.0/8"), wireless, elsewhere, cable]), Some(2));
        assert_eq!(uplink(&[route("10.0.0.0/8")]), None);
    }

    #[test]
    fn a_range_that_the_machine_uses_is_seen() {
        let range: AddressRange = "10.131.32.0/20".parse().expect("a range");
        let held = Route { kind: ROUTE_UNREACHABLE, link: None, ours: true, ..route("10.131.32.0/20") };
        let pod = Route { link: Some(7), ours: true, ..route("10.131.32.9/32") };
        let table = [
            (route("0.0.0.0/0"), false, "a default route uses no addresses"),
            (route("10.131.40.0/24"), true, "a part of the range"),
            (route("10.0.0.0/8"), true, "an office network around the range"),
            (route("10.132.0.0/16"), false, "the neighbouring network"),
            (held.clone(), false, "our own hold"),
            (pod, false, "a route over a link of our own"),
            (Route { ours: false, ..held }, true, "the same hold by somebody else"),
        ];
        for (route, taken, why) in table {
            assert_eq!(overlapping_route(&[route], range, Some(range), &[7]).is_some(), taken, "{why}");
        }
    }
}
