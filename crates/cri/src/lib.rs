//! The messages and services of the container runtime interface (CRI) v1, and the ways to reach them.
//!
//! The messages come from our own description (`proto/runtime.proto`), which holds what Coracle
//! uses of the protocol. Besides them there are only connections: in one process
//! ([`in_process`]), to a Unix socket ([`connect`]), and serving one ([`serve_unix`]). All three
//! speak the same clients, so nobody can tell which one is behind a [`RuntimeClient`].

mod connection;
mod redacted;
mod unix_server;

/// The generated messages, clients and servers of package `runtime.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("runtime.v1");
}

pub use connection::{
    ConnectError, Connection, ImageClient, MAX_MESSAGE_BYTES, RuntimeClient, connect, in_process,
};
pub use unix_server::{ServeUnixError, bind_unix, serve_unix, serve_unix_listener};
