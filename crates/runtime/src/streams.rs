//! What the streaming server carries: commands, containers' own streams, and ports of pods.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Weak};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use network::ConnectInsideError;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::container::Phase;
use crate::execute::Streams;
use crate::runtime::{Runtime, RuntimeState};
use crate::sandbox::{Sandbox, Standing};
use crate::streaming::{
    ExecIo, PortIo, ProcessEnd, StartStreamError, StreamSource, TerminalSize, WantedStreams,
};

/// The runtime as the streaming server sees it; does not keep it alive.
pub(crate) struct PodStreams {
    state: Weak<RuntimeState>,
}

impl PodStreams {
    pub(crate) fn of(state: &Arc<RuntimeState>) -> Self {
        Self { state: Arc::downgrade(state) }
    }

    fn runtime(&self) -> Result<Runtime, StartStreamError> {
        let state = self.state.upgrade().ok_or_else(|| failed("the runtime is ending"))?;
        Ok(Runtime { state })
    }
}

fn failed(error: impl ToString) -> StartStreamError {
    StartStreamError { message: error.to_string() }
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

impl StreamSource for PodStreams {
    fn execute(
        &self,
        container: &str,
        command: &[String],
        streams: WantedStreams,
    ) -> BoxFuture<'static, Result<ExecIo, StartStreamError>> {
        let runtime = self.runtime();
        let (container, command) = (container.to_owned(), command.to_vec());
        async move {
            let wanted = Streams {
                stdin: streams.stdin,
                stdout: streams.stdout,
                stderr: streams.stderr,
                terminal: streams.terminal,
            };
            let begun = runtime?
                .begin_execution(&container, command, Vec::new(), wanted)
                .await
                .map_err(|error| failed(error.chain()))?;
            let end = {
                let ended = begun.ended;
                async move {
                    ended.await.map_or_else(
                        |_| ProcessEnd::Lost("the pod's supervisor ended".to_owned()),
                        ProcessEnd::Exited,
                    )
                }
                .boxed()
            };
            let (stdin, stdout, resize) = match begun.terminal {
                Some(terminal) => {
                    let (input, output, resize) = terminal_streams(terminal)?;
                    (streams.stdin.then_some(input), Some(output), Some(resize))
                }
                None => (writer(begun.stdin)?, reader(begun.stdout)?, None),
            };
            Ok(ExecIo { stdin, stdout, stderr: reader(begun.stderr)?, resize, end })
        }
        .boxed()
    }

    fn attach(
        &self,
        container: &str,
        streams: WantedStreams,
    ) -> BoxFuture<'static, Result<ExecIo, StartStreamError>> {
        let runtime = self.runtime();
        let id = container.to_owned();
        async move {
            let runtime = runtime?;
            let wanted = Streams {
                stdin: streams.stdin,
                stdout: streams.stdout,
                stderr: streams.stderr,
                terminal: streams.terminal,
            };
            let attached = runtime.attach_to(&id, wanted).await.map_err(|error| failed(error.chain()))?;
            let container = runtime.state.container(&id).map_err(failed)?;
            let end = async move {
                container.ended().await;
                match container.phase() {
                    Phase::Exited { exit, .. } => ProcessEnd::Exited(exit.exit_code),
                    Phase::Created | Phase::Running(_) => {
                        ProcessEnd::Lost("the container is not known any more".to_owned())
                    }
                }
            }
            .boxed();
            let (stdin, resize) = match attached.terminal {
                Some(terminal) => {
                    let (input, _, resize) = terminal_streams(terminal)?;
                    (attached.stdin.is_some().then_some(input), Some(resize))
                }
                None => (writer(attached.stdin)?, None),
            };
            Ok(ExecIo {
                stdin,
                stdout: reader(attached.stdout)?,
                stderr: reader(attached.stderr)?,
                resize,
                end,
            })
        }
        .boxed()
    }

    fn connect_port(&self, sandbox: &str, port: u16) -> BoxFuture<'static, Result<PortIo, StartStreamError>> {
        let runtime = self.runtime();
        let id = sandbox.to_owned();
        async move {
            let sandbox = runtime?.state.sandbox(&id).map_err(failed)?;
            let stream = connect_inside(&sandbox, port).await?;
            // Whoever forwards cuts as it comes; waiting for more would only be slow.
            let _ = stream.set_nodelay(true);
            let (reader, writer) = stream.into_split();
            Ok(PortIo { reader: Box::new(reader), writer: Box::new(writer) })
        }
        .boxed()
    }
}

