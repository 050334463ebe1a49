//! The root file system of a container: overlay mount, and the switch into it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::error::{InitError, Step as _};
use super::targets::shown;
use crate::launch::RootSpec;

/// Names inside the directory of a container's root.
const UPPER: &str = "upper";
const WORK: &str = "work";
const MOUNT_POINT: &str = "root";
const SCRATCH: &str = "scratch";

/// Mounts the layers with a private writable layer on top, in the current mount namespace.
pub(super) fn mount_root(root: &RootSpec) -> Result<OwnedFd, InitError> {
    let mount_point = root.directory.join(MOUNT_POINT);
    fs::create_dir_all(&mount_point).step_path("make", shown(&mount_point))?;
    let on_disk = writable_layer(&root.directory)?;
    match mount_overlay(root, &on_disk, &mount_point) {
        Ok(()) => {}
        // The data directory lies on a file system that cannot hold a writable layer, such as another overlay.
        Err(_) => {
            let scratch = root.directory.join(SCRATCH);
            fs::create_dir_all(&scratch).step_path("make", shown(&scratch))?;
            rustix::mount::mount("tmpfs", &scratch, "tmpfs", MountFlags::NODEV, c"mode=0700")
                .step_path("mount a writable layer in memory at", shown(&scratch))?;
            let in_memory = writable_layer(&scratch)?;
            mount_overlay(root, &in_memory, &mount_point)
                .step_path("mount the root file system at", shown(&mount_point))?;
        }
    }
    open_directory(&mount_point).step_path("open", shown(&mount_point))
}

struct WritableLayer {
    upper: OwnedFd,
    work: OwnedFd,
}

fn writable_layer(directory: &Path) -> Result<WritableLayer, InitError> {
    let make = |name| {
        let path = directory.join(name);
        fs::create_dir_all(&path).step_path("make", shown(&path))?;
        open_directory(&path).step_path("open", shown(&path))
    };
    Ok(WritableLayer { upper: make(UPPER)?, work: make(WORK)? })
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Layers are named by descriptor: the kernel takes one page of options, which many long paths would not fit into, and
/// no character of a path can be mistaken for a separator.
fn mount_overlay(root: &RootSpec, writable: &WritableLayer, mount_point: &Path) -> io::Result<()> {
    let layers =
        root.layers.iter().rev().map(|layer| open_directory(layer)).collect::<io::Result<Vec<_>>>()?;
    let named = |fd: BorrowedFd<'_>| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let lower: Vec<String> = layers.iter().map(|layer| named(layer.as_fd())).collect();
    let mut options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.join(":"),
        named(writable.upper.as_fd()),
        named(writable.work.as_fd())
    );
    if root.host {
        // The machine's root changes below the mount: no index may be kept of it.
        options.push_str(",index=off,metacopy=off,redirect_dir=off");
    }
    let options = CString::new(options).expect("numbers and fixed words hold no NUL");
    Ok(rustix::mount::mount("overlay", mount_point, "overlay", MountFlags::empty(), options.as_c_str())?)
}

/// Makes `root` the root directory of this mount namespace, and lets go of the old one.
pub(super) fn switch_root(root: BorrowedFd<'_>) -> Result<(), InitError> {
    rustix::process::fchdir(root).step("enter the root file system")?;
    // The old root ends up on top of the new one, and goes away from there.
    rustix::process::pivot_root(".", ".").step("switch to the root file system")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).step("let go of the node's file systems")?;
    rustix::process::chdir("/").step("enter the root file system")
}
