//! A private directory for what is on its way into the store. Its owner locks it; without an owner it is swept.

use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;

use super::{ImageStore, StoreError, failed};
use crate::digest::Digest;

/// A directory on the store's own file system, removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct Ingest {
    path: PathBuf,
    /// The directory itself, locked for as long as the owner lives.
    lock: File,
}

impl Ingest {
    /// Where a transported blob goes.
    pub(crate) fn blob(&self, digest: Digest) -> PathBuf {
        self.path.join(format!("blob-{}", digest.to_hex()))
    }

    /// Where a layer of an image is unpacked. Numbered, because one image may have the same layer twice.
    pub(crate) fn layer(&self, index: usize) -> PathBuf {
        self.path.join(format!("layer-{index}"))
    }

    /// Where anything else goes.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes all of it to the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.lock)?)
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        remove_tree(&self.path);
    }
}

/// Removes a directory; what cannot be removed is left for the next sweep.
pub(super) fn remove_tree(path: &Path) {
    match std::fs::remove_dir_all(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a temporary directory cannot be removed");
        }
    }
}

impl ImageStore {
    /// A new directory for something on its way.
    pub(crate) fn ingest(&self) -> Result<Ingest, StoreError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = self.directory().join("ingest").join(format!("{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                // Left by an earlier process of this number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed("create", &path)(error)),
            }
            // A sweep of another process may take the directory before it is locked: then there is no harm in trying
            // again.
            let Ok(lock) = File::open(&path) else { continue };
            let locked = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
            if locked && path.exists() {
                return Ok(Ingest { path, lock });
            }
        }
    }

    /// Removes what owners left behind that do not live any more.
    pub(super) fn sweep_ingest(&self) {
        let Ok(entries) = std::fs::read_dir(self.directory().join("ingest")) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if !metadata.is_dir() {
                // Files live here for milliseconds only; an old one has no owner.
                let old = metadata.modified().ok().and_then(|time| time.elapsed().ok());
                if old.is_some_and(|age| age.as_secs() > 600) {
                    let _ = std::fs::remove_file(&path);
                }
                continue;
            }
            let Ok(directory) = File::open(&path) else { continue };
            if rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove_tree(&path);
            }
        }
    }
}
