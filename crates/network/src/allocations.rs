//! Which pod has which address and host ports, kept in a file that the next start of the node reads.
//!
//! The file is replaced as a whole by a rename. It has to survive the death of the daemon, not of the machine: with the
//! machine go the pods' links too, so nothing is flushed to disk. A file that cannot be read is set aside, and what the
//! kernel still knows takes its place.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::range::{AddressRange, Family};

/// A transport protocol of a host port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port of the machine that leads to a port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostPort {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The only address of the machine at which the port is open; `None` is every address, loopback included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_address: Option<IpAddr>,
    /// The port of the machine, not 0.
    pub host_port: u16,
    /// The port of the pod, not 0.
    pub pod_port: u16,
}

impl HostPort {
    /// Whether both want the same port of the machine at an address that both would have.
    fn collides(&self, other: &Self) -> bool {
        let addresses = match (self.host_address, other.host_address) {
            (Some(one), Some(other)) => one == other,
            (None, _) | (_, None) => true,
        };
        addresses && self.protocol == other.protocol && self.host_port == other.host_port
    }
}

/// What one pod has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Allocation {
    pub(crate) address: Ipv4Addr,
    /// Its address of IPv6, as many places above the lowest of its range as the other one is.
    #[serde(default, rename = "ipv6", skip_serializing_if = "Option::is_none")]
    pub(crate) address_v6: Option<Ipv6Addr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<HostPort>,
}

impl Allocation {
    /// Its addresses, best first.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        [IpAddr::V4(self.address)].into_iter().chain(self.address_v6.map(IpAddr::V6))
    }

    /// Its address of a family.
    pub(crate) fn of_family(&self, family: Family) -> Option<IpAddr> {
        self.addresses().find(|address| Family::of(*address) == family)
    }
}

/// Why a pod got no address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AllocateError {
    /// Every address is in use.
    #[error("all addresses of {0} are in use")]
    Exhausted(AddressRange),
    /// Another pod has the port.
    #[error("host port {port}/{protocol:?} is taken by pod sandbox {holder}")]
    PortTaken {
        /// The port of the machine.
        port: u16,
        /// Its protocol.
        protocol: Protocol,
        /// The sandbox that has it.
        holder: String,
    },
}

/// Why the allocations could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the pod addresses to {path}")]
pub struct AllocationsError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// The allocations of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Allocations {
    version: u32,
    range: AddressRange,
    /// Where pods have their addresses of IPv6, on a machine that has both families.
    #[serde(default, rename = "ipv6Range", skip_serializing_if = "Option::is_none")]
    range_v6: Option<AddressRange>,
    /// The offset after the one given last: an address rests as long as possible before it is given again, so that nobody
    /// who remembers the old pod talks to the new one.
    next: u64,
    pods: BTreeMap<String, Allocation>,
}

/// What [`Allocations::load`] found.
pub(crate) enum Loaded {
    /// No file: a new node.
    Absent,
    /// A good file.
    Present(Allocations),
    /// A damaged file, now under another name (if even that went well).
    Quarantined { reason: String, moved_to: Option<PathBuf> },
}

const VERSION: u32 = 1;
/// The node's own address: what pods see when the node talks to them.
const NODE_OFFSET: u64 = 1;
const FIRST_POD_OFFSET: u64 = 2;

/// What the node of a range is called by its pods.
pub(crate) fn node_address_in(range: AddressRange) -> Option<IpAddr> {
    range.nth(NODE_OFFSET)
}

impl Allocations {
    pub(crate) fn new(range: AddressRange) -> Self {
        Self { version: VERSION, range, range_v6: None, next: FIRST_POD_OFFSET, pods: BTreeMap::new() }
    }

