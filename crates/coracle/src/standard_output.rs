//! Standard output as a place that can fail: a disk that is full is said, a reader that went away ends the command quietly.

use std::fmt::Display;
use std::io::{self, Write};

use crate::failure::Failure;

/// Exit status: what reads standard output went away. It is the status that a shell shows for a tool that a closed pipe ended.
pub(crate) const READER_GONE: u8 = 141;

/// Exit status: standard output cannot be written.
const UNWRITABLE: u8 = 1;

/// Prints a line.
///
/// # Errors
///
/// When standard output does not take it.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    print(format_args!("{text}\n"))
}

/// Prints text as it is.
///
/// # Errors
///
/// When standard output does not take it.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(|error| unwritable(&error))
}

/// The end of a command whose output is not taken: quiet when its reader went away, as `head` does when it has enough.
pub(crate) fn unwritable(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::quiet(READER_GONE);
    }
    Failure::text(UNWRITABLE, format!("the output cannot be written: {error}"))
        .place("standard output")
        .hint("check where it is redirected to")
}
