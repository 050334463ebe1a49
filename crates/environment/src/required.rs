//! Which sources a container needs, before anything is fetched.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, ResourceFieldSelector};

use crate::{ContainerView, Options, containers};

/// How badly something is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Every reference to it is optional.
    Optional,
    /// At least one reference is not.
    Required,
}

impl Need {
    fn of(optional: Option<bool>) -> Self {
        if optional == Some(true) { Self::Optional } else { Self::Required }
    }
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
    /// Env files, each once. Empty while the gate `EnvFiles` is off.
    pub env_files: BTreeMap<EnvFileKey, Need>,
    /// Field paths of the downward API that are used, such as `status.podIP`.
    pub pod_fields: BTreeSet<String>,
    /// Whether a limit that is not set makes the node's allocatable resources needed.
    pub node_allocatable: bool,
}

/// Says which sources `container` needs. Of what Kubernetes would refuse, only what can be used is listed.
pub fn required(pod: &Pod, container: &ContainerView<'_>, options: &Options) -> Requirements {
    let spec = pod.spec.as_ref();
    let mut needs = Requirements {
        namespace_services: spec.and_then(|spec| spec.enable_service_links).unwrap_or(true),
        ..Requirements::default()
    };
    for source in container.env_from {
        if let Some(reference) = &source.config_map_ref {
            raise(&mut needs.config_maps, &reference.name, Need::of(reference.optional));
        } else if let Some(reference) = &source.secret_ref {
            raise(&mut needs.secrets, &reference.name, Need::of(reference.optional));
        }
    }
    for variable in container.env {
        let is_literal = variable.value.as_deref().is_some_and(|value| !value.is_empty());
        let Some(source) = variable.value_from.as_ref().filter(|_| !is_literal) else { continue };
        if let Some(reference) = &source.field_ref {
            needs.pod_fields.insert(reference.field_path.clone());
        } else if let Some(reference) = &source.resource_field_ref {
            needs.node_allocatable |= lacks_limit(pod, container, reference);
        } else if let Some(reference) = &source.config_map_key_ref {
            raise(&mut needs.config_maps, &reference.name, Need::of(reference.optional));
        } else if let Some(reference) = &source.secret_key_ref {
            raise(&mut needs.secrets, &reference.name, Need::of(reference.optional));
        } else if let Some(reference) = source.file_key_ref.as_ref().filter(|_| options.gates.env_files) {
            let key = EnvFileKey { volume: reference.volume_name.clone(), path: reference.path.clone() };
            let need = needs.env_files.entry(key).or_insert(Need::Optional);
            *need = (*need).max(Need::of(reference.optional));
        }
    }
    needs
}

fn raise(needs: &mut BTreeMap<String, Need>, name: &str, need: Need) {
    let known = needs.entry(name.to_owned()).or_insert(Need::Optional);
    *known = (*known).max(need);
}

fn lacks_limit(pod: &Pod, container: &ContainerView<'_>, reference: &ResourceFieldSelector) -> bool {
    let Some(kind) = reference.resource.strip_prefix("limits.") else { return false };
    if !matches!(kind, "cpu" | "memory" | "ephemeral-storage") {
        return false;
    }
    let name = reference.container_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(container.name);
    let views = pod.spec.as_ref().map(containers).unwrap_or_default();
    let resources =
        views.iter().find(|view| view.name == name).map_or(container.resources, |view| view.resources);
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    !limits.is_some_and(|limits| limits.contains_key(kind))
}

#[cfg(test)]
mod tests;
