//! A container's log in the format of the CRI: one line a record, rotated by size.
//!
//! A record is `TIME STREAM TAG CONTENT`; the tag `P` marks a piece of a line that goes on, `F` its end. A full disk
//! loses records, never the container: writing is tried again with the next one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::launch::LogSpec;

/// A longer line is split.
const MAX_CONTENT_BYTES: usize = 16 * 1024;

/// Which output a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Output => "stdout",
            Self::Error => "stderr",
        }
    }
}

/// Cuts one output into records.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    rest: Vec<u8>,
}

impl LineBuffer {
    /// Appends the records that `chunk` completes to `records`.
    pub(super) fn feed(&mut self, stream: Stream, mut chunk: &[u8], time: &str, records: &mut Vec<u8>) {
        while !chunk.is_empty() {
            let room = MAX_CONTENT_BYTES - self.rest.len();
            let line_end = chunk.iter().take(room + 1).position(|byte| *byte == b'\n');
            match line_end {
                Some(end) => {
                    record(stream, b'F', &[&self.rest, &chunk[..end]], time, records);
                    self.rest.clear();
                    chunk = &chunk[end + 1..];
                }
                None if chunk.len() > room => {
                    record(stream, b'P', &[&self.rest, &chunk[..room]], time, records);
                    self.rest.clear();
                    chunk = &chunk[room..];
                }
                None => {
                    self.rest.extend_from_slice(chunk);
                    chunk = &[];
                }
            }
        }
    }

    /// Appends what never got its line end.
    pub(super) fn finish(&mut self, stream: Stream, time: &str, records: &mut Vec<u8>) {
        if !self.rest.is_empty() {
            record(stream, b'F', &[&self.rest], time, records);
            self.rest = Vec::new();
        }
    }
}

fn record(stream: Stream, tag: u8, content: &[&[u8]], time: &str, records: &mut Vec<u8>) {
    records.extend_from_slice(time.as_bytes());
    records.push(b' ');
    records.extend_from_slice(stream.name().as_bytes());
    records.extend_from_slice(&[b' ', tag, b' ']);
    for part in content {
        records.extend_from_slice(part);
    }
    records.push(b'\n');
}

/// The file that is written now, and the rules of its rotation.
#[derive(Debug)]
pub(super) struct LogFile {
    spec: LogSpec,
    open: Option<(File, u64)>,
}

impl LogFile {
    /// Opens the log, and makes the directories above it.
    pub(super) fn open(spec: LogSpec) -> io::Result<Self> {
        let mut log = Self { spec, open: None };
        log.reopen()?;
        Ok(log)
    }

    /// Opens the path again: somebody may have moved the file away.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(directory) = self.spec.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o640).open(&self.spec.path)?;
        let size = file.metadata()?.len();
        self.open = Some((file, size));
        Ok(())
    }

    /// Writes whole records. What cannot be written is lost.
    pub(super) fn write(&mut self, records: &[u8]) {
        if self.open.is_none() && self.reopen().is_err() {
            return;
        }
        let Some((file, size)) = &mut self.open else { return };
        match file.write_all(records) {
            Ok(()) => *size += records.len() as u64,
            Err(_) => {
                // After a full disk the position in the file is anybody's guess.
                self.open = None;
                return;
            }
        }
        if *size >= self.spec.max_bytes && self.spec.max_files > 1 {
            self.rotate();
        }
    }

    /// `log` becomes `log.1`, `log.1` becomes `log.2`, and the oldest goes.
    fn rotate(&mut self) {
        let oldest = self.spec.max_files - 1;
        let numbered = |number: u32| numbered(&self.spec.path, number);
        let _ = fs::remove_file(numbered(oldest));
        for number in (1..oldest).rev() {
            let _ = fs::rename(numbered(number), numbered(number + 1));
        }
        let _ = fs::rename(&self.spec.path, numbered(1));
        self.open = None;
        let _ = self.reopen();
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Now, as records have it: UTC with nine digits of a second.
pub(super) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    written_time(since.as_secs(), since.subsec_nanos())
}

fn written_time(seconds: u64, nanoseconds: u32) -> String {
    let days = seconds / 86_400;
    let of_day = seconds % 86_400;
    // Civil date from days since 1970, by eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{nanoseconds:09}Z",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(chunks: &[&[u8]]) -> String {
        let mut lines = LineBuffer::default();
        let mut written = Vec::new();
        for chunk in chunks {
            lines.feed(Stream::Output, chunk, "T", &mut written);
        }
        lines.finish(Stream::Output, "T", &mut written);
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn lines_become_records() {
        assert_eq!(records(&[b"one\ntwo\n"]), "T stdout F one\nT stdout F two\n");
        assert_eq!(records(&[b"o", b"ne\n\n", b"end"]), "T stdout F one\nT stdout F \nT stdout F end\n");
        assert_eq!(records(&[b""]), "");
    }

    #[test]
    fn a_long_line_is_split_and_marked() {
        let exact = vec![b'x'; MAX_CONTENT_BYTES];
        let text = records(&[&exact, b"\n"]);
        assert_eq!(text.lines().count(), 1, "a line of exactly the limit stays whole");
        assert!(text.starts_with("T stdout F x"));
        let text = records(&[&exact, b"yz\n"]);
        let tags: Vec<&str> = text.lines().map(|line| &line[..11]).collect();
        assert_eq!(tags, ["T stdout P ", "T stdout F "]);
        assert!(text.ends_with("T stdout F yz\n"));
    }

    #[test]
    fn times_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000000007Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000000007Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000000007Z"),
        ] {
            assert_eq!(written_time(seconds, 7), text);
        }
    }

    #[test]
    fn a_full_file_is_rotated_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pod/c/0.log");
        let mut log = LogFile::open(LogSpec { path: path.clone(), max_bytes: 10, max_files: 3 }).unwrap();
        for text in ["first-----\n", "second----\n", "third-----\n", "now\n"] {
            log.write(text.as_bytes());
        }
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), "now\n");
        assert_eq!(read(&numbered(&path, 1)), "third-----\n");
        assert_eq!(read(&numbered(&path, 2)), "second----\n");
        assert!(!numbered(&path, 3).exists());
    }

    #[test]
    fn a_moved_file_is_left_alone_after_reopening() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let mut log =
            LogFile::open(LogSpec { path: path.clone(), max_bytes: 1 << 20, max_files: 5 }).unwrap();
        log.write(b"old\n");
        fs::rename(&path, directory.path().join("moved")).unwrap();
        log.reopen().unwrap();
        log.write(b"new\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
    }
}
