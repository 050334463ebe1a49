//! The log of a container's hooks: what each printed and how it ended, apart from the container's own log and kept when the
//! container is gone. One file for each hook of an instance, in the format of container logs.
//!
//! What a hook prints is hostile: it is cut, control characters are written out, and secrets of the container are hidden.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use lifecycle::{HookKey, HookKind};

use crate::environment_record::RecordedVariable;

/// A file that is longer begins anew: deliveries that were cut off do not add up without end.
const LONGEST_FILE: u64 = 4 * api::limits::HOOK_OUTPUT as u64;

/// The shortest value of a Secret that is hidden: shorter ones are everywhere.
const SHORTEST_SECRET: usize = 6;

/// How a hidden value is shown.
const MASK: &str = "****";

/// Values that must not be shown.
#[derive(Clone, Default)]
pub(crate) struct SecretValues(BTreeSet<String>);

impl std::fmt::Debug for SecretValues {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secret values", self.0.len())
    }
}

impl SecretValues {
    /// Those of a container's variables.
    pub(crate) fn of(variables: &[RecordedVariable]) -> SecretValues {
        let mut values = SecretValues::default();
        for variable in variables.iter().filter(|variable| variable.secret) {
            values.add(&variable.value);
        }
        values
    }

    /// Adds a value; also without the blanks around it, as shells print it.
    pub(crate) fn add(&mut self, value: &str) {
        for value in [value, value.trim()] {
            if value.len() >= SHORTEST_SECRET {
                self.0.insert(value.to_owned());
            }
        }
    }

    /// Where the values stand in a text, in order.
    fn found(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for value in &self.0 {
            // Overlapping occurrences of one value count too: the search goes on one character later.
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| rest.find(value.as_str())) {
                let begin = from + at;
                found.push((begin, begin + value.len()));
                from = begin + text[begin..].chars().next().map_or(1, char::len_utf8);
            }
        }
        found.sort_unstable();
        found
    }

    /// How much of a text that goes on can be shown: up to what may be the beginning of a value, and never a part of one.
    pub(crate) fn certain(&self, text: &str) -> usize {
        let begun = self.0.iter().map(|value| longest_begin_at_end(text, value)).max().unwrap_or(0);
        self.certain_before(text, text.len() - begun)
    }

    /// The last place up to `end` that is in the middle of no value.
    pub(crate) fn certain_before(&self, text: &str, mut end: usize) -> usize {
        // Later ones first: one that is cut moves the place back, perhaps into an earlier one.
        let found = self.found(text);
        while let Some((begin, _)) = found.iter().find(|(begin, stop)| *begin < end && end < *stop) {
            end = *begin;
        }
        end
    }

    /// The text with every one of the values hidden, overlapping ones together.
    pub(crate) fn hide(&self, text: &str) -> String {
        let found = self.found(text);
        let mut hidden = String::with_capacity(text.len());
        let mut done = 0;
        for (begin, end) in found {
            if begin >= done {
                hidden.push_str(&text[done..begin]);
                hidden.push_str(MASK);
            }
            done = done.max(end);
        }
        hidden.push_str(&text[done..]);
        hidden
    }
}

/// How many bytes at the end of a text are the beginning, and not all, of a value: the most that it can be. Linear (the
/// function of Knuth, Morris and Pratt), for a text and a value are whatever somebody wrote.
fn longest_begin_at_end(text: &str, value: &str) -> usize {
    let value = value.as_bytes();
    let mut borders = vec![0_usize; value.len()];
    let step = |borders: &[usize], mut matched: usize, byte: u8| {
        while matched > 0 && (matched == value.len() || value[matched] != byte) {
            matched = borders[matched - 1];
        }
        matched + usize::from(value[matched] == byte)
    };
    for place in 1..value.len() {
        borders[place] = step(&borders[..place], borders[place - 1], value[place]);
    }
    let last = &text.as_bytes()[text.len().saturating_sub(value.len() - 1)..];
    last.iter().fold(0, |matched, byte| step(&borders, matched, *byte))
}

