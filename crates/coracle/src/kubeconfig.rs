//! The command `coracle kubeconfig`.

use std::process::ExitCode;

/// Arguments of `coracle kubeconfig`.
#[derive(clap::Args)]
pub(crate) struct KubeconfigArgs {}

/// Runs the command.
pub(crate) fn run(_args: KubeconfigArgs) -> ExitCode {
    ExitCode::FAILURE
}
