//! The entry points: what the API server calls before it stores an object.

use std::collections::BTreeMap;

use api::FeatureGates;
use schema::Resource;
use serde_json::Value;

use crate::errors::FieldErrors;

/// A text for a `Warning` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

/// Who may mount the volume of an env file (`--env-file-mounts`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnvFileMounts {
    /// Anybody, with a warning.
    #[default]
    Warn,
    /// Init containers only, and never a container that also consumes it; anything else is refused.
    InitOnly,
}

/// What is known about an object that a pod's environment needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SourceLookup {
    /// It exists and the caller may read it.
    Present(Value),
    /// It does not exist (yet).
    Absent,
    /// Nobody looked, or the caller may not read it.
    #[default]
    Unknown,
}

/// The objects of the pod's namespace that its environment needs, for findings. What is not in a map is
/// [`SourceLookup::Unknown`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceObjects {
    /// ConfigMaps by name.
    pub config_maps: BTreeMap<String, SourceLookup>,
    /// Secrets by name.
    pub secrets: BTreeMap<String, SourceLookup>,
    /// Services of the namespace, and `default/kubernetes`; `None`: nobody looked.
    pub services: Option<Vec<Value>>,
}

/// Names of what [`SourceObjects`] should hold for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededSources {
    /// ConfigMaps, sorted.
    pub config_maps: Vec<String>,
    /// Secrets, sorted.
    pub secrets: Vec<String>,
    /// Whether references can mean service variables.
    pub services: bool,
}

/// What admission needs to know besides the object.
#[derive(Clone, Debug, Default)]
pub struct AdmissionRequest {
    /// The feature gates of the API server.
    pub gates: FeatureGates,
    /// `--env-file-mounts`.
    pub env_file_mounts: EnvFileMounts,
    /// The object of the pod's service account, when it exists: its `automountServiceAccountToken` and
    /// `imagePullSecrets` are applied at create.
    pub service_account: Option<Value>,
    /// What a pod's environment needs, as far as the caller may read it.
    pub sources: SourceObjects,
}

/// Names the ConfigMaps and Secrets that the environment of `pod` (a decoded Pod) reads.
#[must_use]
pub fn needed_sources(pod: &Value) -> NeededSources {
    let _ = pod;
    NeededSources::default()
}

/// Defaults and validates a new object, in place. Call it after name, namespace and `metadata.uid` are set (Job
/// writes the uid into labels) and before cluster addresses and node ports are allocated.
///
/// # Errors
///
/// Every problem of the object.
pub fn prepare_create(
    resource: &Resource,
    object: &mut Value,
    request: &AdmissionRequest,
) -> Result<Vec<Warning>, FieldErrors> {
    let _ = (resource, object, request);
    Ok(Vec::new())
}

/// Defaults and validates a replacement of `old`, in place; keeps `status` and what an update may not touch.
///
/// # Errors
///
/// Every problem of the object and every forbidden change.
pub fn prepare_update(
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    request: &AdmissionRequest,
) -> Result<Vec<Warning>, FieldErrors> {
    let _ = (resource, old, new, request);
    Ok(Vec::new())
}

/// Prepares an update of the subresource `status`: everything but `status` (and free metadata) is taken from `old`.
///
/// # Errors
///
/// Every problem of the new status.
pub fn prepare_status_update(
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    request: &AdmissionRequest,
) -> Result<Vec<Warning>, FieldErrors> {
    let _ = (resource, old, new, request);
    Ok(Vec::new())
}

/// Defaults a pod's spec in place as creation of a pod does, without what admission adds (token volume, tolerations).
pub fn default_pod_spec(spec: &mut Value) {
    let _ = spec;
}
