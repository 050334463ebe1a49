//! The store: a directory with images, shared by several processes.
//!
//! ```text
//! DIR/version             the format, 1
//! DIR/lock                taken shared to add something, exclusively to remove something
//! DIR/blobs/sha256/HEX    configurations, as they were signed by their digest
//! DIR/layers/NAME/        one unpacked layer; NAME is short because overlay mounts count every byte
//! DIR/layers/NAME.json    its content digest, and directories it only implies
//! DIR/images/HEX.json     an image: its layers
//! DIR/references/HEX.json a name and the image it means; HEX is the digest of the name
//! DIR/holds/HEX.json      a container that keeps layers alive
//! DIR/ingest/             what is on its way; locked by its owner, swept when the owner is gone
//! DIR/quarantine/         damaged files, kept for people to look at
//! ```
//!
//! Everything becomes visible by one rename of something complete and written to disk. Readers take no lock. A damaged
//! file is set aside and counts as absent, so that the next pull or import repairs it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::ConfigFile;
use crate::digest::Digest;
use crate::host;
use crate::image::Image;
use crate::limits::Limits;
use crate::reference::{Reference, ReferenceError};

mod adopt;
mod ingest;
mod nearest;
mod record;
mod sweep;

pub(crate) use adopt::{AddError, FreshLayer, NewImage};
pub(crate) use ingest::Ingest;
pub use sweep::Removed;

use record::{ImageRecord, LayerRecord, ReferenceRecord};

/// Format of the directory.
const VERSION: &str = "1\n";

/// Why the store cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The machine failed.
    #[error("image store: cannot {action} {path}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Made by a later version.
    #[error("image store {path} has format {found:?}, this version reads format 1")]
    Format {
        /// Directory of the store.
        path: PathBuf,
        /// What its version file says.
        found: String,
    },
    /// Not an image reference.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// `coracle.dev/host` where it is not allowed.
    #[error("image {0} (the machine itself) is not allowed on this node")]
    HostImageNotAllowed(String),
    /// Several images have an identity that begins so.
    #[error("{prefix:?} is the beginning of {count} image identities")]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// How many fit.
        count: usize,
    },
}

impl StoreError {
    /// Whether the disk is full. Reading and removing still work then.
    pub fn is_disk_full(&self) -> bool {
        match self {
            StoreError::Io { source, .. } => is_disk_full(source),
            StoreError::Format { .. }
            | StoreError::Reference(_)
            | StoreError::HostImageNotAllowed(_)
            | StoreError::Ambiguous { .. } => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            StoreError::Io { source, .. } if is_disk_full(source) => {
                Some("free some space, or remove images with `coracle image remove`".to_owned())
            }
            StoreError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some(
                "run as the user who owns the directory, or choose another one with --data-dir".to_owned(),
            ),
            StoreError::Io { .. } | StoreError::Reference(_) => None,
            StoreError::Format { .. } => {
                Some("use the version of coracle that made it, or another --data-dir".to_owned())
            }
            StoreError::HostImageNotAllowed(_) => Some("start the node with --allow-host-image".to_owned()),
            StoreError::Ambiguous { .. } => Some("give more digits".to_owned()),
        }
    }
}

pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Adds what was being done, and with which file, to a failure of the machine.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Io { action, path, source }
}

/// Images of this machine. Cheap to clone; safe for threads and for several processes.
#[derive(Debug, Clone)]
pub struct ImageStore {
    directory: Arc<Path>,
    limits: Arc<Limits>,
    host_image: bool,
}

