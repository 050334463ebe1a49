//! hostPath: whether the path of the machine is what its type demands, made where the type says so.

use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::VolumeError;

/// Whether the path is still what its type demands; one without a type may be anything. Makes nothing.
pub(crate) fn still_holds(path: &Path, type_: &str) -> bool {
    let type_ = type_.strip_suffix("OrCreate").unwrap_or(type_);
    check(path, type_).is_ok()
}

pub(super) fn check(path: &Path, type_: &str) -> Result<(), VolumeError> {
    let metadata = std::fs::metadata(path).ok();
    let file_type = metadata.as_ref().map(std::fs::Metadata::file_type);
    let mismatch = |expected: &'static str| {
        Err(VolumeError::HostPathType { path: path.display().to_string(), expected })
    };
    match (type_, file_type) {
        ("", _) => Ok(()),
        ("Directory" | "DirectoryOrCreate", Some(found)) if found.is_dir() => Ok(()),
        ("File" | "FileOrCreate", Some(found)) if found.is_file() => Ok(()),
        ("Socket", Some(found)) if found.is_socket() => Ok(()),
        ("CharDevice", Some(found)) if found.is_char_device() => Ok(()),
        ("BlockDevice", Some(found)) if found.is_block_device() => Ok(()),
        ("DirectoryOrCreate", None) => std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .map_err(VolumeError::fs("cannot make the hostPath directory")),
        ("FileOrCreate", None) => std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o644)
            .open(path)
            .map(drop)
            .map_err(VolumeError::fs("cannot make the hostPath file")),
        ("Directory" | "DirectoryOrCreate", _) => mismatch("a directory"),
        ("File" | "FileOrCreate", _) => mismatch("a file"),
        ("Socket", _) => mismatch("a socket file"),
        ("CharDevice", _) => mismatch("a character device"),
        ("BlockDevice", _) => mismatch("a block device"),
        (_, _) => mismatch("a path of a known type"),
    }
}
