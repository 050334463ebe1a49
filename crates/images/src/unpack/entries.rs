//! Reads the entries of a tar stream: headers, GNU long names and PAX records, each within its cap.
//!
//! Where headers contradict each other, the answer is Go's (which built and reads nearly all images): PAX records
//! outweigh the header, and links, directories and devices have no content whatever their size says.

use std::io::{self, Read};

use crate::limits::Limits;

const BLOCK: usize = 512;

/// Why a tar stream cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The stream itself failed (also: damaged compression).
    #[error("reading failed at byte {offset}")]
    Read {
        /// Position in the unpacked stream.
        offset: u64,
        /// What the stream said.
        #[source]
        source: io::Error,
    },
    /// The stream ends inside a header or a file.
    #[error("archive is cut off at byte {0}")]
    Truncated(u64),
    /// Not a tar header.
    #[error("damaged or missing header at byte {0}")]
    Header(u64),
    /// A number that is none, or is impossible.
    #[error("{field} of the header at byte {offset} is not a usable number")]
    Number {
        /// Which field.
        field: &'static str,
        /// Position of the header.
        offset: u64,
    },
    /// Records of an extended header that do not follow their own lengths.
    #[error("damaged extended header at byte {0}")]
    Extension(u64),
    /// A long name or extended header above the cap.
    #[error("extended header at byte {offset} has {size} bytes, at most {limit} are allowed")]
    ExtensionSize {
        /// Position of the header.
        offset: u64,
        /// What it claims.
        size: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A kind of entry that cannot be unpacked faithfully.
    #[error("entry of type {kind:?} at byte {offset} is not supported")]
    Kind {
        /// The type flag.
        kind: char,
        /// Position of the header.
        offset: u64,
    },
    /// More entries than allowed.
    #[error("archive has more than {0} entries")]
    TooManyEntries(u64),
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    HardLink,
    Symlink,
    Directory,
    Fifo,
    CharacterDevice,
    BlockDevice,
}

/// One entry: all that is known before its content.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds and nanoseconds since 1970.
    pub(crate) modified: (i64, u32),
    /// Extended attributes, name and value.
    pub(crate) attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What extension headers said about the entry that follows them.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    modified: Option<(i64, u32)>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A tar stream, read once from front to back.
pub(crate) struct TarReader<'a, R> {
    stream: R,
    limits: &'a Limits,
    offset: u64,
    /// Content of the current entry that was not read yet.
    content: u64,
    /// Bytes between the content's end and the next header.
    padding: u64,
    entries: u64,
}

impl<'a, R: Read> TarReader<'a, R> {
    pub(crate) fn new(stream: R, limits: &'a Limits) -> Self {
        TarReader { stream, limits, offset: 0, content: 0, padding: 0, entries: 0 }
    }

    /// The next entry, or `None` at the end of the archive (not necessarily of the stream).
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, TarError> {
        let mut extensions = Extensions::default();
        let mut extension_bytes = 0;
        loop {
            self.skip_content()?;
            let offset = self.offset;
            let Some(block) = self.read_block()? else { return Ok(None) };
            if block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            self.entries += 1;
            if self.entries > self.limits.layer_entries {
                return Err(TarError::TooManyEntries(self.limits.layer_entries));
            }
            let header = tar::Header::from_byte_slice(&block);
            check_sum(&block).then_some(()).ok_or(TarError::Header(offset))?;
            let old = header.as_old();
            let size = number(&old.size).ok_or(TarError::Number { field: "size", offset })?;
            if matches!(old.linkflag[0], b'x' | b'g' | b'L' | b'K') {
                // What several headers say of one entry is in memory at once.
                extension_bytes = size.saturating_add(extension_bytes);
                let limit = self.limits.extension_bytes;
                if extension_bytes > limit {
                    return Err(TarError::ExtensionSize { offset, size: extension_bytes, limit });
                }
            }
            match old.linkflag[0] {
                b'x' => {
                    let records = self.read_extension(size, offset)?;
                    extensions.add_records(&records).map_err(|error| error.at(offset))?;
                }
                // Records for all following entries: nothing in them can sensibly hold for several files.
                b'g' => drop(self.read_extension(size, offset)?),
                b'L' => extensions.path = Some(until_nul(self.read_extension(size, offset)?)),
                b'K' => extensions.link = Some(until_nul(self.read_extension(size, offset)?)),
                // A volume label.
                b'V' => self.expect_content(size),
                flag => {
                    let kind =
                        entry_kind(flag, header).ok_or(TarError::Kind { kind: flag.into(), offset })?;
                    return self.entry(header, kind, size, extensions, offset).map(Some);
                }
            }
        }
    }

