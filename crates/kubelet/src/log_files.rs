//! Container logs in the runtime's format, one entry a line: `TIME STREAM TAGS TEXT`. Reads them as `kubectl logs` asks: the
//! last lines, since a time, with times, up to a size, following what is written and the file's rotation.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// How much of a file is read at a time.
const CHUNK: usize = 64 * 1024;
/// The longest entry that is kept together; a longer one is cut.
const LONGEST_ENTRY: usize = 1024 * 1024;

/// What a reader is told when files were removed by rotation before it came to them.
const LINES_MAY_BE_MISSING: &[u8] =
    b"[coracle: lines may be missing here: the log was rotated faster than it was read]\n";

/// What to read of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LogOptions {
    /// Only this many of the last lines.
    pub(crate) tail_lines: Option<u64>,
    /// Only what is not older.
    pub(crate) since: Option<Timestamp>,
    /// Write the time before each line.
    pub(crate) timestamps: bool,
    /// At most this many bytes.
    pub(crate) limit_bytes: Option<u64>,
    /// Only this stream (`Stdout`, `Stderr`).
    pub(crate) stream: Option<LogStream>,
}

/// One of a container's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// An entry of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry<'a> {
    time: &'a [u8],
    stream: LogStream,
    /// The text ends with a newline that was cut off.
    complete: bool,
    text: &'a [u8],
}

fn parse_entry(line: &[u8]) -> Option<Entry<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let time = parts.next()?;
    let stream = match parts.next()? {
        b"stdout" => LogStream::Stdout,
        b"stderr" => LogStream::Stderr,
        _ => return None,
    };
    let tags = parts.next()?;
    let complete = !tags.split(|byte| *byte == b':').any(|tag| tag == b"P");
    Some(Entry { time, stream, complete, text: parts.next().unwrap_or_default() })
}

/// Reads one log file from a place on, entry by entry.
#[derive(Debug)]
pub(crate) struct LogReader {
    path: PathBuf,
    file: File,
    options: LogOptions,
    /// Bytes of an entry whose end has not been written yet.
    pending: Vec<u8>,
    /// What comes next begins a line of output.
    at_line_start: bool,
    written: u64,
    done: bool,
    /// A file that takes its name is another log.
    of_one_file: bool,
}

impl LogReader {
    /// Opens a log at the place that the options ask for.
    pub(crate) fn open(path: &Path, options: LogOptions) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let start = match options.tail_lines {
            Some(lines) => start_of_last_lines(&mut file, lines)?,
            None => 0,
        };
        file.seek(SeekFrom::Start(start))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            options,
            pending: Vec::new(),
            at_line_start: true,
            written: 0,
            done: false,
            of_one_file: false,
        })
    }

    /// It reads this file to its end, whoever gets its name.
    pub(crate) fn of_one_file(self) -> Self {
        Self { of_one_file: true, ..self }
    }

    /// The limit of bytes is reached.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// What was written since the last call, up to some 64 KiB; empty at the present end of the log.
    pub(crate) fn read_more(&mut self) -> io::Result<Vec<u8>> {
        let mut output = Vec::new();
        while !self.done {
            let mut chunk = vec![0; CHUNK];
            let mut count = self.file.read(&mut chunk)?;
            if count == 0 {
                if !output.is_empty() || !self.is_rotated()? {
                    break;
                }
                // What came between the last read and the rotation.
                count = self.file.read(&mut chunk)?;
                if count == 0 {
                    let (file, is_gapless) = self.next_file()?;
                    self.file = file;
                    self.pending.clear();
                    if !is_gapless {
                        // Silence would pass for a complete log.
                        output.extend_from_slice(LINES_MAY_BE_MISSING);
                        self.at_line_start = true;
                    }
                    continue;
                }
            }
            self.pending.extend_from_slice(&chunk[..count]);
            self.take_entries(&mut output);
            if output.len() >= CHUNK {
                break;
            }
        }
        Ok(output)
    }

    fn take_entries(&mut self, output: &mut Vec<u8>) {
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.write_entry(&rest[..end], output);
            rest = &rest[end + 1..];
        }
        if rest.len() > LONGEST_ENTRY {
            self.write_entry(rest, output);
            rest = &[];
        }
        self.pending = rest.to_vec();
    }

    fn write_entry(&mut self, line: &[u8], output: &mut Vec<u8>) {
        // What is no entry (a torn write, another format) is shown as it is rather than lost.
        let entry = parse_entry(line).unwrap_or(Entry {
            time: b"",
            stream: LogStream::Stdout,
            complete: true,
            text: line,
        });
        if self.options.stream.is_some_and(|stream| stream != entry.stream) || self.is_too_old(&entry) {
            return;
        }
        let begin = output.len();
        if self.options.timestamps && self.at_line_start {
            output.extend_from_slice(entry.time);
            output.push(b' ');
        }
        output.extend_from_slice(entry.text);
        if entry.complete {
            output.push(b'\n');
        }
        self.at_line_start = entry.complete;
        self.written += (output.len() - begin) as u64;
        if let Some(limit) = self.options.limit_bytes
            && self.written >= limit
        {
            let surplus = usize::try_from(self.written - limit).unwrap_or(usize::MAX);
            output.truncate(output.len().saturating_sub(surplus));
            self.written = limit;
            self.done = true;
        }
    }

    fn is_too_old(&self, entry: &Entry<'_>) -> bool {
        let Some(since) = self.options.since else {
            return false;
        };
        let time = std::str::from_utf8(entry.time).ok().and_then(|text| text.parse::<Timestamp>().ok());
        time.is_some_and(|time| time < since)
    }

    /// Whether the file that is read is not the one that is written any more. It does not grow then.
    fn is_rotated(&self) -> io::Result<bool> {
        if self.of_one_file {
            return Ok(false);
        }
        let Ok(current) = std::fs::metadata(&self.path) else {
            return Ok(false);
        };
        Ok(identity(&current) != identity(&self.file.metadata()?))
    }

    /// The file that was written after the one that is read: a log may be rotated more than once before its reader comes to
    /// it. When the own file is gone already, the oldest that is left, and `false`: what stood between is not known.
    fn next_file(&self) -> io::Result<(File, bool)> {
        let own = identity(&self.file.metadata()?);
        let mut newer = File::open(&self.path)?;
        // `log.1` is older than `log`, `log.2` older than that. A rotation in between shows a file twice, and never hides one;
        // in the middle of it one number is missing, which is not the end.
        let mut missing = 0;
        for number in 1_u32.. {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            let Ok(older) = File::open(name) else {
                missing += 1;
                if missing > 1 {
                    break;
                }
                continue;
            };
            if identity(&older.metadata()?) == own {
                return Ok((newer, true));
            }
            newer = older;
        }
        Ok((newer, false))
    }
}

