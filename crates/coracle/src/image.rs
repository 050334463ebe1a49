//! The command `coracle image`.

use std::process::ExitCode;

/// Arguments of `coracle image`.
#[derive(clap::Args)]
pub(crate) struct ImageArgs {}

/// Runs the command.
pub(crate) fn run(_args: ImageArgs) -> ExitCode {
    ExitCode::FAILURE
}
