//! SPDY/3.1: what exec, attach and port-forward run over when the client is an older `kubectl` or `crictl`, and the tunnel in
//! which newer ones put it for port-forward.
//!
//! Layers, each knowing only the one below: [`frame`](crate::Frame) turns bytes into frames and back (and compresses
//! headers), [`Connection`] is the state machine of one connection without any input or output, [`session`] drives one over
//! anything that can be read and written, and [`tunnel`] carries the bytes of a session in WebSocket messages.
//!
//! Flow control is the transport's alone: what is common among Kubernetes' clients and servers neither sends window updates
//! nor waits for them, so windows are read and ignored. A stream that is not read stops the whole connection, as it does there.
//!
//! Source: the SPDY protocol, drafts 3 and 3.1; `facts` of the clients by observation.

mod connection;
mod dictionary;
mod driver;
mod frame;
mod header_block;
mod stream;
mod tunnel;

pub use connection::{Connection, Event, Limits, ProtocolError, Role, StreamId};
pub use driver::{Opener, SessionEnd, Streams, session};
pub use frame::{Frame, FrameReader, FrameWriter, ResetStatus};
pub use header_block::{HeaderBlockError, HeaderLimits, Headers};
pub use stream::{Received, Stream, StreamGone, StreamReader, StreamWriter};
pub use tunnel::{TUNNEL_PORT_FORWARD, tunnel};

#[cfg(test)]
mod tests;
