//! The hidden mode of the binary: a process of ours that is a pod's shim.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The first argument of a shim.
pub(crate) const SHIM: &str = "shim";

/// Becomes a shim when the arguments say so, and answers its exit status when it ended. `None`: go on as usual.
///
/// To be called first thing in `main`, with the arguments of the process, before any thread exists: a shim forks, which
/// only a single-threaded process may.
#[must_use]
pub fn reexec(arguments: &[OsString]) -> Option<ExitCode> {
    match arguments {
        [_, mode, directory] if mode == SHIM => Some(crate::shim::run_shim(Path::new(directory))),
        _ => None,
    }
}
