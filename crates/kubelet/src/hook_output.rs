//! What a hook's command prints, written to its log while it runs: a hook that hangs can be read.
//!
//! The runtime copies both outputs into two pipes as they come ([`OutputPipes`]); a runtime that does not know of them leaves
//! them empty, and everything is written at the end. The first half of what the log may hold is written as it comes, the other
//! half is the end of the output, when it is known.
//!
//! A secret is hidden also when it arrives in pieces: an end that may be the beginning of one is held back ([`Readable`]).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::hook_log::{HookLog, SecretValues, escape};

/// Bytes that are written as they come, of both outputs together.
const AS_IT_COMES: usize = api::limits::HOOK_OUTPUT / 2;

/// How long a pipe fills before it is read again: what a hook prints byte by byte is not worked on byte by byte.
const PAUSE: Duration = Duration::from_millis(100);

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
            pipe::OpenOptions::new().read_write(true).open_receiver(path)
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
    /// What could be shown and had no room.
    rest: String,
}

/// Both outputs of a command on their way into the log.
#[derive(Debug)]
pub(crate) struct LiveOutput<'s> {
    secrets: &'s SecretValues,
    outputs: [Output; 2],
    room: usize,
}

impl<'s> LiveOutput<'s> {
    /// Nothing has come yet.
    pub(crate) fn new(secrets: &'s SecretValues) -> Self {
        Self { secrets, outputs: Default::default(), room: AS_IT_COMES }
    }

    /// Writes what comes through the pipes, until `ended`, whose answer is the answer.
    pub(crate) async fn follow<T>(
        &mut self,
        pipes: Option<&mut OutputPipes>,
        log: &mut Option<HookLog>,
        ended: impl Future<Output = T>,
    ) -> T {
        let copy = async {
            if let (Some(pipes), Some(log)) = (pipes, log.as_mut()) {
                self.copy(pipes, log).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            answer = ended => answer,
            () = copy => unreachable!("copying waits for the end of the command"),
        }
    }

    async fn copy(&mut self, pipes: &mut OutputPipes, log: &mut HookLog) {
        let [stdout, stderr] = &mut pipes.readers;
        let mut pieces = [vec![0; AS_IT_COMES], vec![0; AS_IT_COMES]];
        while self.room > 0 {
            let [first, second] = &mut pieces;
            let (index, count) = tokio::select! {
                count = stdout.read(first) => (0, count),
                count = stderr.read(second) => (1, count),
            };
            let Ok(count) = count else { return };
            self.take(index, &pieces[index][..count], log);
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn take(&mut self, index: usize, piece: &[u8], log: &mut HookLog) {
        let output = &mut self.outputs[index];
        output.taken += piece.len();
        let mut text = output.text.feed(piece, self.secrets);
        if text.len() > self.room {
            let mut end = self.room;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            output.rest = text.split_off(end);
            self.room = 0;
        } else {
            self.room -= text.len();
        }
        log.output_goes_on(STREAMS[index], &text);
    }

    /// The command has ended, and this is all that it printed: what was not written yet, and how many bytes of it may be.
    pub(crate) fn finish(mut self, all: [&[u8]; 2]) -> ([String; 2], usize) {
        let mut finished = [0, 1].into_iter().map(|index| {
            let output = &mut self.outputs[index];
            let mut rest = std::mem::take(&mut output.rest);
            rest.push_str(
                &output.text.feed(all[index].get(output.taken..).unwrap_or_default(), self.secrets),
            );
            rest.push_str(&output.text.finish(self.secrets));
            rest
        });
        let rest = [finished.next().unwrap_or_default(), finished.next().unwrap_or_default()];
        (rest, api::limits::HOOK_OUTPUT - AS_IT_COMES + self.room)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use lifecycle::{HookKey, HookKind};

    use super::{AS_IT_COMES, LiveOutput, OutputPipes, Readable};
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
        let secrets = secrets(&["hunter22"]);
        let mut pipes = OutputPipes::make(&dir.path().join("pipes"), "postStart").expect("made");
        let [stdout, stderr] = pipes.names();
        let mut live = LiveOutput::new(&secrets);
        let mut log = Some(log);
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
        tokio::time::timeout(limit, live.follow(Some(&mut pipes), &mut log, command)).await.expect("in time");
        let all = [said.as_slice(), b"ter22", b"22\nlast\n"].concat();
        let (rest, _) = live.finish([&all, b"oh\n"]);
        assert_eq!(rest, ["****22\nlast\n".to_owned(), String::new()], "the secret came in two pieces");
        drop(pipes);
        assert_eq!(std::fs::read_dir(dir.path().join("pipes")).expect("there").count(), 0);
    }

    #[test]
    fn only_half_of_the_log_is_written_as_it_comes_and_the_end_has_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut log, path) = log(&dir);
        let secrets = SecretValues::default();
        let mut live = LiveOutput::new(&secrets);
        let piece = vec![b'x'; AS_IT_COMES - 10];
        live.take(0, &piece, &mut log);
        live.take(0, &piece, &mut log);
        assert_eq!(live.room, 0);
        let all = [piece.clone(), piece, b"the end\n".to_vec()].concat();
        let ([rest, _], room) = live.finish([&all, b""]);
        assert_eq!(rest.len(), all.len() - AS_IT_COMES);
        log.output(&rest, "", room);
        log.remark("done");
        let text = std::fs::read_to_string(path).expect("text");
        assert_eq!(text.matches('x').count() + "the end\n".len(), all.len());
        assert!(text.contains("the end\n") && text.ends_with("F [done]\n"), "{}", text.len());
    }
}
