//! Writing files whole: under another name first, then renamed, so that a reader or a crash never sees half of one.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Writes `bytes` to `path` with `mode`, replacing what is there. Missing directories are made with mode 0700.
///
/// # Errors
///
/// What the file system says; the old file is then still there.
pub(crate) fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write(path, bytes, mode, false)
}

/// The same, and waits until file and name are on the disk.
///
/// # Errors
///
/// What the file system says.
pub(crate) fn write_durably(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write(path, bytes, mode, true)?;
    if let Some(parent) = path.parent() {
        std::fs::File::open(parent)?.sync_all()?;
    }
    fault::point("file.synced");
    Ok(())
}

fn write(path: &Path, bytes: &[u8], mode: u32, synced: bool) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        create_dirs(parent)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let result = (|| {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(bytes)?;
        if synced {
            file.sync_data()?;
        }
        fault::point("file.written");
        std::fs::rename(&temporary, path)?;
        fault::point("file.renamed");
        Ok(())
    })();
    if result.is_err() {
        // The disk may be full: do not leave half a file behind. The first error is the one that counts.
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

/// Makes a directory and its parents, each with mode 0700, unless they exist.
pub(crate) fn create_dirs(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes a directory with all that is in it; nothing to remove is no error.
pub(crate) fn remove_dir_all(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
