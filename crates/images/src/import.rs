//! Takes images from files: archives of `docker save`, OCI archives and layouts, bare root file systems.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::{ConfigFile, ImageConfigError};
use crate::digest::Digest;
use crate::image::Image;
use crate::layer::{self, LayerError};
use crate::manifest::{ManifestError, architecture};
use crate::progress::{PullProgress, Silent, TransferEvent};
use crate::reference::{Reference, ReferenceError};
use crate::store::{AddError, FreshLayer, ImageStore, Ingest, NewImage, StoreError};

mod content;
mod docker;
mod layout;
mod rootfs;

use content::Content;

/// Layers that are unpacked at the same time.
const PARALLEL_LAYERS: usize = 4;

/// How to import.
#[derive(Clone)]
pub struct ImportOptions {
    name: Option<Reference>,
    progress: Arc<dyn PullProgress>,
}

impl ImportOptions {
    /// With the names that the file itself has, silently.
    pub fn new() -> ImportOptions {
        ImportOptions { name: None, progress: Arc::new(Silent) }
    }

    /// Under this name in place of the file's. A bare root file system needs one.
    pub fn with_name(mut self, name: Reference) -> ImportOptions {
        self.name = Some(name);
        self
    }

    /// Telling its steps.
    pub fn with_progress(mut self, progress: Arc<dyn PullProgress>) -> ImportOptions {
        self.progress = progress;
        self
    }
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions::new()
    }
}

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The images, in the file's order, with the names that the import gave them.
    pub images: Vec<Image>,
    /// Entries of layers that were left out (device nodes, reserved attributes).
    pub skipped: u64,
}

