//! The members of an archive or layout, found by name and read from anywhere. Names never lead out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::ImportError;
use crate::digest::Digest;
use crate::layer;
use crate::limits::Limits;
use crate::store::Ingest;
use crate::unpack::{CleanPath, EntryKind, TarReader};

/// Links from one member to another that are followed.
const LINKS: usize = 8;

/// Where images are imported from.
pub(super) enum Content {
    Archive { file: Arc<File>, path: PathBuf, members: BTreeMap<Vec<u8>, Member>, transported: u64 },
    Directory { root: OwnedFd, path: PathBuf },
}

/// A member of an archive.
#[derive(Debug)]
pub(super) enum Member {
    File { offset: u64, size: u64 },
    Link(Vec<u8>),
    Other,
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> ImportError + 'a {
    move |source| ImportError::Io { action, path: path.to_path_buf(), source }
}

impl Content {
    /// A layout: a directory with `oci-layout` in it.
    pub(super) fn of_directory(path: &Path) -> Result<Content, ImportError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| failed("open", path)(error.into()))?;
        Ok(Content::Directory { root, path: path.to_path_buf() })
    }

    /// An archive, compressed or not. A compressed one is decompressed into the ingest directory first.
    pub(super) fn of_archive(path: &Path, ingest: &Ingest, limits: &Limits) -> Result<Content, ImportError> {
        let file = File::open(path).map_err(failed("open", path))?;
        let metadata = file.metadata().map_err(failed("open", path))?;
        if !metadata.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a file or directory");
            return Err(failed("read", path)(source));
        }
        let transported = metadata.len();
        let mut start = [0; 4];
        let count = file.read_at(&mut start, 0).map_err(failed("read", path))?;
        let compressed = start[..count].starts_with(&[0x1f, 0x8b]) || start == [0x28, 0xb5, 0x2f, 0xfd];
        let file = match compressed {
            false => file,
            true => {
                let plain = ingest.file("archive.tar");
                decompress(&file, path, transported, &plain, limits)?;
                File::open(&plain).map_err(failed("open", &plain))?
            }
        };
        let members = list_members(&file, path, limits)?;
        Ok(Content::Archive { file: Arc::new(file), path: path.to_path_buf(), members, transported })
    }

    /// Whether there is a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.size(name).is_ok()
    }

    /// Whether there is nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Content::Archive { members, .. } if members.is_empty())
    }

    /// Bytes of a member.
    pub(super) fn size(&self, name: &str) -> Result<u64, ImportError> {
        match self {
            Content::Archive { members, .. } => find(members, name).map(|(_, size)| size),
            Content::Directory { root, path } => {
                let file = open_member(root, path, name)?;
                Ok(file.metadata().map_err(failed("read", &path.join(name)))?.len())
            }
        }
    }

    /// Reads a member from its beginning.
    pub(super) fn open(&self, name: &str) -> Result<Box<dyn Read + Send>, ImportError> {
        match self {
            Content::Archive { file, members, .. } => {
                let (offset, size) = find(members, name)?;
                Ok(Box::new(Part { file: Arc::clone(file), offset, left: size }))
            }
            Content::Directory { root, path } => Ok(Box::new(open_member(root, path, name)?)),
        }
    }

    /// A member that fits into memory.
    pub(super) fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, ImportError> {
        let size = self.size(name)?;
        if size > limit {
            return Err(ImportError::TooLarge { member: name.to_owned(), size, limit });
        }
        let mut bytes = Vec::new();
        let path = match self {
            Content::Archive { path, .. } | Content::Directory { path, .. } => path,
        };
        // A file may grow while it is read.
        self.open(name)?.take(limit).read_to_end(&mut bytes).map_err(failed("read", path))?;
        Ok(bytes)
    }

    /// The blob of a layout with this digest, verified.
    pub(super) fn read_blob(&self, digest: Digest, limit: u64) -> Result<Vec<u8>, ImportError> {
        let member = blob_name(digest);
        let bytes = self.read(&member, limit)?;
        let actual = Digest::of(&bytes);
        match actual == digest {
            true => Ok(bytes),
            false => Err(ImportError::Digest { member, expected: digest, actual }),
        }
    }

    /// The archive itself, uncompressed, from its beginning; and its size as it came.
    pub(super) fn whole(&self) -> Result<(File, u64), ImportError> {
        match self {
            Content::Archive { file, path, transported, .. } => {
                let mut file = file.try_clone().map_err(failed("read", path))?;
                io::Seek::rewind(&mut file).map_err(failed("read", path))?;
                Ok((file, *transported))
            }
            Content::Directory { path, .. } => Err(ImportError::Empty { path: path.clone() }),
        }
    }
}

