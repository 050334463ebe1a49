//! Paths that a container must not see or must not write.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags};
use sys::{MountAttributes, MountChange};

use super::error::{InitError, Step as _};
use super::filesystems::{copy_mount, new_filesystem};
use super::targets::{TargetKind, attach, find, kind_of};
use crate::launch::HiddenPath;

/// Covers a path: a file by the null device, a directory by an empty one that cannot be written. Missing is hidden.
pub(super) fn mask(root: BorrowedFd<'_>, path: &str) -> Result<(), InitError> {
    let point = match find(root, path) {
        Ok(point) => point,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(error).step_path("hide", path),
    };
    let cover = match kind_of(&point).step_path("hide", path)? {
        TargetKind::Directory => new_filesystem("tmpfs", &[("size", "0")], MountAttrFlags::MOUNT_ATTR_RDONLY)
            .step_path("hide", path)?,
        TargetKind::File => {
            let null = copy_mount(Path::new("/dev/null"), false).step_path("hide", path)?;
            let status = rustix::fs::statat(&null, "", AtFlags::EMPTY_PATH).step_path("hide", path)?;
            // Whatever lies at that path on the node, only the real null device may cover a secret.
            if status.st_rdev != rustix::fs::makedev(1, 3) {
                return Err(std::io::Error::other("/dev/null of the node is not the null device"))
                    .step_path("hide", path);
            }
            null
        }
    };
    attach(cover, point).step_path("hide", path)
}

/// Covers a path of the host image. Directories that programs expect to write (homes) stay writable, in memory.
pub(super) fn hide(root: BorrowedFd<'_>, hidden: &HiddenPath) -> Result<(), InitError> {
    let Some(path) = hidden.path.to_str() else { return Ok(()) };
    let point = match find(root, path) {
        Ok(point) => point,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(error).step_path("hide", path),
    };
    if !hidden.directory || kind_of(&point).step_path("hide", path)? == TargetKind::File {
        return mask(root, path);
    }
    let status = rustix::fs::statat(&point, "", AtFlags::EMPTY_PATH).step_path("hide", path)?;
    let mode = format!("{:o}", status.st_mode & 0o7777);
    let (uid, gid) = (status.st_uid.to_string(), status.st_gid.to_string());
    let cover = new_filesystem(
        "tmpfs",
        &[("mode", &mode), ("uid", &uid), ("gid", &gid), ("size", "64m")],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
    .step_path("hide", path)?;
    attach(cover, point).step_path("hide", path)
}

/// Makes a path, and what is mounted below it, read-only. Missing needs nothing.
pub(super) fn make_read_only(root: BorrowedFd<'_>, path: &str) -> Result<(), InitError> {
    let point = match find(root, path) {
        Ok(point) => point,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(error).step_path("make read-only", path),
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let copy = rustix::mount::open_tree(&point, "", flags).step_path("make read-only", path)?;
    let read_only = MountAttributes { read_only: true, ..Default::default() };
    sys::change_mount(copy.as_fd(), MountChange { set: read_only, recursive: true, ..Default::default() })
        .step_path("make read-only", path)?;
    attach(copy, point).step_path("make read-only", path)
}
