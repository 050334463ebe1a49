//! The table of services in the packet filter: its chains and rules, and elements as messages. Each family has one, of the same
//! form: a key holds addresses of one length only, and what is looked up for a packet of IPv4 costs nothing for IPv6.
//!
//! It is a table of its own beside the node's, because it lives otherwise: a node that starts again leaves it as it is, until
//! it knows all services, and then replaces it in one step. So connections never meet a gap.
//!
//! ```text
//! arriving  (destination)   from a pod of this node: everybody; from a pod of another node: left to that one; else: outside
//! leaving   (destination)   from the machine itself: everybody
//! outside                   as everybody, but first what is different for clients from outside
//! everybody                 frontend -> plan, first by address, then by port if the address is of this machine
//! of_N, sticky_of_N         a plan: frontend . a random number below N -> backend. With affinity (sticky), before that:
//!                           client . frontend -> the backend of last time
//! note, note_for_S          of a new connection to a frontend with affinity: client . frontend -> backend is noted for S seconds
//! forward, output, input    what was not led anywhere, to a cluster address: refused; to the rest of the range: no such host
//!                           (over IPv6 refused as well)
//! way_out   (source)        what was led to a backend that is no pod of this node comes back the same way: masqueraded
//! ```
//!
//! Rules are such that the nft program can show them, and what a rule looks up, it looks up by what is in the packet: the program ends
//! itself over a key of which a part comes from another map.

use std::net::{IpAddr, SocketAddr};

use super::routes::{By, Changes, Content, Frontend, Key, Plan, Side};
use crate::allocations::Protocol;
use crate::netlink::Message;
use crate::nftables::{
    ChainType, Element, Hook, Part, Register, Rule, SetKind, Table, TransportNumber, Value, add_elements,
    address_registers, flush_chain, make_base_chain, make_chain, make_set, make_table, remove_chain,
    remove_elements, remove_table,
};
use crate::range::{AddressRange, Family, octets};

const CLUSTER_ADDRESSES: &str = "cluster_addresses";
const REFUSED: &str = "refused";
const REFUSED_PORTS: &str = "refused_node_ports";
const BEYOND: &str = "beyond";

const EVERYBODY: &str = "everybody";
const OUTSIDE: &str = "outside";
const REFUSE: &str = "refuse";
const NOTE: &str = "note";
/// The chain by which tables of other nodes on this machine are recognised, and its place among them.
pub(super) const LEAVING: &str = "leaving";
/// The place of redirections among other programs'.
pub(super) const FIRST_PRIORITY: i32 = -100;

const BACKEND: &[Part] = &[Part::Address, Part::Port];

/// Registers: a frontend and a number, a client and a frontend. No rule has both.
const AT_FRONTEND: Register = Register(0);
const AT_CLIENT: Register = Register(0);

/// A backend, behind the longest of those.
const fn at_backend(family: Family) -> Register {
    match family {
        Family::V4 => Register(8),
        Family::V6 => Register(10),
    }
}

/// What the table follows from.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) table: String,
    /// Those of which the machine has pods.
    pub(super) families: Vec<Family>,
    /// What the names of this node's links to its pods begin with.
    pub(super) link_prefix: String,
    /// The group of all nodes' links to pods.
    pub(super) link_group: u32,
    /// The addresses that services may have.
    pub(super) services: Vec<AddressRange>,
    /// The place among the nodes of this machine.
    pub(super) priority: i32,
}

/// The sets of one way to know frontends.
struct Sets {
    /// Frontend to plan.
    services: &'static str,
    /// Frontend and number to backend.
    backends: &'static str,
    /// What the names of the chains of plans begin with.
    plans: &'static str,
}

const fn sets(side: Side, by: By) -> Sets {
    match (side, by) {
        (Side::Everybody, By::Address) => Sets { services: "services", backends: "backends", plans: "" },
        (Side::Everybody, By::Port) => {
            Sets { services: "node_ports", backends: "node_port_backends", plans: "port_" }
        }
        (Side::Outside, By::Address) => {
            Sets { services: "services_outside", backends: "backends_outside", plans: "outside_" }
        }
        (Side::Outside, By::Port) => Sets {
            services: "node_ports_outside",
            backends: "node_port_backends_outside",
            plans: "outside_port_",
        },
    }
}

