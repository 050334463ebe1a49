//! The env file grammars: bytes in, ordered assignments with positions out.
//!
//! This crate decides what a file that `fileKeyRef` names says: which variables it declares, where, and
//! with which value.
//! It reads nothing itself; whoever opens the file hands over its bytes.
//! Absent and empty are different answers, the whole file must be valid (except in Kubernetes' own syntax,
//! whose search ends at the key), and no error ever carries a byte of the file.

mod file;
mod index;
mod line;
mod scan;

pub use file::{Assignment, Difference, EnvFile, Note, NoteKind};
use names::EnvNameGrammar;

/// The largest file that is read, in bytes (64 KiB).
pub const MAX_FILE_BYTES: usize = 64 * 1024;
/// The longest name of a variable, in characters.
pub const MAX_NAME_CHARACTERS: usize = 128;
/// The longest value of a variable, in bytes (32 KiB).
pub const MAX_VALUE_BYTES: usize = 32 * 1024;

/// Which of the grammars a file is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Syntax {
    /// RFC 2; a value that begins with `'` after RFC 2's trimming is read as Kubernetes reads a quoted value.
    #[default]
    Default,
    /// RFC 2 alone: `NAME=VALUE`, quotes are ordinary characters.
    Rfc2,
    /// What Kubernetes 1.36 ships: every value in single quotes, taken literally.
    ///
    /// The first duplicate wins, the search ends at the key, names are not checked, and an empty value
    /// counts as missing.
    Kubernetes,
}

/// A place in a file; both numbers count from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

/// Why an env file cannot be read. Says where, never what stands there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvFileError {
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error("env file is larger than {MAX_FILE_BYTES} bytes")]
    FileTooLarge,
    /// The file begins with a byte-order mark, which RFC 2 does not allow.
    #[error("env file begins with a byte-order mark at line 1; save it as UTF-8 without one")]
    ByteOrderMark,
    /// The file is not UTF-8.
    #[error("env file is not valid UTF-8 at {0}")]
    NotUtf8(Position),
    /// The file has a NUL byte, which no environment variable can hold.
    #[error("env file contains a NUL byte at {0}")]
    Nul(Position),
    /// A line is no blank line, no comment and no declaration.
    #[error("invalid environment variable format at {0}: missing '='")]
    MissingEquals(Position),
    /// Nothing stands before `=`.
    #[error("invalid environment variable format at {0}: empty variable name")]
    EmptyName(Position),
    /// The Kubernetes syntax allows no blank before `=`.
    #[error("invalid environment variable format at {0}: whitespace before '=' is not allowed")]
    SpaceBeforeEquals(Position),
    /// The Kubernetes syntax wants every value in single quotes.
    #[error("invalid environment variable format at {0}: value must be enclosed in single quotes")]
    NotQuoted(Position),
    /// A quoted value has no end. The position is that of the opening quote.
    #[error("invalid environment variable format starting at {0}: unclosed single quote")]
    UnclosedQuote(Position),
    /// Something other than a comment follows a quoted value.
    #[error("invalid environment variable format at {0}: unexpected content after closing quote")]
    AfterQuote(Position),
    /// A name is longer than [`MAX_NAME_CHARACTERS`].
    #[error("environment variable name at {0} is longer than {MAX_NAME_CHARACTERS} characters")]
    NameTooLong(Position),
    /// A value is longer than [`MAX_VALUE_BYTES`].
    #[error("environment variable value at {0} is longer than {MAX_VALUE_BYTES} bytes")]
    ValueTooLong(Position),
    /// A name breaks the grammar of names.
    #[error("invalid environment variable name at {position}: {}", messages.join(", "))]
    InvalidName {
        /// Where the name begins.
        position: Position,
        /// What the grammar demands, in upstream's words.
        messages: Vec<String>,
    },
}

impl EnvFileError {
    /// Where in the file the trouble is, if it is at one place.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::FileTooLarge => None,
            Self::ByteOrderMark => Some(Position { line: 1, column: 1 }),
            Self::NotUtf8(position)
            | Self::Nul(position)
            | Self::MissingEquals(position)
            | Self::EmptyName(position)
            | Self::SpaceBeforeEquals(position)
            | Self::NotQuoted(position)
            | Self::UnclosedQuote(position)
            | Self::AfterQuote(position)
            | Self::NameTooLong(position)
            | Self::ValueTooLong(position)
            | Self::InvalidName { position, .. } => Some(*position),
        }
    }
}

/// Reads an env file.
///
/// `grammar` is the rule for names that the pod's own variables obey; the Kubernetes syntax ignores it.
///
/// # Errors
///
/// Everything that makes the file invalid. In the Kubernetes syntax an error in a declaration is kept and
/// answered by [`EnvFile::lookup`], because a key that stands before it is found all the same.
pub fn parse(bytes: &[u8], syntax: Syntax, grammar: EnvNameGrammar) -> Result<EnvFile, EnvFileError> {
    scan::scan(bytes, syntax, grammar)
}

#[cfg(test)]
mod tests;
