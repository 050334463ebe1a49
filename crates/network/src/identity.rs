//! What follows from the data directory of a node: the names of its interfaces and of its table, and the order in which it
//! tries address ranges. Pure.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::dual_stack::closed_to_pods;
use crate::range::{AddressRange, Family};

/// Pod ranges are cut from 10.128.0.0/9: the upper half of 10/8 is less used in offices than the lower.
const POOL: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const POOL_LENGTH: u8 = 9;
/// 4,094 addresses for pods of one node: room for its 110 pods and for not using an address again at once.
const RANGE_LENGTH: u8 = 20;
/// How many ranges the pool holds.
const RANGES: u32 = 1 << (RANGE_LENGTH - POOL_LENGTH);

/// Ranges of IPv6 are unique-local (RFC 4193): 40 bits that nobody else should have, and 16 of a subnet.
const UNIQUE_LOCAL: u8 = 0xfd;
const RANGE_LENGTH_V6: u8 = 64;
/// So many are tried; two nodes of one machine never meet at the first.
const RANGES_V6: u8 = 64;

/// What the names of all nodes' tables begin with, and those of services end with.
const TABLES: &str = "coracle-";
const SERVICES: &str = "-services";

/// Names that belong to one node, all derived from the path of its data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    digest: [u8; 32],
}

impl NodeIdentity {
    /// The identity of the node whose data directory is `data_dir` (which should be canonical: two spellings are two nodes).
    #[must_use]
    pub fn of_data_dir(data_dir: &Path) -> Self {
        Self { digest: Sha256::digest(data_dir.as_os_str().as_bytes()).into() }
    }

    /// The prefix that all interfaces of this node share: `co` and eight hexadecimal digits.
    ///
    /// With a number of up to four digits it stays inside the fifteen bytes of an interface name.
    #[must_use]
    pub fn interface_prefix(&self) -> String {
        format!("co{}", hex::encode(&self.digest[..4]))
    }

    /// The name of the node's nf_tables table.
    #[must_use]
    pub fn table(&self) -> String {
        self.to_string()
    }

    /// The name of the table of the services that the node routes.
    #[must_use]
    pub fn services_table(&self) -> String {
        format!("{self}{SERVICES}")
    }

    /// Whether a table is that of the services of some node.
    pub(crate) fn is_services_table(table: &str) -> bool {
        table.starts_with(TABLES) && table.ends_with(SERVICES)
    }

    /// The priority of routes of which each node has one of its own; never that of a held range.
    pub(crate) fn route_priority(&self) -> u32 {
        u32::from_be_bytes([0x7f, self.digest[12], self.digest[13], self.digest[14]])
    }

    /// The node's end of the link of the pod at `offset` in the range (below 4,096, so at most three digits).
    #[must_use]
    pub fn interface(&self, offset: u64) -> String {
        format!("{}{offset:x}", self.interface_prefix())
    }

    /// Every range of the pool, each once, beginning with the one that the data directory chooses.
    pub fn candidate_ranges(&self) -> impl Iterator<Item = AddressRange> + use<> {
        let first =
            u32::from_be_bytes([self.digest[8], self.digest[9], self.digest[10], self.digest[11]]) % RANGES;
        (0..RANGES).map(move |step| {
            let slice = (first + step) % RANGES;
            AddressRange::around(
                Ipv4Addr::from(POOL.to_bits() + (slice << (32 - RANGE_LENGTH))),
                RANGE_LENGTH,
            )
        })
    }
}

impl NodeIdentity {
    /// Ranges of IPv6, beginning with the one that the data directory chooses.
    pub fn candidate_ranges_v6(&self) -> impl Iterator<Item = AddressRange> + use<> {
        let digest = self.digest;
        (0..RANGES_V6)
            .map(move |step| {
                let chosen = Sha256::new().chain_update(digest).chain_update([step]).finalize();
                let mut octets = [0; 16];
                octets[0] = UNIQUE_LOCAL;
                octets[1..8].copy_from_slice(&chosen[..7]);
                AddressRange::around(Ipv6Addr::from(octets), RANGE_LENGTH_V6)
            })
            .filter(|range| !closed_to_pods(Family::V6).iter().any(|closed| closed.overlaps(range)))
    }
}

/// `coracle-` and sixteen hexadecimal digits.
impl fmt::Display for NodeIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{TABLES}{}", hex::encode(&self.digest[..8]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_fit_into_what_the_kernel_allows() {
        let identity = NodeIdentity::of_data_dir(Path::new("/var/lib/coracle"));
        assert!(identity.interface(4095).len() <= 15, "{}", identity.interface(4095));
        assert!(identity.table().len() < 32);
        assert!(identity.interface(17).starts_with(&identity.interface_prefix()));
    }

    #[test]
    fn two_data_directories_are_two_nodes() {
        let one = NodeIdentity::of_data_dir(Path::new("/a"));
        let other = NodeIdentity::of_data_dir(Path::new("/b"));
        assert_ne!(one.table(), other.table());
        assert_ne!(one.interface_prefix(), other.interface_prefix());
        assert_ne!(one.candidate_ranges().next(), other.candidate_ranges().next());
        assert_eq!(one, NodeIdentity::of_data_dir(Path::new("/a")));
    }

    #[test]
    fn every_range_of_the_pool_is_tried_once() {
        let pool = AddressRange::around(POOL, POOL_LENGTH);
        let ranges: Vec<_> = NodeIdentity::of_data_dir(Path::new("/a")).candidate_ranges().collect();
        assert_eq!(ranges.len(), 2048);
        assert_eq!(ranges.iter().collect::<BTreeSet<_>>().len(), 2048);
        assert!(ranges.iter().all(|range| pool.contains(range.network())));
    }

    #[test]
    fn ranges_of_ipv6_are_unique_local_and_the_nodes_own() {
        let of =
            |path: &str| NodeIdentity::of_data_dir(Path::new(path)).candidate_ranges_v6().collect::<Vec<_>>();
        let unique_local: AddressRange = "fd00::/8".parse().expect("a range");
        let ranges = of("/a");
        assert!(ranges.len() > 60 && ranges.iter().collect::<BTreeSet<_>>().len() == ranges.len());
        assert!(ranges.iter().all(|range| range.prefix_length() == 64 && unique_local.overlaps(range)));
        assert_eq!(ranges, of("/a"));
        assert_ne!(ranges[0], of("/b")[0]);
    }
}
