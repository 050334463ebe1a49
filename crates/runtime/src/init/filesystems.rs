//! The file systems that every container has besides its root: proc, dev, sys, control groups.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{CWD, FileType, Gid, Mode, Uid};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags};
use sys::{MountAttributes, MountChange};

use super::error::{InitError, Step as _};
use super::targets::{TargetKind, attach, find, find_or_make};
use crate::cgroup::CgroupLayout;
use crate::launch::DeviceSpec;

/// Device nodes of every container: name, major, minor.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

const HARDENED: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// A new instance of a file system, attached nowhere yet.
pub(super) fn new_filesystem(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let filesystem = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        if value.is_empty() {
            rustix::mount::fsconfig_set_flag(&filesystem, *name)?;
        } else {
            rustix::mount::fsconfig_set_string(&filesystem, *name, *value)?;
        }
    }
    rustix::mount::fsconfig_create(&filesystem)?;
    rustix::mount::fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// A copy of what is mounted at a path of the current mount namespace, attached nowhere yet.
pub(super) fn copy_mount(path: &Path, recursive: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    rustix::mount::open_tree(CWD, path, flags)
}

fn mount_new(
    root: BorrowedFd<'_>,
    target: &str,
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<(), InitError> {
    let point = find_or_make(root, target, TargetKind::Directory)?;
    let mount = new_filesystem(kind, options, attributes).step_path("mount", target)?;
    attach(mount, point).step_path("mount", target)
}

/// `/proc` of the process namespace that this process is in.
pub(super) fn mount_proc(root: BorrowedFd<'_>) -> Result<(), InitError> {
    mount_new(root, "/proc", "proc", &[], HARDENED)
}

/// `/sys` of the network namespace that this process is in.
pub(super) fn mount_sys(root: BorrowedFd<'_>, privileged: bool) -> Result<(), InitError> {
    let attributes = if privileged { HARDENED } else { HARDENED | MountAttrFlags::MOUNT_ATTR_RDONLY };
    match mount_new(root, "/sys", "sysfs", &[], attributes) {
        Ok(()) => Ok(()),
        // Inside another container a new instance may be refused; then the outer one is shown.
        Err(_) => {
            let point = find_or_make(root, "/sys", TargetKind::Directory)?;
            let copy = copy_mount(Path::new("/sys"), true).step_path("mount", "/sys")?;
            if !privileged {
                let read_only = MountAttributes { read_only: true, ..Default::default() };
                sys::change_mount(
                    copy.as_fd(),
                    MountChange { set: read_only, recursive: true, ..Default::default() },
                )
                .step_path("make read-only", "/sys")?;
            }
            attach(copy, point).step_path("mount", "/sys")
        }
    }
}

/// `/dev` with its nodes and links, terminals, message queues; shared memory is a mount that the caller has.
pub(super) fn mount_dev(
    root: BorrowedFd<'_>,
    shared_memory: Option<OwnedFd>,
    devices: &[DeviceSpec],
    privileged: bool,
    first_user: u32,
) -> Result<(), InitError> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_STRICTATIME;
    let owner = first_user.to_string();
    let options = [("mode", "755"), ("size", "65536k"), ("uid", owner.as_str()), ("gid", owner.as_str())];
    mount_new(root, "/dev", "tmpfs", &options, attributes)?;
    let dev = find(root, "/dev").step_path("open", "/dev")?;
    for (name, major, minor) in DEVICES {
        make_node(root, dev.as_fd(), name, FileType::CharacterDevice, (major, minor), 0o666)?;
    }
    for (name, target) in LINKS {
        rustix::fs::symlinkat(target, &dev, name).step_path("make the link", format!("/dev/{name}"))?;
    }
    let terminals = first_user.saturating_add(5).to_string();
    let no_setuid_exec = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    mount_new(
        root,
        "/dev/pts",
        "devpts",
        &[("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", &terminals)],
        no_setuid_exec,
    )?;
    let point = find_or_make(root, "/dev/mqueue", TargetKind::Directory)?;
    // A kernel without message queues is one that nobody uses them on.
    if let Ok(queues) = new_filesystem("mqueue", &[], HARDENED) {
        attach(queues, point).step_path("mount", "/dev/mqueue")?;
    }
    let point = find_or_make(root, "/dev/shm", TargetKind::Directory)?;
    match shared_memory {
        Some(mount) => attach(mount, point).step_path("mount", "/dev/shm")?,
        None => {
            let mount = new_filesystem("tmpfs", &[("mode", "1777"), ("size", "65536k")], HARDENED)
                .step_path("mount", "/dev/shm")?;
            attach(mount, point).step_path("mount", "/dev/shm")?;
        }
    }
    if privileged {
        make_all_nodes(root, Path::new("/dev"), "/dev");
    }
    for device in devices {
        make_device(root, device)?;
    }
    Ok(())
}

