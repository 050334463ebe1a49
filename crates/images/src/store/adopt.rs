//! Takes a finished image into the store: layers first, its name last.

use std::path::{Path, PathBuf};

use super::record::{ImageRecord, LayerContent, LayerName, LayerRecord, ReferenceRecord, sync_directory};
use super::{ImageStore, Ingest, StoreError, failed};
use crate::digest::Digest;
use crate::image::Image;

mod implied;

/// A verified image whose layers are in the store or in an [`Ingest`].
#[derive(Debug)]
pub(crate) struct NewImage {
    /// The configuration as it came; its digest is the image's identity.
    pub(crate) config: Vec<u8>,
    /// Content digests of the layers, lowest first.
    pub(crate) layers: Vec<Digest>,
    /// Layers that the store did not have.
    pub(crate) fresh: Vec<FreshLayer>,
    /// Names that shall mean the image, in the form of keys.
    pub(crate) references: Vec<String>,
    /// Transported bytes.
    pub(crate) size: u64,
}

/// A layer that was unpacked for this image.
#[derive(Debug)]
pub(crate) struct FreshLayer {
    pub(crate) diff_id: Digest,
    pub(crate) directory: PathBuf,
    pub(crate) implied_directories: Vec<Vec<u8>>,
}

/// Why an image is not taken in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    /// Somebody removed a layer that was there before: the transfer has to be done again.
    #[error("a layer was removed meanwhile")]
    LayerGone,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ImageStore {
    /// Whether the store has a layer with this content.
    pub(crate) fn has_layer(&self, diff_id: Digest) -> bool {
        self.layer_content(&LayerName::of(diff_id)).is_some_and(|(_, content)| content.diff_id == diff_id)
    }

    /// Takes an image in. After this answered, it survives a power cut. One that is not taken in leaves nothing behind.
    pub(crate) fn adopt(&self, ingest: &Ingest, image: NewImage) -> Result<Image, AddError> {
        let adopted = self.adopt_locked(ingest, image);
        if adopted.is_err()
            && let Err(error) = self.remove_unused()
        {
            // The next removal tries again.
            tracing::warn!(%error, "layers of an image that was not taken in stay for a while");
        }
        adopted
    }

    fn adopt_locked(&self, ingest: &Ingest, image: NewImage) -> Result<Image, AddError> {
        ingest.sync().map_err(failed("write", self.directory()))?;
        let _lock = self.lock_to_add()?;
        // Asked before anything is moved, and under the lock: from here on nobody removes one.
        let is_fresh = |layer: &Digest| image.fresh.iter().any(|fresh| fresh.diff_id == *layer);
        if image.layers.iter().any(|layer| !is_fresh(layer) && !self.has_layer(*layer)) {
            return Err(AddError::LayerGone);
        }
        fault::point("image.locked");
        for fresh in &image.fresh {
            self.adopt_layer(fresh)?;
        }
        let layers = self.directory().join("layers");
        sync_directory(&layers).map_err(failed("write", &layers))?;
        fault::point("image.layers_adopted");
        let records = self.settle_layers(ingest, &image.layers)?;
        let id = Digest::of(&image.config);
        self.write_file(&self.blob_path(id), &image.config)?;
        let record = ImageRecord { id, layers: records, size: image.size };
        self.write_record(&self.image_path(id), &record)?;
        fault::point("image.described");
        for reference in &image.references {
            let record = ReferenceRecord { reference: reference.clone(), image: id };
            self.write_record(&self.reference_path(reference), &record)?;
        }
        fault::point("image.named");
        self.image(id).ok_or(AddError::LayerGone)
    }

    fn adopt_layer(&self, fresh: &FreshLayer) -> Result<(), StoreError> {
        let name = LayerName::of(fresh.diff_id);
        let content = LayerContent {
            diff_id: fresh.diff_id,
            implied_directories: fresh.implied_directories.iter().map(hex::encode).collect(),
        };
        self.adopt_directory(&fresh.directory, &name, &content)
    }

    fn adopt_directory(
        &self,
        from: &Path,
        name: &LayerName,
        content: &LayerContent,
    ) -> Result<(), StoreError> {
        let path = self.layer_path(name);
        self.write_record(&path.with_extension("json"), content)?;
        match std::fs::rename(from, &path) {
            Ok(()) => Ok(()),
            // Another process was faster, or the image has this layer twice: the same content either way.
            Err(_) if path.is_dir() => Ok(()),
            Err(error) => Err(failed("create", &path)(error)),
        }
    }

    /// The directories that serve as an image's layers.
    fn settle_layers(&self, ingest: &Ingest, layers: &[Digest]) -> Result<Vec<LayerRecord>, AddError> {
        let mut records: Vec<LayerRecord> = Vec::with_capacity(layers.len());
        for diff_id in layers {
            let name = LayerName::of(*diff_id);
            let Some((_, content)) =
                self.layer_content(&name).filter(|(_, content)| content.diff_id == *diff_id)
            else {
                return Err(AddError::LayerGone);
            };
            let directory = match content.implied_directories.is_empty() || records.is_empty() {
                true => name,
                false => self.settle_implied(ingest, &records, name, &content)?,
            };
            records.push(LayerRecord { diff_id: *diff_id, directory });
        }
        Ok(records)
    }
}
