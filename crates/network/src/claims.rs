//! Who on this machine has which address range: one small file for each, in a directory that all nodes share and that a
//! restart of the machine empties.
//!
//! A claim is made by linking a complete file to its name, which succeeds for exactly one of two nodes that want the same
//! range at the same moment. A claim whose data directory is gone is nobody's.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::dual_stack::Forwarded;
use crate::range::{AddressRange, Family};

/// Why no range could be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimRangeError {
    /// Every range that could be used is in use.
    #[error(
        "no address range is free for pods: every candidate overlaps a route of this machine or belongs to another node"
    )]
    Exhausted,
    /// The range that the configuration names is in use.
    #[error("the address range {range} for pods is taken by {holder}; choose another")]
    Taken {
        /// The range.
        range: AddressRange,
        /// A route of the machine or the data directory of another node.
        holder: String,
    },
}

/// The claims of all nodes in one network namespace.
pub(crate) struct Claims {
    directory: PathBuf,
}

/// Where the claims of all nodes lie when nobody says otherwise.
pub(crate) const CLAIMS_DIRECTORY: &str = "/run/coracle/network";

/// The data directories of all nodes in the network namespace of the caller, as far as they are known.
#[must_use]
pub fn data_directories_on_this_machine() -> Vec<PathBuf> {
    let Ok(namespace) = fs::metadata("/proc/thread-self/ns/net") else { return Vec::new() };
    let directory = Path::new(CLAIMS_DIRECTORY).join(format!("{}-{}", namespace.dev(), namespace.ino()));
    Claims { directory }.all().into_iter().map(|(_, holder)| holder).collect()
}

/// What happened to a wish.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is ours, from now on or from before.
    Ours,
    /// The node with this data directory has it.
    Taken(PathBuf),
}

