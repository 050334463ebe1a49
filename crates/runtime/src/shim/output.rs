//! What a container writes: read without waiting, logged, and copied to whoever attached.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::log_file::{LineBuffer, LogFile, Stream, now};

/// One turn of the loop reads no more than this from one stream, so that others get theirs.
const MAX_TURN_BYTES: usize = 512 * 1024;

/// A client that is this far behind is let go: it must never slow the container down.
const MAX_BACKLOG_BYTES: usize = 1024 * 1024;

/// A client that gets a copy of an output.
#[derive(Debug)]
pub(super) struct Listener {
    descriptor: OwnedFd,
    backlog: VecDeque<u8>,
}

impl Listener {
    pub(super) fn new(descriptor: OwnedFd) -> Result<Self, Errno> {
        set_nonblocking(&descriptor)?;
        Ok(Self { descriptor, backlog: VecDeque::new() })
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Takes over more output; false when the client is gone or too far behind.
    fn offer(&mut self, chunk: &[u8]) -> bool {
        self.backlog.extend(chunk);
        self.flush() && self.backlog.len() <= MAX_BACKLOG_BYTES
    }

    /// Writes what the client takes; false when it is gone.
    pub(super) fn flush(&mut self) -> bool {
        while !self.backlog.is_empty() {
            let (front, _) = self.backlog.as_slices();
            match rustix::io::write(&self.descriptor, front) {
                Ok(count) => drop(self.backlog.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

/// One output of a container.
#[derive(Debug)]
pub(super) struct Output {
    stream: Stream,
    source: OwnedFd,
    lines: LineBuffer,
    pub(super) listeners: Vec<Listener>,
}

/// Whether an output can still bring something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputState {
    Open,
    Ended,
}

impl Output {
    pub(super) fn new(stream: Stream, source: OwnedFd) -> Result<Self, Errno> {
        set_nonblocking(&source)?;
        Ok(Self { stream, source, lines: LineBuffer::default(), listeners: Vec::new() })
    }

    pub(super) fn source(&self) -> &OwnedFd {
        &self.source
    }

    pub(super) fn stream(&self) -> Stream {
        self.stream
    }

    /// Reads what is there, logs it and passes it on.
    pub(super) fn pump(&mut self, log: Option<&mut LogFile>, buffer: &mut [u8]) -> OutputState {
        let mut records = Vec::new();
        let mut total = 0;
        let state = loop {
            match rustix::io::read(&self.source, &mut *buffer) {
                Ok(0) => break OutputState::Ended,
                Ok(count) => {
                    let chunk = &buffer[..count];
                    if log.is_some() {
                        self.lines.feed(self.stream, chunk, &now(), &mut records);
                    }
                    self.listeners.retain_mut(|listener| listener.offer(chunk));
                    total += count;
                    if total >= MAX_TURN_BYTES {
                        break OutputState::Open;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break OutputState::Open,
                // A terminal whose other end is closed answers with an error.
                Err(_) => break OutputState::Ended,
            }
        };
        if let Some(log) = log {
            if state == OutputState::Ended {
                self.lines.finish(self.stream, &now(), &mut records);
            }
            if !records.is_empty() {
                log.write(&records);
            }
        }
        state
    }

    /// The container ended: reads the rest, without waiting for a process that holds the other end open.
    pub(super) fn drain(mut self, mut log: Option<&mut LogFile>, buffer: &mut [u8]) {
        for _ in 0..1024 {
            let before_end = rustix::event::poll(
                &mut [rustix::event::PollFd::new(&self.source, rustix::event::PollFlags::IN)],
                Some(&rustix::event::Timespec::default()),
            );
            if !matches!(before_end, Ok(count) if count > 0) {
                break;
            }
            if self.pump(log.as_deref_mut(), buffer) == OutputState::Ended {
                return;
            }
        }
        if let Some(log) = log {
            let mut records = Vec::new();
            self.lines.finish(self.stream, &now(), &mut records);
            if !records.is_empty() {
                log.write(&records);
            }
        }
    }
}

pub(super) fn set_nonblocking(descriptor: impl AsFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(&descriptor)?;
    rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::launch::LogSpec;

    #[test]
    fn output_is_logged_and_copied_and_a_slow_client_is_let_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let mut log =
            LogFile::open(LogSpec { path: path.clone(), max_bytes: u64::MAX, max_files: 1 }).unwrap();
        let (source, writer) = rustix::pipe::pipe().unwrap();
        let (client, listening) = rustix::pipe::pipe().unwrap();
        let (_stuck, never_read) = rustix::pipe::pipe().unwrap();
        let mut output = Output::new(Stream::Error, source).unwrap();
        output.listeners.push(Listener::new(listening).unwrap());
        let mut buffer = vec![0; 32 * 1024];

        rustix::io::write(&writer, b"hello\nrest").unwrap();
        assert_eq!(output.pump(Some(&mut log), &mut buffer), OutputState::Open);
        output.listeners.push(Listener::new(never_read).unwrap());
        let mut sent = 0;
        while output.listeners.len() == 2 {
            sent += rustix::io::write(&writer, &[b'x'; 4096]).unwrap();
            output.listeners[0].backlog.clear();
            output.pump(Some(&mut log), &mut buffer);
            assert!(sent < 4 * MAX_BACKLOG_BYTES, "the slow client was never let go");
            // The first client reads along.
            let mut sink = [0; 8192];
            let _ = rustix::io::read(&client, &mut sink);
        }
        drop(writer);
        output.drain(Some(&mut log), &mut buffer);
        let mut text = String::new();
        std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.ends_with(" stderr F hello"), "{first}");
        assert!(text.ends_with('\n'));
    }
}
