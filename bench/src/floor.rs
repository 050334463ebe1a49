//! The floor under every figure of the API: a server over the same HTTP and TLS libraries whose handler does nothing. What it
//! reaches on a machine that it shares with the client is the most that any server could.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::BroadcastStream;

use crate::Outcome;

/// Events that a slow watcher may lie behind.
const BEHIND: usize = 16 * 1024;

/// What is answered: the same bytes each time.
#[derive(Clone, Debug)]
pub struct Answers {
    /// To everything else.
    pub one: Bytes,
    /// To a path that ends in `/list`.
    pub list: Bytes,
    /// Sent to every watcher (a path with `watch=`) after a `PUT`; the revision counts.
    pub event: fn(u64) -> Bytes,
}

/// Serves until the process ends; address and certificate are written to `place`.
///
/// # Errors
///
/// When it cannot begin.
pub async fn serve(place: &Path, answers: Answers) -> Outcome<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = CertificateDer::from_pem_slice(made.cert.pem().as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address: SocketAddr = listener.local_addr()?;
    std::fs::write(place.join("certificate.pem"), made.cert.pem())?;
    // Last, and at once: whoever waits for it may begin.
    std::fs::write(place.join("address.new"), address.to_string())?;
    std::fs::rename(place.join("address.new"), place.join("address"))?;
    let (events, _) = broadcast::channel(BEHIND);
    let handler = Handler { answers, events, revision: Arc::default() };
    loop {
        let (stream, _) = listener.accept().await?;
        let (acceptor, handler) = (acceptor.clone(), handler.clone());
        tokio::spawn(async move {
            // A client that goes is no matter.
            let _ = connection(stream, acceptor, handler).await;
        });
    }
}

#[derive(Clone)]
struct Handler {
    answers: Answers,
    events: broadcast::Sender<Bytes>,
    revision: Arc<std::sync::atomic::AtomicU64>,
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, handler: Handler) -> Outcome<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.answer(request).await) }
    });
    let io = TokioIo::new(stream);
    if is_h2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(100)
            .serve_connection(io, service)
            .await?;
    } else {
        hyper::server::conn::http1::Builder::new().pipeline_flush(true).serve_connection(io, service).await?;
    }
    Ok(())
}

impl Handler {
    async fn answer(&self, request: Request<Incoming>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        if request.uri().query().is_some_and(|query| query.contains("watch=")) {
            let events = BroadcastStream::new(self.events.subscribe());
            let frames = events.filter_map(|event| async { event.ok().map(|bytes| Ok(Frame::data(bytes))) });
            return Response::new(StreamBody::new(frames).boxed_unsync());
        }
        let is_list = request.uri().path().ends_with("/list");
        let is_event = request.method() == Method::PUT;
        if request.method() != Method::GET {
            let _ = request.into_body().collect().await;
        }
        if is_event {
            let revision = self.revision.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            // Without watchers nobody hears.
            let _ = self.events.send((self.answers.event)(revision));
        }
        let body = if is_list { self.answers.list.clone() } else { self.answers.one.clone() };
        let mut response = Response::new(Full::new(body).boxed_unsync());
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        response
    }
}