const SIDES: [Side; 2] = [Side::Outside, Side::Everybody];

impl By {
    const BOTH: [Self; 2] = [Self::Address, Self::Port];

    /// The memory of clients with affinity.
    pub(super) const fn affinity(self) -> &'static str {
        match self {
            Self::Address => "affinity",
            Self::Port => "node_port_affinity",
        }
    }

    /// Whose clients are noted, to the chain that does it.
    const fn noted(self) -> &'static str {
        match self {
            Self::Address => "sticky",
            Self::Port => "node_port_sticky",
        }
    }

    const fn note(self, seconds: u32) -> NoteChain {
        NoteChain { by: self, seconds }
    }

    /// Loads the frontend to which the first packet of a connection was sent.
    fn load_first(self, rule: Rule, at: Register) -> Rule {
        let (rule, at) = match self {
            Self::Address => {
                let behind = at.plus(address_registers(rule.family()));
                (rule.load_first_destination(at), behind)
            }
            Self::Port => (rule, at),
        };
        rule.load_protocol(at).load_first_port(at.plus(1))
    }

    /// Loads the frontend of a packet; answers the rule and the register behind it.
    fn load(self, rule: Rule, at: Register) -> (Rule, Register) {
        let (rule, at) = match self {
            Self::Address => {
                let behind = at.plus(address_registers(rule.family()));
                (rule.load_destination(at), behind)
            }
            Self::Port => (rule, at),
        };
        (rule.load_protocol(at).load_port(at.plus(1)), at.plus(2))
    }

    fn key(self) -> &'static [Part] {
        match self {
            Self::Address => &[Part::Address, Part::Protocol, Part::Port],
            Self::Port => &[Part::Protocol, Part::Port],
        }
    }

    fn key_with_number(self) -> &'static [Part] {
        match self {
            Self::Address => &[Part::Address, Part::Protocol, Part::Port, Part::Number],
            Self::Port => &[Part::Protocol, Part::Port, Part::Number],
        }
    }

    fn key_with_client(self) -> &'static [Part] {
        match self {
            Self::Address => &[Part::Address, Part::Address, Part::Protocol, Part::Port],
            Self::Port => &[Part::Address, Part::Protocol, Part::Port],
        }
    }
}

/// The name of a chain that notes clients.
struct NoteChain {
    by: By,
    seconds: u32,
}

impl std::fmt::Display for NoteChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by = match self.by {
            By::Address => "",
            By::Port => "port_",
        };
        write!(f, "{by}note_for_{}", self.seconds)
    }
}

impl Layout {
    /// The tables with nothing but their rules, instead of those that are there.
    pub(super) fn make(&self) -> Vec<Message> {
        self.in_tables().flat_map(|each| each.make()).collect()
    }

    /// The table of each family.
    fn in_tables(&self) -> impl Iterator<Item = InTable<'_>> {
        self.families.iter().map(|family| InTable { layout: self, table: self.table(*family) })
    }

    /// The table of a family.
    pub(super) fn table(&self, family: Family) -> Table {
        Table::new(family, self.table.clone())
    }

    /// A change as messages.
    pub(super) fn messages(&self, changes: &Changes) -> Vec<Message> {
        self.in_tables().flat_map(|each| each.messages(changes)).collect()
    }
}

/// The table of one family.
struct InTable<'l> {
    layout: &'l Layout,
    table: Table,
}