fn make_node(
    root: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &str,
    kind: FileType,
    (major, minor): (u32, u32),
    mode: u32,
) -> Result<(), InitError> {
    let number = rustix::fs::makedev(major, minor);
    match rustix::fs::mknodat(directory, name, kind, Mode::from_raw_mode(mode), number) {
        Ok(()) => {
            // The mask of this process must not decide over the mode of a device.
            rustix::fs::chmodat(directory, name, Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty())
                .step_path("set the mode of", format!("/dev/{name}"))
        }
        Err(Errno::PERM | Errno::ACCESS) => {
            // Without the right to make nodes, the node's own is shown.
            let path = format!("/dev/{name}");
            let point = find_or_make(root, &path, TargetKind::File)?;
            let copy = copy_mount(Path::new(&path), false).step_path("show the device", &path)?;
            attach(copy, point).step_path("show the device", &path)
        }
        Err(error) => Err(error).step_path("make the device", format!("/dev/{name}")),
    }
}

/// A device that the pod asked for, by its path on the node.
fn make_device(root: BorrowedFd<'_>, device: &DeviceSpec) -> Result<(), InitError> {
    let shown = device.source.display().to_string();
    let metadata = fs::metadata(&device.source).step_path("find the device", &shown)?;
    let kind = match metadata.file_type() {
        kind if kind.is_block_device() => FileType::BlockDevice,
        kind if kind.is_char_device() => FileType::CharacterDevice,
        _ => {
            return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput))
                .step_path("use as a device", shown);
        }
    };
    let (parent, name) = device.destination.rsplit_once('/').unwrap_or(("", &device.destination));
    let directory = find_or_make(root, if parent.is_empty() { "/" } else { parent }, TargetKind::Directory)?;
    match rustix::fs::unlinkat(&directory, name, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error).step_path("replace", &device.destination),
    }
    rustix::fs::mknodat(
        &directory,
        name,
        kind,
        Mode::from_raw_mode(metadata.mode() & 0o7777),
        metadata.rdev(),
    )
    .step_path("make the device", &device.destination)?;
    rustix::fs::chownat(
        &directory,
        name,
        Some(Uid::from_raw(metadata.uid())),
        Some(Gid::from_raw(metadata.gid())),
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    )
    .step_path("set the owner of", &device.destination)
}

/// A privileged container has every device of the node; one that cannot be made is left out.
fn make_all_nodes(root: BorrowedFd<'_>, source: &Path, target: &str) {
    let Ok(entries) = fs::read_dir(source) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && !["pts", "shm", "mqueue", "fd", ".lxc", ".lxd-mounts", ".udev"].contains(&name) {
            make_all_nodes(root, &entry.path(), &format!("{target}/{name}"));
        } else if (kind.is_block_device() || kind.is_char_device())
            && name != "console"
            && !DEVICES.iter().any(|(known, ..)| *known == name)
        {
            let device = DeviceSpec {
                source: entry.path(),
                destination: format!("{target}/{name}"),
                access: "rwm".to_owned(),
            };
            let _ = make_device(root, &device);
        }
    }
}

/// `/sys/fs/cgroup`, as seen from the container's own group, read-only unless privileged: on version 1 a writable one
/// would let the container raise its own limits.
pub(super) fn mount_cgroups(
    root: BorrowedFd<'_>,
    layout: &CgroupLayout,
    privileged: bool,
) -> Result<(), InitError> {
    const TARGET: &str = "/sys/fs/cgroup";
    let attributes = if privileged { HARDENED } else { HARDENED | MountAttrFlags::MOUNT_ATTR_RDONLY };
    // The directory belongs to sysfs; where sysfs has none, there are no control groups to show.
    let Ok(point) = find(root, TARGET) else { return Ok(()) };
    match layout {
        CgroupLayout::Missing => Ok(()),
        CgroupLayout::Version2 { .. } => match new_filesystem("cgroup2", &[], attributes) {
            Ok(mount) => attach(mount, point).step_path("mount", TARGET),
            Err(_) => Ok(()),
        },
        CgroupLayout::Version1 { .. } => {
            let outer = new_filesystem("tmpfs", &[("mode", "755")], HARDENED).step_path("mount", TARGET)?;
            attach(outer, point).step_path("mount", TARGET)?;
            let mut hierarchies: std::collections::BTreeMap<&Path, Vec<&str>> =
                std::collections::BTreeMap::new();
            for (controller, mount) in layout.version1_mounts() {
                hierarchies.entry(mount).or_default().push(controller);
            }
            for (mount, controllers) in hierarchies {
                let Some(name) = mount.file_name().and_then(|name| name.to_str()) else { continue };
                let options: Vec<(&str, &str)> = controllers
                    .iter()
                    .flat_map(|controller| match controller.split_once('=') {
                        Some((key, value)) => vec![("none", ""), (key, value)],
                        None => vec![(*controller, "")],
                    })
                    .collect();
                let path = format!("{TARGET}/{name}");
                // A hierarchy that cannot be shown is only not seen; its limits hold all the same.
                if let Ok(hierarchy) = new_filesystem("cgroup", &options, attributes) {
                    let point = find_or_make(root, &path, TargetKind::Directory)?;
                    attach(hierarchy, point).step_path("mount", &path)?;
                }
            }
            if !privileged {
                let outer = find(root, TARGET).step_path("open", TARGET)?;
                let read_only = MountAttributes { read_only: true, ..Default::default() };
                sys::change_mount(outer.as_fd(), MountChange { set: read_only, ..Default::default() })
                    .step_path("make read-only", TARGET)?;
            }
            Ok(())
        }
    }
}
