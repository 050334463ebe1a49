//! What a hook's command prints, written to its log while it runs: a hook that hangs can be read.
//!
//! The runtime copies both outputs into two pipes as they come ([`OutputPipes`]); a runtime that does not know of them leaves
//! them empty, and everything is written at the end. What comes is written as long as the log has room. Of a longer output the
//! log has the first half of what it may hold and, once the hook has ended or was given up, its end.
//!
//! A secret is hidden also when it arrives in pieces: an end that may be the beginning of one is held back ([`Readable`]).
//! What is held back, and what still is in the pipes, is written also when nobody waits for the hook any more.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::net::unix::pipe;

use crate::hook_log::{HookLog, SecretValues, escape};

/// Bytes of both outputs together that the log holds.
const ROOM: usize = api::limits::HOOK_OUTPUT;

/// Of these, the ones that stay when more is printed.
const HEAD: usize = ROOM / 2;

/// How long a pipe fills before it is read again: what a hook prints byte by byte is not worked on byte by byte.
const PAUSE: Duration = Duration::from_millis(100);

/// How much of an output its pipe takes before it is read. What does not fit comes when the command has ended.
const PIPE: usize = 1024 * 1024;

/// The most that the runtime writes to a pipe at once. With less room than that, some of it may not have fitted.
const LONGEST_WRITE: usize = 64 * 1024;

/// The names of the two outputs in a log.
const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// Two pipes for one delivery of a hook. Dropped, their names are taken away.
#[derive(Debug)]
pub(crate) struct OutputPipes {
    paths: [PathBuf; 2],
    readers: [pipe::Receiver; 2],
}

impl OutputPipes {
    /// Makes them below a directory of the pod's own.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn make(dir: &Path, name: &str) -> io::Result<Self> {
        crate::files::create_dirs(dir)?;
        let paths = STREAMS.map(|stream| dir.join(format!("{name}.{stream}")));
        let open = |path: &Path| {
            // An earlier delivery of the hook may have been cut off.
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
            // Open for both, it does not end when a writer does.
            let reader = pipe::OpenOptions::new().read_write(true).open_receiver(path)?;
            // Refused, it takes as much as pipes usually do.
            let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE);
            Ok(reader)
        };
        let readers = [open(&paths[0])?, open(&paths[1])?];
        Ok(Self { paths, readers })
    }

    /// Their names, that of standard output first.
    pub(crate) fn names(&self) -> [String; 2] {
        [0, 1].map(|index| self.paths[index].to_string_lossy().into_owned())
    }
}

