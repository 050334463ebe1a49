//! What the services of a node are in the packet filter, as elements of sets and maps, and which of them a change of some services
//! changes. Pure.
//!
//! ```text
//! frontend (address, protocol, port)  ->  plan (how many backends, affinity): a chain, shared by all services with the same plan
//! frontend, number                    ->  backend
//! ```
//!
//! So a service that comes, changes or goes touches elements only; a chain is made for the first with a new number of backends.
//!
//! Two services may want the same frontend. A cluster address has it before an external one, then the first by name; when that
//! goes, the other gets it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::{ServicePort, ServiceTable, TrafficPolicy};
use crate::allocations::Protocol;
use crate::range::{AddressRange, Family};

/// What a client connects to. The address 0.0.0.0 is every address of IPv4 of this machine, and `::` every one of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frontend {
    pub(super) address: IpAddr,
    pub(super) protocol: Protocol,
    pub(super) port: u16,
}

/// Frontends with the backends to which each leads.
pub(super) type Led = BTreeMap<Frontend, BTreeSet<SocketAddr>>;

/// Whom a frontend is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// Everybody.
    Everybody,
    /// Who comes from outside, instead.
    Outside,
}

/// By what a frontend is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    /// Address, protocol and port.
    Address,
    /// Protocol and port, at every address of this machine.
    Port,
}

impl Frontend {
    pub(super) fn by(&self) -> By {
        if self.address.is_unspecified() { By::Port } else { By::Address }
    }

    pub(super) fn family(&self) -> Family {
        Family::of(self.address)
    }
}

/// How a backend is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Plan {
    /// Among how many, not 0.
    pub(super) count: u32,
    /// Whether clients are led where they were led before.
    pub(super) affinity: bool,
}

/// What identifies an element, and in which set it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// An address that exists only here.
    ClusterAddress(IpAddr),
    /// A backend that is no pod of this node.
    Beyond(SocketAddr, Protocol),
    /// Where clients from outside find nobody.
    Refused(Frontend),
    /// A plan in use: its chain.
    Plan(Family, Side, By, Plan),
    /// A time in seconds for which clients are noted: its chain.
    Note(Family, By, u32),
    /// Whose clients are noted.
    Noted(By, Frontend),
    /// Where clients come in.
    Frontend(Side, By, Frontend),
    /// A backend in its place.
    Backend(Side, By, Frontend, u32),
}

impl Key {
    /// The family in whose table it is.
    pub(super) fn family(&self) -> Family {
        match self {
            Self::Plan(family, ..) | Self::Note(family, ..) => *family,
            Self::ClusterAddress(address) => Family::of(*address),
            Self::Beyond(backend, _) => Family::of(backend.ip()),
            Self::Refused(frontend)
            | Self::Noted(_, frontend)
            | Self::Frontend(_, _, frontend)
            | Self::Backend(_, _, frontend, _) => frontend.family(),
        }
    }
}

/// What belongs to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Nothing,
    Backend(SocketAddr),
    Seconds(u32),
    /// Nobody, if there is no plan.
    Target {
        plan: Option<Plan>,
        name: Arc<str>,
    },
}

/// Who wants an element; the least gets it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    external: bool,
    service: Arc<str>,
    port: usize,
}

/// What a change changes in the packet filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Elements to take out; before anything is put in.
    pub(super) removed: Vec<Key>,
    /// Elements to put in.
    pub(super) added: Vec<(Key, Content)>,
    /// UDP frontends whose backends changed, with those of now: what clients began before may lead elsewhere.
    pub(super) flows: Led,
    /// Frontends with affinity that lost backends, with those of now: clients may be noted for others.
    pub(super) affinity: Led,
    /// Backends that may be reached over a port of the machine, also from its loopback addresses.
    pub(super) behind_node_ports: BTreeSet<IpAddr>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.flows.is_empty() && self.affinity.is_empty()
    }
}

/// The services of a node as they should be in the packet filter.
#[derive(Debug)]
pub(super) struct Routes {
    /// The addresses of this node's pods.
    pods: Vec<AddressRange>,
    services: BTreeMap<Arc<str>, Vec<ServicePort>>,
    wanted: BTreeMap<Key, Vec<(Owner, Content)>>,
}