    fn entry(
        &mut self,
        header: &tar::Header,
        kind: EntryKind,
        size: u64,
        extensions: Extensions,
        offset: u64,
    ) -> Result<Entry, TarError> {
        let old = header.as_old();
        let size = match kind {
            EntryKind::File => extensions.size.unwrap_or(size),
            _ => 0,
        };
        if size > self.limits.layer_bytes {
            return Err(TarError::Number { field: "size", offset });
        }
        let owner = |field, extended: Option<u64>, bytes: &[u8]| {
            extended
                .or_else(|| number(bytes))
                .and_then(|id| u32::try_from(id).ok())
                .filter(|id| *id != u32::MAX)
                .ok_or(TarError::Number { field, offset })
        };
        let uid = owner("uid", extensions.uid, &old.uid)?;
        let gid = owner("gid", extensions.gid, &old.gid)?;
        let mode = number(&old.mode).ok_or(TarError::Number { field: "mode", offset })?;
        let seconds = number(&old.mtime).map_or(0, u64::cast_signed);
        self.expect_content(size);
        Ok(Entry {
            path: extensions.path.unwrap_or_else(|| header.path_bytes().into_owned()),
            link: extensions.link.unwrap_or_else(|| until_nul(old.linkname.to_vec())),
            kind,
            size,
            mode: (mode & 0o7777) as u32,
            uid,
            gid,
            modified: extensions.modified.unwrap_or((seconds, 0)),
            attributes: extensions.attributes,
        })
    }

    fn expect_content(&mut self, size: u64) {
        self.content = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
    }

    /// Reads content of the current entry; 0 at its end.
    pub(crate) fn read_content(&mut self, buffer: &mut [u8]) -> Result<usize, TarError> {
        let wanted = buffer.len().min(usize::try_from(self.content).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.read_some(&mut buffer[..wanted])?;
        if count == 0 {
            return Err(TarError::Truncated(self.offset));
        }
        self.content -= count as u64;
        Ok(count)
    }

    /// Position in the stream; after an entry was read, where its content begins.
    pub(crate) fn position(&self) -> u64 {
        self.offset
    }

    /// Reads to the end of the stream, so that its digest covers everything.
    pub(crate) fn drain(&mut self) -> Result<(), TarError> {
        let mut buffer = [0; 16 * 1024];
        while self.read_some(&mut buffer)? != 0 {}
        Ok(())
    }

    fn skip_content(&mut self) -> Result<(), TarError> {
        let mut buffer = [0; 16 * 1024];
        self.content += self.padding;
        self.padding = 0;
        while self.read_content(&mut buffer)? != 0 {}
        Ok(())
    }

    /// The caller has checked the size.
    fn read_extension(&mut self, size: u64, offset: u64) -> Result<Vec<u8>, TarError> {
        self.expect_content(size);
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| TarError::Extension(offset))?];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += self.read_content(&mut bytes[filled..])?;
        }
        Ok(bytes)
    }

    fn read_block(&mut self) -> Result<Option<[u8; BLOCK]>, TarError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.read_some(&mut block[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(TarError::Truncated(self.offset)),
                count => filled += count,
            }
        }
        Ok(Some(block))
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, TarError> {
        loop {
            match self.stream.read(buffer) {
                Ok(count) => {
                    self.offset += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(TarError::Read { offset: self.offset, source }),
            }
        }
    }
}

/// Why extended records are refused, before the position is known.
enum RecordError {
    Malformed,
    Sparse,
    Number(&'static str),
}

impl RecordError {
    fn at(self, offset: u64) -> TarError {
        match self {
            RecordError::Malformed => TarError::Extension(offset),
            RecordError::Sparse => TarError::Kind { kind: 'S', offset },
            RecordError::Number(field) => TarError::Number { field, offset },
        }
    }
}

impl Extensions {
    /// Reads PAX records, `LENGTH KEY=VALUE\n` each. Values may contain anything.
    fn add_records(&mut self, mut bytes: &[u8]) -> Result<(), RecordError> {
        while !bytes.is_empty() {
            let space = bytes.iter().position(|byte| *byte == b' ').ok_or(RecordError::Malformed)?;
            let length: usize = std::str::from_utf8(&bytes[..space])
                .ok()
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .filter(|length| (space + 2..=bytes.len()).contains(length))
                .ok_or(RecordError::Malformed)?;
            let record = bytes[space + 1..length].strip_suffix(b"\n").ok_or(RecordError::Malformed)?;
            bytes = &bytes[length..];
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(RecordError::Malformed)?;
            self.add_record(&record[..equals], &record[equals + 1..])?;
        }
        Ok(())
    }

    fn add_record(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let decimal = |field| {
            std::str::from_utf8(value)
                .ok()
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .ok_or(RecordError::Number(field))
        };
        match key {
            // An empty value takes the record back.
            b"path" => self.path = (!value.is_empty()).then(|| value.to_vec()),
            b"linkpath" => self.link = (!value.is_empty()).then(|| value.to_vec()),
            b"size" => self.size = Some(decimal("size")?),
            b"uid" => self.uid = Some(decimal("uid")?),
            b"gid" => self.gid = Some(decimal("gid")?),
            b"mtime" => self.modified = Some(time(value).ok_or(RecordError::Number("mtime"))?),
            key if key.starts_with(b"GNU.sparse.") => return Err(RecordError::Sparse),
            key => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.attributes.retain(|(known, _)| known != name);
                    self.attributes.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

/// `SECONDS[.FRACTION]`, possibly negative.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    if whole.starts_with('-') && nanoseconds > 0 {
        return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds));
    }
    Some((seconds, nanoseconds))
}

