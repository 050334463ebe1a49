//! Why an environment could not be resolved, in Kubernetes' words.

use crate::Finding;

/// A kind of object that keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// ConfigMap.
    ConfigMap,
    /// Secret.
    Secret,
}

/// Why an object could not be fetched although it may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The pod's objects are not (yet) followed by the node.
    NotRegistered,
    /// The node's copy did not become current in time.
    NotSynced,
    /// The node has no API server.
    NoClient,
}

/// Why a downward API field could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldRefError {
    /// `apiVersion` is not `v1`.
    #[error("unsupported pod version: {0}")]
    UnsupportedVersion(String),
}

/// Why a container cannot get its environment. `Display` is Kubernetes' text where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// `enableServiceLinks` is not set.
    #[error("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")]
    ServiceLinksUnset,
}

impl ResolveError {
    /// The same as a finding of severity error, with field path and hint.
    pub fn finding(&self) -> Finding {
        todo_finding()
    }
}

fn todo_finding() -> Finding {
    Finding {
        code: crate::FindingCode::ReferenceUndefined,
        severity: crate::Severity::Error,
        field_path: String::new(),
        span: None,
        variable: None,
        message: String::new(),
        hint: None,
    }
}