/// The name of a blob in a layout.
pub(super) fn blob_name(digest: Digest) -> String {
    format!("blobs/sha256/{}", digest.to_hex())
}

fn decompress(
    file: &File,
    path: &Path,
    transported: u64,
    to: &Path,
    limits: &Limits,
) -> Result<(), ImportError> {
    let limit = transported.saturating_mul(limits.ratio).max(limits.ratio_free_bytes).min(limits.layer_bytes);
    let stream = layer::decompress(file, limits).map_err(failed("decompress", path))?;
    let mut target = File::create_new(to).map_err(failed("create", to))?;
    let written = io::copy(&mut stream.take(limit + 1), &mut target).map_err(failed("decompress", path))?;
    if written > limit {
        let member = path.display().to_string();
        return Err(ImportError::TooLarge { member, size: written, limit });
    }
    Ok(())
}

fn list_members(file: &File, path: &Path, limits: &Limits) -> Result<BTreeMap<Vec<u8>, Member>, ImportError> {
    let mut limits = limits.clone();
    // A bare root file system is an archive too; whether it is one shows only at its end.
    limits.layer_entries = limits.layer_entries.max(limits.archive_entries);
    let mut file = file.try_clone().map_err(failed("read", path))?;
    io::Seek::rewind(&mut file).map_err(failed("read", path))?;
    let mut reader = TarReader::new(io::BufReader::with_capacity(256 * 1024, file), &limits);
    let mut members = BTreeMap::new();
    let not_an_archive = |source| ImportError::NotAnArchive { path: path.to_path_buf(), source };
    while let Some(entry) = reader.next_entry().map_err(not_an_archive)? {
        // Names that cannot be cleaned cannot be asked for either.
        let Ok(name) = CleanPath::parse(&entry.path, &limits) else { continue };
        let member = match entry.kind {
            EntryKind::File => Member::File { offset: reader.position(), size: entry.size },
            // Relative to the member's own directory.
            EntryKind::Symlink => match name.split() {
                Some((above, _)) => Member::Link(join(above, &entry.link)),
                None => Member::Other,
            },
            EntryKind::HardLink => Member::Link(entry.link),
            EntryKind::Directory | EntryKind::Fifo | EntryKind::CharacterDevice | EntryKind::BlockDevice => {
                Member::Other
            }
        };
        // What is asked for lies near the top; a root file system with a million files is not remembered.
        if (members.len() as u64) < limits.archive_entries {
            members.insert(name.as_bytes().to_vec(), member);
        }
    }
    Ok(members)
}

/// Resolves `..` of a link by the names alone.
fn join(above: &[u8], link: &[u8]) -> Vec<u8> {
    if link.starts_with(b"/") {
        return link.to_vec();
    }
    let mut parts: Vec<&[u8]> = above.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    for part in link.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

fn find(members: &BTreeMap<Vec<u8>, Member>, name: &str) -> Result<(u64, u64), ImportError> {
    let unusable = |problem| ImportError::Member { member: name.to_owned(), problem };
    let clean = |name: &[u8]| {
        CleanPath::parse(name, &Limits::DEFAULT)
            .map(|path| path.as_bytes().to_vec())
            .map_err(|_| unusable("its name leads out of the archive"))
    };
    let mut path = clean(name.as_bytes())?;
    for _ in 0..LINKS {
        match members.get(&path) {
            None => return Err(ImportError::Missing { member: name.to_owned() }),
            Some(Member::File { offset, size }) => return Ok((*offset, *size)),
            Some(Member::Link(target)) => path = clean(target)?,
            Some(Member::Other) => return Err(unusable("it is not a file")),
        }
    }
    Err(unusable("its links lead in a circle"))
}

fn open_member(root: &OwnedFd, path: &Path, name: &str) -> Result<File, ImportError> {
    let unusable = |problem| ImportError::Member { member: name.to_owned(), problem };
    CleanPath::parse(name.as_bytes(), &Limits::DEFAULT)
        .map_err(|_| unusable("its name leads out of the layout"))?;
    // Without waiting: a pipe in place of a file must not hang anybody.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = match rustix::fs::openat2(root, name, flags, Mode::empty(), resolve) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Err(ImportError::Missing { member: name.to_owned() }),
        Err(error) => return Err(failed("open", &path.join(name))(error.into())),
    };
    match file.metadata().map_err(failed("open", &path.join(name)))?.is_file() {
        true => Ok(file),
        false => Err(unusable("it is not a file")),
    }
}

/// A range of a file, for several readers at once.
struct Part {
    file: Arc<File>,
    offset: u64,
    left: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}
