//! The command `coracle template`: templates processed, checked, applied, exported and taken away again.
//!
//! Exit statuses: 0; 1 when `lint --strict` finds something, or an object could not be applied; 2 when the input cannot
//! be used; 125 when the API server cannot be reached.

mod apply;
mod arguments;
mod delete;
mod expand;
mod export;
mod kinds;
mod lint;
mod list;
mod merge;
mod output;
mod parameters;
mod process;
mod prompt;
mod rehearsal;
mod report;
mod source;
mod table;
mod values;
mod write;

use std::process::ExitCode;

use crate::failure::Failure;

pub(crate) use arguments::ValueArgs;
pub(crate) use expand::{Expanded, Redactor, expand};

/// Arguments of `coracle template`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    command: TemplateCommand,
}

const EXAMPLES: &str = "Examples:
  coracle template process -f app.yaml -p TAG=1.2          the objects, to look at or to pipe on
  coracle template process -f app.yaml | kubectl apply -f -
  coracle template lint app.yaml --strict                  for CI: status 1 on a warning
  coracle template apply -f app.yaml --instance shop       create or update; generated values stay as they are
  coracle template delete shop                             everything of that instance
  coracle template export -n shop --parameterize           a template of what is there";

#[derive(clap::Subcommand)]
enum TemplateCommand {
    /// Print the objects that a template becomes; nothing is created.
    Process(process::ProcessArgs),
    /// Check templates without processing them.
    Lint(lint::LintArgs),
    /// Show which parameters a template has.
    Parameters(parameters::ParametersArgs),
    /// Process a template and create or update its objects.
    Apply(apply::ApplyArgs),
    /// Make a template of objects that are there.
    Export(export::ExportArgs),
    /// Show which instances there are.
    List(list::ListArgs),
    /// Delete every object of an instance.
    Delete(delete::DeleteArgs),
}

/// Runs the command.
pub(crate) fn run(args: TemplateArgs) -> ExitCode {
    let ended = match args.command {
        TemplateCommand::Process(args) => process::run(&args),
        TemplateCommand::Lint(args) => lint::run(&args),
        TemplateCommand::Parameters(args) => parameters::run(&args),
        TemplateCommand::Apply(args) => apply::run(&args),
        TemplateCommand::Export(args) => export::run(&args),
        TemplateCommand::List(args) => list::run(&args),
        TemplateCommand::Delete(args) => delete::run(&args),
    };
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}

/// How a subcommand ends.
type Ended = Result<u8, Failure>;

/// Random bytes of the operating system.
fn random_bytes(bytes: &mut [u8]) -> Result<(), ::template::RandomnessFailed> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) if count > 0 => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return Err(::template::RandomnessFailed),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
