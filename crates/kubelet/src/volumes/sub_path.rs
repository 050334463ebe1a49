//! subPath and subPathExpr: a part of a volume, opened so that no link of a container leads out of it, and pinned by a bind
//! mount, so that the runtime never resolves a path that a container can change.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::config::PodDirs;
use crate::files;

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) struct SubPathMount<'a> {
    /// The volume's directory (or file) on the machine.
    pub(crate) volume_path: &'a Path,
    /// The path in it, expanded already.
    pub(crate) sub_path: &'a str,
    /// Name of the volume, of the container, and place in its `volumeMounts`: where the pin goes.
    pub(crate) place: (&'a str, &'a str, usize),
}

/// Opens the part of the volume, making missing directories, and pins it. Answers where the runtime finds it.
///
/// # Errors
///
/// A path that leads out of the volume, and what the system says.
pub(crate) fn prepare_sub_path(dirs: &PodDirs, mount: &SubPathMount<'_>) -> io::Result<PathBuf> {
    let part = open_part(mount.volume_path, mount.sub_path)?;
    let (volume, container, index) = mount.place;
    let pin = dirs.sub_paths().join(volume).join(container).join(index.to_string());
    release(&pin)?;
    let stat = rustix::fs::fstat(&part)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        files::create_dirs(&pin)?;
    } else {
        if let Some(parent) = pin.parent() {
            files::create_dirs(parent)?;
        }
        std::fs::File::create(&pin)?;
    }
    rustix::mount::mount_bind_recursive(format!("/proc/self/fd/{}", part.as_raw_fd()), &pin)?;
    Ok(pin)
}

/// Takes down the pin of an earlier instance of the container.
fn release(pin: &Path) -> io::Result<()> {
    let metadata = match std::fs::symlink_metadata(pin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    match rustix::mount::unmount(pin, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    if metadata.is_dir() { std::fs::remove_dir(pin) } else { std::fs::remove_file(pin) }
}

/// Opens `sub_path` beneath `volume`. Missing elements are made as directories with the mode of the volume's root.
fn open_part(volume: &Path, sub_path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(volume, flags, Mode::empty())?;
    let root_stat = rustix::fs::fstat(&root)?;
    let mode = Mode::from_raw_mode(root_stat.st_mode & 0o7777);
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let parts: Vec<&str> = sub_path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if sub_path.starts_with('/') || parts.contains(&"..") {
        return Err(outside(sub_path));
    }
    let mut prefix = String::new();
    let mut part = rustix::io::dup(&root)?;
    for name in parts {
        let parent = part;
        if !prefix.is_empty() {
            prefix.push('/');
        }
        prefix.push_str(name);
        // The whole prefix is resolved beneath the root each time, so that links may point anywhere inside the volume.
        part = match rustix::fs::openat2(&root, &prefix, flags, Mode::empty(), resolve) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                rustix::fs::mkdirat(&parent, name, mode)?;
                let made = rustix::fs::openat2(
                    &parent,
                    name,
                    flags | OFlags::DIRECTORY | OFlags::NOFOLLOW,
                    Mode::empty(),
                    resolve,
                )?;
                let itself = format!("/proc/self/fd/{}", made.as_raw_fd());
                // The umask must not narrow what the volume's root allows.
                rustix::fs::chmod(itself, mode)?;
                made
            }
            Err(Errno::XDEV | Errno::LOOP) => return Err(outside(sub_path)),
            Err(errno) => return Err(errno.into()),
        };
    }
    Ok(part)
}

fn outside(sub_path: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("subPath {sub_path:?} does not stay within the volume"),
    )
}
