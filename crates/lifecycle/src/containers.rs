//! One visitor over all containers of a pod, with the role that each plays. Everything that walks containers uses it,
//! so that no list is forgotten.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod};

/// What a container is for its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerRole {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that is restarted always and runs beside the containers.
    Sidecar,
    /// An ordinary container.
    App,
    /// A container that was added to a pod that exists, to look at it. It starts once, and the pod does not depend on it.
    Ephemeral,
}

impl ContainerRole {
    /// The `fieldPath` by which events name a container of this role: `spec.containers{NAME}`.
    pub fn field_path(self, name: &str) -> String {
        match self {
            Self::Init | Self::Sidecar => format!("spec.initContainers{{{name}}}"),
            Self::App => format!("spec.containers{{{name}}}"),
            Self::Ephemeral => format!("spec.ephemeralContainers{{{name}}}"),
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

/// All containers on which the pod depends: init containers and sidecars in their order, then the others. Ephemeral ones
/// are not among them: [`ephemeral_containers`].
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

/// The container of that name, unless it is an ephemeral one.
pub fn pod_container<'a>(pod: &'a Pod, name: &str) -> Option<PodContainer<'a>> {
    pod_containers(pod).find(|container| container.name() == name)
}

/// A container of any list, in the shape of an ordinary one.
#[derive(Clone, Debug)]
pub struct AnyContainer<'a> {
    /// The specification.
    pub spec: Cow<'a, Container>,
    /// Its role.
    pub role: ContainerRole,
    /// The container whose processes an ephemeral one sees.
    pub target: Option<&'a str>,
}

impl AnyContainer<'_> {
    /// The same by reference.
    pub fn as_pod_container(&self) -> PodContainer<'_> {
        PodContainer { spec: &self.spec, role: self.role }
    }

    /// The container's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }
}

/// The ephemeral containers, in the order in which they were added.
pub fn ephemeral_containers(pod: &Pod) -> impl Iterator<Item = AnyContainer<'_>> {
    let list = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    list.map(|container| AnyContainer {
        spec: Cow::Owned(in_common_shape(container)),
        role: ContainerRole::Ephemeral,
        target: container.target_container_name.as_deref().filter(|target| !target.is_empty()),
    })
}

/// All containers of all lists; ephemeral ones last.
pub fn all_containers(pod: &Pod) -> impl Iterator<Item = AnyContainer<'_>> {
    let lasting = pod_containers(pod).map(|container| AnyContainer {
        spec: Cow::Borrowed(container.spec),
        role: container.role,
        target: None,
    });
    lasting.chain(ephemeral_containers(pod))
}

/// The container of that name, whatever its list.
pub fn any_container<'a>(pod: &'a Pod, name: &str) -> Option<AnyContainer<'a>> {
    all_containers(pod).find(|container| container.name() == name)
}

/// The role of the container of that name.
pub fn container_role(pod: &Pod, name: &str) -> Option<ContainerRole> {
    let is_ephemeral = || {
        let list = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
        list.into_iter().any(|container| container.name == name)
    };
    let lasting = pod_container(pod, name).map(|container| container.role);
    lasting.or_else(|| is_ephemeral().then_some(ContainerRole::Ephemeral))
}

/// An ephemeral container has the fields of a container, and one of its own. Each field is named, so that a new one is
/// not forgotten.
fn in_common_shape(container: &EphemeralContainer) -> Container {
    let EphemeralContainer {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        target_container_name: _,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    } = container.clone();
    Container {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    }
}
