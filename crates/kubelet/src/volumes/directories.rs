//! The directories of this node that answer claims. Each is named by the handle of its volume, which the cluster made from a UID;
//! nothing else is ever opened below their root, and no link is followed.
//!
//! Their root is a directory that only root can enter, and that lies beside what belongs to pods: it stays when these go.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::files;

/// What a handle begins with.
const BEGINNING: &str = "pvc-";
/// Everybody may write into a new directory, as into an emptyDir: nobody knows yet which user the pod has.
const MODE: Mode = Mode::from_raw_mode(0o777);

/// Whether a text is a handle: `pvc-` and a UID.
pub(crate) fn is_handle(text: &str) -> bool {
    let Some(uid) = text.strip_prefix(BEGINNING) else { return false };
    let has_shape = uid.bytes().enumerate().all(|(place, byte)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    });
    uid.len() == 36 && has_shape
}

fn open_root(root: &Path) -> io::Result<OwnedFd> {
    files::create_dirs(root)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(root, flags, Mode::empty())?)
}

fn open_in(root: &OwnedFd, handle: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(root, handle, flags, Mode::empty())
}

/// Opens the directory of a handle, and makes it if it is not there.
///
/// # Errors
///
/// What the system says; a handle that is none.
pub(super) fn open_or_make(root: &Path, handle: &str) -> io::Result<OwnedFd> {
    if !is_handle(handle) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the handle of the volume is none of this node",
        ));
    }
    let root = open_root(root)?;
    match open_in(&root, handle) {
        Ok(found) => Ok(found),
        Err(Errno::NOENT) => {
            // Made under another name first: whoever finds it under its own finds it with its mode.
            let making = format!("making-{handle}");
            match rustix::fs::mkdirat(&root, &making, MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            let made = open_in(&root, &making)?;
            // The umask does not count.
            rustix::fs::fchmod(&made, MODE)?;
            rustix::fs::renameat(&root, &making, &root, handle)?;
            fault::point("claim.directory_made");
            Ok(made)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Removes the directory of a handle with all that is in it. One that is not there is well removed. Blocks on the file system.
///
/// # Errors
///
/// What the system says; a handle that is none.
pub(crate) fn remove(root: &Path, handle: &str) -> io::Result<()> {
    if !is_handle(handle) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the handle of the volume is none of this node",
        ));
    }
    let dir = open_root(root)?;
    // Under another name first: what is half removed is nobody's volume any more.
    let leaving = format!("leaving-{handle}");
    match rustix::fs::renameat(&dir, handle, &dir, &leaving) {
        Ok(()) | Err(Errno::NOENT) => {}
        // It was half removed before, and made anew since.
        Err(Errno::EXIST | Errno::NOTEMPTY) => {
            files::remove_dir_all(&root.join(&leaving))?;
            rustix::fs::renameat(&dir, handle, &dir, &leaving)?;
        }
        Err(errno) => return Err(errno.into()),
    }
    fault::point("claim.directory_leaving");
    // It does not follow links, and opens by descriptors.
    files::remove_dir_all(&root.join(&leaving))
}

/// The group of a pod's volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its number.
    pub(crate) gid: u32,
    /// Nothing is done where the volume's root has that group and its rights already.
    pub(crate) only_if_root_differs: bool,
}

/// What the group may do with a directory: all, and what is made in it is the group's.
const OF_DIRECTORY: u32 = 0o2770;
/// What the group may do with a file.
const OF_FILE: u32 = 0o660;

/// Gives all that is in a volume to a group. Links are not followed; what lies deeper than a path can name is left as it is.
pub(super) fn give_to(volume: BorrowedFd<'_>, group: Group) -> io::Result<()> {
    let stat = rustix::fs::fstat(volume)?;
    let has_all = stat.st_gid == group.gid && stat.st_mode & OF_DIRECTORY == OF_DIRECTORY;
    if group.only_if_root_differs && has_all {
        return Ok(());
    }
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if is_directory {
        give_content(volume, group)?;
    }
    // The root last: whoever is interrupted begins again.
    give_one(&reopened(volume)?, group)
}

/// A descriptor that names a file without opening it, from one that may have opened it.
fn reopened(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn give_one(file: &OwnedFd, group: Group) -> io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    let rights = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => return Ok(()),
        FileType::Directory => OF_DIRECTORY,
        _ => OF_FILE,
    };
    if stat.st_gid != group.gid {
        rustix::fs::chownat(file, "", None, Some(Gid::from_raw(group.gid)), AtFlags::EMPTY_PATH)?;
    }
    // A change of the group may have taken rights away.
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mode = rustix::fs::fstat(file)?.st_mode & 0o7777;
    if mode & rights != rights {
        rustix::fs::chmod(itself, Mode::from_raw_mode(mode | rights))?;
    }
    Ok(())
}

/// The directories that are still to be looked into are paths below the volume: however deep a container has made them, two
/// descriptors are open.
fn give_content(volume: BorrowedFd<'_>, group: Group) -> io::Result<()> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut pending = vec![PathBuf::from(".")];
    while let Some(path) = pending.pop() {
        let dir = match rustix::fs::openat2(volume, &path, flags, Mode::empty(), resolve) {
            Ok(dir) => dir,
            // It went while we looked, or it is something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG) => continue,
            Err(errno) => return Err(errno.into()),
        };
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = match rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty()) {
                Ok(file) => file,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            give_one(&file, group)?;
            if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::Directory {
                pending.push(path.join(name));
            }
        }
    }
    Ok(())
}
