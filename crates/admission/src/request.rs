//! What the API server says to admission, and what admission answers besides errors: plain data.

use std::collections::BTreeMap;
use std::fmt;

use api::FeatureGates;
use serde_json::Value;

use crate::ip_family::ClusterFamilies;

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

/// What is known about an object that a pod's environment needs. `Debug` shows no object: it may be a Secret.
#[derive(Clone, Default, PartialEq)]
pub enum SourceLookup {
    /// It exists and the caller may read it.
    Present(Value),
    /// It does not exist (yet).
    Absent,
    /// Nobody looked, or the caller may not read it.
    #[default]
    Unknown,
}

impl fmt::Debug for SourceLookup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Present(_) => "Present",
            Self::Absent => "Absent",
            Self::Unknown => "Unknown",
        })
    }
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
    /// The families of the cluster's addresses.
    pub families: ClusterFamilies,
    /// The object of the pod's service account, when it exists: its `automountServiceAccountToken` and
    /// `imagePullSecrets` are applied at create.
    pub service_account: Option<Value>,
    /// The LimitRanges of a new pod's namespace.
    pub limit_ranges: Vec<Value>,
    /// The priority class that a new pod names, or the cluster's default one.
    pub priority_class: Option<Value>,
    /// What a pod's environment needs, as far as the caller may read it.
    pub sources: SourceObjects,
}
