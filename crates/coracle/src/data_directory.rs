//! What holds for every directory that this program keeps things in: where it is, that only its owner reads it, and what is
//! said when it cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{CANNOT_START, Failure};

/// Where everything lies when nobody says otherwise.
pub(crate) const DEFAULT: &str = "/var/lib/coracle";

/// Where the throwaway nodes have their directories, below the data directory whose images they share.
pub(crate) fn runs(base: &Path) -> PathBuf {
    base.join("runs")
}

/// Makes a directory, unless it is there, that nobody but its owner may enter.
///
/// # Errors
///
/// What the system says; and if there is something else of that name.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    if path.exists() && !path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "there is a file of that name"));
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// How a command ends whose directory cannot be used.
pub(crate) fn cannot_use(path: &Path, error: &io::Error) -> Failure {
    Failure::text(CANNOT_START, format!("cannot use the directory: {error}"))
        .place(path.display().to_string())
        .hint("choose another with --data-dir")
}
