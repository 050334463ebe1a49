//! One visitor over all containers of a pod, with the role that each plays. Everything that walks containers uses it,
//! so that no list is forgotten.

use k8s_openapi::api::core::v1::{Container, Pod};

/// What a container is for its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerRole {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that is restarted always and runs beside the containers.
    Sidecar,
    /// An ordinary container.
    App,
}

impl ContainerRole {
    /// The `fieldPath` by which events name a container of this role: `spec.containers{NAME}`.
    pub fn field_path(self, name: &str) -> String {
        match self {
            Self::Init | Self::Sidecar => format!("spec.initContainers{{{name}}}"),
            Self::App => format!("spec.containers{{{name}}}"),
        }
    }
}

/// A container of a pod's specification and its role.
#[derive(Clone, Copy, Debug)]
pub struct PodContainer<'a> {
    /// The specification.
    pub spec: &'a Container,
    /// Its role.
    pub role: ContainerRole,
}

impl<'a> PodContainer<'a> {
    /// The container's name.
    pub fn name(&self) -> &'a str {
        &self.spec.name
    }
}

/// All containers: init containers and sidecars in their order, then the others.
pub fn pod_containers(pod: &Pod) -> impl Iterator<Item = PodContainer<'_>> {
    pod.spec.iter().flat_map(|spec| {
        let init = spec.init_containers.iter().flatten().map(|container| PodContainer {
            spec: container,
            role: match container.restart_policy.as_deref() {
                Some("Always") => ContainerRole::Sidecar,
                Some(_) | None => ContainerRole::Init,
            },
        });
        let app = spec
            .containers
            .iter()
            .map(|container| PodContainer { spec: container, role: ContainerRole::App });
        init.chain(app)
    })
}

/// The container of that name.
pub fn pod_container<'a>(pod: &'a Pod, name: &str) -> Option<PodContainer<'a>> {
    pod_containers(pod).find(|container| container.name() == name)
}
