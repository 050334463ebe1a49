//! How much of the disk a tree takes that a pod may change at any time: walked by directory descriptors, never through a
//! link, never into another file system, and never without end.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

/// Directories nested deeper than this are not looked into: each level takes a descriptor.
const MOST_LEVELS: usize = 128;

/// More entries than this are not looked at.
const MOST_ENTRIES: u64 = 2_000_000;

/// What a tree takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskUsage {
    /// Bytes of all blocks that were seen.
    pub(crate) bytes: u64,
    /// Why there may be more than was seen.
    pub(crate) unmeasured: Option<Unmeasured>,
}

/// Why a tree could not be measured to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmeasured {
    /// Too many levels of directories.
    TooDeep,
    /// Too many entries.
    TooMany,
}

impl Unmeasured {
    /// For a message.
    pub(crate) fn sentence(self) -> String {
        match self {
            Self::TooDeep => format!("its directories are nested deeper than {MOST_LEVELS} levels"),
            Self::TooMany => format!("it has more than {MOST_ENTRIES} entries"),
        }
    }
}

/// Measures a directory with all below it. A directory that is not there takes nothing. Blocks on the file system.
///
/// # Errors
///
/// When the directory itself cannot be read.
pub(crate) fn measure(directory: &Path) -> io::Result<DiskUsage> {
    match rustix::fs::open(directory, DIRECTORY, Mode::empty()) {
        Ok(root) => measure_within(root, MOST_LEVELS, MOST_ENTRIES),
        Err(Errno::NOENT) => Ok(DiskUsage::default()),
        Err(error) => Err(error.into()),
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn measure_within(root: OwnedFd, levels: usize, mut entries_left: u64) -> io::Result<DiskUsage> {
    let top = fstat(&root)?;
    let mut usage = DiskUsage { bytes: blocks_bytes(&top), unmeasured: None };
    let mut linked = HashSet::new();
    let mut open = vec![Dir::new(root)?];
    while let Some(directory) = open.last_mut() {
        // What vanishes while it is looked at takes nothing.
        let Some(Ok(entry)) = directory.read() else {
            open.pop();
            continue;
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Some(left) = entries_left.checked_sub(1) else {
            usage.unmeasured = Some(Unmeasured::TooMany);
            return Ok(usage);
        };
        entries_left = left;
        let Ok(parent) = directory.fd() else { continue };
        let Ok(found) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if found.st_dev != top.st_dev {
            continue;
        }
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if is_directory || found.st_nlink < 2 || linked.insert(found.st_ino) {
            usage.bytes = usage.bytes.saturating_add(blocks_bytes(&found));
        }
        if !is_directory {
            continue;
        }
        if open.len() >= levels {
            usage.unmeasured = Some(Unmeasured::TooDeep);
            continue;
        }
        let Some(parent) = open.last() else { continue };
        let Ok(parent) = parent.fd() else { continue };
        let below = openat(parent.as_fd(), name, DIRECTORY, Mode::empty()).and_then(Dir::new);
        open.extend(below);
    }
    Ok(usage)
}

fn blocks_bytes(found: &rustix::fs::Stat) -> u64 {
    u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn open(path: &Path) -> OwnedFd {
        rustix::fs::open(path, DIRECTORY, Mode::empty()).expect("it can be opened")
    }

    #[test]
    fn links_are_never_followed_and_hard_links_count_once() {
        let place = tempfile::tempdir().expect("a directory");
        let outside = place.path().join("outside");
        std::fs::create_dir(&outside).expect("made");
        std::fs::write(outside.join("big"), vec![1; 1 << 20]).expect("written");
        let volume = place.path().join("volume");
        std::fs::create_dir_all(volume.join("a/b")).expect("made");
        std::fs::write(volume.join("a/b/file"), vec![1; 256 << 10]).expect("written");
        symlink(&outside, volume.join("link")).expect("linked");
        symlink(outside.join("big"), volume.join("a/link")).expect("linked");
        std::fs::hard_link(volume.join("a/b/file"), volume.join("again")).expect("linked");
        let usage = measure(&volume).expect("measured");
        assert!((256 << 10..512 << 10).contains(&usage.bytes), "{usage:?}");
        assert_eq!(usage.unmeasured, None);
        assert_eq!(measure(&place.path().join("nowhere")).expect("nothing"), DiskUsage::default());
        assert!(measure(&volume.join("link")).is_err(), "nor is the root a link");
    }

    #[test]
    fn a_tree_without_end_is_given_up_and_not_taken_for_small() {
        let place = tempfile::tempdir().expect("a directory");
        let mut path = place.path().to_owned();
        for _ in 0..5 {
            path.push("d");
        }
        std::fs::create_dir_all(&path).expect("made");
        std::fs::write(path.join("file"), "x").expect("written");
        let measured = |levels, entries| {
            measure_within(open(place.path()), levels, entries).expect("measured").unmeasured
        };
        assert_eq!(measured(6, 100), None);
        assert_eq!(measured(5, 100), Some(Unmeasured::TooDeep));
        assert_eq!(measured(6, 5), Some(Unmeasured::TooMany));
    }
}