impl InTable<'_> {
    fn make(&self) -> Vec<Message> {
        let table = &self.table;
        let mut changes = vec![make_table(table), remove_table(table), make_table(table)];
        for by in By::BOTH {
            for side in SIDES {
                let Sets { services, backends, .. } = sets(side, by);
                changes.push(make_set(table, services, SetKind::Verdicts(by.key())));
                changes.push(make_set(table, backends, SetKind::Map(by.key_with_number(), BACKEND)));
            }
            changes.push(make_set(table, by.affinity(), SetKind::Memory(by.key_with_client(), BACKEND)));
            changes.push(make_set(table, by.noted(), SetKind::Verdicts(by.key())));
        }
        for (set, key) in [
            (CLUSTER_ADDRESSES, &[Part::Address][..]),
            (REFUSED, By::Address.key()),
            (REFUSED_PORTS, By::Port.key()),
            (BEYOND, By::Address.key()),
        ] {
            changes.push(make_set(table, set, SetKind::Set(key)));
        }
        changes.extend([EVERYBODY, OUTSIDE, REFUSE, NOTE].map(|chain| make_chain(table, chain)));
        for (chain, kind, hook, priority) in [
            ("arriving", ChainType::Nat, Hook::Prerouting, self.layout.priority),
            (LEAVING, ChainType::Nat, Hook::Output, self.layout.priority),
            ("forward", ChainType::Filter, Hook::Forward, 0),
            ("output", ChainType::Filter, Hook::Output, 0),
            ("input", ChainType::Filter, Hook::Input, 0),
            ("way_out", ChainType::Nat, Hook::Postrouting, 100),
        ] {
            changes.push(make_base_chain(table, chain, kind, hook, priority));
        }
        changes.extend(self.redirections());
        changes.extend(self.refusals());
        changes
    }

    fn rule(&self, chain: &str) -> Rule {
        Rule::new(&self.table, chain)
    }

    fn of_pods_of_others(&self, chain: &str) -> Rule {
        self.rule(chain).in_from_group(self.layout.link_group).not_in_from_links(&self.layout.link_prefix)
    }

    fn redirections(&self) -> Vec<Message> {
        let mut rules = vec![
            self.rule("arriving").in_from_links(&self.layout.link_prefix).goto(EVERYBODY),
            self.of_pods_of_others("arriving").accept(),
            self.rule("arriving").goto(OUTSIDE),
            self.rule(LEAVING).goto(EVERYBODY),
        ];
        let find = |chain: &str, side: Side, by: By| {
            let rule = match by {
                By::Address => self.rule(chain),
                By::Port => self.rule(chain).destination_is_local(),
            };
            by.load(rule, AT_FRONTEND).0.decide_by(sets(side, by).services, AT_FRONTEND)
        };
        for by in By::BOTH {
            rules.push(find(EVERYBODY, Side::Everybody, by));
            rules.extend(SIDES.map(|side| find(OUTSIDE, side, by)));
        }
        // What stays on the machine keeps its addresses.
        let beyond = self.rule("way_out").translated().not_out_to("lo");
        rules.push(By::Address.load(beyond, AT_FRONTEND).0.in_set(BEYOND, AT_FRONTEND).masquerade());
        rules
    }

    fn refusals(&self) -> Vec<Message> {
        let mut rules = Vec::new();
        for by in By::BOTH {
            let of_connection = by.load_first(self.rule(NOTE).translated(), AT_FRONTEND);
            rules.push(of_connection.decide_by(by.noted(), AT_FRONTEND));
        }
        let refused = |chain: &str, by: By, set: &str| {
            by.load(self.rule(chain), AT_FRONTEND).0.in_set(set, AT_FRONTEND).goto(REFUSE)
        };
        for chain in ["forward", "output", "input"] {
            rules.push(self.rule(chain).not_new().accept());
            if chain != "output" {
                // Every node of this machine may have the same addresses; whose pods ask, answers.
                rules.push(self.of_pods_of_others(chain).accept());
            }
            rules.push(self.rule(chain).jump(NOTE));
            rules.push(refused(chain, By::Address, REFUSED));
        }
        rules.push(refused("input", By::Port, REFUSED_PORTS));
        for chain in ["forward", "output"] {
            let to_address = self.rule(chain).load_destination(AT_FRONTEND);
            rules.push(to_address.in_set(CLUSTER_ADDRESSES, AT_FRONTEND).goto(REFUSE));
            let of_family = |range: &&AddressRange| range.family() == self.table.family;
            let services = self.layout.services.iter().filter(of_family);
            for range in services {
                match self.table.family {
                    Family::V4 => {}
                    // A socket of IPv6 that is just connecting does not hear that there is no such host, and waits.
                    Family::V6 => {
                        let tcp = self.rule(chain).destination_in(*range).protocol_is(number(Protocol::Tcp));
                        rules.push(tcp.reset());
                    }
                }
                rules.push(self.rule(chain).destination_in(*range).no_such_host());
            }
        }
        rules.push(self.rule(REFUSE).protocol_is(number(Protocol::Tcp)).reset());
        rules.push(self.rule(REFUSE).refuse());
        rules
    }

    /// The chain of a plan.
    fn plan(&self, side: Side, by: By, plan: Plan) -> Vec<Message> {
        let (behind_address, at_backend) =
            (address_registers(self.table.family), at_backend(self.table.family));
        let chain = chain_of(side, by, plan);
        let choose = |among: u32| {
            let (rule, behind) = by.load(self.rule(&chain), AT_FRONTEND);
            rule.load_random_below(behind, among).load_from_map(
                sets(side, by).backends,
                AT_FRONTEND,
                at_backend,
            )
        };
        let mut changes = vec![make_chain(&self.table, &chain)];
        if plan.affinity {
            let client = by.load(self.rule(&chain).load_source(AT_CLIENT), AT_CLIENT.plus(behind_address)).0;
            changes.push(
                client.load_from_map(by.affinity(), AT_CLIENT, at_backend).redirect_to_register(at_backend),
            );
        }
        changes.push(choose(plan.count).redirect_to_register(at_backend));
        if plan.count > 1 {
            // The number of backends and the backends are read one after the other: between them there may be fewer.
            changes.push(choose(1).redirect_to_register(at_backend));
        }
        changes
    }

    /// The chain that notes clients for so many seconds. What is known is not changed by noting it again, only kept longer.
    fn note(&self, by: By, seconds: u32) -> Vec<Message> {
        let (behind_address, at_backend) =
            (address_registers(self.table.family), at_backend(self.table.family));
        let chain = by.note(seconds).to_string();
        let client = by.load_first(self.rule(&chain).load_source(AT_CLIENT), AT_CLIENT.plus(behind_address));
        let backend = client.load_destination(at_backend).load_port(at_backend.plus(behind_address));
        let noted = backend.remember(by.affinity(), AT_CLIENT, at_backend, seconds).go_on();
        vec![make_chain(&self.table, &chain), noted]
    }

    /// A chain that an element is, and how it is made.
    fn chain(&self, key: &Key) -> Option<(String, Vec<Message>)> {
        match key {
            Key::Plan(_, side, by, plan) => Some((chain_of(*side, *by, *plan), self.plan(*side, *by, *plan))),
            Key::Note(_, by, seconds) => Some((by.note(*seconds).to_string(), self.note(*by, *seconds))),
            Key::ClusterAddress(_)
            | Key::Beyond(..)
            | Key::Refused(_)
            | Key::Noted(..)
            | Key::Frontend(..)
            | Key::Backend(..) => None,
        }
    }

    /// What of a change is in this table.
    fn messages(&self, changes: &Changes) -> Vec<Message> {
        let table = &self.table;
        let mut messages = Vec::new();
        let mut unused = Vec::new();
        let place = |key: &Key| (key.family(), set_of(key));
        let is_here = |key: &Key| key.family() == table.family;
        let removed = changes.removed.chunk_by(|one, other| place(one) == place(other));
        for group in removed.filter(|group| is_here(&group[0])) {
            if let Some(set) = set_of(&group[0]) {
                let keys: Vec<Vec<u8>> = group.iter().map(key_bytes).collect();
                messages.extend(remove_elements(table, set, &keys));
            }
            for (chain, _) in group.iter().filter_map(|key| self.chain(key)) {
                unused.extend([flush_chain(table, &chain), remove_chain(table, &chain)]);
            }
        }
        // Only now does no frontend lead there.
        messages.extend(unused);
        let added = changes.added.chunk_by(|(one, _), (other, _)| place(one) == place(other));
        for group in added.filter(|group| is_here(&group[0].0)) {
            messages.extend(group.iter().filter_map(|(key, _)| self.chain(key)).flat_map(|(_, chain)| chain));
            if let Some(set) = set_of(&group[0].0) {
                let elements: Vec<Element> =
                    group.iter().map(|(key, content)| element(key, content)).collect();
                messages.extend(add_elements(table, set, &elements));
            }
        }
        messages
    }
}

