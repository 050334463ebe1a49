//! Expansion outside of `env`, `command` and `args`: `subPathExpr` and exec probes.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::EnvVar;

use crate::Environment;

/// The longest path that the kernel takes, in bytes.
const PATH_BYTES: usize = 4096;

/// Bytes of one expanded probe argument. Larger ones cannot be executed.
const ARGUMENT_BYTES: usize = 131_071;

/// Why a `subPathExpr` cannot be used, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubPathError {
    /// References without a value, or with an empty one; sorted, each once.
    #[error("missing value for {}", .0.join(", "))]
    MissingValues(Vec<String>),
    /// The result is absolute.
    #[error("error SubPath `{0}` must not be an absolute path")]
    Absolute(String),
    /// The result has a `..` element.
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    Backstep(String),
    /// The result has a NUL byte.
    #[error("the expanded SubPath contains a NUL byte")]
    Nul,
    /// The result is longer than a path can be.
    #[error("the expanded SubPath has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Bytes of the result.
        size: usize,
        /// Limit in bytes.
        limit: usize,
    },
}

/// Expands a `subPathExpr` with the container's complete environment (services, `envFrom`, `env`; not the image's).
///
/// # Errors
///
/// A reference has no value or an empty one, or the result leads out of the volume. The messages may hold
/// values, also such of Secrets, as Kubernetes' do.
pub fn expand_sub_path(expression: &str, environment: &Environment) -> Result<String, SubPathError> {
    let names: BTreeSet<&str> = expansion::references(expression).map(|(name, _)| name).collect();
    let mut values: HashMap<&str, Cow<'_, str>> = HashMap::new();
    if !names.is_empty() {
        for entry in environment.entries().iter().filter(|entry| names.contains(entry.name.as_str())) {
            values.extend(entry.value.exposed().map(|value| (entry.name.as_str(), value)));
        }
    }
    let has_value = |name: &&str| values.get(name).is_some_and(|value| !value.is_empty());
    let missing: Vec<String> =
        names.iter().filter(|name| !has_value(name)).map(|name| (*name).to_owned()).collect();
    if !missing.is_empty() {
        return Err(SubPathError::MissingValues(missing));
    }
    let expanded = expansion::expand(expression, |name| values.get(name).map(|value| &**value), PATH_BYTES);
    let path = match expanded {
        Ok(expanded) => expanded.value.into_owned(),
        Err(expansion::ExpandError::TooLarge { size, limit }) => {
            return Err(SubPathError::TooLarge { size, limit });
        }
    };
    if path.starts_with('/') {
        return Err(SubPathError::Absolute(path));
    }
    if path.split('/').any(|element| element == "..") {
        return Err(SubPathError::Backstep(path));
    }
    if path.contains('\0') {
        return Err(SubPathError::Nul);
    }
    Ok(path)
}

/// Expands the command of an exec probe, which sees only the literal, unexpanded values of `env`; a variable
/// with `valueFrom` counts as empty. What would not fit into an argument stays as it is.
pub fn expand_exec_probe(command: &[String], env: &[EnvVar]) -> Vec<String> {
    let values: HashMap<&str, &str> = env
        .iter()
        .map(|variable| (variable.name.as_str(), variable.value.as_deref().unwrap_or_default()))
        .collect();
    let expand = |text: &String| {
        let expanded = expansion::expand(text, |name| values.get(name).copied(), ARGUMENT_BYTES);
        expanded.map_or_else(|_| text.clone(), |expanded| expanded.value.into_owned())
    };
    command.iter().map(expand).collect()
}

#[cfg(test)]
mod tests;
