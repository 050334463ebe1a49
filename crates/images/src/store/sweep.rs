//! Takes images, and layers that nobody needs any more, out of the store; and holds, which keep layers alive.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::ingest::remove_tree;
use super::record::{HoldRecord, ImageRecord, LayerName, entries, set_aside};
use super::{ImageStore, StoreError, failed, parse_identity};
use crate::digest::Digest;
use crate::image::Image;
use crate::reference::Reference;

/// What a removal took away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Names that mean nothing any more.
    pub references: Vec<String>,
    /// Images that are gone; empty while other names remain.
    pub images: Vec<Digest>,
    /// How many layers went with them.
    pub layers: usize,
    /// Layers that stay because containers use them; they go when the last of these is released.
    pub held_layers: usize,
}

impl ImageStore {
    /// Removes a name, and with the last tag the image; or by identity (or its beginning) an image with all names.
    /// `None`: there was nothing of that name. Works on a full disk.
    pub fn remove(&self, text: &str) -> Result<Option<Removed>, StoreError> {
        let by_name = Reference::parse(text).ok().filter(|reference| {
            parse_identity(text).is_none() && self.reference_path(&reference.key()).exists()
        });
        let identity = match by_name {
            Some(_) => None,
            None => self.identity_of(text)?,
        };
        let lock = self.lock_to_remove()?;
        let records = self.reference_records();
        let mut removed = Removed::default();
        let id = match (&by_name, identity) {
            (Some(reference), _) => {
                let key = reference.key();
                let Some(record) = records.iter().find(|record| record.reference == key) else {
                    return Ok(None);
                };
                let others = records.iter().any(|other| {
                    other.image == record.image && other.reference != key && !other.reference.contains('@')
                });
                if others {
                    self.remove_reference(&key)?;
                    removed.references.push(key);
                    return Ok(Some(removed));
                }
                record.image
            }
            (None, Some(id)) => id,
            (None, None) => return Ok(None),
        };
        for record in records.iter().filter(|record| record.image == id) {
            self.remove_reference(&record.reference)?;
            removed.references.push(record.reference.clone());
        }
        remove_file(&self.image_path(id))?;
        removed.images.push(id);
        let trash = self.take_unused(&mut removed)?;
        // The slow part needs no lock: nobody finds these directories any more.
        drop(lock);
        trash.iter().for_each(|path| remove_tree(path));
        Ok(Some(removed))
    }