/// Connects to a port as a process of the pod would.
async fn connect_inside(sandbox: &Sandbox, port: u16) -> Result<TcpStream, StartStreamError> {
    if !matches!(sandbox.standing(), Standing::Ready(_)) {
        return Err(failed("the pod does not run"));
    }
    let namespace = if sandbox.host_network() {
        None
    } else {
        let path = format!("/proc/{}/ns/net", sandbox.record().shim_pid);
        Some(
            File::open(path)
                .map_err(|error| failed(format!("the pod's network cannot be entered: {error}")))?,
        )
    };
    let mut refusal = String::new();
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let target = SocketAddr::new(address, port);
        let connected = match &namespace {
            None => TcpStream::connect(target).await.map_err(words),
            Some(namespace) => {
                network::connect_inside(namespace.as_fd(), target).await.map_err(|error| match error {
                    ConnectInsideError::Connect { source, .. } => words(source),
                    error @ (ConnectInsideError::LinkLocal(_) | ConnectInsideError::Socket(_)) => {
                        error.to_string()
                    }
                })
            }
        };
        match connected {
            Ok(stream) => return Ok(stream),
            // What is said about the first is what matters to most.
            Err(error) if refusal.is_empty() => refusal = error,
            Err(_) => {}
        }
    }
    Err(failed(format!("failed to connect to localhost:{port} inside the pod: {refusal}")))
}

/// The usual refusal in the words that users of Kubernetes know.
fn words(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}

fn reader(source: Option<OwnedFd>) -> Result<Option<Reader>, StartStreamError> {
    source
        .map(|source| pipe::Receiver::from_owned_fd(source).map(|pipe| Box::new(pipe) as Reader))
        .transpose()
        .map_err(failed)
}

fn writer(target: Option<OwnedFd>) -> Result<Option<Writer>, StartStreamError> {
    target
        .map(|target| pipe::Sender::from_owned_fd(target).map(|pipe| Box::new(pipe) as Writer))
        .transpose()
        .map_err(failed)
}

/// Input, output and size of a terminal.
fn terminal_streams(
    terminal: OwnedFd,
) -> Result<(Writer, Reader, watch::Sender<Option<TerminalSize>>), StartStreamError> {
    let flags = rustix::fs::fcntl_getfl(&terminal).map_err(failed)?;
    rustix::fs::fcntl_setfl(&terminal, flags | rustix::fs::OFlags::NONBLOCK).map_err(failed)?;
    let size_of = terminal.try_clone().map_err(failed)?;
    let input = Terminal::new(terminal.try_clone().map_err(failed)?).map_err(failed)?;
    let output = Terminal::new(terminal).map_err(failed)?;
    let (resize, mut sizes) = watch::channel(None::<TerminalSize>);
    tokio::spawn(async move {
        // Ends when the session drops its end.
        while sizes.changed().await.is_ok() {
            if let Some(TerminalSize { width, height }) = *sizes.borrow_and_update() {
                let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
                let _ = rustix::termios::tcsetwinsize(&size_of, size);
            }
        }
    });
    Ok((Box::new(input), Box::new(output), resize))
}

/// The controlling end of a terminal.
struct Terminal {
    descriptor: AsyncFd<OwnedFd>,
}

impl Terminal {
    fn new(descriptor: OwnedFd) -> io::Result<Self> {
        // What is unsound about it are descriptors that change while registered; an `OwnedFd` never does.
        #[allow(deprecated, reason = "its replacement is unsafe to call")]
        let descriptor = AsyncFd::new(descriptor)?;
        Ok(Self { descriptor })
    }
}

impl AsyncRead for Terminal {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        loop {
            let mut ready = std::task::ready!(self.descriptor.poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            match ready.try_io(|descriptor| Ok(rustix::io::read(descriptor.get_ref(), &mut *room)?)) {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return std::task::Poll::Ready(Ok(()));
                }
                // The last process closed the other end: for a terminal that is its end.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => {
                    return std::task::Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return std::task::Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        loop {
            let mut ready = std::task::ready!(self.descriptor.poll_write_ready(context))?;
            match ready.try_io(|descriptor| Ok(rustix::io::write(descriptor.get_ref(), bytes)?)) {
                Ok(written) => return std::task::Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}