    /// Reads the file; never fails, because a node must start whatever is in it.
    pub(crate) fn load(path: &Path) -> Loaded {
        let reason = match fs::read(path) {
            Ok(bytes) => match serde_json::from_slice::<Self>(&bytes) {
                Ok(found) if found.version != VERSION => format!("version {} is not known", found.version),
                Ok(found) => match found.check() {
                    Ok(()) => return Loaded::Present(found),
                    Err(reason) => reason,
                },
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Loaded::Absent,
            Err(error) => error.to_string(),
        };
        let moved_to = (0..1000)
            .map(|number| path.with_extension(format!("damaged-{number}")))
            .find(|candidate| !candidate.exists())
            .filter(|candidate| fs::rename(path, candidate).is_ok());
        Loaded::Quarantined { reason, moved_to }
    }

    fn check(&self) -> Result<(), String> {
        if self.range.family() != Family::V4 {
            return Err(format!("the range {} is not of IPv4", self.range));
        }
        if self.range.size() < 4 {
            return Err(format!("the range {} is too small", self.range));
        }
        if self.range_v6.is_some_and(|range| range.family() != Family::V6) {
            return Err("the range of IPv6 is none".to_owned());
        }
        let mut seen = BTreeMap::new();
        for (id, allocation) in &self.pods {
            if !self.range.contains(allocation.address) {
                return Err(format!("{} of {id} is not in {}", allocation.address, self.range));
            }
            if let Some(other) = seen.insert(allocation.address, id) {
                return Err(format!("{} is given to both {other} and {id}", allocation.address));
            }
        }
        Ok(())
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), AllocationsError> {
        let text = serde_json::to_vec_pretty(self).expect("plain fields always serialise");
        let beside = path.with_extension("new");
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, path))
            .map_err(|source| AllocationsError { path: path.to_owned(), source })
    }

    pub(crate) fn range(&self) -> AddressRange {
        self.range
    }

    /// The address under which the node talks to its pods.
    pub(crate) fn node_address(&self) -> Ipv4Addr {
        self.nth(NODE_OFFSET).expect("a range of four addresses has a second")
    }

    /// The range of IPv6, if pods have such addresses.
    pub(crate) fn range_v6(&self) -> Option<AddressRange> {
        self.range_v6
    }

    /// The ranges from which pods get their addresses, best first.
    pub(crate) fn ranges(&self) -> Vec<AddressRange> {
        [self.range].into_iter().chain(self.range_v6).collect()
    }

    /// What the node is called by its pods, in each of the ranges.
    pub(crate) fn node_addresses(&self) -> Vec<IpAddr> {
        let v6 = self.node_address_v6().map(IpAddr::V6);
        [IpAddr::V4(self.node_address())].into_iter().chain(v6).collect()
    }

    /// From now on pods get addresses of IPv6 from here, or none. Pods keep the ones that are in it.
    pub(crate) fn set_range_v6(&mut self, range: Option<AddressRange>) {
        self.range_v6 = range;
        for pod in self.pods.values_mut() {
            pod.address_v6 =
                pod.address_v6.filter(|address| range.is_some_and(|range| range.contains(*address)));
        }
    }

    /// What the node is called by its pods over IPv6.
    pub(crate) fn node_address_v6(&self) -> Option<Ipv6Addr> {
        self.nth_v6(NODE_OFFSET)
    }

    fn nth_v6(&self, offset: u64) -> Option<Ipv6Addr> {
        match self.range_v6?.nth(offset)? {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        }
    }

    /// The address of IPv6 that goes with one of IPv4.
    pub(crate) fn v6_beside(&self, address: Ipv4Addr) -> Option<Ipv6Addr> {
        self.nth_v6(self.range.offset_of(address)?)
    }

    /// The pod does without IPv6.
    pub(crate) fn without_v6(&mut self, id: &str) {
        if let Some(pod) = self.pods.get_mut(id) {
            pod.address_v6 = None;
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Allocation> {
        self.pods.get(id)
    }

    /// Gives the pod an address, the same one if it has one already.
    pub(crate) fn allocate(&mut self, id: &str, ports: &[HostPort]) -> Result<Allocation, AllocateError> {
        for port in ports {
            let holder = self
                .pods
                .iter()
                .filter(|(holder, _)| *holder != id)
                .find(|(_, allocation)| allocation.ports.iter().any(|taken| taken.collides(port)));
            if let Some((holder, _)) = holder {
                return Err(AllocateError::PortTaken {
                    port: port.host_port,
                    protocol: port.protocol,
                    holder: holder.clone(),
                });
            }
        }
        let address = match self.pods.get(id) {
            Some(known) => known.address,
            None => self.free_address().ok_or(AllocateError::Exhausted(self.range))?,
        };
        let allocation = Allocation { address, address_v6: self.v6_beside(address), ports: ports.to_vec() };
        self.pods.insert(id.to_owned(), allocation.clone());
        Ok(allocation)
    }

    fn nth(&self, offset: u64) -> Option<Ipv4Addr> {
        match self.range.nth(offset)? {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }

    fn free_address(&mut self) -> Option<Ipv4Addr> {
        // The last address is a broadcast address to some programs.
        let usable = self.range.size() - 1 - FIRST_POD_OFFSET;
        let start = self.next.max(FIRST_POD_OFFSET) - FIRST_POD_OFFSET;
        for step in 0..usable {
            let offset = FIRST_POD_OFFSET + (start + step) % usable;
            let address = self.nth(offset)?;
            if !self.addresses().any(|taken| taken == address) {
                self.next = offset + 1;
                return Some(address);
            }
        }
        None
    }

    /// Takes over what the kernel still has of a pod that the file forgot.
    pub(crate) fn adopt(&mut self, id: &str, address: Ipv4Addr, address_v6: Option<Ipv6Addr>) {
        if self.range.contains(address) && !self.addresses().any(|taken| taken == address) {
            self.pods.entry(id.to_owned()).or_insert_with(|| Allocation {
                address,
                address_v6,
                ports: Vec::new(),
            });
        }
    }

    pub(crate) fn release(&mut self, id: &str) -> Option<Allocation> {
        self.pods.remove(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.pods.values().map(|allocation| allocation.address)
    }

    /// Those of a family.
    pub(crate) fn addresses_of(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        self.pods.values().filter_map(move |pod| pod.of_family(family))
    }

    /// Ports of the machine's addresses of a family, with the pods to which they lead.
    pub(crate) fn host_ports(&self, family: Family) -> impl Iterator<Item = (IpAddr, &HostPort)> {
        let open = move |port: &&HostPort| port.host_address.is_none_or(|at| Family::of(at) == family);
        self.pods
            .values()
            .filter_map(move |pod| Some((pod, pod.of_family(family)?)))
            .flat_map(move |(pod, address)| pod.ports.iter().filter(open).map(move |port| (address, port)))
    }

    pub(crate) fn has_host_ports(&self) -> bool {
        self.pods.values().any(|pod| !pod.ports.is_empty())
    }
}

#[cfg(test)]
mod tests;
