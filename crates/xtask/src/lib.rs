//! Makes the table of built-in types that crate `schema` reads in place.
//!
//! The format (all numbers little-endian) is described once, in `crates/schema/src/table.rs`.

mod facts;
mod writer;

use std::path::{Path, PathBuf};

pub use facts::Facts;

/// Why the table could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Facts that are not of the expected form.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A Go type that the table cannot express.
    #[error("type {text:?} of package {package} is not understood")]
    UnknownType {
        /// The package that uses it.
        package: String,
        /// The type as written.
        text: String,
    },
    /// More entries than a 16-bit number counts.
    #[error("too many {what} for the table format")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
    },
    /// The checked-in table differs from the facts.
    #[error("{} does not follow from the facts: run `cargo run -p xtask`", path.display())]
    Stale {
        /// The table.
        path: PathBuf,
    },
}

/// The bytes of the table that follow from the files in `facts`.
///
/// # Errors
///
/// Missing or malformed facts.
pub fn make_table(facts: &Path) -> Result<Vec<u8>, TableError> {
    writer::write(&Facts::read(facts)?)
}