fn number(protocol: Protocol) -> TransportNumber {
    TransportNumber(match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    })
}

fn chain_of(side: Side, by: By, Plan { count, affinity }: Plan) -> String {
    let affinity = if affinity { "sticky_" } else { "" };
    format!("{}{affinity}of_{count}", sets(side, by).plans)
}

/// The set in which an element is; some are chains.
fn set_of(key: &Key) -> Option<&'static str> {
    Some(match key {
        Key::ClusterAddress(_) => CLUSTER_ADDRESSES,
        Key::Beyond(..) => BEYOND,
        Key::Refused(frontend) => match frontend.by() {
            By::Address => REFUSED,
            By::Port => REFUSED_PORTS,
        },
        Key::Plan(..) | Key::Note(..) => return None,
        Key::Noted(by, _) => by.noted(),
        Key::Frontend(side, by, _) => sets(*side, *by).services,
        Key::Backend(side, by, ..) => sets(*side, *by).backends,
    })
}

// Numbers stand in the machine's byte order, as rules have them in their registers; ports and addresses as in packets.

fn put_address(bytes: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => bytes.extend(address.octets()),
        IpAddr::V6(address) => bytes.extend(address.octets()),
    }
}

fn put_port(bytes: &mut Vec<u8>, port: u16) {
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 0]);
}

