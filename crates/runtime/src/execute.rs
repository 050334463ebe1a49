//! Commands in running containers, and the streams of containers: descriptors on one side, the shim on the other.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cri::v1::ExecSyncResponse;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use crate::call_error::CallError;
use crate::containers::{link_of, unexpected};
use crate::launch::Variable;
use crate::protocol::{Call, ExecuteCall, InitMessage, Reply};
use crate::runtime::Runtime;
use crate::sandbox::lock;
use crate::shim_link::ShimLink;
use crate::wire::{FrameReader, Inflow};

/// More output of a command than this is read and thrown away.
const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;

/// How long output is read after the command ended: a process that it left behind may hold the pipe open for ever.
const DRAIN_DEADLINE: Duration = Duration::from_secs(1);

/// A command that runs in a container. Dropping it does not end the command.
pub(crate) struct Execution {
    pub(crate) number: u64,
    pub(crate) link: ShimLink,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    /// The controlling end of its terminal, in place of the three streams.
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) ended: oneshot::Receiver<i32>,
}

/// Which streams of a command are wanted; the others are the null device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Streams {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) terminal: bool,
}

/// What one end of a container's own streams looks like to a client.
pub(crate) struct Attachment {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    /// The container has a terminal, and this is its controlling end (for its size; also the input).
    pub(crate) terminal: Option<OwnedFd>,
}

impl Runtime {
    /// Begins a command in a running container.
    pub(crate) async fn begin_execution(
        &self,
        container_id: &str,
        args: Vec<String>,
        environment: Vec<Variable>,
        streams: Streams,
    ) -> Result<Execution, CallError> {
        if args.is_empty() {
            return Err(CallError::Missing { field: "cmd" });
        }
        let container = self.state.container(container_id)?;
        let sandbox = self.state.sandbox(&container.record.sandbox)?;
        let link = link_of(&sandbox)?;
        let number: u64 = rand::random();
        let (mut stdin, mut stdout, mut stderr) = (None, None, None);
        let mut console = None;
        let descriptors = if streams.terminal {
            let (own, far) = UnixStream::pair().map_err(CallError::Pipe)?;
            console = Some(own);
            vec![OwnedFd::from(far)]
        } else {
            let input = if streams.stdin {
                let (end, own) = new_pipe()?;
                stdin = Some(own);
                end
            } else {
                null()?
            };
            let output = if streams.stdout {
                let (own, end) = new_pipe()?;
                stdout = Some(own);
                end
            } else {
                null()?
            };
            let error = if streams.stderr {
                let (own, end) = new_pipe()?;
                stderr = Some(own);
                end
            } else {
                null()?
            };
            vec![input, output, error]
        };
        let ended = self.state.expect_execution(number, &container.record.sandbox);
        let call = Call::Execute(ExecuteCall {
            container: container.record.id.clone(),
            execution: number,
            args,
            environment,
            terminal: streams.terminal,
        });
        fault::point("exec.asked");
        let reply = link.call_with(call, descriptors).await;
        fault::point("exec.begun");
        let begun = match reply {
            Ok((Reply::Done, _)) => Ok(()),
            Ok((reply, _)) => Err(unexpected(reply, &container.record.id, CallError::Execute)),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = begun {
            self.state.forget_execution(number);
            return Err(error);
        }
        let terminal = match console {
            // Sent before the command began, so it is there.
            Some(console) => Some(receive_terminal(&console)?),
            None => None,
        };
        Ok(Execution { number, link, stdin, stdout, stderr, terminal, ended })
    }

    /// Executes a command and answers what it wrote; kills it when `timeout` passes. What it writes is copied to `copies` as
    /// it comes.
    pub(crate) async fn execute_and_wait(
        &self,
        container_id: &str,
        args: Vec<String>,
        environment: Vec<Variable>,
        timeout: Option<Duration>,
        copies: Copies,
    ) -> Result<ExecSyncResponse, CallError> {
        let streams = Streams { stdin: false, stdout: true, stderr: true, terminal: false };
        let _attended = self.state.container(container_id)?.attend_command();
        let Execution { number, link, stdout, stderr, ended, .. } =
            self.begin_execution(container_id, args, environment, streams).await?;
        let (stdout, stderr) = (collect(stdout, copies.stdout), collect(stderr, copies.stderr));
        let exit_code = match timeout {
            None => ended.await.ok(),
            Some(timeout) => match tokio::time::timeout(timeout, ended).await {
                Ok(exit_code) => exit_code.ok(),
                Err(_) => {
                    let _ = link.call(Call::KillExecuted { execution: number }).await;
                    self.state.forget_execution(number);
                    return Err(CallError::Deadline { what: "the command", seconds: timeout.as_secs() });
                }
            },
        };
        let exit_code = exit_code
            .ok_or_else(|| CallError::Execute("the pod's shim ended before the command did".to_owned()))?;
        Ok(ExecSyncResponse { stdout: stdout.finish().await, stderr: stderr.finish().await, exit_code })
    }

    /// Joins the streams of a container's own process.
    pub(crate) async fn attach_to(
        &self,
        container_id: &str,
        streams: Streams,
    ) -> Result<Attachment, CallError> {
        let container = self.state.container(container_id)?;
        let sandbox = self.state.sandbox(&container.record.sandbox)?;
        let link = link_of(&sandbox)?;
        let terminal = container.config.tty;
        let (mut stdout, mut stderr) = (None, None);
        let mut descriptors = Vec::new();
        if streams.stdout {
            let (own, end) = new_pipe()?;
            stdout = Some(own);
            descriptors.push(end);
        }
        let wants_error = streams.stderr && !terminal;
        if wants_error {
            let (own, end) = new_pipe()?;
            stderr = Some(own);
            descriptors.push(end);
        }
        let call = Call::Attach {
            container: container.record.id.clone(),
            // The terminal is needed for its size even when nothing is typed.
            stdin: streams.stdin || terminal,
            stdout: streams.stdout,
            stderr: wants_error,
        };
        let input = match link.call_with(call, descriptors).await? {
            (Reply::Done, _) => None,
            (Reply::DoneWithDescriptors, descriptors) => descriptors.into_iter().next(),
            (reply, _) => return Err(unexpected(reply, &container.record.id, CallError::Execute)),
        };
        let (stdin, terminal) = if terminal {
            let copy = input.as_ref().and_then(|input| input.try_clone().ok()).filter(|_| streams.stdin);
            (copy, input)
        } else {
            (input, None)
        };
        Ok(Attachment { stdin, stdout, stderr, terminal })
    }
}

fn new_pipe() -> Result<(OwnedFd, OwnedFd), CallError> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| CallError::Pipe(error.into()))
}

