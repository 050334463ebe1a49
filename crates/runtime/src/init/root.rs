//! The root file system of a container: overlay mount, and the switch into it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::mount::{MountFlags, UnmountFlags};

use super::error::{InitError, Step as _};
use super::filesystems::copy_mount;
use super::targets::{attach, shown};
use crate::launch::RootSpec;

/// Names inside the directory of a container's root.
const UPPER: &str = "upper";
const WORK: &str = "work";
const MOUNT_POINT: &str = "root";
const SCRATCH: &str = "scratch";
const OWNED: &str = "owned";

/// Mounts the layers with a private writable layer on top, in the current mount namespace.
pub(super) fn mount_root(
    root: &RootSpec,
    users: Option<BorrowedFd<'_>>,
    first_user: u32,
) -> Result<OwnedFd, InitError> {
    let mount_point = root.directory.join(MOUNT_POINT);
    fs::create_dir_all(&mount_point).step_path("make", shown(&mount_point))?;
    let owned = match users {
        None => None,
        Some(users) => Some(owned_layers(root, users)?),
    };
    let root = owned.as_ref().unwrap_or(root);
    let on_disk = writable_layer(&root.directory, first_user)?;
    match mount_overlay(root, &on_disk, &mount_point) {
        Ok(()) => {}
        // The data directory lies on a file system that cannot hold a writable layer, such as another overlay.
        Err(_) => {
            let scratch = root.directory.join(SCRATCH);
            fs::create_dir_all(&scratch).step_path("make", shown(&scratch))?;
            rustix::mount::mount("tmpfs", &scratch, "tmpfs", MountFlags::NODEV, c"mode=0700")
                .step_path("mount a writable layer in memory at", shown(&scratch))?;
            let in_memory = writable_layer(&scratch, first_user)?;
            mount_overlay(root, &in_memory, &mount_point)
                .step_path("mount the root file system at", shown(&mount_point))?;
        }
    }
    open_directory(&mount_point).step_path("open", shown(&mount_point))
}

/// The same layers as mounts whose files belong to the pod's own users. They are attached in this mount namespace only, and go
/// away with it. The writable layer is none of them: what is written there is the pod's anyway.
fn owned_layers(root: &RootSpec, users: BorrowedFd<'_>) -> Result<RootSpec, InitError> {
    let own = |source: &Path, name: &str| -> Result<PathBuf, InitError> {
        let place = root.directory.join(OWNED).join(name);
        fs::create_dir_all(&place).step_path("make", shown(&place))?;
        let copy = copy_mount(source, false).step_path("use the layer", shown(source))?;
        sys::map_owners(copy.as_fd(), users, false)
            .step_path("give to the pod's own users the layer", shown(source))?;
        let point = open_directory(&place).step_path("open", shown(&place))?;
        attach(copy, point).step_path("attach the layer at", shown(&place))?;
        Ok(place)
    };
    let mut layers = Vec::new();
    for (number, layer) in root.layers.iter().enumerate() {
        layers.push(own(layer, &number.to_string())?);
    }
    Ok(RootSpec { layers, ..root.clone() })
}

struct WritableLayer {
    upper: OwnedFd,
    work: OwnedFd,
}

/// The root directory belongs to the container's root.
fn writable_layer(directory: &Path, first_user: u32) -> Result<WritableLayer, InitError> {
    let make = |name| {
        let path = directory.join(name);
        fs::create_dir_all(&path).step_path("make", shown(&path))?;
        open_directory(&path).step_path("open", shown(&path))
    };
    let layer = WritableLayer { upper: make(UPPER)?, work: make(WORK)? };
    if first_user != 0 {
        let owner = (Uid::from_raw(first_user), Gid::from_raw(first_user));
        rustix::fs::chownat(&layer.upper, "", Some(owner.0), Some(owner.1), AtFlags::EMPTY_PATH)
            .step("give the writable layer to the container's root")?;
    }
    Ok(layer)
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
    let mount = |options: &str| {
        let options = CString::new(options).expect("numbers and fixed words hold no NUL");
        rustix::mount::mount("overlay", mount_point, "overlay", MountFlags::empty(), options.as_c_str())
    };
    // What a container writes beside its volumes ends with it, and is never mounted again, also after the machine failed. So
    // nothing of it has to reach the disk: else the end of each container waits until its whole file system does.
    match mount(&format!("{options},volatile")) {
        // A kernel before 5.10 does not know the word.
        Err(rustix::io::Errno::INVAL) => Ok(mount(&options)?),
        mounted => Ok(mounted?),
    }
}

/// Makes `root` the root directory of this mount namespace, and lets go of the old one.
pub(super) fn switch_root(root: BorrowedFd<'_>) -> Result<(), InitError> {
    rustix::process::fchdir(root).step("enter the root file system")?;
    // The old root ends up on top of the new one, and goes away from there.
    rustix::process::pivot_root(".", ".").step("switch to the root file system")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).step("let go of the node's file systems")?;
    rustix::process::chdir("/").step("enter the root file system")
}
