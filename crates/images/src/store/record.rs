//! Files of the store: how they are written (complete or not at all) and read (damage is set aside).

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{ImageStore, StoreError, failed};
use crate::digest::Digest;

/// `images/HEX.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageRecord {
    pub(super) id: Digest,
    pub(super) layers: Vec<LayerRecord>,
    pub(super) size: u64,
}

/// One layer of an image: its content and the directory that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LayerRecord {
    pub(super) diff_id: Digest,
    pub(super) directory: LayerName,
}

/// `references/HEX.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReferenceRecord {
    pub(super) reference: String,
    pub(super) image: Digest,
}

/// `layers/NAME.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LayerContent {
    pub(super) diff_id: Digest,
    /// Directories that the layer has no entry for, as hexadecimal bytes (names need not be text).
    pub(super) implied_directories: Vec<String>,
}

/// `holds/HEX.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HoldRecord {
    pub(super) holder: String,
    pub(super) layers: Vec<LayerName>,
}

/// Name of a layer's directory: 32 hexadecimal digits, 128 bits of a digest. Short, because the options of an overlay
/// mount must fit one page: 120 layers relative to the directory `layers` do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct LayerName(String);

impl LayerName {
    pub(crate) fn of(digest: Digest) -> LayerName {
        LayerName(digest.to_hex()[..32].to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LayerName {
    type Error = &'static str;

    /// A name from a damaged or forged file must not become a path that leads elsewhere.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(LayerName(text)),
            false => Err("not the name of a layer"),
        }
    }
}

impl From<LayerName> for String {
    fn from(name: LayerName) -> String {
        name.0
    }
}

/// The store's lock, until dropped.
#[must_use]
pub(super) struct Locked(#[expect(dead_code, reason = "closing the file ends the lock")] File);

impl ImageStore {
    /// Held while something is added, so that nothing it needs is removed meanwhile.
    pub(super) fn lock_to_add(&self) -> Result<Locked, StoreError> {
        self.lock(FlockOperation::LockShared)
    }

    /// Held while something is removed. Works on a full disk.
    pub(super) fn lock_to_remove(&self) -> Result<Locked, StoreError> {
        self.lock(FlockOperation::LockExclusive)
    }

    fn lock(&self, operation: FlockOperation) -> Result<Locked, StoreError> {
        let path = self.directory().join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed("open", &path))?;
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(Locked(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed("lock", &path)(error.into())),
            }
        }
    }

    /// Writes a file of the store so that it is there completely or not at all, whatever happens.
    pub(super) fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = self.directory().join("ingest").join(format!("file-{}-{number}", std::process::id()));
        let write = || -> io::Result<()> {
            let mut file =
                File::options().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)?;
            sync_directory(path.parent().unwrap_or(Path::new("/")))
        };
        write().map_err(|error| {
            // The temporary file is of no use to anybody.
            let _ = std::fs::remove_file(&temporary);
            failed("write", path)(error)
        })
    }

    pub(super) fn write_record(&self, path: &Path, record: &impl Serialize) -> Result<(), StoreError> {
        let mut bytes = serde_json::to_vec_pretty(record).expect("records have string keys only");
        bytes.push(b'\n');
        self.write_file(path, &bytes)
    }

    /// Reads a record; one that is damaged is set aside and absent. So is, for this time, one that cannot be read.
    pub(super) fn read_record<T: DeserializeOwned>(&self, path: &Path) -> Option<T> {
        self.read_record_surely(path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "a file of the image store cannot be read");
            None
        })
    }

    /// As [`ImageStore::read_record`], but a file that is there and cannot be read is an error: whoever removes what no
    /// record mentions must have read them all.
    pub(super) fn read_record_surely<T: DeserializeOwned>(
        &self,
        path: &Path,
    ) -> Result<Option<T>, StoreError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", path)(error)),
        };
        match serde_json::from_slice(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(_) => {
                set_aside(self.directory(), path);
                Ok(None)
            }
        }
    }

    /// All names that mean an image.
    pub(super) fn reference_records(&self) -> Vec<ReferenceRecord> {
        let records: Vec<(PathBuf, ReferenceRecord)> = self
            .files("references")
            .into_iter()
            .filter_map(|path| self.read_record(&path).map(|record| (path, record)))
            .collect();
        records
            .into_iter()
            .filter(|(path, record): &(PathBuf, ReferenceRecord)| {
                let right = *path == self.reference_path(&record.reference);
                if !right {
                    set_aside(self.directory(), path);
                }
                right
            })
            .map(|(_, record)| record)
            .collect()
    }

    /// Identities of all images that have a record.
    pub(super) fn identities(&self) -> impl Iterator<Item = Digest> {
        self.files("images").into_iter().filter_map(|path| Digest::from_hex(path.file_stem()?.to_str()?))
    }

    /// The `.json` files of one of the store's directories.
    pub(super) fn files(&self, name: &str) -> Vec<PathBuf> {
        self.files_surely(name).unwrap_or_default()
    }

    /// As [`ImageStore::files`], for those who must have seen them all.
    pub(super) fn files_surely(&self, name: &str) -> Result<Vec<PathBuf>, StoreError> {
        let mut paths = entries(&self.directory().join(name))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        Ok(paths)
    }

    /// The directory of a layer and what it holds, if both are there.
    pub(super) fn layer_content(&self, name: &LayerName) -> Option<(PathBuf, LayerContent)> {
        let path = self.layer_path(name);
        let content = self.read_record(&path.with_extension("json"))?;
        path.symlink_metadata().is_ok_and(|found| found.is_dir()).then_some((path, content))
    }

    pub(super) fn layer_path(&self, name: &LayerName) -> PathBuf {
        self.directory().join("layers").join(name.as_str())
    }
}

/// Everything in a directory.
pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    list().map_err(failed("list", directory))
}

/// Moves a damaged file out of the way; deletes nothing.
pub(super) fn set_aside(store: &Path, path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let quarantine = store.join("quarantine");
    let free =
        (0..1000).map(|number| quarantine.join(format!("{name}.{number}"))).find(|path| !path.exists());
    // Only after a thousand of one name does the oldest make room.
    let target = free.unwrap_or_else(|| quarantine.join(format!("{name}.0")));
    match std::fs::rename(path, &target) {
        Ok(()) => tracing::warn!(
            path = %path.display(), kept_as = %target.display(),
            "a damaged file of the image store was set aside; import or pull the image that it belongs to again"
        ),
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a damaged file of the image store cannot be set aside");
        }
    }
}

/// Layers hold files with setuid bits of strangers: nobody else may reach them.
pub(super) fn restrict(directory: &Path) -> Result<(), StoreError> {
    let metadata = directory.metadata().map_err(failed("look at", directory))?;
    if metadata.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
        .map_err(failed("restrict", directory))
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