/// What tells one file from another, whatever their names.
fn identity(file: &std::fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Where the last `lines` lines of a file begin.
fn start_of_last_lines(file: &mut File, lines: u64) -> io::Result<u64> {
    let length = file.metadata()?.len();
    if lines == 0 {
        return Ok(length);
    }
    let mut position = length;
    let mut found = 0_u64;
    let mut last = true;
    while position > 0 {
        let size = position.min(CHUNK as u64);
        position -= size;
        file.seek(SeekFrom::Start(position))?;
        let mut chunk = vec![0; usize::try_from(size).unwrap_or(CHUNK)];
        file.read_exact(&mut chunk)?;
        for (index, byte) in chunk.iter().enumerate().rev() {
            if *byte != b'\n' {
                last = false;
                continue;
            }
            // The newline that ends the file ends its last line and begins none.
            if std::mem::take(&mut last) {
                continue;
            }
            found += 1;
            if found == lines {
                return Ok(position + index as u64 + 1);
            }
        }
    }
    Ok(0)
}

/// The last lines of a log as text, at most `bytes` bytes of it.
pub(crate) fn last_lines(path: &Path, lines: usize, bytes: usize) -> io::Result<String> {
    let options = LogOptions { tail_lines: Some(lines as u64), ..LogOptions::default() };
    let mut reader = LogReader::open(path, options)?;
    let mut text = Vec::new();
    loop {
        let more = reader.read_more()?;
        if more.is_empty() {
            break;
        }
        text.extend_from_slice(&more);
        let surplus = text.len().saturating_sub(bytes);
        text.drain(..surplus);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{LogOptions, LogReader, LogStream};
    use std::io::Write as _;

    const LOG: &str = "2026-11-21T00:00:01.000000000Z stdout F one\n\
                       2026-11-21T00:00:02.000000000Z stderr P two and\n\
                       2026-11-21T00:00:03.000000000Z stderr F  a half\n\
                       2026-11-21T00:00:04.000000000Z stdout F \n\
                       2026-11-21T00:00:05.000000000Z stdout F five\n";

    fn check(options: LogOptions, expected: &str) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("0.log");
        std::fs::write(&path, LOG).expect("written");
        let mut reader = LogReader::open(&path, options.clone()).expect("opens");
        let mut text = Vec::new();
        loop {
            let more = reader.read_more().expect("readable");
            if more.is_empty() {
                break;
            }
            text.extend(more);
        }
        assert_eq!(String::from_utf8_lossy(&text), expected, "{options:?}");
    }

    #[test]
    fn logs_are_read_as_asked() {
        check(LogOptions::default(), "one\ntwo and a half\n\nfive\n");
        check(LogOptions { tail_lines: Some(2), ..LogOptions::default() }, "\nfive\n");
        check(LogOptions { tail_lines: Some(0), ..LogOptions::default() }, "");
        check(LogOptions { tail_lines: Some(99), ..LogOptions::default() }, "one\ntwo and a half\n\nfive\n");
        check(LogOptions { limit_bytes: Some(6), ..LogOptions::default() }, "one\ntw");
        let since = Some("2026-11-21T00:00:04Z".parse().expect("a time"));
        check(LogOptions { since, ..LogOptions::default() }, "\nfive\n");
        check(LogOptions { stream: Some(LogStream::Stderr), ..LogOptions::default() }, "two and a half\n");
        check(
            LogOptions {
                timestamps: true,
                tail_lines: Some(4),
                limit_bytes: Some(45),
                ..LogOptions::default()
            },
            "2026-11-21T00:00:02.000000000Z two and a half",
        );
    }

    #[test]
    fn a_slow_reader_loses_no_line_when_the_log_is_rotated_twice() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("0.log");
        let entry = |text: &str| format!("2026-01-01T00:00:00.000000000Z stdout F {text}\n");
        let numbered = |number: u32| dir.path().join(format!("0.log.{number}"));
        std::fs::write(&path, entry("one")).expect("written");
        let mut reader = LogReader::open(&path, LogOptions::default()).expect("opened");
        assert_eq!(reader.read_more().expect("read"), b"one\n");
        for text in ["two", "three"] {
            let _ = std::fs::rename(numbered(1), numbered(2));
            std::fs::rename(&path, numbered(1)).expect("rotated");
            std::fs::write(&path, entry(text)).expect("written");
        }
        assert_eq!(reader.read_more().expect("read"), b"two\n");
        assert_eq!(reader.read_more().expect("read"), b"three\n");
        assert_eq!(reader.read_more().expect("read"), b"");
    }

    #[test]
    fn a_rotation_that_is_under_way_is_no_loss() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("0.log");
        let entry = |text: &str| format!("2026-01-01T00:00:00.000000000Z stdout F {text}\n");
        std::fs::write(&path, entry("one")).expect("written");
        let mut reader = LogReader::open(&path, LogOptions::default()).expect("opened");
        assert_eq!(reader.read_more().expect("read"), b"one\n");
        // `0.log.1` has become `0.log.2`, and `0.log` is not `0.log.1` yet.
        std::fs::rename(&path, dir.path().join("0.log.2")).expect("rotated");
        std::fs::write(&path, entry("two")).expect("written");
        assert_eq!(reader.read_more().expect("read"), b"two\n");
    }

    #[test]
    fn a_file_that_rotation_removed_before_it_was_read_is_not_passed_over_in_silence() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("0.log");
        let entry = |text: &str| format!("2026-01-01T00:00:00.000000000Z stdout F {text}\n");
        std::fs::write(&path, entry("one")).expect("written");
        let mut reader = LogReader::open(&path, LogOptions::default()).expect("opened");
        assert_eq!(reader.read_more().expect("read"), b"one\n");
        // The reader's file and its successor are gone; the oldest that is left is `0.log.1`.
        std::fs::write(dir.path().join("0.log.1"), entry("three")).expect("written");
        std::fs::write(dir.path().join("new"), entry("four")).expect("written");
        std::fs::rename(dir.path().join("new"), &path).expect("replaced");
        let text = [super::LINES_MAY_BE_MISSING, b"three\n"].concat();
        assert_eq!(reader.read_more().expect("read"), text);
        assert_eq!(reader.read_more().expect("read"), b"four\n");
    }

    #[test]
    fn a_reader_goes_on_where_the_log_grows_and_where_it_is_rotated() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("0.log");
        let mut file = std::fs::File::create(&path).expect("made");
        let mut reader = LogReader::open(&path, LogOptions::default()).expect("opens");
        assert_eq!(reader.read_more().expect("readable"), b"");
        file.write_all(b"2026-11-21T00:00:01Z stdout F on").expect("written");
        assert_eq!(reader.read_more().expect("readable"), b"", "half an entry waits for the rest");
        file.write_all(b"e\n").expect("written");
        assert_eq!(reader.read_more().expect("readable"), b"one\n");
        file.write_all(b"2026-11-21T00:00:02Z stdout F two\n").expect("written");
        std::fs::rename(&path, dir.path().join("0.log.1")).expect("rotated");
        std::fs::write(&path, "2026-11-21T00:00:03Z stdout F three\n").expect("written");
        assert_eq!(reader.read_more().expect("readable"), b"two\n");
        assert_eq!(reader.read_more().expect("readable"), b"three\n");
        assert_eq!(reader.read_more().expect("readable"), b"");
    }
}
