//! The command `coracle env`.

use std::process::ExitCode;

/// Arguments of `coracle env`.
#[derive(clap::Args)]
pub(crate) struct EnvArgs {}

/// Runs the command.
pub(crate) fn run(_args: EnvArgs) -> ExitCode {
    ExitCode::FAILURE
}