    /// The image that a text identifies, complete or not: what is damaged must be removable.
    fn identity_of(&self, text: &str) -> Result<Option<Digest>, StoreError> {
        if let Some(id) = parse_identity(text) {
            return Ok(self.image_path(id).exists().then_some(id));
        }
        match self.find(text) {
            Ok(image) => Ok(image.filter(|image| !image.is_host).map(|image| image.id)),
            Err(StoreError::HostImageNotAllowed(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps an image's layers on the disk for a holder (a container), whatever happens to the image, until released.
    ///
    /// False: the image is not complete any more; pull it again. A holder that holds something already holds the new
    /// image instead. Survives restarts.
    pub fn hold(&self, holder: &str, image: &Image) -> Result<bool, StoreError> {
        let _lock = self.lock_to_add()?;
        let Some(record) = self.read_record::<ImageRecord>(&self.image_path(image.id)) else {
            return Ok(image.is_host);
        };
        if image.layers.iter().any(|layer| !layer.is_dir()) {
            return Ok(false);
        }
        let layers = record.layers.into_iter().map(|layer| layer.directory).collect();
        self.write_record(&self.hold_path(holder), &HoldRecord { holder: holder.to_owned(), layers })?;
        Ok(true)
    }

    /// Ends a hold; removes layers that only it kept. Nothing happens when there is none.
    pub fn release(&self, holder: &str) -> Result<(), StoreError> {
        let path = self.hold_path(holder);
        if !path.exists() {
            return Ok(());
        }
        {
            let _lock = self.lock_to_remove()?;
            remove_file(&path)?;
        }
        self.remove_unused()
    }

    /// Removes layers and configurations that nothing needs: those of an image that was not taken in.
    pub(super) fn remove_unused(&self) -> Result<(), StoreError> {
        let lock = self.lock_to_remove()?;
        let trash = self.take_unused(&mut Removed::default())?;
        drop(lock);
        trash.iter().for_each(|path| remove_tree(path));
        Ok(())
    }

    /// All holders, so that a node can release those it knows nothing of.
    pub fn holders(&self) -> Vec<String> {
        let records =
            self.files("holds").into_iter().filter_map(|path| self.read_record::<HoldRecord>(&path));
        records.map(|record| record.holder).collect()
    }

    /// A hold; none when it is damaged. It is left where it is: set aside, it would hold nothing any more.
    fn read_hold(&self, path: &Path) -> Result<Option<HoldRecord>, StoreError> {
        let bytes = std::fs::read(path).map_err(failed("read", path))?;
        let hold = serde_json::from_slice(&bytes).ok();
        if hold.is_none() {
            tracing::warn!(
                path = %path.display(),
                "a damaged file keeps all layers of the image store; delete it when no container runs on this machine"
            );
        }
        Ok(hold)
    }

    fn hold_path(&self, holder: &str) -> PathBuf {
        self.directory().join("holds").join(format!("{}.json", Digest::of(holder.as_bytes()).to_hex()))
    }

    fn remove_reference(&self, key: &str) -> Result<(), StoreError> {
        remove_file(&self.reference_path(key))
    }

    /// Moves layers and configurations that nothing needs out of sight. The caller holds the lock for removal.
    fn take_unused(&self, removed: &mut Removed) -> Result<Vec<PathBuf>, StoreError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let mut images = BTreeSet::new();
        let mut used: BTreeSet<LayerName> = BTreeSet::new();
        for path in self.files_surely("images")? {
            let Some(record) = self.read_record_surely::<ImageRecord>(&path)? else { continue };
            if path != self.image_path(record.id) {
                set_aside(self.directory(), &path);
                continue;
            }
            images.insert(record.id);
            for layer in record.layers {
                used.insert(LayerName::of(layer.diff_id));
                used.insert(layer.directory);
            }
        }
        let mut held: BTreeSet<LayerName> = BTreeSet::new();
        for path in self.files_surely("holds")? {
            // Which layers a container needs that was running when its hold was damaged, nobody knows: all stay.
            let Some(hold) = self.read_hold(&path)? else { return Ok(Vec::new()) };
            held.extend(hold.layers);
        }
        let mut trash = Vec::new();
        let mut layers = entries(&self.directory().join("layers"))?;
        // Directories before the records that describe them: a crash in between leaves records without directories,
        // which is what an absent layer looks like.
        layers.sort_by_key(|path| path.extension().is_some());
        for path in layers {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // Only what has the name of a layer was made here; anything else is somebody else's.
            let Ok(name) = LayerName::try_from(stem) else { continue };
            if used.contains(&name) {
                continue;
            }
            if path.extension().is_some() {
                if !held.contains(&name) {
                    remove_file(&path)?;
                }
                continue;
            }
            if held.contains(&name) {
                removed.held_layers += 1;
                continue;
            }
            // Numbered: an earlier one of this name may still be on its way out.
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let target =
                self.directory().join("ingest").join(format!("trash-{}-{number}", std::process::id()));
            remove_tree(&target);
            std::fs::rename(&path, &target).map_err(failed("remove", &path))?;
            removed.layers += 1;
            trash.push(target);
        }
        for path in entries(&self.directory().join("blobs/sha256"))? {
            let digest = path.file_name().and_then(|name| name.to_str()).and_then(Digest::from_hex);
            if digest.is_some_and(|digest| !images.contains(&digest)) {
                remove_file(&path)?;
            }
        }
        Ok(trash)
    }
}

fn remove_file(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}
