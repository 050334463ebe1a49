//! Connections inside the process: a pipe on which one side is served. The identity belongs to the pipe.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tower::Service;

use crate::identity::Identity;
use crate::server::ApiServer;

/// Bytes that a pipe holds in each direction.
const PIPE: usize = 64 * 1024;

/// The client's end of an in-memory connection.
#[derive(Debug)]
pub struct InMemoryIo(DuplexStream);

impl AsyncRead for InMemoryIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for InMemoryIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Connection for InMemoryIo {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Opens in-memory connections with a fixed identity: the connector of a hyper client, and so of a `kube::Client`.
#[derive(Clone, Debug)]
pub struct InMemoryConnector {
    server: ApiServer,
    identity: Identity,
}

impl InMemoryConnector {
    pub(crate) fn new(server: ApiServer, identity: Identity) -> InMemoryConnector {
        InMemoryConnector { server, identity }
    }

    /// Opens one connection; its other end is served by a task of its own until either side closes it.
    pub fn open(&self) -> InMemoryIo {
        let (near, far) = tokio::io::duplex(PIPE);
        let (server, identity) = (self.server.clone(), self.identity.clone());
        tokio::spawn(async move { server.serve_connection(far, identity).await });
        InMemoryIo(near)
    }
}

impl Service<Uri> for InMemoryConnector {
    type Response = TokioIo<InMemoryIo>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<InMemoryIo>>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        ready(Ok(TokioIo::new(self.open())))
    }
}
