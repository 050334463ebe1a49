//! Volumes that a claim stands for: which volume of the cluster it is, and mounting it into the pod's directory.
//!
//! Source: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#claims-as-volumes> and the messages of Kubernetes 1.36.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use api::annotations::{DIRECTORY_NODE, DIRECTORY_PROVISIONER};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

use super::{VolumeError, directories, host_path, mount_table};
use crate::files;

/// Why a claim cannot be mounted. The words are those of Kubernetes' events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimError {
    /// There is no such claim.
    #[error("error processing PVC {0}: persistentvolumeclaim not found")]
    NotFound(String),
    /// No volume answers it yet.
    #[error("error processing PVC {0}: PVC is not bound")]
    NotBound(String),
    /// It is on its way out.
    #[error("error processing PVC {0}: PVC is being deleted")]
    Leaving(String),
    /// A claim that stands for an ephemeral volume was made for another pod, or by hand.
    #[error("error processing PVC {0}: PVC was not created for the pod (the pod is not owner)")]
    NotOwned(String),
    /// The volume that it names is not there.
    #[error("error processing PVC {claim}: failed to fetch PV {volume}: persistentvolume not found")]
    NoVolume { claim: String, volume: String },
    /// The volume is another claim's.
    #[error("error processing PVC {claim}: volume {volume} is bound to a different claim")]
    OtherClaim { claim: String, volume: String },
    /// The directory is on another node.
    #[error("volume {volume} is a directory of the node \"{node}\": the pod can run only there")]
    OtherNode { volume: String, node: String },
    /// Nothing here mounts it.
    #[error(
        "volume {0} is of a kind that does not exist on this node; directories of coracle.dev/directory, hostPath and local do"
    )]
    Unsupported(String),
    /// What it names cannot be the name of a directory here.
    #[error("the handle of volume {0} is not one that this node has given")]
    BadHandle(String),
}

/// What a claim stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    source: Source,
    read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// A directory of this node that was made for the claim.
    Directory { root: PathBuf, handle: String },
    /// A path of the machine, as an administrator wrote it.
    HostPath { path: PathBuf, type_: String },
    /// The same, with the rules of local volumes.
    Local { path: PathBuf },
}

/// The name of the claim that a volume of a pod stands for, and whether the pod may only read it.
pub(crate) fn claim_of(pod: &Pod, volume: &Volume) -> Option<(String, bool)> {
    if let Some(source) = &volume.persistent_volume_claim {
        return Some((source.claim_name.clone(), source.read_only.unwrap_or(false)));
    }
    volume.ephemeral.as_ref()?;
    Some((format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name), false))
}

/// The volume that answers the claim of a pod's volume, if it may be mounted.
pub(super) fn bound_volume(
    pod: &Pod,
    volume: &Volume,
    (key, claim): (&str, Option<&PersistentVolumeClaim>),
) -> Result<String, ClaimError> {
    let claim = claim.ok_or_else(|| ClaimError::NotFound(key.to_owned()))?;
    let is_owned = || {
        let owners = claim.metadata.owner_references.iter().flatten();
        owners
            .into_iter()
            .any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
    };
    if volume.ephemeral.is_some() && !is_owned() {
        return Err(ClaimError::NotOwned(key.to_owned()));
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(ClaimError::Leaving(key.to_owned()));
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).unwrap_or_default();
    if phase != Some("Bound") || name.is_empty() {
        return Err(ClaimError::NotBound(key.to_owned()));
    }
    Ok(name)
}