fn entry_kind(flag: u8, header: &tar::Header) -> Option<EntryKind> {
    Some(match flag {
        // Before there was a flag for directories, a slash at the end marked them.
        b'0' | 0 | b'7' if header.path_bytes().ends_with(b"/") => EntryKind::Directory,
        b'0' | 0 | b'7' => EntryKind::File,
        b'1' => EntryKind::HardLink,
        b'2' => EntryKind::Symlink,
        b'3' => EntryKind::CharacterDevice,
        b'4' => EntryKind::BlockDevice,
        b'5' => EntryKind::Directory,
        b'6' => EntryKind::Fifo,
        _ => return None,
    })
}

/// Whether the header's sum of bytes is right, counted as if its own field were spaces.
fn check_sum(block: &[u8; BLOCK]) -> bool {
    let sum: u64 = block
        .iter()
        .enumerate()
        .map(|(index, byte)| if (148..156).contains(&index) { 32 } else { u64::from(*byte) })
        .sum();
    number(&block[148..156]) == Some(sum)
}

/// A number of a header: octal digits, or binary when the first bit is set. Nothing at all is 0.
fn number(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let (high, low) = field.split_at(field.len().checked_sub(8)?);
        let low = u64::from_be_bytes(low.try_into().ok()?);
        let sign = if field[0] & 0x40 != 0 { 0xff } else { 0 };
        return match high {
            // Only eight bytes: the first one carries the mark.
            [] if sign == 0 => Some(low & !(0x80 << 56)),
            [] => Some(low),
            [first, rest @ ..] => {
                let plain = first & 0x7f == sign & 0x7f && rest.iter().all(|byte| *byte == sign);
                plain.then_some(low)
            }
        };
    }
    let digits = field.iter().skip_while(|byte| **byte == b' ');
    let mut value: u64 = 0;
    let mut ended = false;
    for byte in digits {
        match byte {
            b' ' | 0 => ended = true,
            b'0'..=b'7' if !ended => value = value.checked_mul(8)? + u64::from(byte - b'0'),
            // What follows the end is somebody's padding; digits there are not.
            _ => return None,
        }
    }
    Some(value)
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(nul) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(nul);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary_and_strict() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(number(b"9999999\0"), None);
        assert_eq!(number(b"12 34567"), None);
        assert_eq!(number(b"-1\0\0\0\0\0\0"), None);
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 1, 0]), Some(256));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]), Some(256));
        assert_eq!(number(&[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]), None);
        assert_eq!(number(&[0xff; 12]), Some(u64::MAX));
    }

    #[test]
    fn times_have_fractions_and_signs() {
        assert_eq!(time(b"1"), Some((1, 0)));
        assert_eq!(time(b"1.5"), Some((1, 500_000_000)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"1.0000000001"), Some((1, 0)));
        for text in [&b""[..], b".", b"x", b"1.x", b"99999999999999999999"] {
            assert_eq!(time(text), None);
        }
    }

    #[test]
    fn records_follow_their_lengths() {
        let read = |bytes: &[u8]| {
            let mut extensions = Extensions::default();
            extensions.add_records(bytes).ok().map(|()| extensions)
        };
        let good = read(b"12 path=a/b\n11 size=10\n26 SCHILY.xattr.user.a=\n\n\n").unwrap();
        assert_eq!(good.path.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(good.size, Some(10));
        assert_eq!(good.attributes, [(b"user.a".to_vec(), b"\n\n".to_vec())]);
        for bad in [
            &b"12 path=a/b"[..],
            b"99 path=a/b\n",
            b"2 \n",
            b"0 path=a\n",
            b"x",
            b"-1 path=a\n",
            b"99999999999999999999999 path=a\n",
            b"11 size=-1\n",
            b"10 nokey0\n",
            b"22 GNU.sparse.major=1\n",
        ] {
            assert!(read(bad).is_none(), "{:?}", String::from_utf8_lossy(bad));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2048)) {
            let mut reader = TarReader::new(&bytes[..], &Limits::DEFAULT);
            while let Ok(Some(_)) = reader.next_entry() {}
        }

        #[test]
        fn any_header_with_a_right_sum_is_answered(mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 512..1600), flag in "[0-7xgLKVS]") {
            bytes[156] = flag.as_bytes()[0];
            bytes[124..136].copy_from_slice(b"00000000700\0");
            let sum: u32 = bytes[..512].iter().enumerate().map(|(index, byte)| if (148..156).contains(&index) { 32 } else { u32::from(*byte) }).sum();
            bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            let mut reader = TarReader::new(&bytes[..], &Limits::DEFAULT);
            while let Ok(Some(_)) = reader.next_entry() {}
        }
    }
}
