//! Unpacks one layer into one directory, in the form that overlay mounts read.
//!
//! Decisions, all of them tested with hostile archives:
//! - nothing is ever written outside the directory; `..` is refused, a leading slash means the layer's root, links
//!   inside the layer are followed only as if that directory were the root of the machine;
//! - hard links reach only files of the same layer;
//! - device nodes are left out with a notice (containers get theirs from the runtime); named pipes are kept;
//! - whiteouts become what overlay reads: a character device 0:0, or the attribute `trusted.overlay.opaque`;
//! - attributes that steer overlay or security modules are left out with a notice, file capabilities are kept;
//! - sparse files and unknown kinds of entries are refused rather than unpacked wrongly.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use crate::limits::Limits;

mod entries;
mod names;
mod tree;

pub use entries::TarError;
pub(crate) use entries::{Entry, EntryKind, TarReader};
pub(crate) use names::CleanPath;
pub use names::NameError;

use names::NameMeaning;
use tree::{PlaceError, Tree};

/// Notices that are kept; the others are only counted.
const KEPT_NOTICES: usize = 20;

/// Why a layer is not unpacked. Nothing of it stays.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] TarError),
    /// An entry that is never unpacked.
    #[error("entry {path:?} is refused: {refusal}")]
    Refused {
        /// The entry's path, shortened.
        path: String,
        /// Why.
        refusal: Refusal,
    },
    /// The machine failed.
    #[error("cannot {action} for entry {path:?}")]
    Failed {
        /// The entry's path, shortened.
        path: String,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl UnpackError {
    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            UnpackError::Failed { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            UnpackError::Archive(_) | UnpackError::Refused { .. } => false,
        }
    }
}

/// What makes an entry unacceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its own path.
    #[error(transparent)]
    Name(NameError),
    /// The path of its hard link's target.
    #[error("link target: {0}")]
    LinkName(NameError),
    /// A link to nothing, to itself, to a directory (hard), or too long.
    #[error("link target is unusable")]
    LinkTarget,
    /// A hard link to a file that this layer does not have.
    #[error("hard link to a file that is not in the layer")]
    MissingLinkTarget,
    /// Links in a circle.
    #[error("links on its path lead in a circle")]
    LinkLoop,
    /// A file where a directory is needed.
    #[error("a part of its path is not a directory")]
    ParentIsNoDirectory,
    /// A link to nothing where a directory is needed.
    #[error("a part of its path is a link that leads nowhere")]
    DanglingParent,
    /// A file in place of the layer's root.
    #[error("replaces the root directory")]
    ReplacesRoot,
    /// A file in place of a directory with something in it.
    #[error("replaces a directory that is not empty")]
    ReplacesDirectory,
    /// A whiteout of nothing, `.` or `..`.
    #[error("malformed whiteout")]
    Whiteout,
    /// More directories than allowed.
    #[error("layer has more than {0} directories")]
    TooManyDirectories(u64),
}

/// What was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    Device,
    Attribute(String),
    Reserved,
}

/// Something that was left out of a layer, on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerNotice {
    /// The entry's path, shortened.
    pub path: String,
    kind: NoticeKind,
}

impl fmt::Display for LayerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            NoticeKind::Device => write!(f, "device node {:?} left out", self.path),
            NoticeKind::Attribute(name) => write!(f, "attribute {name:?} of {:?} left out", self.path),
            NoticeKind::Reserved => write!(f, "book-keeping file {:?} left out", self.path),
        }
    }
}

/// What unpacking a layer came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Entries of the archive.
    pub entries: u64,
    /// The first things that were left out.
    pub notices: Vec<LayerNotice>,
    /// How many things were left out.
    pub skipped: u64,
    /// Directories that no entry described; lower layers may know better modes for them.
    pub implied_directories: Vec<Vec<u8>>,
}

/// Unpacks a tar stream into a directory and reads the stream to its end.
///
/// The caller makes the directory (empty, reachable by nobody else) and throws it away after an error.
pub fn unpack_layer(stream: impl Read, directory: OwnedFd, limits: &Limits) -> Result<Unpacked, UnpackError> {
    let mut archive = TarReader::new(stream, limits);
    let mut tree = Tree::new(directory, limits);
    let mut unpacked = Unpacked::default();
    while let Some(entry) = archive.next_entry()? {
        unpacked.entries += 1;
        let outcome = place(&mut tree, &mut archive, &entry, &mut unpacked)?;
        outcome.map_err(|error| explain(error, &entry.path))?;
    }
    tree.finish().map_err(|error| explain(error, b"/"))?;
    archive.drain()?;
    unpacked.implied_directories = tree.implied.into_iter().collect();
    Ok(unpacked)
}

fn place<R: Read>(
    tree: &mut Tree<'_>,
    archive: &mut TarReader<'_, R>,
    entry: &Entry,
    unpacked: &mut Unpacked,
) -> Result<Result<(), PlaceError>, TarError> {
    let path = match CleanPath::parse(&entry.path, tree.limits()) {
        Ok(path) => path,
        Err(error) => return Ok(Err(Refusal::Name(error).into())),
    };
    let mut notices = |kind: NoticeKind| {
        unpacked.skipped += 1;
        if unpacked.notices.len() < KEPT_NOTICES {
            unpacked.notices.push(LayerNotice { path: shorten(&entry.path), kind });
        }
    };
    if let Some((above, name)) = path.split() {
        match names::meaning(name) {
            NameMeaning::File => {}
            NameMeaning::Opaque => return Ok(tree.place_opaque(above)),
            NameMeaning::Whiteout(name) => return Ok(tree.place_whiteout(above, name)),
            NameMeaning::Malformed => return Ok(Err(Refusal::Whiteout.into())),
            NameMeaning::Reserved => {
                notices(NoticeKind::Reserved);
                return Ok(Ok(()));
            }
        }
    }
    Ok(match entry.kind {
        EntryKind::File => return tree.place_file(&path, entry, archive, &mut notices),
        EntryKind::Directory => tree.place_directory(&path, entry, &mut notices),
        EntryKind::Symlink => tree.place_symlink(&path, entry),
        EntryKind::HardLink => tree.place_hard_link(&path, entry),
        EntryKind::Fifo => tree.place_fifo(&path, entry),
        EntryKind::CharacterDevice | EntryKind::BlockDevice => {
            notices(NoticeKind::Device);
            Ok(())
        }
    })
}

fn explain(error: PlaceError, path: &[u8]) -> UnpackError {
    let path = shorten(path);
    match error {
        PlaceError::Refused(refusal) => UnpackError::Refused { path, refusal },
        PlaceError::Failed { action, error } => UnpackError::Failed { path, action, source: error.into() },
    }
}

/// A path for a message: printable and of bearable length.
fn shorten(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(&path[..path.len().min(200)]).into_owned();
    if path.len() > 200 { format!("{text}...") } else { text }
}