fn null() -> Result<OwnedFd, CallError> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())
        .map_err(|error| CallError::Pipe(error.into()))
}

fn receive_terminal(console: &UnixStream) -> Result<OwnedFd, CallError> {
    let mut frames = FrameReader::default();
    loop {
        match frames.receive(console).map_err(CallError::Pipe)? {
            Inflow::Arrived => {}
            Inflow::Nothing | Inflow::Closed => {
                return Err(CallError::Execute("the terminal did not arrive".to_owned()));
            }
        }
        if frames.next::<InitMessage>().map_err(CallError::Pipe)?.is_some() {
            return frames
                .take_descriptor()
                .ok_or_else(|| CallError::Execute("the terminal did not arrive".to_owned()));
        }
    }
}

/// Where outputs of a command are copied to as they come.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

impl Copies {
    /// To the pipes of these names. What is no pipe, or has no reader, is left alone.
    pub(crate) fn to(stdout: &str, stderr: &str) -> Self {
        Self { stdout: open_pipe(stdout), stderr: open_pipe(stderr) }
    }
}

fn open_pipe(path: &str) -> Option<OwnedFd> {
    use rustix::fs::{FileType, Mode, OFlags};
    if path.is_empty() {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pipe = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&pipe).ok()?.st_mode);
    (kind == FileType::Fifo).then_some(pipe)
}

/// Copies a piece. The first that does not fit is the last: what the reader has is then still the beginning of it all.
fn copy_on(copy: &mut Option<OwnedFd>, piece: &[u8]) {
    if let Some(pipe) = copy
        && !rustix::io::write(pipe, piece).is_ok_and(|count| count == piece.len())
    {
        *copy = None;
    }
}

/// Output that is being read, and the task that reads it.
struct Collecting {
    collected: Arc<Mutex<Vec<u8>>>,
    reader: tokio::task::JoinHandle<()>,
}

/// Reads to the end; what exceeds the limit is dropped, so that the writer is never stuck.
fn collect(source: Option<OwnedFd>, mut copy: Option<OwnedFd>) -> Collecting {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&collected);
    let reader = tokio::spawn(async move {
        let Some(Ok(mut source)) = source.map(pipe::Receiver::from_owned_fd) else { return };
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match source.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    copy_on(&mut copy, &chunk[..count]);
                    let mut kept = lock(&kept);
                    let room = MAX_OUTPUT_BYTES.saturating_sub(kept.len()).min(count);
                    kept.extend_from_slice(&chunk[..room]);
                }
            }
        }
    });
    Collecting { collected, reader }
}

impl Collecting {
    /// The command ended: what it wrote.
    async fn finish(mut self) -> Vec<u8> {
        let _ = tokio::time::timeout(DRAIN_DEADLINE, &mut self.reader).await;
        self.reader.abort();
        std::mem::take(&mut *lock(&self.collected))
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::{copy_on, open_pipe};
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

    #[test]
    fn output_is_copied_to_pipes_with_a_reader_and_to_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, file) = (dir.path().join("pipe"), dir.path().join("file"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::fs::write(&file, "kept").unwrap();
        assert!(open_pipe(pipe.to_str().unwrap()).is_none(), "nobody reads");
        let reader = rustix::fs::open(&pipe, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).unwrap();
        let mut copy = open_pipe(pipe.to_str().unwrap());
        assert!(copy.is_some());
        assert!(open_pipe(file.to_str().unwrap()).is_none());
        assert!(open_pipe("").is_none());
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
        // What does not fit ends the copy: the reader has a beginning of everything, never a gap.
        let piece = [b'x'; 40 * 1024];
        copy_on(&mut copy, &piece);
        copy_on(&mut copy, &piece);
        assert!(copy.is_none());
        let mut read = vec![0; 200 * 1024];
        assert!(rustix::io::read(&reader, &mut read).unwrap() >= piece.len());
    }
}
