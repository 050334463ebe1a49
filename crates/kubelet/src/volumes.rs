//! The volumes of a pod: fetched, made on disk below the pod's own directory, kept current, and taken down.
//!
//! All volumes of a pod are set up, also those that no container mounts: an env file may be read from one of them.
//! What a container can write (emptyDir) is mounted `nodev,nosuid` where the machine allows it.

mod atomic;
mod claimed;
mod directories;
mod empty_dir;
mod host_path;
mod mount_table;
mod payload;
mod source;
mod sub_path;
mod tokens;

use std::io;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, Volume};

use crate::config::PodDirs;

pub(crate) use claimed::ClaimError;
pub(crate) use directories::{Group, is_handle, remove as remove_directory};
pub(crate) use empty_dir::EmptyDirMedium;
pub(crate) use host_path::still_holds;
pub(crate) use payload::PayloadError;
pub(crate) use source::fetch_volumes;
pub(crate) use sub_path::{SubPathMount, prepare_sub_path};
pub(crate) use tokens::PodTokens;

/// Why a volume could not be set up. `Display` is what Kubernetes' event says behind `MountVolume.SetUp failed for volume`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    /// The content of a keyed volume could not be put together.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The claim is not one that can be mounted now.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The API server did not answer.
    #[error("{kind} {name:?} could not be read: {message}")]
    Fetch { kind: &'static str, name: String, message: String },
    /// A hostPath is not what its type demands.
    #[error("hostPath type check failed: {path} is not {expected}")]
    HostPathType { path: String, expected: &'static str },
    /// The node has no such kind of volume.
    #[error(
        "volumes of the kind {0} do not exist on this node; emptyDir, hostPath, configMap, secret, downwardAPI, projected, \
         persistentVolumeClaim and ephemeral do"
    )]
    Unsupported(String),
    /// The name cannot be a directory.
    #[error("the name of the volume cannot be a directory name")]
    InvalidName,
    /// The file system refused.
    #[error("{action}: {source}")]
    FileSystem {
        /// What was done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl VolumeError {
    fn fs(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::FileSystem { action, source }
    }
}

/// A volume and what it is to hold, fetched and ready to be made.
#[derive(Clone, Debug)]
pub(crate) struct PreparedVolume {
    pub(crate) name: String,
    pub(crate) content: VolumeContent,
}

/// What a volume holds.
#[derive(Clone, Debug)]
pub(crate) enum VolumeContent {
    /// Empty at first; containers write.
    EmptyDir { medium: EmptyDirMedium, size_limit: Option<u64> },
    /// Files that the node writes and keeps current.
    Files { payload: payload::Payload, in_memory: bool },
    /// A path of the machine.
    HostPath { path: PathBuf, type_: String },
    /// What a claim stands for.
    Claimed(claimed::Claimed),
}

/// Makes all volumes of a pod; a second call updates what has changed. Blocks on the file system.
///
/// # Errors
///
/// The first volume that fails, by name.
pub(crate) fn set_up(
    dirs: &PodDirs,
    volumes: &[PreparedVolume],
    group: Option<Group>,
) -> Result<(), (String, VolumeError)> {
    for volume in volumes {
        set_up_one(dirs, volume, group).map_err(|error| (volume.name.clone(), error))?;
    }
    Ok(())
}

fn set_up_one(dirs: &PodDirs, volume: &PreparedVolume, group: Option<Group>) -> Result<(), VolumeError> {
    let fs_group = group.map(|group| group.gid);
    if volume.name.is_empty() || volume.name.contains('/') || volume.name.starts_with('.') {
        return Err(VolumeError::InvalidName);
    }
    let dir = dirs.volume(&volume.name);
    match &volume.content {
        VolumeContent::EmptyDir { medium, size_limit } => {
            empty_dir::set_up(&dir, *medium, *size_limit, fs_group)
        }
        VolumeContent::Files { payload, in_memory } => {
            if *in_memory {
                empty_dir::mount_memory_for_files(&dir)?;
            }
            atomic::write(&dir, payload, fs_group)
        }
        VolumeContent::HostPath { path, type_ } => host_path::check(path, type_),
        VolumeContent::Claimed(claimed) => claimed::set_up(&dir, claimed, group),
    }
}

/// Where a volume of a pod is on the machine, and whether containers may only read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeLocation {
    pub(crate) path: PathBuf,
    pub(crate) read_only: bool,
}

/// Where the volume `name` of the pod is; `None` if it has no such volume.
pub(crate) fn locate(dirs: &PodDirs, pod: &Pod, name: &str) -> Option<VolumeLocation> {
    let volume = pod.spec.as_ref()?.volumes.iter().flatten().find(|volume| volume.name == name)?;
    Some(match kind(pod, volume) {
        VolumeKind::HostPath(source) => {
            VolumeLocation { path: PathBuf::from(&source.path), read_only: false }
        }
        VolumeKind::EmptyDir | VolumeKind::Unsupported => {
            VolumeLocation { path: dirs.volume(name), read_only: false }
        }
        VolumeKind::Files => VolumeLocation { path: dirs.volume(name), read_only: true },
        VolumeKind::Claimed { read_only } => VolumeLocation { path: dirs.volume(name), read_only },
    })
}

enum VolumeKind<'a> {
    EmptyDir,
    Files,
    HostPath(&'a k8s_openapi::api::core::v1::HostPathVolumeSource),
    Claimed { read_only: bool },
    Unsupported,
}

fn kind<'a>(pod: &Pod, volume: &'a Volume) -> VolumeKind<'a> {
    if volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
    {
        VolumeKind::Files
    } else if let Some(source) = &volume.host_path {
        VolumeKind::HostPath(source)
    } else if volume.empty_dir.is_some() {
        VolumeKind::EmptyDir
    } else if let Some((_, read_only)) = claimed::claim_of(pod, volume) {
        VolumeKind::Claimed { read_only }
    } else {
        VolumeKind::Unsupported
    }
}

/// Takes down everything that is mounted below the pod's directory and removes its volumes. Blocks on the file system.
///
/// # Errors
///
/// What is still busy; call again later.
pub(crate) fn tear_down(dirs: &PodDirs) -> io::Result<()> {
    mount_table::unmount_below(dirs.root())?;
    crate::files::remove_dir_all(&dirs.sub_paths())?;
    crate::files::remove_dir_all(&dirs.volumes())
}

/// Takes down everything that is mounted below a directory. Blocks on the file system.
pub(crate) fn unmount_below(dir: &std::path::Path) -> io::Result<()> {
    mount_table::unmount_below(dir)
}

#[cfg(test)]
mod tests;
