//! What the benchmarks (`docs/benchmarks.md`) share: inputs, a node to measure from outside, figures of a run, and for the API a
//! client that costs little beside the server that it measures.

pub mod figures;
pub mod floor;
pub mod http1;
pub mod http2;
mod inputs;
pub mod machine;
pub mod names;
pub mod namespaces;
pub mod node;
pub mod phases;
pub mod tls;

use std::process::ExitCode;

pub use inputs::{
    deployments_in_json, deployments_in_yaml, hostile_input, mixed_input, pod_with_variables, services,
    template_in_yaml,
};

/// What a benchmark ends with.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The whole of a benchmark: runs it on two threads, and says what went wrong.
pub fn run(measurement: impl Future<Output = Outcome<()>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    exit_code(runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(measurement)))
}

/// How a benchmark ends.
pub fn exit_code(measured: Outcome<()>) -> ExitCode {
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
