//! Mount points inside a container's root, found and made without ever leaving it.
//!
//! Every lookup goes through `openat2` with the root as its root: a link of an image or of a volume that another
//! container changes at the same time leads to somewhere inside, or to an error. What is mounted is attached to the
//! descriptor that was checked, not to a path.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::MoveMountFlags;

use super::error::{InitError, Step as _};

/// What a mount point must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetKind {
    Directory,
    File,
}

/// Opens what `path` names inside `root`, as a handle without access.
pub(super) fn find(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let relative = path.trim_start_matches('/');
    let relative = if relative.is_empty() { "." } else { relative };
    rustix::fs::openat2(
        root,
        relative,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens the mount point at `path`, made when it is missing.
pub(super) fn find_or_make(root: BorrowedFd<'_>, path: &str, kind: TargetKind) -> Result<OwnedFd, InitError> {
    match find(root, path) {
        Ok(found) => return Ok(found),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error).step_path("use the mount point", path),
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let mut prefix = String::new();
    let mut directory = find(root, "/").step_path("use the mount point", path)?;
    for (index, part) in parts.iter().enumerate() {
        prefix.push('/');
        prefix.push_str(part);
        directory = match find(root, &prefix) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                let last = index + 1 == parts.len();
                make(directory.as_fd(), part, if last { kind } else { TargetKind::Directory })
                    .step_path("make the mount point", &prefix)?;
                find(root, &prefix).step_path("use the mount point", &prefix)?
            }
            Err(error) => return Err(error).step_path("use the mount point", &prefix),
        };
    }
    Ok(directory)
}

fn make(directory: BorrowedFd<'_>, name: &str, kind: TargetKind) -> Result<(), Errno> {
    match kind {
        TargetKind::Directory => rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o755)),
        TargetKind::File => rustix::fs::openat(
            directory,
            name,
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o644),
        )
        .map(drop),
    }
}

/// Attaches a mount that is not attached anywhere yet.
pub(super) fn attach(mount: impl AsFd, target: impl AsFd) -> Result<(), Errno> {
    rustix::mount::move_mount(
        mount,
        "",
        target,
        "",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )
}

/// Whether a handle is a directory.
pub(super) fn kind_of(handle: impl AsFd) -> io::Result<TargetKind> {
    let status = rustix::fs::statat(handle, "", AtFlags::EMPTY_PATH)?;
    Ok(match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => TargetKind::Directory,
        _ => TargetKind::File,
    })
}

/// A path as text for an error.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn mount_points_are_made_inside_the_root_only() {
        let directory = tempfile::tempdir().unwrap();
        let outside = directory.path().join("outside");
        let inside = directory.path().join("root");
        fs::create_dir_all(inside.join("run")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::create_dir(inside.join("var")).unwrap();
        symlink("/run", inside.join("var/run")).unwrap();
        symlink("../../../outside", inside.join("escape")).unwrap();
        symlink(&outside, inside.join("absolute")).unwrap();
        let root = fs::File::open(&inside).unwrap();

        find_or_make(root.as_fd(), "/var/run/secrets/token", TargetKind::File).unwrap();
        assert!(inside.join("run/secrets/token").is_file());
        // Links that point out lead to a missing place inside, and a missing place behind a link is not made.
        for path in ["/escape/x", "/absolute/x"] {
            assert!(find_or_make(root.as_fd(), path, TargetKind::Directory).is_err(), "{path}");
        }
        find_or_make(root.as_fd(), "/../../up", TargetKind::Directory).unwrap();
        assert!(inside.join("up").is_dir());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}
