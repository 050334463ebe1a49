//! The mounts of a container: volumes with subPath and subPathExpr, the hosts file, the termination message.

use std::path::{Path, PathBuf};

use cri::v1;
use environment::{Environment, SubPathError};
use k8s_openapi::api::core::v1::VolumeMount;

use crate::agent::Agent;
use crate::config::PodDirs;
use crate::container_config::ConfigRequest;
use crate::files;
use crate::sandbox;
use crate::termination_message;
use crate::volumes::{self, SubPathMount};

/// Why a mount cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MountError {
    /// The pod has no such volume.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    UnknownVolume { volume: String, container: String },
    /// `subPathExpr` cannot be expanded.
    #[error(transparent)]
    SubPathExpression(#[from] SubPathError),
    /// The part of the volume cannot be opened.
    #[error("failed to prepare subPath for volumeMount {volume:?} of container {container:?}: {message}")]
    SubPath { volume: String, container: String, message: String },
    /// A file that is mounted into the container cannot be made.
    #[error("cannot make {what}: {message}")]
    File { what: &'static str, message: String },
}

/// Makes what a container mounts, and answers how the runtime is to mount it.
pub(crate) async fn container_mounts(
    agent: &Agent,
    request: ConfigRequest<'_>,
    environment: &Environment,
) -> Result<Vec<v1::Mount>, MountError> {
    let dirs = agent.config.pod_dirs(request.pod.metadata.uid.as_deref().unwrap_or_default());
    let container = request.container;
    let mut mounts = Vec::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        mounts.push(volume_mount(agent, &dirs, request, (index, mount), environment).await?);
    }
    let mounted = |path: &str, mounts: &[v1::Mount]| {
        mounts.iter().any(|mount| mount.container_path.trim_end_matches('/') == path)
    };
    if !mounted("/etc/hosts", &mounts) {
        mounts.push(hosts_mount(agent, &dirs, request)?);
    }
    let message_path = container.termination_message_path.as_deref().unwrap_or_default();
    if !message_path.is_empty() {
        let file = dirs.termination_message(&container.name, request.attempt);
        termination_message::create(&file).map_err(|error| MountError::File {
            what: "the file of the termination message",
            message: error.to_string(),
        })?;
        mounts.push(bind(&file, message_path));
    }
    Ok(mounts)
}

fn bind(host: &Path, container: &str) -> v1::Mount {
    v1::Mount {
        host_path: host.display().to_string(),
        container_path: container.to_owned(),
        ..v1::Mount::default()
    }
}

fn hosts_mount(agent: &Agent, dirs: &PodDirs, request: ConfigRequest<'_>) -> Result<v1::Mount, MountError> {
    let failed = |message: String| MountError::File { what: "the hosts file", message };
    let text = sandbox::hosts_text(agent, request.pod, request.pod_ips)
        .map_err(|error| failed(error.to_string()))?;
    let path = dirs.hosts_file();
    if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
        // Containers that run have the file mounted: it is written in place, so that they see the change too.
        let write = || {
            if let Some(parent) = path.parent() {
                files::create_dirs(parent)?;
            }
            std::fs::write(&path, &text)?;
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
        };
        write().map_err(|error: std::io::Error| failed(error.to_string()))?;
    }
    Ok(bind(&path, "/etc/hosts"))
}

async fn volume_mount(
    agent: &Agent,
    dirs: &PodDirs,
    request: ConfigRequest<'_>,
    (index, mount): (usize, &VolumeMount),
    environment: &Environment,
) -> Result<v1::Mount, MountError> {
    let container = &request.container.name;
    let location = volumes::locate(dirs, request.pod, &mount.name).ok_or_else(|| {
        MountError::UnknownVolume { volume: mount.name.clone(), container: container.clone() }
    })?;
    let expression = mount.sub_path_expr.as_deref().filter(|expression| !expression.is_empty());
    let sub_path = match expression {
        Some(expression) => Some(environment::expand_sub_path(expression, environment)?),
        None => mount.sub_path.clone().filter(|sub_path| !sub_path.is_empty()),
    };
    let host_path = match sub_path {
        None => location.path.clone(),
        Some(sub_path) => {
            pin_sub_path(agent, dirs, &location.path, sub_path, (&mount.name, container, index)).await?
        }
    };
    let propagation = match mount.mount_propagation.as_deref() {
        Some("HostToContainer") => v1::MountPropagation::PropagationHostToContainer,
        Some("Bidirectional") => v1::MountPropagation::PropagationBidirectional,
        Some(_) | None => v1::MountPropagation::PropagationPrivate,
    };
    let mut path = mount.mount_path.clone();
    if !path.starts_with('/') {
        path.insert(0, '/');
    }
    let recursive = matches!(mount.recursive_read_only.as_deref(), Some("Enabled" | "IfPossible"));
    Ok(v1::Mount {
        readonly: mount.read_only.unwrap_or(false) || location.read_only,
        recursive_read_only: recursive && mount.read_only.unwrap_or(false),
        propagation: propagation as i32,
        ..bind(&host_path, &path)
    })
}

async fn pin_sub_path(
    agent: &Agent,
    dirs: &PodDirs,
    volume_path: &Path,
    sub_path: String,
    place: (&str, &str, usize),
) -> Result<PathBuf, MountError> {
    let (volume, container, index) = (place.0.to_owned(), place.1.to_owned(), place.2);
    let failed = {
        let (volume, container) = (volume.clone(), container.clone());
        move |message: String| MountError::SubPath { volume, container, message }
    };
    let (dirs, volume_path) = (dirs.clone(), volume_path.to_owned());
    let pinned = agent
        .tasks
        .spawn_blocking(move || {
            let place = (volume.as_str(), container.as_str(), index);
            volumes::prepare_sub_path(
                &dirs,
                &SubPathMount { volume_path: &volume_path, sub_path: &sub_path, place },
            )
        })
        .await;
    match pinned {
        Ok(Ok(path)) => Ok(path),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("the attempt ended with a panic".to_owned())),
    }
}