/// What of the machine a volume is. `root` is where this node has its directories, `node` its name.
pub(super) fn resolve(
    (key, claim): (&str, &PersistentVolumeClaim),
    (name, volume): (&str, Option<&PersistentVolume>),
    (root, node): (&Path, &str),
    read_only: bool,
) -> Result<Claimed, ClaimError> {
    let missing = || ClaimError::NoVolume { claim: key.to_owned(), volume: name.to_owned() };
    let volume = volume.ok_or_else(missing)?;
    let spec = volume.spec.as_ref().ok_or_else(missing)?;
    let given = spec.claim_ref.as_ref().and_then(|claim| claim.uid.as_ref());
    if given.is_none() || given != claim.metadata.uid.as_ref() {
        return Err(ClaimError::OtherClaim { claim: key.to_owned(), volume: name.to_owned() });
    }
    if spec.volume_mode.as_deref().is_some_and(|mode| mode != "Filesystem") {
        return Err(ClaimError::Unsupported(name.to_owned()));
    }
    let source = if let Some(source) = spec.csi.as_ref().filter(|csi| csi.driver == DIRECTORY_PROVISIONER) {
        let on = volume.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DIRECTORY_NODE));
        if on.is_some_and(|on| on != node) {
            let on = on.cloned().unwrap_or_default();
            return Err(ClaimError::OtherNode { volume: name.to_owned(), node: on });
        }
        if !directories::is_handle(&source.volume_handle) {
            return Err(ClaimError::BadHandle(name.to_owned()));
        }
        Source::Directory { root: root.to_owned(), handle: source.volume_handle.clone() }
    } else if let Some(source) = &spec.host_path {
        Source::HostPath {
            path: PathBuf::from(&source.path),
            type_: source.type_.clone().unwrap_or_default(),
        }
    } else if let Some(source) = &spec.local {
        Source::Local { path: PathBuf::from(&source.path) }
    } else {
        return Err(ClaimError::Unsupported(name.to_owned()));
    };
    let says_read_only = spec.csi.as_ref().and_then(|csi| csi.read_only).unwrap_or(false);
    Ok(Claimed { source, read_only: read_only || says_read_only })
}

/// Mounts what a claim stands for at `target`. What is mounted there already stays. Blocks on the file system.
pub(super) fn set_up(
    target: &Path,
    claimed: &Claimed,
    group: Option<directories::Group>,
) -> Result<(), VolumeError> {
    if target.exists()
        && mount_table::is_mount_point(target).map_err(VolumeError::fs("cannot read the mount table"))?
    {
        return Ok(());
    }
    let (source, inert) = match &claimed.source {
        Source::Directory { root, handle } => {
            let made = directories::open_or_make(root, handle);
            (made.map_err(VolumeError::fs("cannot open the directory of the claim"))?, true)
        }
        Source::HostPath { path, type_ } => {
            // Kubernetes' runtimes make a path that is missing; one with a type is as its type demands.
            let type_ = if type_.is_empty() && !path.exists() { "DirectoryOrCreate" } else { type_ };
            host_path::check(path, type_)?;
            (open(path)?, false)
        }
        Source::Local { path } => (open(path)?, false),
    };
    let may_change_group = !claimed.read_only && !matches!(claimed.source, Source::HostPath { .. });
    if let Some(group) = group.filter(|_| may_change_group) {
        directories::give_to(source.as_fd(), group)
            .map_err(VolumeError::fs("cannot give the volume to the group of the pod"))?;
    }
    make_target(target, &source).map_err(VolumeError::fs("cannot make the directory of the volume"))?;
    bind(&source, target, inert).map_err(VolumeError::fs("cannot mount the volume of the claim"))
}

fn open(path: &Path) -> Result<OwnedFd, VolumeError> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| {
        VolumeError::FileSystem { action: "cannot open the path of the volume", source: errno.into() }
    })
}

/// A file is mounted on a file.
fn make_target(target: &Path, source: &OwnedFd) -> std::io::Result<()> {
    if FileType::from_raw_mode(rustix::fs::fstat(source)?.st_mode) == FileType::Directory {
        return files::create_dirs(target);
    }
    if let Some(parent) = target.parent() {
        files::create_dirs(parent)?;
    }
    std::fs::OpenOptions::new().append(true).create(true).open(target).map(drop)
}

fn bind(source: &OwnedFd, target: &Path, inert: bool) -> std::io::Result<()> {
    rustix::mount::mount_bind_recursive(format!("/proc/self/fd/{}", source.as_raw_fd()), target)?;
    rustix::mount::mount_change(target, MountPropagationFlags::PRIVATE)?;
    if inert {
        // As for what containers can write anyway: devices and set-user-ID programs in it are inert, where the machine allows
        // that.
        let flags = MountFlags::BIND | MountFlags::NODEV | MountFlags::NOSUID;
        if let Err(errno) = rustix::mount::mount_remount(target, flags, c"") {
            tracing::debug!(volume = %target.display(), %errno, "cannot mount a claim with nodev and nosuid");
        }
    }
    Ok(())
}
