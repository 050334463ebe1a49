//! What can go wrong, one enum an operation.

use std::path::PathBuf;

use crate::key::Key;

/// Why a write was not done. Nothing of it has been stored, except after [`WriteError::Stopped`], where it is unknown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// Create of an object that is there.
    #[error("{key} already exists")]
    Exists {
        /// The object.
        key: Key,
    },
    /// Update or delete of an object that is not there.
    #[error("{key} not found")]
    Missing {
        /// The object.
        key: Key,
    },
    /// The object has another revision than the caller expected.
    #[error("{key} is at revision {current}, not at {expected}")]
    Conflict {
        /// The object.
        key: Key,
        /// What the caller expected.
        expected: u64,
        /// What it is.
        current: u64,
    },
    /// No room on the disk. Reads and removals go on; writing goes on by itself when there is room again.
    #[error("no room to store {key}: the disk is full; free some space or delete objects")]
    Full {
        /// The object.
        key: Key,
    },
    /// A commit failed with unknown outcome; the store acknowledges nothing any more and the process should restart.
    #[error("the store has stopped after a failed commit: {reason}")]
    Stopped {
        /// The first failure.
        reason: String,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

/// Why objects cannot be listed or watched at the wanted revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The revision lies before what the store remembers; the client must list again.
    #[error("revision {requested} is too old: the oldest that is remembered is {oldest}")]
    Expired {
        /// What was asked for.
        requested: u64,
        /// The oldest revision from which changes are still known.
        oldest: u64,
    },
    /// The revision has not happened yet.
    #[error("revision {requested} is too large: the current one is {current}")]
    Future {
        /// What was asked for.
        requested: u64,
        /// The newest revision.
        current: u64,
    },
}

/// Why a store cannot be opened. Nothing on the disk has been changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or file cannot be made or read.
    #[error("cannot open the store {}", path.display())]
    File {
        /// What was touched.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another process has the file open.
    #[error("the store {} is in use by another process; stop it or choose another data directory", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer program.
    #[error("the store {} has format {found}, newer than {known}; use a newer coracle", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format this program reads.
        known: i64,
    },
    /// The database refuses to work.
    #[error("cannot use the store {}: {reason}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The database's own words.
        reason: String,
    },
    /// The writer thread cannot be started.
    #[error("cannot start the writer of the store")]
    Thread {
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}