/// What a hook printed, as it may be shown: secrets hidden, control characters written out.
pub(crate) fn readable(raw: &[u8], secrets: &SecretValues) -> String {
    escape(&secrets.hide(&String::from_utf8_lossy(raw)))
}

/// A text without control characters.
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => shown.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => shown.extend(character.escape_unicode()),
            other if other.is_control() => shown.extend(other.escape_unicode()),
            other => shown.push(other),
        }
    }
    shown
}

/// The end of a text, at most that many bytes, and how many were left out before it.
pub(crate) fn last_bytes(text: &str, limit: usize) -> (&str, usize) {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    (&text[start..], start)
}

/// Where hooks of one container of a pod are logged.
#[derive(Clone, Debug)]
pub(crate) struct HookLogs {
    dir: PathBuf,
}

impl HookLogs {
    /// Below the pod's directory of logs.
    pub(crate) fn new(pod_logs: &Path, container: &str) -> Self {
        Self { dir: pod_logs.join(container).join("hooks") }
    }

    fn path(&self, kind: HookKind, attempt: u32) -> PathBuf {
        self.dir.join(format!("{}-{attempt}.log", kind.as_str()))
    }

    /// Instances that have a log of that hook, oldest first.
    fn attempts(&self, kind: HookKind) -> Vec<u32> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut attempts: Vec<u32> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                name.strip_prefix(kind.as_str())?.strip_prefix('-')?.strip_suffix(".log")?.parse().ok()
            })
            .collect();
        attempts.sort_unstable();
        attempts
    }

    /// The log of the latest instance that had the hook, or of the one before.
    pub(crate) fn find(&self, kind: HookKind, previous: bool) -> Option<PathBuf> {
        let attempts = self.attempts(kind);
        let attempt = attempts.iter().rev().nth(usize::from(previous))?;
        Some(self.path(kind, *attempt))
    }

    /// Opens the log of a hook that begins. Only the latest two instances are kept.
    pub(crate) fn begin(&self, key: &HookKey) -> io::Result<HookLog> {
        crate::files::create_dirs(&self.dir)?;
        let kept_from = key.attempt.saturating_sub(1);
        for attempt in self.attempts(key.kind).into_iter().filter(|attempt| *attempt < kept_from) {
            // What stays is removed the next time.
            let _ = std::fs::remove_file(self.path(key.kind, attempt));
        }
        let path = self.path(key.kind, key.attempt);
        let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        if file.metadata()?.len() > LONGEST_FILE {
            file.set_len(0)?;
        }
        Ok(HookLog { file, path, open: None, kept: None, replaced: None })
    }
}

/// The log of one hook, open for writing.
#[derive(Debug)]
pub(crate) struct HookLog {
    file: std::fs::File,
    path: PathBuf,
    /// The output whose last line goes on.
    open: Option<&'static str>,
    /// Where what is kept in any case ends, and the output whose line goes on there.
    kept: Option<(u64, Option<&'static str>)>,
    /// The file that this one took the name of: those who follow the log read on in it.
    replaced: Option<std::fs::File>,
}

impl HookLog {
    /// A line of the node's own about the hook.
    pub(crate) fn remark(&mut self, text: &str) {
        self.end_line_of_others("");
        self.write("stdout", &format!("[{text}]\n"));
    }

    /// What the hook printed on both outputs, as far as it was not written: the end of it, at most so many bytes.
    pub(crate) fn output(&mut self, stdout: &str, stderr: &str, limit: usize) {
        let for_stderr = stderr.len().min((limit / 2).max(limit.saturating_sub(stdout.len())));
        for (stream, text, limit) in [("stdout", stdout, limit - for_stderr), ("stderr", stderr, for_stderr)]
        {
            let (shown, left_out) = last_bytes(text, limit);
            if left_out > 0 {
                self.remark(&format!("{left_out} bytes of {stream} before this are left out"));
            }
            self.write(stream, shown);
        }
    }

