//! The command `coracle cri`.

use std::process::ExitCode;

/// Arguments of `coracle cri`.
#[derive(clap::Args)]
pub(crate) struct CriArgs {}

/// Runs the command.
pub(crate) fn run(_args: CriArgs) -> ExitCode {
    ExitCode::FAILURE
}