impl ImageStore {
    /// Opens the store in this directory, making it if it is not there. Damage inside never prevents that.
    ///
    /// [`crate::HOST_IMAGE`] is not allowed until [`ImageStore::with_host_image`].
    pub fn open(directory: impl AsRef<Path>) -> Result<ImageStore, StoreError> {
        let directory = directory.as_ref();
        std::fs::create_dir_all(directory).map_err(failed("create", directory))?;
        let directory = directory.canonicalize().map_err(failed("find", directory))?;
        record::restrict(&directory)?;
        for name in ["quarantine", "blobs/sha256", "layers", "images", "references", "holds", "ingest"] {
            let path = directory.join(name);
            match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => continue,
                // A file in place of the very directory for such files.
                Ok(_) if name == "quarantine" => {
                    let aside = directory.join("quarantine.0");
                    std::fs::rename(&path, &aside).map_err(failed("set aside", &path))?;
                }
                Ok(_) => record::set_aside(&directory, &path),
                Err(_) => {}
            }
            std::fs::create_dir_all(&path).map_err(failed("create", &path))?;
        }
        let store =
            ImageStore { directory: directory.into(), limits: Arc::new(Limits::DEFAULT), host_image: false };
        store.check_version()?;
        store.sweep_ingest();
        Ok(store)
    }

    fn check_version(&self) -> Result<(), StoreError> {
        let path = self.directory.join("version");
        match std::fs::read_to_string(&path) {
            Ok(text) if text == VERSION => Ok(()),
            Ok(text) if text.trim().parse::<u64>().is_ok_and(|version| version > 1) => {
                Err(StoreError::Format { path: self.directory.to_path_buf(), found: text.trim().to_owned() })
            }
            Ok(_) => {
                record::set_aside(&self.directory, &path);
                self.write_file(&path, VERSION.as_bytes())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.write_file(&path, VERSION.as_bytes())
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                record::set_aside(&self.directory, &path);
                self.write_file(&path, VERSION.as_bytes())
            }
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    /// The same store, in which [`crate::HOST_IMAGE`] is an image.
    pub fn with_host_image(mut self) -> ImageStore {
        self.host_image = true;
        self
    }

    /// The same store with other caps.
    pub fn with_limits(mut self, limits: Limits) -> ImageStore {
        self.limits = Arc::new(limits);
        self
    }

    /// The caps in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where it lies, absolute and without links.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The image that a reference or an identity (`sha256:HEX`, or the digits alone) means, if the store has all of it.
    pub fn resolve(&self, text: &str) -> Result<Option<Image>, StoreError> {
        if let Some(id) = parse_identity(text) {
            if self.host_image && id == host::host_image().id {
                return Ok(Some(host::host_image()));
            }
            return Ok(self.image(id));
        }
        let reference = Reference::parse(text)?;
        if host::is_host(&reference) {
            return match self.host_image {
                true => Ok(Some(host::host_image())),
                false => Err(StoreError::HostImageNotAllowed(reference.familiar())),
            };
        }
        Ok(self.image_of(&reference))
    }

    fn image_of(&self, reference: &Reference) -> Option<Image> {
        let record: ReferenceRecord = self.read_record(&self.reference_path(&reference.key()))?;
        self.image(record.image)
    }

    /// As [`ImageStore::resolve`]; an unambiguous beginning of an identity (at least four digits) does as well.
    pub fn find(&self, text: &str) -> Result<Option<Image>, StoreError> {
        let found = self.resolve(text);
        if matches!(found, Ok(Some(_)) | Err(StoreError::Io { .. })) {
            return found;
        }
        let prefix = text.strip_prefix("sha256:").unwrap_or(text);
        if prefix.len() < 4
            || !prefix.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        {
            return found;
        }
        let ids: Vec<Digest> = self.identities().filter(|id| id.to_hex().starts_with(prefix)).collect();
        match ids.as_slice() {
            [] => found,
            [id] => Ok(self.image(*id)),
            ids => Err(StoreError::Ambiguous { prefix: prefix.to_owned(), count: ids.len() }),
        }
    }

    /// All complete images, by name; without the machine itself.
    pub fn list(&self) -> Result<Vec<Image>, StoreError> {
        let references = self.reference_records();
        let mut images: Vec<Image> =
            self.identities().filter_map(|id| self.image_with(id, &references)).collect();
        images.sort_by(|one, other| (&one.references, one.id).cmp(&(&other.references, other.id)));
        Ok(images)
    }

    /// The name of an image in the store that was perhaps meant: "did you mean the imported image X".
    pub fn nearest(&self, text: &str) -> Option<String> {
        let names: Vec<String> =
            self.reference_records().into_iter().map(|record| record.reference).collect();
        nearest::nearest(text, &names)
    }

    fn image(&self, id: Digest) -> Option<Image> {
        self.image_with(id, &self.reference_records())
    }

    fn image_with(&self, id: Digest, references: &[ReferenceRecord]) -> Option<Image> {
        let path = self.image_path(id);
        let record: ImageRecord = self.read_record(&path)?;
        let blob = self.blob_path(id);
        let bytes = match std::fs::read(&blob) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(image = %id, path = %blob.display(), %error, "configuration of an image cannot be read; the image counts as absent");
                return None;
            }
        };
        let file = match ConfigFile::parse(&bytes) {
            Ok(file) if record.id == id && Digest::of(&bytes) == id => file,
            Ok(_) | Err(_) => {
                record::set_aside(&self.directory, &blob);
                return None;
            }
        };
        let layers: Option<Vec<PathBuf>> = match record.layers.is_empty() {
            true => self.empty_layer().map(|layer| vec![layer]),
            false => record.layers.iter().map(|layer| self.layer(layer)).collect(),
        };
        let Some(layers) = layers else {
            tracing::warn!(image = %id, "layers of an image are missing; the image counts as absent");
            return None;
        };
        let (mut tagged, mut digested): (Vec<String>, Vec<String>) = references
            .iter()
            .filter(|record| record.image == id)
            .map(|record| record.reference.clone())
            .partition(|reference| !reference.contains('@'));
        tagged.sort();
        digested.sort();
        Some(Image {
            id,
            references: tagged,
            repo_digests: digested,
            config: file.config,
            architecture: file.architecture,
            layers,
            size: record.size,
            is_host: false,
        })
    }

    /// The directory of a layer, if it is there and is that layer.
    fn layer(&self, layer: &LayerRecord) -> Option<PathBuf> {
        let (path, record) = self.layer_content(&layer.directory)?;
        (record.diff_id == layer.diff_id).then_some(path)
    }

    /// The empty directory that stands for no layers.
    fn empty_layer(&self) -> Option<PathBuf> {
        let path = self.directory.join("layers/empty");
        match std::fs::create_dir(&path) {
            Ok(()) => Some(path),
            Err(_) if path.is_dir() => Some(path),
            Err(_) => None,
        }
    }

    fn image_path(&self, id: Digest) -> PathBuf {
        self.directory.join("images").join(format!("{}.json", id.to_hex()))
    }

    fn blob_path(&self, digest: Digest) -> PathBuf {
        self.directory.join("blobs/sha256").join(digest.to_hex())
    }

    fn reference_path(&self, key: &str) -> PathBuf {
        self.directory.join("references").join(format!("{}.json", Digest::of(key.as_bytes()).to_hex()))
    }
}

/// Reads `sha256:HEX` or 64 digits.
fn parse_identity(text: &str) -> Option<Digest> {
    Digest::parse(text).ok().or_else(|| Digest::from_hex(text))
}