    /// What the hook prints just now; its last line may go on.
    pub(crate) fn output_goes_on(&mut self, stream: &'static str, text: &str) {
        match text.rsplit_once('\n') {
            _ if text.is_empty() => {}
            Some((_, "")) => self.write(stream, text),
            Some((lines, begun)) => {
                self.write(stream, lines);
                self.begin_line(stream, begun);
            }
            None => self.begin_line(stream, text),
        }
    }

    /// What is in the log now stays, whatever comes. The first call counts.
    pub(crate) fn keep_what_is_there(&mut self) {
        if self.kept.is_none() {
            let length = self.file.metadata().map(|file| file.len()).unwrap_or_default();
            self.kept = Some((length, self.open));
        }
    }

    /// Puts a remark and the end of the output in the place of what is not kept. Whoever follows the log has read that
    /// already, and gets `unread` instead: a remark and what is new to him.
    pub(crate) fn replace_rest(
        &mut self,
        end: (&str, &[(&'static str, &str)]),
        unread: (&str, &[(&'static str, &str)]),
    ) {
        let Some((length, open)) = self.kept else { return };
        let (remark, pieces) = unread;
        self.remark(remark);
        pieces.iter().for_each(|(stream, text)| self.output_goes_on(stream, text));
        let (remark, pieces) = end;
        match self.copy_of_beginning(length) {
            Ok(file) => {
                let old = std::mem::replace(&mut self.file, file);
                self.open = open;
                self.remark(remark);
                pieces.iter().for_each(|(stream, text)| self.output_goes_on(stream, text));
                self.replaced = Some(old);
            }
            // A full disk: the log has all that came while there was room.
            Err(error) => tracing::debug!(%error, "the log of a hook is longer than it is to be"),
        }
    }

    /// A file of the first so many bytes, under the name of this one.
    fn copy_of_beginning(&self, length: u64) -> io::Result<std::fs::File> {
        use std::io::Read as _;
        let new = self.path.with_extension("new");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&new)?;
        file.set_len(0)?;
        let copied = io::copy(&mut std::fs::File::open(&self.path)?.take(length), &mut file);
        copied
            .and_then(|_| std::fs::rename(&new, &self.path))
            .inspect_err(|_| drop(std::fs::remove_file(&new)))?;
        Ok(file)
    }

    fn begin_line(&mut self, stream: &'static str, text: &str) {
        self.end_line_of_others(stream);
        self.append(&format!("{:.9} {stream} P {text}\n", Timestamp::now()));
        self.open = Some(stream);
    }

    /// A line of one output is not continued by another one's.
    fn end_line_of_others(&mut self, stream: &str) {
        if let Some(other) = self.open.take_if(|open| *open != stream) {
            self.append(&format!("{:.9} {other} F \n", Timestamp::now()));
        }
    }

    fn write(&mut self, stream: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        self.end_line_of_others(stream);
        self.open = None;
        let time = Timestamp::now();
        let lines: String = text.lines().map(|line| format!("{time:.9} {stream} F {line}\n")).collect();
        self.append(&lines);
    }

    fn append(&mut self, lines: &str) {
        if let Some(old) = &mut self.replaced {
            // Who reads on in it misses the end at most.
            let _ = old.write_all(lines.as_bytes());
        }
        if let Err(error) = self.file.write_all(lines.as_bytes()) {
            // A full disk costs what a hook said, never the pod.
            tracing::debug!(%error, "the log of a hook cannot be written");
        }
    }
}

/// Hooks that run on this node, for those who follow their logs.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningHooks(Arc<Mutex<BTreeSet<(String, HookKey)>>>);

impl RunningHooks {
    /// Notes that a hook of the pod with that UID runs, as long as the answer lives.
    pub(crate) fn enter(&self, uid: &str, key: &HookKey) -> RunningHook {
        let entry = (uid.to_owned(), key.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(entry.clone());
        RunningHook { all: self.clone(), entry }
    }

    /// Whether such a hook of any instance runs.
    pub(crate) fn contains(&self, uid: &str, container: &str, kind: HookKind) -> bool {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().any(|(pod, key)| pod == uid && key.container == container && key.kind == kind)
    }
}

/// A hook that runs.
#[derive(Debug)]
pub(crate) struct RunningHook {
    all: RunningHooks,
    entry: (String, HookKey),
}

impl Drop for RunningHook {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::{HookLogs, SecretValues, last_bytes, readable};
    use lifecycle::{HookKey, HookKind};

    fn secrets(values: &[&str]) -> SecretValues {
        let mut secrets = SecretValues::default();
        values.iter().for_each(|value| secrets.add(value));
        secrets
    }

    #[test]
    fn secrets_of_six_bytes_and_more_are_hidden_wherever_they_stand() {
        let rows: [(&[&str], &str, &str); 8] = [
            (&["hunter22"], "pw=hunter22;", "pw=****;"),
            (&["hunter22", "hunter"], "hunter22 hunter", "**** ****"),
            (&["short"], "short", "short"),
            (&["sesame"], "sesamesame", "****same"),
            (&["sesese"], "sesesese", "****"),
            (&["abcdef", "defghi"], "abcdefghi", "****"),
            (&["two\nlines\n"], "x two\nlines y", "x **** y"),
            (&["größer"], "größer", "****"),
        ];
        for (values, text, expected) in rows {
            assert_eq!(secrets(values).hide(text), expected, "{values:?}");
        }
        assert_eq!(format!("{:?}", secrets(&["hunter22"])), "1 secret values");
    }

    #[test]
    fn what_a_hook_prints_cannot_move_a_terminal() {
        let raw = b"a\tb\r\n\x1b[2J\x07\xff\xe2\x80\xae\n";
        assert_eq!(readable(raw, &SecretValues::default()), "a\tb\n\\u{1b}[2J\\u{7}\u{fffd}\\u{202e}\n");
    }

    #[test]
    fn the_end_of_a_text_is_cut_between_characters() {
        assert_eq!(last_bytes("abc", 9), ("abc", 0));
        assert_eq!(last_bytes("abc", 2), ("bc", 1));
        assert_eq!(last_bytes("aä", 1), ("", 3));
    }

    #[test]
    fn the_log_keeps_the_end_of_a_long_output_and_two_instances() {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = HookLogs::new(dir.path(), "c");
        for attempt in 0..4 {
            let key = HookKey { container: "c".to_owned(), attempt, kind: HookKind::PostStart };
            let mut log = logs.begin(&key).expect("opens");
            let printed = format!("{}end", "x\n".repeat(100_000));
            log.output(&printed, &"e".repeat(100_000), api::limits::HOOK_OUTPUT);
            log.remark("done");
        }
        assert_eq!(logs.attempts(HookKind::PostStart), [2, 3]);
        assert_eq!(logs.find(HookKind::PreStop, false), None);
        let path = logs.find(HookKind::PostStart, false).expect("there");
        assert!(path.ends_with("c/hooks/postStart-3.log"), "{path:?}");
        assert!(logs.find(HookKind::PostStart, true).expect("there").ends_with("c/hooks/postStart-2.log"));
        let text = std::fs::read_to_string(path).expect("text");
        assert!(text.contains(" stdout F end\n") && text.ends_with(" stdout F [done]\n"));
        assert!(text.contains("bytes of stdout before this are left out"));
        let printed = text.matches("F x\n").count() * 2 + text.matches('e').count();
        assert!(printed <= api::limits::HOOK_OUTPUT + 200, "{printed}");
    }
}