impl Claims {
    /// The claims of the namespace that the calling thread is in, below `parent`.
    pub(crate) fn here(parent: &Path) -> io::Result<Self> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")?;
        let directory = parent.join(format!("{}-{}", namespace.dev(), namespace.ino()));
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&directory)?;
        Ok(Self { directory })
    }

    fn file(&self, range: AddressRange) -> PathBuf {
        self.directory.join(format!("{}-{}", range.network(), range.prefix_length()))
    }

    /// The range of a family that this data directory claimed before, if any.
    pub(crate) fn held_by(&self, data_dir: &Path, family: Family) -> Option<AddressRange> {
        let held = |(range, holder): &(AddressRange, PathBuf)| holder == data_dir && range.family() == family;
        self.all().into_iter().find(held).map(|(range, _)| range)
    }

    /// Claims of nodes whose data directory still exists.
    fn all(&self) -> Vec<(AddressRange, PathBuf)> {
        self.every().into_iter().filter(|(_, holder)| holder.exists()).collect()
    }

    /// Takes the claims of nodes whose data directory is gone. Each is answered to one caller.
    pub(crate) fn take_abandoned(&self) -> Vec<(AddressRange, PathBuf)> {
        let gone = self.every().into_iter().filter(|(_, holder)| !holder.exists());
        gone.filter(|(range, _)| fs::remove_file(self.file(*range)).is_ok()).collect()
    }

    fn every(&self) -> Vec<(AddressRange, PathBuf)> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let mut claims: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let range = name.replacen('-', "/", 1).parse().ok()?;
                let holder = PathBuf::from(fs::read_to_string(entry.path()).ok()?);
                Some((range, holder))
            })
            .collect();
        claims.sort();
        claims
    }

    /// Claims `range` for `data_dir` unless a claim of another node overlaps it.
    pub(crate) fn claim(&self, range: AddressRange, data_dir: &Path) -> io::Result<Claim> {
        let taken = |claims: &[(AddressRange, PathBuf)]| {
            claims
                .iter()
                .find(|(other, holder)| other.overlaps(&range) && holder != data_dir)
                .map(|(_, holder)| holder.clone())
        };
        if let Some(holder) = taken(&self.all()) {
            return Ok(Claim::Taken(holder));
        }
        let beside = self.directory.join(format!(".{}", std::process::id()));
        fs::write(&beside, data_dir.as_os_str().as_encoded_bytes())?;
        let file = self.file(range);
        let linked = match fs::hard_link(&beside, &file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::read_to_string(&file) {
                Ok(holder) if Path::new(&holder) != data_dir && Path::new(&holder).exists() => {
                    let _ = fs::remove_file(&beside);
                    return Ok(Claim::Taken(holder.into()));
                }
                // Ours already, or of a node that is gone.
                _ => fs::rename(&beside, &file),
            },
            other => other,
        };
        let _ = fs::remove_file(&beside);
        linked?;
        Ok(Claim::Ours)
    }

    /// Gives the range back. `true` when no node has a claim any more.
    pub(crate) fn release(&self, range: AddressRange) -> bool {
        let _ = fs::remove_file(self.file(range));
        self.all().is_empty()
    }

    fn forwarding_mark(&self) -> PathBuf {
        self.directory.join("forwarding-was-off")
    }

    /// Remembers that the machine did not forward packets before the first node came.
    pub(crate) fn remember_forwarding_was_off(&self) {
        let _ = fs::write(self.forwarding_mark(), "");
    }

    /// Whether forwarding was off before; forgets it.
    pub(crate) fn take_forwarding_was_off(&self) -> bool {
        fs::remove_file(self.forwarding_mark()).is_ok()
    }

    fn forwarding_mark_v6(&self) -> PathBuf {
        self.directory.join("ipv6-forwarding-was-off")
    }

    /// Remembers that the machine did not forward IPv6 before the first node came, and what was changed with that.
    pub(crate) fn remember_forwarded_v6(&self, forwarded: &Forwarded) {
        let _ = fs::write(self.forwarding_mark_v6(), forwarded.learning.join("\n"));
    }

    /// What was changed to forward IPv6; forgets it.
    pub(crate) fn take_forwarded_v6(&self) -> Option<Forwarded> {
        let text = fs::read_to_string(self.forwarding_mark_v6()).ok()?;
        let _ = fs::remove_file(self.forwarding_mark_v6());
        Some(Forwarded { learning: text.lines().map(str::to_owned).collect() })
    }

    /// Removes the directory if nothing is in it.
    pub(crate) fn remove_if_empty(&self) {
        let _ = fs::remove_dir(&self.directory);
        if let Some(parent) = self.directory.parent() {
            let _ = fs::remove_dir(parent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().expect("a range")
    }

    #[test]
    fn one_range_has_one_holder() {
        let (shared, one, other) = (
            tempfile::tempdir().expect("dir"),
            tempfile::tempdir().expect("dir"),
            tempfile::tempdir().expect("dir"),
        );
        let claims = Claims::here(shared.path()).expect("claims");
        assert_eq!(claims.claim(range("10.128.0.0/20"), one.path()).expect("io"), Claim::Ours);
        assert_eq!(
            claims.claim(range("10.128.0.0/20"), one.path()).expect("io"),
            Claim::Ours,
            "again after a restart"
        );
        let taken = Claim::Taken(one.path().to_owned());
        assert_eq!(claims.claim(range("10.128.0.0/20"), other.path()).expect("io"), taken);
        assert_eq!(claims.claim(range("10.128.0.0/16"), other.path()).expect("io"), taken, "a wider range");
        assert_eq!(claims.claim(range("10.128.16.0/20"), other.path()).expect("io"), Claim::Ours);
        assert_eq!(claims.held_by(one.path(), Family::V4), Some(range("10.128.0.0/20")));
        assert_eq!(claims.held_by(one.path(), Family::V6), None);
        assert_eq!(claims.claim(range("fd12::/64"), one.path()).expect("io"), Claim::Ours);
        assert_eq!(claims.held_by(one.path(), Family::V6), Some(range("fd12::/64")));
        assert_eq!(claims.claim(range("fd12::/64"), other.path()).expect("io"), taken, "of either family");
    }

    #[test]
    fn a_claim_dies_with_its_data_directory() {
        let (shared, other) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let gone = tempfile::tempdir().expect("dir");
        let claims = Claims::here(shared.path()).expect("claims");
        assert_eq!(claims.claim(range("10.128.0.0/20"), gone.path()).expect("io"), Claim::Ours);
        let path = gone.path().to_owned();
        assert_eq!(claims.take_abandoned(), [], "it is there");
        drop(gone);
        assert_eq!(claims.take_abandoned(), [(range("10.128.0.0/20"), path)]);
        assert_eq!(claims.take_abandoned(), [], "only once");
        assert_eq!(claims.claim(range("10.128.0.0/20"), other.path()).expect("io"), Claim::Ours);
        assert_eq!(claims.held_by(other.path(), Family::V4), Some(range("10.128.0.0/20")));
    }

    #[test]
    fn the_last_one_out_is_told_so_and_nothing_stays() {
        let (shared, one, other) = (
            tempfile::tempdir().expect("dir"),
            tempfile::tempdir().expect("dir"),
            tempfile::tempdir().expect("dir"),
        );
        let parent = shared.path().join("claims");
        let claims = Claims::here(&parent).expect("claims");
        claims.claim(range("10.128.0.0/20"), one.path()).expect("io");
        claims.claim(range("10.128.16.0/20"), other.path()).expect("io");
        claims.remember_forwarding_was_off();
        assert!(!claims.release(range("10.128.0.0/20")));
        assert!(claims.release(range("10.128.16.0/20")));
        assert!(claims.take_forwarding_was_off());
        assert!(!claims.take_forwarding_was_off());
        let forwarded = Forwarded { learning: vec!["eth0".to_owned(), "eth1".to_owned()] };
        claims.remember_forwarded_v6(&forwarded);
        assert_eq!(claims.take_forwarded_v6(), Some(forwarded));
        assert_eq!(claims.take_forwarded_v6(), None);
        claims.remove_if_empty();
        assert!(!parent.exists());
    }
}