/// Why a file was not imported. Nothing of it is visible in the store then, except images of the same file that were
/// complete before.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The machine failed.
    #[error("cannot {action} {path}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Not an archive of a kind that is known.
    #[error("{path} is not an image archive")]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: crate::unpack::TarError,
    },
    /// Nothing to import.
    #[error("{path} holds no image")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A bare root file system without a name.
    #[error("{path} is a bare root file system, which has no name of its own")]
    NeedsName {
        /// The file.
        path: PathBuf,
    },
    /// One name for several images.
    #[error("{path} holds {count} images, which cannot all have one name")]
    SeveralImages {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// The archive lacks something that it mentions.
    #[error("member {member:?} of the archive is missing")]
    Missing {
        /// What is not there.
        member: String,
    },
    /// A name in the archive that leads out of it, in a circle, or to no file.
    #[error("member {member:?} of the archive cannot be used: {problem}")]
    Member {
        /// The name.
        member: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Larger than allowed.
    #[error("member {member:?} of the archive has {size} bytes, at most {limit} are allowed")]
    TooLarge {
        /// Which one.
        member: String,
        /// Its size.
        size: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A list in the archive that cannot be read.
    #[error("member {member:?} of the archive is not readable")]
    Json {
        /// Which one.
        member: String,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// Content that is not what its name says.
    #[error("member {member:?} of the archive has content {actual}, it should be {expected}")]
    Digest {
        /// Which one.
        member: String,
        /// What its name says.
        expected: Digest,
        /// What it is.
        actual: Digest,
    },
    /// A manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A configuration.
    #[error(transparent)]
    Config(#[from] ImageConfigError),
    /// A name in the archive.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// A layer.
    #[error("layer {member:?}")]
    Layer {
        /// Which member of the archive.
        member: String,
        /// What is wrong.
        #[source]
        source: LayerError,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody removed a layer while the image was being imported.
    #[error("layers of the image were removed meanwhile")]
    Removed,
}

impl ImportError {
    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            ImportError::Io { source, .. } => crate::store::is_disk_full(source),
            ImportError::Layer { source, .. } => source.is_disk_full(),
            ImportError::Store(error) => error.is_disk_full(),
            _ => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        if self.is_disk_full() {
            return Some("free some space, or remove images with `coracle image remove`".to_owned());
        }
        match self {
            ImportError::NotAnArchive { .. } => Some(
                "give an archive of `docker save` or `podman save`, an OCI archive or layout, a directory or a tar file"
                    .to_owned(),
            ),
            ImportError::NeedsName { .. } => Some("give it a name with --name".to_owned()),
            ImportError::SeveralImages { .. } => Some("leave --name out".to_owned()),
            ImportError::Missing { .. } | ImportError::Digest { .. } => {
                Some("the file is damaged or incomplete: write it again".to_owned())
            }
            ImportError::Removed => Some("try again".to_owned()),
            ImportError::Store(error) => error.hint(),
            ImportError::Io { .. }
            | ImportError::Empty { .. }
            | ImportError::Member { .. }
            | ImportError::TooLarge { .. }
            | ImportError::Json { .. }
            | ImportError::Manifest(_)
            | ImportError::Config(_)
            | ImportError::Reference(_)
            | ImportError::Layer { .. } => None,
        }
    }
}

/// An image as a file describes it.
struct Described {
    config: Vec<u8>,
    /// Members with the layers, lowest first.
    layers: Vec<String>,
    references: Vec<String>,
}

impl ImageStore {
    /// Imports a file or directory. Blocks until everything is on the disk.
    pub fn import(&self, path: impl AsRef<Path>, options: &ImportOptions) -> Result<Imported, ImportError> {
        let path = path.as_ref();
        let ingest = self.ingest()?;
        let metadata = std::fs::metadata(path).map_err(|source| ImportError::Io {
            action: "open",
            path: path.to_path_buf(),
            source,
        })?;
        let import = Import { store: self, ingest: &ingest, path, options };
        if metadata.is_dir() && !path.join("oci-layout").is_file() {
            return import.rootfs_directory();
        }
        let content = match metadata.is_dir() {
            true => Content::of_directory(path)?,
            false => Content::of_archive(path, &ingest, self.limits())?,
        };
        if content.has("manifest.json") {
            let described = docker::describe(&content, self.limits())?;
            return import.images(&content, described);
        }
        if content.has("oci-layout") || content.has("index.json") {
            let described = layout::describe(&content, self.limits())?;
            return import.images(&content, described);
        }
        import.rootfs_archive(&content)
    }
}

struct Import<'a> {
    store: &'a ImageStore,
    ingest: &'a Ingest,
    path: &'a Path,
    options: &'a ImportOptions,
}

impl Import<'_> {
    fn images(&self, content: &Content, described: Vec<Described>) -> Result<Imported, ImportError> {
        if described.is_empty() {
            return Err(ImportError::Empty { path: self.path.to_path_buf() });
        }
        if described.len() > 1 && self.options.name.is_some() {
            return Err(ImportError::SeveralImages { path: self.path.to_path_buf(), count: described.len() });
        }
        let mut imported = Imported { images: Vec::new(), skipped: 0 };
        let mut taken = 0;
        for image in described {
            let layers = image.layers.len();
            self.image(content, image, taken, &mut imported)?;
            taken += layers;
        }
        Ok(imported)
    }

    fn image(
        &self,
        content: &Content,
        described: Described,
        first_layer: usize,
        imported: &mut Imported,
    ) -> Result<(), ImportError> {
        let file = ConfigFile::parse(&described.config)?;
        let limit = self.store.limits().layers;
        if described.layers.len() > limit {
            return Err(ManifestError::TooManyLayers { layers: described.layers.len(), limit }.into());
        }
        if file.diff_ids.len() != described.layers.len() {
            return Err(ManifestError::LayerCount {
                manifest: described.layers.len(),
                config: file.diff_ids.len(),
            }
            .into());
        }
        let mut size = described.config.len() as u64;
        let mut work: Vec<LayerWork> = Vec::new();
        let mut begun: BTreeSet<Digest> = BTreeSet::new();
        for (index, (diff_id, member)) in file.diff_ids.iter().zip(&described.layers).enumerate() {
            let bytes = content.size(member)?;
            size = size.saturating_add(bytes);
            let present = self.store.has_layer(*diff_id);
            self.report(TransferEvent::Layer { layer: *diff_id, size: bytes, present });
            // What the store has, or what the image names twice, is not unpacked again; but it is read: a damaged file is
            // refused whatever else there is.
            let is_new = begun.insert(*diff_id) && !present;
            let (diff_id, member) = (*diff_id, member.clone());
            work.push(LayerWork { diff_id, member, bytes, index: first_layer + index, is_new });
        }
        let fresh = self.unpack_all(content, &work, imported)?;
        let references = match &self.options.name {
            Some(name) => vec![name.key()],
            None => described.references,
        };
        let image = NewImage { config: described.config, layers: file.diff_ids, fresh, references, size };
        imported.images.push(self.adopt(image)?);
        Ok(())
    }

    /// Takes an image in; the answer has the names that this import gave, not those that the image had before.
    fn adopt(&self, image: NewImage) -> Result<Image, ImportError> {
        let given = image.references.clone();
        let mut image = self.store.adopt(self.ingest, image).map_err(|error| match error {
            AddError::LayerGone => ImportError::Removed,
            AddError::Store(error) => error.into(),
        })?;
        image.references.retain(|reference| given.contains(reference));
        Ok(image)
    }

    /// Unpacks or reads layers on a few threads; the first error ends the import.
    fn unpack_all(
        &self,
        content: &Content,
        work: &[LayerWork],
        imported: &mut Imported,
    ) -> Result<Vec<FreshLayer>, ImportError> {
        let next = AtomicUsize::new(0);
        let threads = PARALLEL_LAYERS.min(work.len());
        let unpack_some = || {
            let mut done = Vec::new();
            while let Some(layer) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                let unpacked = match layer.is_new {
                    true => self.unpack(content, layer).map(Some),
                    false => self.verify(content, layer).map(|()| None),
                };
                match unpacked {
                    Ok(layer) => done.extend(layer),
                    Err(error) => {
                        // Nobody needs the layers that were not begun.
                        next.store(work.len(), Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            Ok(done)
        };
        let results: Vec<Result<Vec<(FreshLayer, u64)>, ImportError>> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(unpack_some)).collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let mut fresh = Vec::new();
        for result in results {
            for (layer, skipped) in result? {
                imported.skipped += skipped;
                fresh.push(layer);
            }
        }
        Ok(fresh)
    }

    /// Reads a layer that need not be unpacked.
    fn verify(&self, content: &Content, layer: &LayerWork) -> Result<(), ImportError> {
        let reader = content.open(&layer.member)?;
        layer::verify(reader, layer.bytes, layer.diff_id, self.store.limits())
            .map_err(|source| ImportError::Layer { member: layer.member.clone(), source })
    }

    fn unpack(&self, content: &Content, layer: &LayerWork) -> Result<(FreshLayer, u64), ImportError> {
        let diff_id = layer.diff_id;
        self.report(TransferEvent::Unpacking { layer: diff_id });
        let directory = self.ingest.layer(layer.index);
        let reader = content.open(&layer.member)?;
        let unpacked = layer::unpack_to(reader, layer.bytes, Some(diff_id), &directory, self.store.limits())
            .map_err(|source| ImportError::Layer { member: layer.member.clone(), source })?;
        let skipped = unpacked.unpacked.skipped;
        self.report(TransferEvent::Unpacked { layer: diff_id, skipped });
        let implied_directories = unpacked.unpacked.implied_directories;
        Ok((FreshLayer { diff_id, directory, implied_directories }, skipped))
    }

    /// An archive that is itself the single layer.
    fn rootfs_archive(&self, content: &Content) -> Result<Imported, ImportError> {
        let (file, transported) = content.whole()?;
        if content.is_empty() {
            return Err(ImportError::Empty { path: self.path.to_path_buf() });
        }
        self.rootfs(file, transported)
    }

    /// A directory that is the single layer.
    fn rootfs_directory(&self) -> Result<Imported, ImportError> {
        let packed = self.ingest.file("rootfs.tar");
        rootfs::pack(self.path, &packed, self.store.directory())?;
        let failed = |source| ImportError::Io { action: "read", path: packed.clone(), source };
        let file = std::fs::File::open(&packed).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        self.rootfs(file, size)
    }

    fn rootfs(&self, archive: std::fs::File, transported: u64) -> Result<Imported, ImportError> {
        let Some(name) = &self.options.name else {
            return Err(ImportError::NeedsName { path: self.path.to_path_buf() });
        };
        let directory = self.ingest.layer(0);
        let unpacked = layer::unpack_to(archive, transported, None, &directory, self.store.limits())
            .map_err(|source| ImportError::Layer { member: self.path.display().to_string(), source })?;
        let diff_id = unpacked.diff_id;
        // Nothing but the content decides, so that the same content is the same image.
        let config = serde_json::json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {},
            "rootfs": { "type": "layers", "diff_ids": [diff_id] },
        });
        let image = NewImage {
            config: config.to_string().into_bytes(),
            layers: vec![diff_id],
            references: vec![name.key()],
            size: transported,
            fresh: vec![FreshLayer {
                diff_id,
                directory,
                implied_directories: unpacked.unpacked.implied_directories,
            }],
        };
        Ok(Imported { images: vec![self.adopt(image)?], skipped: unpacked.unpacked.skipped })
    }

    fn report(&self, event: TransferEvent) {
        self.options.progress.report(event);
    }
}

/// A layer that has to be read.
struct LayerWork {
    diff_id: Digest,
    /// The store does not have it yet: it is unpacked.
    is_new: bool,
    member: String,
    bytes: u64,
    index: usize,
}