impl Drop for OutputPipes {
    fn drop(&mut self) {
        for path in &self.paths {
            // Gone with the pod's directory at the latest.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Text that comes in pieces, made readable: secrets hidden, control characters written out.
#[derive(Debug, Default)]
struct Readable {
    /// The beginning of a character whose rest has not come.
    tail: Vec<u8>,
    /// What may be the beginning of a secret.
    held: String,
}

impl Readable {
    /// Takes a piece in; answers what can be shown of what has come so far.
    fn feed(&mut self, piece: &[u8], secrets: &SecretValues) -> String {
        self.tail.extend_from_slice(piece);
        let whole = self.tail.len() - unfinished_character(&self.tail);
        self.held.push_str(&String::from_utf8_lossy(&self.tail[..whole]));
        self.tail.drain(..whole);
        let mut end = secrets.certain(&self.held);
        if self.held[..end].ends_with('\r') {
            // With a line end behind it, it is none of its own. A secret that ends with it is certain later, too.
            end = secrets.certain_before(&self.held, end - 1);
        }
        let rest = self.held.split_off(end);
        escape(&secrets.hide(&std::mem::replace(&mut self.held, rest)))
    }

    /// Nothing more comes.
    fn finish(&mut self, secrets: &SecretValues) -> String {
        self.held.push_str(&String::from_utf8_lossy(&std::mem::take(&mut self.tail)));
        escape(&secrets.hide(&std::mem::take(&mut self.held)))
    }
}

/// Bytes at the end of a text that begin a character and do not finish it.
fn unfinished_character(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let length = match bytes[bytes.len() - back] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if back < length { back } else { 0 };
    }
    0
}

/// One output while its command runs.
#[derive(Debug, Default)]
struct Output {
    text: Readable,
    /// Bytes of it that were taken in.
    taken: usize,
}

/// The end of a long output: pieces of both, in the order in which they came.
#[derive(Debug, Default)]
struct Tail {
    pieces: VecDeque<(usize, String)>,
    bytes: usize,
}

impl Tail {
    fn push(&mut self, index: usize, text: &str) {
        self.bytes += text.len();
        self.pieces.push_back((index, text.to_owned()));
        while self.bytes > ROOM - HEAD
            && let Some((index, first)) = self.pieces.pop_front()
        {
            let mut surplus = (self.bytes - (ROOM - HEAD)).min(first.len());
            while !first.is_char_boundary(surplus) {
                surplus += 1;
            }
            self.bytes -= surplus;
            if surplus < first.len() {
                self.pieces.push_front((index, first[surplus..].to_owned()));
            }
        }
    }

    /// The last so many bytes, or fewer: characters stay whole.
    fn last(&self, bytes: usize) -> Vec<(&'static str, &str)> {
        let mut before = self.bytes.saturating_sub(bytes);
        let pieces = self.pieces.iter().map(|(index, piece)| {
            let mut from = before.min(piece.len());
            before -= from;
            while !piece.is_char_boundary(from) {
                from += 1;
            }
            (STREAMS[*index], &piece[from..])
        });
        pieces.filter(|(_, text)| !text.is_empty()).collect()
    }
}

/// One delivery of a hook and its log: remarks of the node, and both outputs of its command on their way into it.
#[derive(Debug)]
pub(crate) struct HookOutput {
    log: Option<HookLog>,
    secrets: SecretValues,
    pipes: Option<OutputPipes>,
    outputs: [Output; 2],
    /// Bytes that came and can be shown.
    shown: usize,
    tail: Tail,
    /// A pipe was full when it was read.
    overflowed: bool,
    finished: bool,
}

impl HookOutput {
    /// Nothing has come yet.
    pub(crate) fn new(log: Option<HookLog>) -> Self {
        Self {
            log,
            secrets: SecretValues::default(),
            pipes: None,
            outputs: Default::default(),
            shown: 0,
            tail: Tail::default(),
            overflowed: false,
            finished: false,
        }
    }

    /// Values that are hidden from now on.
    pub(crate) fn hide(&mut self, secrets: SecretValues) {
        self.secrets = secrets;
    }

    /// A line of the node's own.
    pub(crate) fn remark(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            log.remark(text);
        }
    }

    /// What was not a command's, and is there as a whole.
    pub(crate) fn whole(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            log.output(text, "", ROOM);
        }
    }

