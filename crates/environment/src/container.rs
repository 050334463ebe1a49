//! The four kinds of container of a pod behind one view, because their environment follows the same rules.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EphemeralContainer, PodSpec, ResourceRequirements, VolumeMount,
};

/// The kind of a container, as the record calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerKind {
    /// An init container that runs to completion before the next starts.
    Init,
    /// An init container with `restartPolicy: Always`.
    Sidecar,
    /// An ordinary container.
    Container,
    /// An ephemeral container.
    Ephemeral,
}

impl ContainerKind {
    /// `init`, `sidecar`, `container` or `ephemeral`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Sidecar => "sidecar",
            Self::Container => "container",
            Self::Ephemeral => "ephemeral",
        }
    }

    /// The list of the pod spec that holds containers of this kind.
    pub fn list_name(self) -> &'static str {
        match self {
            Self::Init | Self::Sidecar => "initContainers",
            Self::Container => "containers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }
}

/// What the environment depends on in one container, whichever kind it is. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct ContainerView<'a> {
    /// The kind.
    pub kind: ContainerKind,
    /// Place in its list of the pod spec.
    pub index: usize,
    /// Name.
    pub name: &'a str,
    /// Image reference as written; empty when absent.
    pub image: &'a str,
    /// `env`.
    pub env: &'a [EnvVar],
    /// `envFrom`.
    pub env_from: &'a [EnvFromSource],
    /// `command`; `None` or empty when the image's entry point applies.
    pub command: Option<&'a [String]>,
    /// `args`; `None` or empty when the image's apply (unless there is a command).
    pub args: Option<&'a [String]>,
    /// `resources`.
    pub resources: Option<&'a ResourceRequirements>,
    /// `volumeMounts`.
    pub volume_mounts: &'a [VolumeMount],
    /// Whether it has a terminal (then the process sees `TERM`).
    pub tty: bool,
}

impl<'a> ContainerView<'a> {
    /// View of `containers[index]`.
    pub fn of_container(index: usize, container: &'a Container) -> Self {
        Self::of(ContainerKind::Container, index, container)
    }

    /// View of `initContainers[index]`; a sidecar when its restart policy is `Always`.
    pub fn of_init_container(index: usize, container: &'a Container) -> Self {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        Self::of(if sidecar { ContainerKind::Sidecar } else { ContainerKind::Init }, index, container)
    }

    /// View of `ephemeralContainers[index]`.
    pub fn of_ephemeral_container(index: usize, container: &'a EphemeralContainer) -> Self {
        Self {
            kind: ContainerKind::Ephemeral,
            index,
            name: &container.name,
            image: container.image.as_deref().unwrap_or_default(),
            env: container.env.as_deref().unwrap_or_default(),
            env_from: container.env_from.as_deref().unwrap_or_default(),
            command: container.command.as_deref(),
            args: container.args.as_deref(),
            resources: container.resources.as_ref(),
            volume_mounts: container.volume_mounts.as_deref().unwrap_or_default(),
            tty: container.tty.unwrap_or(false),
        }
    }

    fn of(kind: ContainerKind, index: usize, container: &'a Container) -> Self {
        Self {
            kind,
            index,
            name: &container.name,
            image: container.image.as_deref().unwrap_or_default(),
            env: container.env.as_deref().unwrap_or_default(),
            env_from: container.env_from.as_deref().unwrap_or_default(),
            command: container.command.as_deref(),
            args: container.args.as_deref(),
            resources: container.resources.as_ref(),
            volume_mounts: container.volume_mounts.as_deref().unwrap_or_default(),
            tty: container.tty.unwrap_or(false),
        }
    }

    /// Path below the pod spec, such as `containers[0]`.
    pub fn path_in_spec(&self) -> String {
        format!("{}[{}]", self.kind.list_name(), self.index)
    }

    /// Field path as events name the container: `spec.containers{NAME}`.
    pub fn event_field_path(&self) -> String {
        format!("spec.{}{{{}}}", self.kind.list_name(), self.name)
    }
}

/// Every container of a pod: init containers and sidecars in their order, then containers, then ephemeral ones.
pub fn containers(spec: &PodSpec) -> Vec<ContainerView<'_>> {
    let init = spec.init_containers.iter().flatten().enumerate();
    let regular = spec.containers.iter().enumerate();
    let ephemeral = spec.ephemeral_containers.iter().flatten().enumerate();
    init.map(|(index, container)| ContainerView::of_init_container(index, container))
        .chain(regular.map(|(index, container)| ContainerView::of_container(index, container)))
        .chain(ephemeral.map(|(index, container)| ContainerView::of_ephemeral_container(index, container)))
        .collect()
}