impl Routes {
    pub(super) fn new(pods: Vec<AddressRange>) -> Self {
        Self { pods, services: BTreeMap::new(), wanted: BTreeMap::new() }
    }

    /// Takes changed services over and answers what is to be done.
    pub(super) fn update(&mut self, changed: ServiceTable) -> Changes {
        let mut changes = Changes::default();
        let mut touched: BTreeMap<Key, Option<Content>> = BTreeMap::new();
        for (name, ports) in changed {
            let service: Arc<str> = name.into();
            let ports: Vec<_> = ports.into_iter().map(ServicePort::of_its_family).collect();
            let before = self.services.remove(&service).unwrap_or_default();
            if before != ports {
                note_flows(&before, &ports, &mut changes.flows);
                note_affinity(&before, &ports, &mut changes.affinity);
                note_node_ports(&ports, &mut changes.behind_node_ports);
                for (place, port) in before.iter().enumerate() {
                    for (key, external, _) in self.elements(port) {
                        touched.entry(key).or_insert_with(|| winner(&self.wanted, &key));
                        self.give_up(&key, &Owner { external, service: Arc::clone(&service), port: place });
                    }
                }
                for (place, port) in ports.iter().enumerate() {
                    for (key, external, content) in self.elements(port) {
                        touched.entry(key).or_insert_with(|| winner(&self.wanted, &key));
                        let owner = Owner { external, service: Arc::clone(&service), port: place };
                        let wanting = self.wanted.entry(key).or_default();
                        let at = wanting.partition_point(|(other, _)| *other < owner);
                        wanting.insert(at, (owner, content));
                    }
                }
            }
            if !ports.is_empty() {
                self.services.insert(service, ports);
            }
        }
        for (key, before) in touched {
            let now = winner(&self.wanted, &key);
            if before == now {
                continue;
            }
            if before.is_some() {
                changes.removed.push(key);
            }
            if let Some(content) = now {
                changes.added.push((key, content));
            }
        }
        changes
    }

    /// Everything, for a packet filter in which nothing is.
    pub(super) fn all(&self) -> Changes {
        let mut changes = Changes::default();
        for (key, wanting) in &self.wanted {
            if let Some((_, content)) = wanting.first() {
                changes.added.push((*key, content.clone()));
            }
        }
        for ports in self.services.values() {
            note_flows(&[], ports, &mut changes.flows);
            note_node_ports(ports, &mut changes.behind_node_ports);
            changes.affinity.extend(led(ports, |port| port.affinity_seconds.is_some()));
        }
        changes
    }

    /// The names of all services that are known.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.services.keys().map(|name| &**name)
    }

    fn give_up(&mut self, key: &Key, owner: &Owner) {
        let Some(wanting) = self.wanted.get_mut(key) else { return };
        wanting.retain(|(other, _)| other != owner);
        if wanting.is_empty() {
            self.wanted.remove(key);
        }
    }

    fn is_of_pods(&self, address: IpAddr) -> bool {
        self.pods.iter().any(|range| range.contains(address))
    }

    /// What a port is in the packet filter, each with whether it is wanted for an external address.
    fn elements(&self, port: &ServicePort) -> Vec<(Key, bool, Content)> {
        let mut elements = Elements { port, name: port.name.as_str().into(), list: Vec::new() };
        let chosen = |policy| match policy {
            TrafficPolicy::Cluster => port.backends.as_slice(),
            TrafficPolicy::Local => port.local_backends.as_slice(),
        };
        for address in &port.cluster_addresses {
            elements.list.push((Key::ClusterAddress(*address), false, Content::Nothing));
            elements.frontend(Side::Everybody, (*address, port.port), false, chosen(port.internal_policy));
        }
        for (address, number) in external_places(port) {
            elements.frontend(Side::Everybody, (address, number), true, &port.backends);
            let outside = chosen(port.external_policy);
            match port.external_policy {
                TrafficPolicy::Cluster => {}
                TrafficPolicy::Local => elements.frontend(Side::Outside, (address, number), true, outside),
            }
            if outside.is_empty() {
                let frontend = Frontend { address, protocol: port.protocol, port: number };
                elements.list.push((Key::Refused(frontend), true, Content::Nothing));
            }
        }
        for backend in port.backends.iter().filter(|backend| !self.is_of_pods(backend.ip())) {
            elements.list.push((Key::Beyond(*backend, port.protocol), false, Content::Nothing));
        }
        elements.list
    }
}

