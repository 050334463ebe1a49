//! Files that outlive the process that wrote them: written whole or not at all, set aside when damaged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a state file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateFileError {
    /// Writing failed; the old content, if any, is untouched.
    #[error("cannot write {path}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The content is not what this program writes.
    #[error("{path} is damaged", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the reader expected.
        #[source]
        source: serde_json::Error,
    },
}

/// Whether a write must survive a power failure before the caller goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Synchronised to the disk, the directory too.
    Synced,
    /// Survives the process, not necessarily the machine.
    Cached,
}

/// Puts `content` in place of `path`: written beside it with mode 0600, then renamed.
pub(crate) fn write_file(path: &Path, content: &[u8], durability: Durability) -> Result<(), StateFileError> {
    let failed = |source| StateFileError::Write { path: path.to_owned(), source };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = (|| {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        if durability == Durability::Synced {
            file.sync_all()?;
        }
        fault::point("record.written");
        fs::rename(&beside, path)?;
        fault::point("record.renamed");
        if durability == Durability::Synced
            && let Some(directory) = path.parent()
        {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    })();
    written.map_err(|error| {
        // A full disk is the usual cause: what was half written only takes room.
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}

/// Writes a value as JSON; see [`write_file`].
pub(crate) fn write_json<T: Serialize>(
    path: &Path,
    value: &T,
    durability: Durability,
) -> Result<(), StateFileError> {
    let content = serde_json::to_vec(value)
        .map_err(|source| StateFileError::Damaged { path: path.to_owned(), source })?;
    write_file(path, &content, durability)
}

/// Reads a JSON file; `None` when there is none.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateFileError> {
    match fs::read(path) {
        Ok(content) => serde_json::from_slice(&content)
            .map(Some)
            .map_err(|source| StateFileError::Damaged { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateFileError::Read { path: path.to_owned(), source }),
    }
}

/// Moves a damaged directory or file out of the way, into `quarantine`, and answers where it went.
///
/// Nothing is deleted: what is there may be all that is left to find out what happened.
pub(crate) fn quarantine(path: &Path, quarantine: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(quarantine)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    for attempt in 0u32.. {
        let mut target = name.to_owned();
        if attempt > 0 {
            target.push(format!(".{attempt}"));
        }
        let target = quarantine.join(target);
        if !target.exists() {
            fs::rename(path, &target)?;
            return Ok(target);
        }
    }
    unreachable!("there are more numbers than files")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_value_comes_back_and_only_the_owner_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        assert_eq!(read_json::<Vec<u32>>(&path).unwrap(), None);
        write_json(&path, &vec![1, 2], Durability::Synced).unwrap();
        write_json(&path, &vec![3], Durability::Cached).unwrap();
        assert_eq!(read_json::<Vec<u32>>(&path).unwrap(), Some(vec![3]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_truncated_file_is_damaged_and_can_be_set_aside_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let aside = directory.path().join("quarantine");
        for expected in ["state.json", "state.json.1"] {
            fs::write(&path, "[1, ").unwrap();
            assert!(matches!(read_json::<Vec<u32>>(&path), Err(StateFileError::Damaged { .. })));
            assert_eq!(quarantine(&path, &aside).unwrap(), aside.join(expected));
        }
    }
}