    /// Writes what comes through the pipes, until `ended`, whose answer is the answer.
    pub(crate) async fn follow<T>(
        &mut self,
        pipes: Option<OutputPipes>,
        ended: impl Future<Output = T>,
    ) -> T {
        self.pipes = pipes;
        let copy = async {
            while let Some(pipes) = &self.pipes {
                let [stdout, stderr] = &pipes.readers;
                let ready = tokio::select! {
                    ready = stdout.readable() => ready,
                    ready = stderr.readable() => ready,
                };
                if ready.is_err() {
                    break;
                }
                self.drain(|reader, piece| reader.try_read(piece));
                tokio::time::sleep(PAUSE).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            answer = ended => answer,
            () = copy => unreachable!("copying waits for the end of the command"),
        }
    }

    /// Takes in what the pipes hold now.
    fn drain(&mut self, read: impl Fn(&pipe::Receiver, &mut [u8]) -> io::Result<usize>) {
        let Some(pipes) = self.pipes.take() else { return };
        let mut piece = vec![0; LONGEST_WRITE];
        for (index, reader) in pipes.readers.iter().enumerate() {
            let mut count = 0;
            // One that is filled as fast as it is read is left for the next time.
            while count < PIPE
                && let Ok(length @ 1..) = read(reader, &mut piece)
            {
                self.take(index, &piece[..length]);
                count += length;
            }
            self.overflowed |= count > PIPE - LONGEST_WRITE;
        }
        self.pipes = Some(pipes);
    }

    fn take(&mut self, index: usize, piece: &[u8]) {
        let output = &mut self.outputs[index];
        output.taken += piece.len();
        let text = output.text.feed(piece, &self.secrets);
        self.show(index, &text);
    }

    /// Writes what may be shown as far as there is room, and remembers the end of it.
    fn show(&mut self, index: usize, text: &str) {
        let (head, rest) = text.split_at(boundary(text, HEAD.saturating_sub(self.shown)));
        let stream = STREAMS[index];
        if let Some(log) = &mut self.log {
            log.output_goes_on(stream, head);
            if !rest.is_empty() {
                log.keep_what_is_there();
                let room = ROOM.saturating_sub(HEAD.max(self.shown + head.len()));
                log.output_goes_on(stream, &rest[..boundary(rest, room)]);
            }
        }
        self.tail.push(index, rest);
        // From here on everything belongs to the rest, also what the middle of a character left of the first half.
        self.shown =
            if rest.is_empty() { self.shown + head.len() } else { HEAD.max(self.shown) + rest.len() };
    }

    /// The command has ended, and this is all that it printed.
    pub(crate) fn complete(&mut self, all: [&[u8]; 2]) {
        for (index, all) in all.into_iter().enumerate() {
            let rest = all.get(self.outputs[index].taken..).unwrap_or_default();
            self.take(index, rest);
        }
        self.finish();
    }

    /// Nobody waits for the command any more: what has come of it is written.
    pub(crate) fn give_up(&mut self) {
        if !self.finished {
            // Past what tokio knows of the pipes: it learns of what was just written later.
            self.drain(|reader, piece| Ok(rustix::io::read(reader, piece)?));
            self.finish();
            if self.overflowed {
                self.remark("more was printed than could be read");
            }
        }
    }

    fn finish(&mut self) {
        self.finished = true;
        self.pipes = None;
        for index in 0..STREAMS.len() {
            let text = self.outputs[index].text.finish(&self.secrets);
            self.show(index, &text);
        }
        let Some(log) = &mut self.log else { return };
        if self.shown > ROOM {
            let unseen = (self.shown - ROOM).min(self.tail.bytes);
            let left_out = |bytes: usize| format!("{bytes} bytes before this are left out");
            log.replace_rest(
                (&left_out(self.shown - HEAD - self.tail.bytes), &self.tail.last(self.tail.bytes)),
                (&left_out(self.shown - ROOM - unseen), &self.tail.last(unseen)),
            );
        }
    }
}

impl Drop for HookOutput {
    /// A hook that is dropped was given up.
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The last place up to `end` that is in the middle of no character.
fn boundary(text: &str, end: usize) -> usize {
    let mut end = end.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use lifecycle::{HookKey, HookKind};

    use super::{HEAD, HookOutput, OutputPipes, ROOM, Readable};
    use crate::hook_log::{HookLog, HookLogs, SecretValues, readable};

    fn secrets(values: &[&str]) -> SecretValues {
        let mut secrets = SecretValues::default();
        values.iter().for_each(|value| secrets.add(value));
        secrets
    }

    /// However a text is cut into pieces, what is shown is what the whole text shows, and never a part of a secret.
    #[test]
    fn pieces_show_what_the_whole_text_shows_wherever_it_is_cut() {
        let rows: [(&[&str], &str); 9] = [
            (&["hunter22"], "pw=hunter22; hunter2 x"),
            (&["hunter22", "hunter"], "hunter22 hunter hunte"),
            (&["sesese"], "sesesese ses"),
            (&["abcdef", "defghi"], "abcdefghi abcdef"),
            (&["two\nlines\n"], "x two\nlines y two\nlines\nz"),
            (&["größer"], "größer grö"),
            (&["aaaaab"], "aaaaaaaaab aaaa"),
            (&["secret\r\n"], "a\r\nb\rsecret\r\nc\r"),
            (&["never"], "\u{202e}\u{7}\u{1f600}end"),
        ];
        for (values, text) in rows {
            let secrets = secrets(values);
            let whole = readable(text.as_bytes(), &secrets);
            for size in 1..=text.len() {
                let mut pieces = Readable::default();
                let mut shown = String::new();
                for piece in text.as_bytes().chunks(size) {
                    shown.push_str(&pieces.feed(piece, &secrets));
                    assert!(whole.starts_with(&shown), "{text:?} by {size}: {shown:?} of {whole:?}");
                }
                shown.push_str(&pieces.finish(&secrets));
                assert_eq!(shown, whole, "{text:?} by {size}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_hold_nothing_back_for_ever() {
        let mut pieces = Readable::default();
        let none = SecretValues::default();
        assert_eq!(pieces.feed(b"a\xff\xc3", &none), "a\u{fffd}");
        assert_eq!(pieces.feed(b"\xa4b\xe2\x82", &none), "\u{e4}b");
        assert_eq!(pieces.finish(&none), "\u{fffd}");
    }

    fn log(dir: &tempfile::TempDir) -> (HookLog, std::path::PathBuf) {
        let key = HookKey { container: "c".to_owned(), attempt: 0, kind: HookKind::PostStart };
        let logs = HookLogs::new(dir.path(), "c");
        let log = logs.begin(&key).expect("opens");
        (log, logs.find(HookKind::PostStart, false).expect("there"))
    }

    /// What a hook that hangs has said so far could not be read: it was written when the hook had ended.
    #[tokio::test]
    async fn what_a_command_prints_is_in_the_log_while_it_runs() {
        let dir = tempfile::tempdir().expect("a directory");
        let (log, path) = log(&dir);
        let pipes = OutputPipes::make(&dir.path().join("pipes"), "postStart").expect("made");
        let [stdout, stderr] = pipes.names();
        let mut output = HookOutput::new(Some(log));
        output.hide(secrets(&["hunter22"]));
        let said = b"begun\nword hunter22\nhun";
        let command = async {
            let open = |path: &str| std::fs::OpenOptions::new().write(true).open(path).expect("opens");
            let (mut out, mut error) = (open(&stdout), open(&stderr));
            out.write_all(said).expect("written");
            error.write_all(b"oh\n").expect("written");
            loop {
                let text = std::fs::read_to_string(&path).expect("text");
                if text.contains("F word ****\n") && text.contains("stderr F oh\n") {
                    assert!(!text.contains("hun"), "{text}");
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        let limit = std::time::Duration::from_secs(60);
        tokio::time::timeout(limit, output.follow(Some(pipes), command)).await.expect("in time");
        let all = [said.as_slice(), b"ter22", b"22\nlast\n"].concat();
        output.complete([&all, b"oh\n"]);
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(
            text.contains(" ****22\n") && text.ends_with(" last\n"),
            "the secret came in two pieces: {text}"
        );
        assert_eq!(std::fs::read_dir(dir.path().join("pipes")).expect("there").count(), 0);
    }

    /// What a hook had printed last was lost when its time was over, or its container was killed.
    #[tokio::test]
    async fn what_a_command_had_printed_when_it_was_given_up_is_in_the_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let (log, path) = log(&dir);
        let pipes = OutputPipes::make(&dir.path().join("pipes"), "preStop").expect("made");
        let [stdout, _] = pipes.names();
        let mut output = HookOutput::new(Some(log));
        output.hide(secrets(&["hunter22"]));
        let mut writer = std::fs::OpenOptions::new().write(true).open(&stdout).expect("opens");
        let mut waits = 0;
        let command = std::future::poll_fn(|context| {
            // It is asked for the first time before anything was copied, and given up when it prints on.
            waits += 1;
            writer.write_all(if waits == 1 { b"one\nhun" } else { b"ter22\nhunt" }).expect("written");
            context.waker().wake_by_ref();
            if waits < 2 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        });
        output.follow(Some(pipes), command).await;
        drop(output);
        let text = std::fs::read_to_string(path).expect("text");
        assert!(text.contains(" one\n") && text.contains(" ****\n") && text.contains(" hunt\n"), "{text}");
        assert!(!text.contains("hunter"), "{text}");
    }

    /// The texts of a log, in order; a line that goes on is one.
    fn printed(text: &str) -> String {
        let entries = text.lines().filter_map(|line| {
            let mut parts = line.splitn(4, ' ').skip(2);
            parts.next().zip(parts.next())
        });
        entries.map(|(tag, text)| if tag == "P" { text.to_owned() } else { format!("{text}\n") }).collect()
    }

    #[test]
    fn all_of_the_log_is_written_as_it_comes_and_of_a_longer_output_beginning_and_end_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let (log, path) = log(&dir);
        let mut output = HookOutput::new(Some(log));
        let mut reader =
            crate::log_files::LogReader::open(&path, Default::default()).expect("opens").of_one_file();
        let mut follow = || {
            let mut all = Vec::new();
            loop {
                let more = reader.read_more().expect("readable");
                if more.is_empty() {
                    return String::from_utf8(all).expect("text");
                }
                all.extend(more);
            }
        };
        let line = format!("{}\n", "x".repeat(99));
        let mut all = Vec::new();
        for _ in 0..ROOM / 100 {
            output.take(0, line.as_bytes());
            all.extend_from_slice(line.as_bytes());
        }
        let text = std::fs::read_to_string(&path).expect("text");
        assert_eq!(printed(&text).len(), all.len(), "while it runs");
        let mut followed = follow();
        output.take(1, "ä\n".repeat(ROOM).as_bytes());
        output.complete([&[&all[..], b"the end\n"].concat(), "ä\n".repeat(ROOM).as_bytes()]);
        output.remark("done");
        let text = std::fs::read_to_string(&path).expect("text");
        let shown = printed(&text);
        assert!(shown.starts_with(&line.repeat(HEAD / 100)), "{}", &shown[..200]);
        assert!(
            shown.contains(" bytes before this are left out]\n") && shown.ends_with("ä\nthe end\n[done]\n")
        );
        assert!((ROOM - 10..ROOM + 100).contains(&shown.len()), "{}", shown.len());
        followed.push_str(&follow());
        assert!(followed.starts_with(&line.repeat(ROOM / 100)) && followed.ends_with("the end\n[done]\n"));
        assert_eq!(std::fs::read_dir(path.parent().expect("a directory")).expect("there").count(), 1);
    }
}
