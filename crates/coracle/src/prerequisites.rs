//! What every command that makes containers needs first: root, and a runtime for its tasks.

use crate::failure::{CANNOT_START, Failure};

/// The runtime of all tasks of a command.
///
/// # Errors
///
/// When threads cannot be made.
pub(crate) fn async_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(CANNOT_START, &error))
}

/// Containers need root.
///
/// # Errors
///
/// When the user is another.
pub(crate) fn require_root(command: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::text(CANNOT_START, format!("`coracle {command}` needs root to make containers"))
        .hint("run it as root; `coracle env -f FILE` explains the same file without"))
}
