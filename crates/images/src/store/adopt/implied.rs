//! Directories that a layer has no entry for: they must keep the mode, owner and time that lower layers gave them.
//!
//! A layer with `tmp/file` and no `tmp/` would otherwise turn `/tmp` of the whole image into a directory of mode 0755.
//! Such a layer gets a second directory, for images with these layers below, whose files are hard links to the first.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::super::record::{LayerContent, LayerName, LayerRecord};
use super::super::{ImageStore, Ingest, StoreError, failed};
use crate::digest::Digest;

/// What lower layers say of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Described {
    mode: u32,
    uid: u32,
    gid: u32,
    modified: (i64, i64),
}

impl Described {
    fn of(metadata: &std::fs::Metadata) -> Described {
        Described {
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl ImageStore {
    /// The directory to use for a layer with implied directories above these layers.
    pub(super) fn settle_implied(
        &self,
        ingest: &Ingest,
        below: &[LayerRecord],
        name: LayerName,
        content: &LayerContent,
    ) -> Result<LayerName, StoreError> {
        let lower: Vec<_> = below.iter().rev().map(|layer| self.layer_path(&layer.directory)).collect();
        let described: Vec<(Vec<u8>, Described)> = content
            .implied_directories
            .iter()
            .filter_map(|path| hex::decode(path).ok())
            .filter_map(|path| {
                let found = lower.iter().find_map(|layer| describe(layer, &path))??;
                Some((path, found))
            })
            .collect();
        if described.iter().all(|(_, found)| (found.mode, found.uid, found.gid) == (0o755, 0, 0)) {
            return Ok(name);
        }
        let mut identity = name.as_str().to_owned();
        for layer in below {
            identity.push(' ');
            identity.push_str(layer.directory.as_str());
        }
        let variant = LayerName::of(Digest::of(identity.as_bytes()));
        if self.layer_content(&variant).is_some() {
            return Ok(variant);
        }
        let temporary = ingest.file(&format!("variant-{}", variant.as_str()));
        let source = self.layer_path(&name);
        copy_links(&source, &temporary, 0).map_err(failed("copy", &source))?;
        for (path, found) in &described {
            apply(&temporary, path, found).map_err(failed("copy", &source))?;
        }
        ingest.sync().map_err(failed("write", self.directory()))?;
        let content = LayerContent { diff_id: content.diff_id, implied_directories: Vec::new() };
        self.adopt_directory(&temporary, &variant, &content)?;
        Ok(variant)
    }
}

/// Opens a path inside a layer without following any link.
fn open(layer: &Path, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(layer, flags, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(&root, Path::new(OsStr::from_bytes(path)), flags, Mode::empty(), resolve)
}

/// `None`: this layer says nothing of the path. `Some(None)`: it says that there is no such directory.
fn describe(layer: &Path, path: &[u8]) -> Option<Option<Described>> {
    match open(layer, path) {
        Ok(directory) => {
            let metadata = File::from(directory).metadata().ok()?;
            Some(Some(Described::of(&metadata)))
        }
        Err(Errno::NOENT) => None,
        Err(_) => Some(None),
    }
}

fn apply(layer: &Path, path: &[u8], described: &Described) -> io::Result<()> {
    let directory = open(layer, path)?;
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(described.uid), Gid::from_raw(described.gid));
        rustix::fs::fchown(&directory, Some(uid), Some(gid))?;
    }
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(described.mode))?;
    rustix::fs::futimens(&directory, &times(described.modified))?;
    Ok(())
}

fn times((tv_sec, tv_nsec): (i64, i64)) -> Timestamps {
    let time = Timespec { tv_sec, tv_nsec };
    Timestamps { last_access: time, last_modification: time }
}

/// Copies the directories of a tree and links everything else. Trees in the store are at most 256 directories deep.
fn copy_links(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    if depth > 300 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    std::fs::create_dir(to)?;
    let metadata = from.symlink_metadata()?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_links(&entry.path(), &target, depth + 1)?,
            false => {
                rustix::fs::linkat(rustix::fs::CWD, entry.path(), rustix::fs::CWD, target, AtFlags::empty())?;
            }
        }
    }
    let directory = File::open(to)?;
    copy_attributes(&File::open(from)?, &directory)?;
    let described = Described::of(&metadata);
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(described.uid), Gid::from_raw(described.gid));
        rustix::fs::fchown(&directory, Some(uid), Some(gid))?;
    }
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(described.mode))?;
    rustix::fs::futimens(&directory, &times(described.modified))?;
    Ok(())
}

/// Copies the attributes of a directory that layers may have (see `unpack`).
fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let mut names = vec![0; 64 * 1024];
    let length = match rustix::fs::flistxattr(from, &mut names) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut value = vec![0; 64 * 1024];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        let size = rustix::fs::fgetxattr(from, name, &mut value)?;
        match rustix::fs::fsetxattr(to, name, &value[..size], XattrFlags::empty()) {
            // Labels of security modules are given by the machine itself.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
