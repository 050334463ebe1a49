//! Real containers through the CRI client, in one process and across the death of a daemon.
//!
//! The test binary is its own shim program and its own daemon, so it has a main function instead of the usual harness.
//! It needs root; without, it says so and passes, unless `REQUIRE_PRIVILEGED=1`.

mod confinement;
mod environment;
mod harness;
mod images_and_terminals;
mod inventory;
mod latency;
mod life;
mod node;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(ended) = runtime::reexec(&arguments) {
        return ended;
    }
    if let Some(ended) = node::run_daemon(&arguments) {
        return ended;
    }
    if arguments.iter().any(|argument| argument == "--latency") {
        return harness::measure();
    }
    let mut tests = Vec::new();
    tests.extend(environment::TESTS);
    tests.extend(life::TESTS);
    tests.extend(confinement::TESTS);
    tests.extend(images_and_terminals::TESTS);
    harness::run(&arguments, &tests)
}
