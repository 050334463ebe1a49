//! Writes entries below one directory and nowhere else.
//!
//! Every path is resolved by the kernel with that directory as its root (`openat2` with `RESOLVE_IN_ROOT`), so that
//! neither `..` nor a link, however it got there, leads out. Last components are never followed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::entries::{Entry, TarReader};
use super::names::CleanPath;
use super::{NoticeKind, Refusal};
use crate::limits::Limits;

/// A failure for one entry.
#[derive(Debug)]
pub(super) enum PlaceError {
    /// The entry asks for something that is never done.
    Refused(Refusal),
    /// The machine failed.
    Failed { action: &'static str, error: Errno },
}

impl From<Refusal> for PlaceError {
    fn from(refusal: Refusal) -> Self {
        PlaceError::Refused(refusal)
    }
}

fn failed(action: &'static str) -> impl Fn(Errno) -> PlaceError {
    move |error| match error {
        Errno::LOOP => PlaceError::Refused(Refusal::LinkLoop),
        Errno::NOTDIR => PlaceError::Refused(Refusal::ParentIsNoDirectory),
        Errno::NAMETOOLONG => PlaceError::Refused(Refusal::LinkTarget),
        error => PlaceError::Failed { action, error },
    }
}

/// What stands at a name already.
enum Standing {
    Nothing,
    Directory,
    Whiteout,
    Other,
}

/// The layer's directory while it is being filled.
pub(super) struct Tree<'a> {
    root: OwnedFd,
    limits: &'a Limits,
    /// Whether owners and privileged attributes can be set.
    privileged: bool,
    /// The directory that was used last; entries come sorted by directory.
    parent: Option<(Vec<u8>, Rc<OwnedFd>)>,
    /// Times of directories, set when nothing is put into them any more.
    stamps: BTreeMap<CleanPath, (i64, u32)>,
    directories: u64,
    directory_bytes: u64,
    /// Directories that no entry described, made because something lies in them.
    pub(super) implied: BTreeSet<Vec<u8>>,
    buffer: Box<[u8]>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(root: OwnedFd, limits: &'a Limits) -> Self {
        Tree {
            root,
            limits,
            privileged: rustix::process::geteuid().is_root(),
            parent: None,
            stamps: BTreeMap::new(),
            directories: 0,
            directory_bytes: 0,
            implied: BTreeSet::new(),
            buffer: vec![0; 128 * 1024].into_boxed_slice(),
        }
    }

