//! The command line of Coracle: build the parts, wire them, run, drain.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::SUCCESS
}
