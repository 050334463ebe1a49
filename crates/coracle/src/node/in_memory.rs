//! A Kubernetes client over a connection in memory: HTTP/1.1 on a duplex pipe, so that watches, logs and upgrades work
//! as over a socket. Who the client is, is a property of the connection; no header says it.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::DuplexStream;
use tower::ServiceBuilder;

/// Bytes that one direction of a pipe holds before the writer waits.
const PIPE_BYTES: usize = 256 * 1024;

/// A client of the server that `accept` hands the other end of each new connection to.
pub(crate) fn client(accept: impl Fn(DuplexStream) + Clone + Send + Sync + 'static) -> kube::Client {
    let connector = tower::service_fn(move |_: http::Uri| {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        accept(far);
        std::future::ready(Ok::<_, std::io::Error>(Pipe(TokioIo::new(near))))
    });
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, kube::client::Body>(connector);
    let base = http::Uri::from_static("http://localhost");
    let service = ServiceBuilder::new().layer(kube::client::middleware::BaseUriLayer::new(base)).service(http);
    kube::Client::new(service, "default")
}

/// One end of a pipe, as the HTTP client wants it.
struct Pipe(TokioIo<DuplexStream>);

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(ctx, buffer)
    }
}

impl hyper::rt::Write for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(ctx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(ctx)
    }
}
