//! Expansion outside of `env`, `command` and `args`: `subPathExpr` and exec probes.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::EnvVar;

use crate::{Environment, Reveal, Value};

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
/// A reference has no value or an empty one, or the result leads out of the volume. The messages show the
/// result, with `****` for what comes from a Secret.
pub fn expand_sub_path(expression: &str, environment: &Environment) -> Result<String, SubPathError> {
    let names: BTreeSet<&str> = expansion::references(expression).map(|(name, _)| name).collect();
    let mut values: HashMap<&str, &Value> = HashMap::new();
    if !names.is_empty() {
        let entries = environment.entries().iter();
        let wanted = entries.filter(|entry| names.contains(entry.name.as_str()));
        values.extend(wanted.map(|entry| (entry.name.as_str(), &entry.value)));
    }
    expand_sub_path_with(expression, |name| values.get(name).copied())
}

/// [`expand_sub_path`] with any lookup.
pub(crate) fn expand_sub_path_with<'v>(
    expression: &str,
    lookup: impl Fn(&str) -> Option<&'v Value>,
) -> Result<String, SubPathError> {
    let mut values: HashMap<&str, (Cow<'v, str>, Cow<'v, str>)> = HashMap::new();
    let mut missing = BTreeSet::new();
    for (name, _) in expansion::references(expression) {
        let value = lookup(name).and_then(|value| Some((value.exposed()?, value.display(Reveal::Nothing))));
        match value.filter(|(exposed, _)| !exposed.is_empty()) {
            Some(both) => drop(values.insert(name, both)),
            None => drop(missing.insert(name)),
        }
    }
    if !missing.is_empty() {
        return Err(SubPathError::MissingValues(missing.into_iter().map(str::to_owned).collect()));
    }
    let expanded =
        expansion::expand(expression, |name| values.get(name).map(|(exposed, _)| &**exposed), PATH_BYTES);
    let path = match expanded {
        Ok(expanded) => expanded.value.into_owned(),
        Err(expansion::ExpandError::TooLarge { size, limit }) => {
            return Err(SubPathError::TooLarge { size, limit });
        }
    };
    let shown = || {
        let shown =
            expansion::expand(expression, |name| values.get(name).map(|(_, shown)| &**shown), PATH_BYTES);
        shown.map_or_else(|_| expression.to_owned(), |shown| shown.value.into_owned())
    };
    if path.contains('\0') {
        return Err(SubPathError::Nul);
    }
    if path.starts_with('/') {
        return Err(SubPathError::Absolute(shown()));
    }
    if path.split('/').any(|element| element == "..") {
        return Err(SubPathError::Backstep(shown()));
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