/// The bytes of a frontend in a key.
pub(super) fn frontend_key(frontend: &Frontend) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    match frontend.by() {
        By::Address => put_address(&mut bytes, frontend.address),
        By::Port => {}
    }
    bytes.extend([number(frontend.protocol).0, 0, 0, 0]);
    put_port(&mut bytes, frontend.port);
    bytes
}

/// The bytes of a backend in a value.
pub(super) fn backend_value(backend: &SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(20);
    put_address(&mut bytes, backend.ip());
    put_port(&mut bytes, backend.port());
    bytes
}

fn key_bytes(key: &Key) -> Vec<u8> {
    match key {
        Key::ClusterAddress(address) => octets(*address),
        Key::Beyond(backend, protocol) => {
            frontend_key(&Frontend { address: backend.ip(), protocol: *protocol, port: backend.port() })
        }
        Key::Plan(..) | Key::Note(..) => Vec::new(),
        Key::Frontend(_, _, frontend) | Key::Noted(_, frontend) | Key::Refused(frontend) => {
            frontend_key(frontend)
        }
        Key::Backend(_, _, frontend, place) => {
            let mut bytes = frontend_key(frontend);
            bytes.extend(place.to_ne_bytes());
            bytes
        }
    }
}

fn element(key: &Key, content: &Content) -> Element {
    let (value, comment) = match (key, content) {
        (_, Content::Nothing) => (Value::None, None),
        (_, Content::Backend(backend)) => (Value::Data(backend_value(backend)), None),
        (Key::Frontend(side, by, _), Content::Target { plan: Some(plan), name }) => {
            (Value::Goto(chain_of(*side, *by, *plan)), Some(name.to_string()))
        }
        (Key::Noted(by, _), Content::Seconds(seconds)) => (Value::Goto(by.note(*seconds).to_string()), None),
        (_, Content::Seconds(_)) => (Value::None, None),
        // Nothing is done here, also not for another service; it is refused later.
        (_, Content::Target { name, .. }) => (Value::Accept, Some(name.to_string())),
    };
    Element { comment, ..Element::new(key_bytes(key), value) }
}