    pub(super) fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// Opens the directory of a path, making what is missing.
    pub(super) fn open_parent(&mut self, path: &[u8]) -> Result<Rc<OwnedFd>, PlaceError> {
        if let Some((known, directory)) = &self.parent
            && known == path
        {
            return Ok(Rc::clone(directory));
        }
        let directory = match self.open_directory(path) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => self.make_directories(path)?,
            Err(error) => return Err(failed("open the directory")(error)),
        };
        let directory = Rc::new(directory);
        self.parent = Some((path.to_vec(), Rc::clone(&directory)));
        Ok(directory)
    }

    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        open_inside(self.root.as_fd(), path, OFlags::PATH | OFlags::DIRECTORY)
    }

    fn make_directories(&mut self, path: &[u8]) -> Result<OwnedFd, PlaceError> {
        let mut above = self.open_directory(b"").map_err(failed("open the layer"))?;
        let ends = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(index, _)| index)
            .chain([path.len()]);
        let mut start = 0;
        for end in ends {
            let name = &path[start..end];
            start = end + 1;
            above = match self.open_directory(&path[..end]) {
                Ok(directory) => directory,
                Err(Errno::NOENT) => {
                    self.count_directory(&path[..end])?;
                    match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) => {}
                        // Something is there and yet cannot be found: a link that leads nowhere.
                        Err(Errno::EXIST) => return Err(Refusal::DanglingParent.into()),
                        Err(error) => return Err(failed("make the directory")(error)),
                    }
                    // The process's umask must not show in layers.
                    rustix::fs::chmodat(&above, name, Mode::from_raw_mode(0o755), AtFlags::empty())
                        .map_err(failed("set the mode of the directory"))?;
                    self.implied.insert(path[..end].to_vec());
                    self.open_directory(&path[..end]).map_err(failed("open the directory"))?
                }
                Err(error) => return Err(failed("open the directory")(error)),
            };
        }
        Ok(above)
    }

    /// Paths of directories stay in memory to the end: their number and their bytes are capped.
    fn count_directory(&mut self, path: &[u8]) -> Result<(), PlaceError> {
        self.directories += 1;
        self.directory_bytes += path.len() as u64;
        if self.directories > self.limits.layer_directories
            || self.directory_bytes > self.limits.layer_directory_bytes
        {
            return Err(Refusal::TooManyDirectories(self.limits.layer_directories).into());
        }
        Ok(())
    }

    /// Makes or updates a directory.
    pub(super) fn place_directory(
        &mut self,
        path: &CleanPath,
        entry: &Entry,
        notices: &mut impl FnMut(NoticeKind),
    ) -> Result<(), PlaceError> {
        let directory = match path.split() {
            None => open_inside(self.root.as_fd(), b".", OFlags::RDONLY | OFlags::DIRECTORY)
                .map_err(failed("open the layer"))?,
            Some((above, name)) => {
                let parent = self.open_parent(above)?;
                let opaque = match standing(parent.as_fd(), name)? {
                    Standing::Directory => None,
                    Standing::Nothing => Some(false),
                    Standing::Whiteout => {
                        self.remove(parent.as_fd(), name)?;
                        Some(true)
                    }
                    Standing::Other => {
                        self.remove(parent.as_fd(), name)?;
                        Some(false)
                    }
                };
                if opaque.is_some() {
                    self.count_directory(path.as_bytes())?;
                    rustix::fs::mkdirat(&*parent, name, Mode::from_raw_mode(0o700))
                        .map_err(failed("make the directory"))?;
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let directory = rustix::fs::openat(&*parent, name, flags, Mode::empty())
                    .map_err(failed("open the directory"))?;
                if opaque == Some(true) {
                    self.set_opaque(directory.as_fd())?;
                }
                directory
            }
        };
        self.implied.remove(path.as_bytes());
        // Whoever is not root could not enter directories without these bits.
        let bits = if self.privileged { 0 } else { 0o700 };
        self.set_owner_mode_attributes(directory.as_fd(), entry, bits, notices)?;
        self.stamps.insert(path.clone(), entry.modified);
        Ok(())
    }

    /// Makes a file with the content that follows in the archive.
    pub(super) fn place_file<R: std::io::Read>(
        &mut self,
        path: &CleanPath,
        entry: &Entry,
        archive: &mut TarReader<'_, R>,
        notices: &mut impl FnMut(NoticeKind),
    ) -> Result<Result<(), PlaceError>, super::TarError> {
        let mut file = match self.create_file(path) {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            let count = archive.read_content(&mut self.buffer)?;
            if count == 0 {
                break;
            }
            if let Err(error) = file.write_all(&self.buffer[..count]) {
                let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                return Ok(Err(PlaceError::Failed { action: "write the file", error }));
            }
        }
        Ok(self.set_owner_mode_attributes(file.as_fd(), entry, 0, notices).and_then(|()| {
            rustix::fs::futimens(&file, &timestamps(entry.modified))
                .map_err(failed("set the time of the file"))
        }))
    }

    fn create_file(&mut self, path: &CleanPath) -> Result<File, PlaceError> {
        let (parent, name) = self.vacate(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*parent, name, flags, Mode::from_raw_mode(0o600))
            .map_err(failed("create the file"))?;
        Ok(File::from(file))
    }

    pub(super) fn place_symlink(&mut self, path: &CleanPath, entry: &Entry) -> Result<(), PlaceError> {
        if entry.link.is_empty() || entry.link.contains(&0) || entry.link.len() > self.limits.path_bytes {
            return Err(Refusal::LinkTarget.into());
        }
        let (parent, name) = self.vacate(path)?;
        rustix::fs::symlinkat(&entry.link[..], &*parent, name).map_err(failed("make the link"))?;
        self.set_owner_at(parent.as_fd(), name, entry)?;
        self.set_time_at(parent.as_fd(), name, entry.modified)
    }

    /// Links to a file or symbolic link of the same layer.
    pub(super) fn place_hard_link(&mut self, path: &CleanPath, entry: &Entry) -> Result<(), PlaceError> {
        let target = CleanPath::parse(&entry.link, self.limits).map_err(Refusal::LinkName)?;
        let Some((above, target_name)) = target.split() else { return Err(Refusal::LinkTarget.into()) };
        if target == *path {
            return Err(Refusal::LinkTarget.into());
        }
        // Looked up, never made: a target that is missing must not leave directories behind.
        let source = match self.open_directory(above) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Err(Refusal::MissingLinkTarget.into()),
            Err(error) => return Err(failed("open the directory of the link's target")(error)),
        };
        match standing(source.as_fd(), target_name)? {
            Standing::Other => {}
            Standing::Nothing => return Err(Refusal::MissingLinkTarget.into()),
            Standing::Directory | Standing::Whiteout => return Err(Refusal::LinkTarget.into()),
        }
        let (parent, name) = self.vacate_unless_same(path, source.as_fd(), target_name)?;
        match rustix::fs::linkat(&source, target_name, &*parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(Errno::NOENT) => Err(Refusal::MissingLinkTarget.into()),
            Err(error) => Err(failed("make the hard link")(error)),
        }
    }

    pub(super) fn place_fifo(&mut self, path: &CleanPath, entry: &Entry) -> Result<(), PlaceError> {
        let (parent, name) = self.vacate(path)?;
        rustix::fs::mknodat(&*parent, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .map_err(failed("make the pipe"))?;
        self.set_owner_at(parent.as_fd(), name, entry)?;
        rustix::fs::chmodat(&*parent, name, Mode::from_raw_mode(entry.mode & 0o777), AtFlags::empty())
            .map_err(failed("set the mode of the pipe"))?;
        self.set_time_at(parent.as_fd(), name, entry.modified)
    }

    /// Hides a name of lower layers. What this very layer has under that name stays, and hides all the same.
    pub(super) fn place_whiteout(&mut self, above: &[u8], name: &[u8]) -> Result<(), PlaceError> {
        let parent = self.open_parent(above)?;
        match standing(parent.as_fd(), name)? {
            Standing::Nothing => {
                rustix::fs::mknodat(&*parent, name, FileType::CharacterDevice, Mode::empty(), 0)
                    .map_err(failed("make the whiteout"))
            }
            Standing::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let directory = rustix::fs::openat(&*parent, name, flags, Mode::empty())
                    .map_err(failed("open the directory"))?;
                self.set_opaque(directory.as_fd())
            }
            Standing::Whiteout | Standing::Other => Ok(()),
        }
    }

    /// Hides everything that lower layers have in a directory.
    pub(super) fn place_opaque(&mut self, path: &[u8]) -> Result<(), PlaceError> {
        self.open_parent(path)?;
        let path = if path.is_empty() { b"." } else { path };
        let directory = open_inside(self.root.as_fd(), path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(failed("open the directory"))?;
        self.set_opaque(directory.as_fd())
    }

    fn set_opaque(&self, directory: BorrowedFd<'_>) -> Result<(), PlaceError> {
        // Without privileges the container's mount can only be one of a user namespace, which reads this name.
        let name = if self.privileged { "trusted.overlay.opaque" } else { "user.overlay.opaque" };
        rustix::fs::fsetxattr(directory, name, b"y", XattrFlags::empty())
            .map_err(failed("mark the directory as opaque"))
    }

    /// Sets the times of directories, now that nothing is put into them any more.
    pub(super) fn finish(&mut self) -> Result<(), PlaceError> {
        for (path, modified) in std::mem::take(&mut self.stamps) {
            match path.split() {
                None => rustix::fs::utimensat(&self.root, ".", &timestamps(modified), AtFlags::empty())
                    .map_err(failed("set the time of the layer"))?,
                Some((above, name)) => {
                    let parent = self.open_parent(above)?;
                    match self.set_time_at(parent.as_fd(), name, modified) {
                        // Replaced by a later entry.
                        Ok(()) | Err(PlaceError::Failed { error: Errno::NOENT, .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    /// The directory and name of a path at which nothing stands any more.
    fn vacate<'p>(&mut self, path: &'p CleanPath) -> Result<(Rc<OwnedFd>, &'p [u8]), PlaceError> {
        let Some((above, name)) = path.split() else { return Err(Refusal::ReplacesRoot.into()) };
        let parent = self.open_parent(above)?;
        match standing(parent.as_fd(), name)? {
            Standing::Nothing => {}
            Standing::Whiteout | Standing::Other => self.remove(parent.as_fd(), name)?,
            Standing::Directory => match rustix::fs::unlinkat(&*parent, name, AtFlags::REMOVEDIR) {
                Ok(()) => self.parent = None,
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Err(Refusal::ReplacesDirectory.into()),
                Err(error) => return Err(failed("remove the directory that an earlier entry made")(error)),
            },
        }
        Ok((parent, name))
    }

    /// As [`Tree::vacate`], but two names of one file (through a link to its directory) stay as they are.
    fn vacate_unless_same<'p>(
        &mut self,
        path: &'p CleanPath,
        source: BorrowedFd<'_>,
        target: &[u8],
    ) -> Result<(Rc<OwnedFd>, &'p [u8]), PlaceError> {
        let Some((above, name)) = path.split() else { return Err(Refusal::ReplacesRoot.into()) };
        let parent = self.open_parent(above)?;
        let identity = |directory: BorrowedFd<'_>, name: &[u8]| {
            rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map(|stat| (stat.st_dev, stat.st_ino))
        };
        match (identity(parent.as_fd(), name), identity(source, target)) {
            (Ok(there), Ok(target)) if there == target => Ok((parent, name)),
            _ => self.vacate(path),
        }
    }

    fn remove(&mut self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), PlaceError> {
        // A link that goes may have been the way to the remembered directory.
        self.parent = None;
        rustix::fs::unlinkat(parent, name, AtFlags::empty())
            .map_err(failed("remove what an earlier entry made"))
    }

    fn set_owner_at(&self, parent: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<(), PlaceError> {
        if !self.privileged {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
        rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("set the owner"))
    }

    fn set_time_at(
        &self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        modified: (i64, u32),
    ) -> Result<(), PlaceError> {
        rustix::fs::utimensat(parent, name, &timestamps(modified), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("set the time"))
    }

    /// In this order: a change of owner takes setuid bits and file capabilities away.
    fn set_owner_mode_attributes(
        &self,
        file: BorrowedFd<'_>,
        entry: &Entry,
        more_bits: u32,
        notices: &mut impl FnMut(NoticeKind),
    ) -> Result<(), PlaceError> {
        if self.privileged {
            rustix::fs::fchown(file, Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)))
                .map_err(failed("set the owner"))?;
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(entry.mode | more_bits))
            .map_err(failed("set the mode"))?;
        for (name, value) in &entry.attributes {
            match attribute_rule(name, self.privileged) {
                AttributeRule::Set => {}
                AttributeRule::Skip => {
                    notices(NoticeKind::Attribute(String::from_utf8_lossy(name).into_owned()));
                    continue;
                }
            }
            match rustix::fs::fsetxattr(file, OsStr::from_bytes(name), value, XattrFlags::empty()) {
                Ok(()) => {}
                // The file system has no such attributes, or not such values.
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::PERM | Errno::RANGE | Errno::TOOBIG) => {
                    notices(NoticeKind::Attribute(String::from_utf8_lossy(name).into_owned()));
                }
                Err(error) => return Err(failed("set an extended attribute")(error)),
            }
        }
        Ok(())
    }
}

enum AttributeRule {
    Set,
    Skip,
}

/// Which attributes a layer may bring. Those that steer overlay mounts or security modules are not among them.
fn attribute_rule(name: &[u8], privileged: bool) -> AttributeRule {
    let usable = name.len() <= 255 && !name.contains(&0);
    match name {
        b"security.capability" | b"system.posix_acl_access" | b"system.posix_acl_default" if privileged => {
            AttributeRule::Set
        }
        name if usable && name.starts_with(b"user.") && !name.starts_with(b"user.overlay.") => {
            AttributeRule::Set
        }
        _ => AttributeRule::Skip,
    }
}

/// Opens a path with this directory as the root of all resolution.
fn open_inside(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let path = Path::new(OsStr::from_bytes(path));
    // The kernel asks to try again when something was renamed on the way.
    for _ in 0..64 {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
    Err(Errno::AGAIN)
}

fn standing(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Standing, PlaceError> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Standing::Directory,
            FileType::CharacterDevice if stat.st_rdev == 0 => Standing::Whiteout,
            _ => Standing::Other,
        }),
        Err(Errno::NOENT) => Ok(Standing::Nothing),
        Err(error) => Err(failed("look at the name")(error)),
    }
}

fn timestamps((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    // Beyond this, file systems disagree or refuse.
    let seconds = seconds.clamp(i64::from(i32::MIN), 15_032_385_535);
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}
