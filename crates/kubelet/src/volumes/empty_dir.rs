//! emptyDir on disk and in memory.

use std::ffi::CString;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};

use super::{VolumeError, mount_table};
use crate::files;

/// Where an emptyDir lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyDirMedium {
    /// On the node's disk.
    Disk,
    /// In memory.
    Memory,
}

pub(super) fn set_up(
    dir: &Path,
    medium: EmptyDirMedium,
    size_limit: Option<u64>,
    fs_group: Option<u32>,
) -> Result<(), VolumeError> {
    let fresh = !dir.exists();
    files::create_dirs(dir).map_err(VolumeError::fs("cannot make the directory of the volume"))?;
    let mounted = mount_table::is_mount_point(dir).map_err(VolumeError::fs("cannot read the mount table"))?;
    match medium {
        EmptyDirMedium::Memory if !mounted => {
            mount_memory(dir, size_limit, "mode=0777").map_err(VolumeError::fs("cannot mount memory"))?;
        }
        EmptyDirMedium::Disk if !mounted => mount_onto_itself(dir),
        EmptyDirMedium::Memory | EmptyDirMedium::Disk => {}
    }
    if fresh || !mounted {
        give_to(dir, fs_group).map_err(VolumeError::fs("cannot set owner and mode of the volume"))?;
    }
    Ok(())
}

/// Everybody may write; with an fsGroup the group owns it, and what is made inside inherits the group.
fn give_to(dir: &Path, fs_group: Option<u32>) -> std::io::Result<()> {
    let mode = match fs_group {
        Some(gid) => {
            chown(dir, None, Some(gid))?;
            0o2777
        }
        None => 0o777,
    };
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode))
}

/// A tmpfs for files that hold secrets, so that they do not reach the disk. A node that may not mount keeps them in a
/// directory that only root can enter.
pub(super) fn mount_memory_for_files(dir: &Path) -> Result<(), VolumeError> {
    files::create_dirs(dir).map_err(VolumeError::fs("cannot make the directory of the volume"))?;
    if mount_table::is_mount_point(dir).map_err(VolumeError::fs("cannot read the mount table"))? {
        return Ok(());
    }
    match mount_memory(dir, None, "mode=0755") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            tracing::warn!(volume = %dir.display(), "cannot mount memory for secret files: they stay on disk");
            Ok(())
        }
        Err(error) => Err(VolumeError::FileSystem { action: "cannot mount memory", source: error }),
    }
}

fn mount_memory(dir: &Path, size_limit: Option<u64>, options: &str) -> std::io::Result<()> {
    let options = match size_limit {
        Some(size) => format!("{options},size={size}"),
        None => options.to_owned(),
    };
    let options = CString::new(options).expect("the options hold digits and letters only");
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    rustix::mount::mount("tmpfs", dir, "tmpfs", flags, options.as_c_str())?;
    // What is mounted here must not appear in other mount namespaces behind the agent's back.
    rustix::mount::mount_change(dir, MountPropagationFlags::PRIVATE)?;
    Ok(())
}

/// Mounts the directory onto itself, so that devices and set-user-ID programs that a container makes in it are inert. The
/// reading of env files does not rely on it: a machine that does not allow it loses a second line only.
fn mount_onto_itself(dir: &Path) {
    let result = rustix::mount::mount_bind(dir, dir)
        .and_then(|()| rustix::mount::mount_change(dir, MountPropagationFlags::PRIVATE))
        .and_then(|()| {
            let flags = MountFlags::BIND | MountFlags::NODEV | MountFlags::NOSUID;
            rustix::mount::mount_remount(dir, flags, c"")
        });
    match result {
        Ok(()) => {}
        Err(Errno::PERM | Errno::ACCESS) => {
            tracing::debug!(volume = %dir.display(), "cannot mount emptyDir with nodev and nosuid");
        }
        Err(errno) => {
            tracing::warn!(volume = %dir.display(), %errno, "cannot mount emptyDir with nodev and nosuid");
        }
    }
}
