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
pub mod tls;

pub use inputs::{
    deployments_in_json, deployments_in_yaml, hostile_input, mixed_input, pod_with_variables, services,
    template_in_yaml,
};

/// What a benchmark ends with.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
