//! One transported layer (plain, gzip or zstd) to one directory: decompress, cap, hash, unpack.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::limits::Limits;
use crate::unpack::{self, UnpackError, Unpacked};

/// Why a layer does not become a directory.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// Its content.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// It unpacks to more than allowed.
    #[error("layer unpacks to more than {limit} bytes ({transported} bytes as transported)")]
    TooLarge {
        /// What is allowed for this layer.
        limit: u64,
        /// Its transported size.
        transported: u64,
    },
    /// Its content is not what the image's configuration says.
    #[error("layer has content {actual}, the image says {expected}")]
    DiffId {
        /// What the configuration says.
        expected: Digest,
        /// What came out.
        actual: Digest,
    },
    /// The directory cannot be made or opened, or the transported layer cannot be read.
    #[error("cannot prepare or read the layer")]
    Io(#[source] io::Error),
}

impl LayerError {
    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            LayerError::Unpack(error) => error.is_disk_full(),
            LayerError::Io(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            LayerError::TooLarge { .. } | LayerError::DiffId { .. } => false,
        }
    }
}

/// A directory filled with a layer, not yet in the store.
#[derive(Debug)]
pub(crate) struct UnpackedLayer {
    pub(crate) diff_id: Digest,
    pub(crate) unpacked: Unpacked,
}

/// Unpacks a transported layer of `transported` bytes into a directory that does not exist yet.
///
/// With an `expected` content digest anything else is refused; without one (a bare archive) the digest is what it is.
pub(crate) fn unpack_to(
    blob: impl Read,
    transported: u64,
    expected: Option<Digest>,
    directory: &Path,
    limits: &Limits,
) -> Result<UnpackedLayer, LayerError> {
    std::fs::create_dir(directory).map_err(LayerError::Io)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root: OwnedFd =
        rustix::fs::open(directory, flags, Mode::empty()).map_err(|error| LayerError::Io(error.into()))?;
    rustix::fs::fchmod(&root, Mode::from_raw_mode(0o755)).map_err(|error| LayerError::Io(error.into()))?;
    let limit = most_bytes(transported, limits);
    let mut stream = Measured::of(blob, limit, limits)?;
    let outcome = unpack::unpack_layer(&mut stream, root, limits);
    if stream.exceeded {
        return Err(LayerError::TooLarge { limit, transported });
    }
    let unpacked = outcome?;
    let actual = Digest::from_hash(stream.hash);
    match expected {
        Some(expected) if expected != actual => Err(LayerError::DiffId { expected, actual }),
        _ => Ok(UnpackedLayer { diff_id: actual, unpacked }),
    }
}

/// Reads a transported layer whose content the store has already: it must be that content all the same.
pub(crate) fn verify(
    blob: impl Read,
    transported: u64,
    expected: Digest,
    limits: &Limits,
) -> Result<(), LayerError> {
    let limit = most_bytes(transported, limits);
    let mut stream = Measured::of(blob, limit, limits)?;
    let outcome = io::copy(&mut stream, &mut io::sink());
    if stream.exceeded {
        return Err(LayerError::TooLarge { limit, transported });
    }
    outcome.map_err(LayerError::Io)?;
    match Digest::from_hash(stream.hash) {
        actual if actual == expected => Ok(()),
        actual => Err(LayerError::DiffId { expected, actual }),
    }
}

/// To how many bytes a layer may unpack.
fn most_bytes(transported: u64, limits: &Limits) -> u64 {
    transported.saturating_mul(limits.ratio).max(limits.ratio_free_bytes).min(limits.layer_bytes)
}

/// Decompresses by what the bytes are, not by what a manifest calls them.
pub(crate) fn decompress<'a>(mut blob: impl Read + 'a, limits: &Limits) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = [0; 4];
    let mut filled = 0;
    while filled < start.len() {
        match blob.read(&mut start[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let blob = io::Cursor::new(start).take(filled as u64).chain(blob);
    let buffered = io::BufReader::with_capacity(256 * 1024, blob);
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered)?;
            decoder.window_log_max(limits.zstd_window_log)?;
            Box::new(decoder)
        }
        _ => Box::new(buffered),
    })
}

/// Hashes what passes and ends with an error at the cap.
struct Measured<R> {
    stream: R,
    hash: Sha256,
    left: u64,
    exceeded: bool,
}

impl<'a> Measured<Box<dyn Read + 'a>> {
    fn of(blob: impl Read + 'a, limit: u64, limits: &Limits) -> Result<Self, LayerError> {
        let stream = decompress(blob, limits).map_err(LayerError::Io)?;
        Ok(Self { stream, hash: Sha256::new(), left: limit, exceeded: false })
    }
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        let Some(left) = self.left.checked_sub(count as u64) else {
            self.exceeded = true;
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        };
        self.left = left;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}