fn winner(wanted: &BTreeMap<Key, Vec<(Owner, Content)>>, key: &Key) -> Option<Content> {
    wanted.get(key)?.first().map(|(_, content)| content.clone())
}

/// Where a port is reached from outside; the address 0.0.0.0 or `::` stands for those of the machine.
fn external_places(port: &ServicePort) -> impl Iterator<Item = (IpAddr, u16)> {
    let node_port = port.node_port.map(|number| (port.family.unspecified(), number));
    port.external_addresses.iter().map(|address| (*address, port.port)).chain(node_port)
}

/// The elements of one port, as they are collected.
struct Elements<'p> {
    port: &'p ServicePort,
    name: Arc<str>,
    list: Vec<(Key, bool, Content)>,
}

impl Elements<'_> {
    fn frontend(
        &mut self,
        side: Side,
        (address, number): (IpAddr, u16),
        external: bool,
        backends: &[SocketAddr],
    ) {
        let frontend = Frontend { address, protocol: self.port.protocol, port: number };
        let (family, by) = (frontend.family(), frontend.by());
        let count = u32::try_from(backends.len()).unwrap_or(u32::MAX);
        let affinity = self.port.affinity_seconds;
        let plan = (count > 0).then_some(Plan { count, affinity: affinity.is_some() });
        if let Some(plan) = plan {
            self.list.push((Key::Plan(family, side, by, plan), external, Content::Nothing));
        }
        if let Some(seconds) = affinity {
            self.list.push((Key::Note(family, by, seconds), external, Content::Nothing));
            self.list.push((Key::Noted(by, frontend), external, Content::Seconds(seconds)));
        }
        let target = Content::Target { plan, name: Arc::clone(&self.name) };
        self.list.push((Key::Frontend(side, by, frontend), external, target));
        for (place, backend) in (0..).zip(backends) {
            let key = Key::Backend(side, by, frontend, place);
            self.list.push((key, external, Content::Backend(*backend)));
        }
    }
}

/// The frontends of those ports of a service, each with all backends to which it leads somebody.
fn led(ports: &[ServicePort], which: impl Fn(&ServicePort) -> bool) -> Led {
    let mut frontends = Led::new();
    for port in ports.iter().filter(|port| which(port)) {
        let at_cluster_addresses = port.cluster_addresses.iter().map(|address| (*address, port.port));
        for (address, number) in at_cluster_addresses.chain(external_places(port)) {
            let frontend = Frontend { address, protocol: port.protocol, port: number };
            frontends.entry(frontend).or_default().extend(port.backends.iter().chain(&port.local_backends));
        }
    }
    frontends
}

fn note_flows(before: &[ServicePort], now: &[ServicePort], flows: &mut Led) {
    let udp = |ports| led(ports, |port: &ServicePort| port.protocol == Protocol::Udp);
    let (before, now) = (udp(before), udp(now));
    for (frontend, backends) in &now {
        let known = before.get(frontend);
        // Nobody before and nobody now: there is nothing that leads elsewhere.
        if known != Some(backends) && !(known.is_none() && backends.is_empty()) {
            flows.insert(*frontend, backends.clone());
        }
    }
    for frontend in before.keys().filter(|frontend| !now.contains_key(frontend)) {
        flows.entry(*frontend).or_default();
    }
}

fn note_affinity(before: &[ServicePort], now: &[ServicePort], affinity: &mut Led) {
    let sticky = |ports| led(ports, |port: &ServicePort| port.affinity_seconds.is_some());
    let now = sticky(now);
    for (frontend, backends) in sticky(before) {
        let left = now.get(&frontend);
        if left.is_none_or(|left| !left.is_superset(&backends)) {
            affinity.insert(frontend, left.cloned().unwrap_or_default());
        }
    }
}

fn note_node_ports(ports: &[ServicePort], behind: &mut BTreeSet<IpAddr>) {
    for port in ports.iter().filter(|port| port.node_port.is_some()) {
        behind.extend(port.backends.iter().map(SocketAddr::ip));
    }
}

#[cfg(test)]
mod tests;
