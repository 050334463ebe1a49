//! Which sources a container needs, before anything is fetched.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use crate::{ContainerView, Options};

/// How badly something is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Every reference to it is optional.
    Optional,
    /// At least one reference is not.
    Required,
}

/// An env file: a volume of the pod and a path in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvFileKey {
    /// Volume name.
    pub volume: String,
    /// Path as written; below the volume's root also when it begins with `/`.
    pub path: String,
}

/// What to fetch before [`crate::resolve`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Requirements {
    /// ConfigMaps of the pod's namespace.
    pub config_maps: BTreeMap<String, Need>,
    /// Secrets of the pod's namespace.
    pub secrets: BTreeMap<String, Need>,
    /// Whether the services of the pod's own namespace give variables (`enableServiceLinks`).
    /// The service `kubernetes` of namespace `default` is always needed.
    pub namespace_services: bool,
    /// Env files, each once.
    pub env_files: BTreeMap<EnvFileKey, Need>,
    /// Field paths of the downward API that are used, such as `status.podIP`.
    pub pod_fields: BTreeSet<String>,
    /// Whether a limit that is not set makes the node's allocatable resources needed.
    pub node_allocatable: bool,
}

/// Says which sources `container` needs. Admission must have accepted the pod, or at least decoded it.
pub fn required(pod: &Pod, container: &ContainerView<'_>, options: &Options) -> Requirements {
    let _ = (pod, container, options);
    Requirements::default()
}
