//! Connections: the accept loop with its caps and timers, and HTTP over one connection.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::gatekeeper::{Door, answer_request};
use crate::identity::Identity;
use crate::limits::RESETS;
use crate::server::Server;

/// How long open connections may take to end after the server was told to.
const DRAIN: Duration = Duration::from_secs(2);
/// Pause after a failed accept, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Which protocol a connection speaks; decided by TLS, never guessed from bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Accepts until `shutdown`, then lets connections end.
pub(crate) async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    shutdown: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(tls);
    let places = Arc::new(Semaphore::new(server.limits().connections));
    let connections = TaskTracker::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            // Dropping the socket is the only answer that costs nothing.
            tracing::warn!(%peer, "too many connections; one is refused");
            continue;
        };
        let (server, acceptor) = (server.clone(), acceptor.clone());
        connections.spawn(async move {
            serve_tcp(server, stream, peer, acceptor).await;
            drop(place);
        });
    }
    server.closing().cancel();
    connections.close();
    let _ = tokio::time::timeout(DRAIN, connections.wait()).await;
}

/// A peer that vanished without a word (its machine lost power) is noticed within five minutes, also where nothing is said on
/// the connection: an open shell would be kept for hours.
pub(crate) fn notice_its_absence(stream: &TcpStream) {
    use rustix::net::sockopt;
    // Where it cannot be set, the limits of whatever is served hold.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(180));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(30));
    let _ = sockopt::set_tcp_keepcnt(stream, 4);
}

async fn serve_tcp(server: Arc<Server>, stream: TcpStream, peer: SocketAddr, acceptor: TlsAcceptor) {
    let _ = stream.set_nodelay(true);
    notice_its_absence(&stream);
    let handshake = tokio::time::timeout(server.limits().handshake_time, acceptor.accept(stream)).await;
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake took too long");
            return;
        }
    };
    let (_, session) = stream.get_ref();
    // The verifier has checked the certificate; without one the peer is nobody.
    let identity = session
        .peer_certificates()
        .and_then(|chain| chain.first())
        .and_then(|certificate| {
            Some(Identity::from_certificate(certificate)?.proved_by_certificate(certificate))
        })
        .unwrap_or_else(Identity::anonymous);
    let protocol = match session.alpn_protocol() {
        Some(b"h2") => Protocol::Http2,
        _ => Protocol::Http1,
    };
    serve_http(server, stream, identity, Door::Network { peer: peer.ip() }, protocol).await;
}

/// Serves HTTP/1.1 on an in-memory connection.
pub(crate) async fn serve_in_memory<Io>(server: Arc<Server>, io: Io, identity: Identity)
where
    Io: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    serve_http(server, io, identity, Door::InMemory, Protocol::Http1).await;
}

async fn serve_http<Io>(server: Arc<Server>, io: Io, identity: Identity, door: Door, protocol: Protocol)
where
    Io: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = server.limits().clone();
    let closing = server.closing().clone();
    let first_request = Arc::new(Notify::new());
    let identity = Arc::new(identity.authenticated());
    let service = {
        let first_request = first_request.clone();
        service_fn(move |request: Request<Incoming>| {
            first_request.notify_one();
            let (server, identity) = (server.clone(), identity.clone());
            // On the heap, so that it goes when the answer begins: HTTP/2 keeps for each stream as much as its largest state
            // takes, and a watch would hold the room of its whole way through the server for as long as it lasts.
            Box::pin(
                async move { Ok::<_, Infallible>(answer_request(server, identity, door, request).await) },
            )
        })
    };
    let io = TokioIo::new(io);
    // A peer that never asks anything is sent away; afterwards the protocol's own timers hold.
    let silence = async {
        match door {
            Door::InMemory => std::future::pending().await,
            Door::Network { .. } => {
                if tokio::time::timeout(limits.header_time, first_request.notified()).await.is_ok() {
                    std::future::pending().await
                }
            }
        }
    };
    let outcome: Result<(), hyper::Error> = match protocol {
        Protocol::Http1 => {
            let mut builder = hyper::server::conn::http1::Builder::new();
            // Not `pipeline_flush`: with it hyper buffers answers without bound for a client that does not read.
            builder.timer(TokioTimer::new()).max_buf_size(limits.header_bytes.max(8192));
            match door {
                Door::Network { .. } => builder.header_read_timeout(limits.header_time),
                Door::InMemory => builder.header_read_timeout(None),
            };
            let connection = builder.serve_connection(io, service).with_upgrades();
            tokio::pin!(connection);
            tokio::select! {
                outcome = &mut connection => outcome,
                () = silence => Ok(()),
                () = closing.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    finish(connection).await
                }
            }
        }
        Protocol::Http2 => {
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(limits.streams)
                .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
                .max_pending_accept_reset_streams(RESETS)
                .max_send_buf_size(128 * 1024)
                .keep_alive_interval(Duration::from_secs(30))
                .keep_alive_timeout(Duration::from_secs(20));
            let connection = builder.serve_connection(io, service);
            tokio::pin!(connection);
            tokio::select! {
                outcome = &mut connection => outcome,
                () = silence => Ok(()),
                () = closing.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    finish(connection).await
                }
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended badly");
    }
}

async fn finish(connection: impl Future<Output = Result<(), hyper::Error>>) -> Result<(), hyper::Error> {
    tokio::time::timeout(DRAIN, connection).await.unwrap_or(Ok(()))
}
