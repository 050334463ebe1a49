//! Which pod has which address and host ports, kept in a file that the next start of the node reads.
//!
//! The file is replaced as a whole by a rename. It has to survive the death of the daemon, not of the machine: with the
//! machine go the pods' links too, so nothing is flushed to disk. A file that cannot be read is set aside, and what the
//! kernel still knows takes its place.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::range::AddressRange;

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
    pub host_address: Option<Ipv4Addr>,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<HostPort>,
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

impl Allocations {
    pub(crate) fn new(range: AddressRange) -> Self {
        Self { version: VERSION, range, next: FIRST_POD_OFFSET, pods: BTreeMap::new() }
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
        if self.range.size() < 4 {
            return Err(format!("the range {} is too small", self.range));
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
        self.range.nth(NODE_OFFSET).expect("a range of four addresses has a second")
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
        if let Some(allocation) = self.pods.get_mut(id) {
            allocation.ports = ports.to_vec();
            return Ok(allocation.clone());
        }
        let address = self.free_address().ok_or(AllocateError::Exhausted(self.range))?;
        let allocation = Allocation { address, ports: ports.to_vec() };
        self.pods.insert(id.to_owned(), allocation.clone());
        Ok(allocation)
    }

    fn free_address(&mut self) -> Option<Ipv4Addr> {
        // The last address is a broadcast address to some programs.
        let usable = self.range.size() - 1 - FIRST_POD_OFFSET;
        let start = self.next.max(FIRST_POD_OFFSET) - FIRST_POD_OFFSET;
        for step in 0..usable {
            let offset = FIRST_POD_OFFSET + (start + step) % usable;
            let address = self.range.nth(offset)?;
            if !self.addresses().any(|taken| taken == address) {
                self.next = offset + 1;
                return Some(address);
            }
        }
        None
    }

    /// Takes over what the kernel still has of a pod that the file forgot.
    pub(crate) fn adopt(&mut self, id: &str, address: Ipv4Addr) {
        if self.range.contains(address) && !self.addresses().any(|taken| taken == address) {
            self.pods.entry(id.to_owned()).or_insert_with(|| Allocation { address, ports: Vec::new() });
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

    pub(crate) fn host_ports(&self) -> impl Iterator<Item = (Ipv4Addr, &HostPort)> {
        self.pods.values().flat_map(|pod| pod.ports.iter().map(|port| (pod.address, port)))
    }

    pub(crate) fn has_host_ports(&self) -> bool {
        self.host_ports().next().is_some()
    }
}

#[cfg(test)]
mod tests;
