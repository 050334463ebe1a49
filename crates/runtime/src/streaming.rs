//! The HTTP server behind the CRI calls Exec, Attach and PortForward.
//!
//! The call gives its answer at once: a URL with a token that is good for one use and one minute. Whoever connects there
//! (a kubelet that relays, or `crictl`) upgrades to a protocol of channels, and the streams of the process are carried over
//! it. Requests are judged by the CRI call; whoever has the token has the stream, so the server listens on loopback only.
//!
//! Protocols are pumps between a connection and two queues ([`session::Inbound`], [`session::Outbound`]): the session does
//! not know which one it runs over, and another one is another file here.
//!
//! Tasks: the accept loop (stops when the [`StreamingServer`] is dropped, and every session with it), one task a
//! connection, and inside a session one for each stream of the process.

mod negotiation;
mod ports;
mod server;
mod session;
mod spdy_ports;
mod spdy_process;
mod status;
mod tokens;
mod websocket;

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

pub(crate) use server::StreamingServer;
pub(crate) use tokens::TooManyTokens;

/// What the streaming server may spend.
#[derive(Debug, Clone)]
pub(crate) struct StreamingConfig {
    /// Where it listens; port 0 takes a free one.
    pub(crate) listen: SocketAddr,
    /// A stream on which nothing moves for so long is closed.
    pub(crate) idle_timeout: Duration,
    /// After the end of its process, an output that is still held open is listened to until it was quiet for so long.
    pub(crate) quiet_after_end: Duration,
    /// A URL that nobody used for so long is no longer good.
    pub(crate) token_lifetime: Duration,
    /// URLs that are good at the same time.
    pub(crate) max_tokens: usize,
    /// Streams of one pod at the same time.
    pub(crate) max_streams_per_pod: usize,
    /// Connections at the same time.
    pub(crate) max_connections: usize,
}

impl Default for StreamingConfig {
    /// Upstream's times (4 hours idle, 1 minute for a URL) and caps of our own.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            idle_timeout: Duration::from_secs(4 * 60 * 60),
            quiet_after_end: Duration::from_secs(2),
            token_lifetime: Duration::from_secs(60),
            max_tokens: 1000,
            max_streams_per_pod: 64,
            max_connections: 1024,
        }
    }
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) width: u16,
    pub(crate) height: u16,
}

/// Which streams somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantedStreams {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    /// Ignored with a terminal, which has one output.
    pub(crate) stderr: bool,
    pub(crate) terminal: bool,
}

/// What a URL stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamRequest {
    /// A command in a running container.
    Execute {
        /// The pod that is charged for the stream.
        sandbox: String,
        container: String,
        command: Vec<String>,
        streams: WantedStreams,
    },
    /// The streams of the container's own process.
    Attach { sandbox: String, container: String, streams: WantedStreams },
    /// Ports of a pod. Empty: those that the client names.
    PortForward { sandbox: String, ports: Vec<u16> },
}

impl StreamRequest {
    fn sandbox(&self) -> &str {
        match self {
            Self::Execute { sandbox, .. }
            | Self::Attach { sandbox, .. }
            | Self::PortForward { sandbox, .. } => sandbox,
        }
    }

    /// The streams of a process that are wanted; none for ports.
    fn streams(&self) -> WantedStreams {
        match self {
            Self::Execute { streams, .. } | Self::Attach { streams, .. } => *streams,
            Self::PortForward { .. } => {
                WantedStreams { stdin: false, stdout: false, stderr: false, terminal: false }
            }
        }
    }

    fn path(&self) -> &'static str {
        match self {
            Self::Execute { .. } => "exec",
            Self::Attach { .. } => "attach",
            Self::PortForward { .. } => "portforward",
        }
    }
}

/// How a process ended that somebody watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    /// With this exit status.
    Exited(i32),
    /// It could not be watched to its end, for this reason.
    Lost(String),
}

/// A process whose streams are carried. Dropping it before the end means that the client went away.
pub(crate) struct ExecIo {
    /// Takes what the client types; shut down when the client closes that side.
    pub(crate) stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Ends when no process holds it any more.
    pub(crate) stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Absent with a terminal.
    pub(crate) stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Told the size of the client's terminal; only the latest counts. Present with a terminal.
    pub(crate) resize: Option<watch::Sender<Option<TerminalSize>>>,
    /// Done when the process has ended.
    pub(crate) end: BoxFuture<'static, ProcessEnd>,
}

/// Both directions of a connection to a port of a pod.
pub(crate) struct PortIo {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Why a stream did not begin. The text reaches the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct StartStreamError {
    pub(crate) message: String,
}

/// Who has the processes and ports: the runtime, and a fake in tests.
pub(crate) trait StreamSource: Send + Sync + 'static {
    /// Starts a command in a container.
    fn execute(
        &self,
        container: &str,
        command: &[String],
        streams: WantedStreams,
    ) -> BoxFuture<'static, Result<ExecIo, StartStreamError>>;

    /// Joins the streams of a container's own process.
    fn attach(
        &self,
        container: &str,
        streams: WantedStreams,
    ) -> BoxFuture<'static, Result<ExecIo, StartStreamError>>;

    /// Connects to a port inside the pod's network namespace.
    fn connect_port(&self, sandbox: &str, port: u16) -> BoxFuture<'static, Result<PortIo, StartStreamError>>;
}

#[cfg(test)]
mod tests;
