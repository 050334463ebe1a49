//! The listener: tokens in, upgraded connections out to sessions.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ports::{MAX_PORTS, forward};
use super::session::{Outbound, Patience, QUEUE, carry};
use super::status::{SessionEnd, Subject};
use super::tokens::{Token, Tokens, TooManyTokens};
use super::websocket::{self, Protocol, choose_protocol};
use super::{StreamRequest, StreamSource, StreamingConfig};

/// A client has so long to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The server. Dropping it closes the listener and every stream.
pub(crate) struct StreamingServer {
    address: SocketAddr,
    /// Until it is known who has the processes.
    listener: Mutex<Option<TcpListener>>,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    config: StreamingConfig,
    tokens: Mutex<Tokens>,
    /// Streams under way, by pod.
    streams: Mutex<BTreeMap<String, usize>>,
    stop: CancellationToken,
}

/// One stream of a pod, as long as it lives.
struct StreamPlace {
    shared: Arc<Shared>,
    sandbox: String,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut streams = self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = streams.get_mut(&self.sandbox) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.sandbox);
            }
        }
    }
}

impl Shared {
    fn take_place(self: &Arc<Self>, sandbox: &str) -> Option<StreamPlace> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let count = streams.entry(sandbox.to_owned()).or_default();
        if *count >= self.config.max_streams_per_pod {
            return None;
        }
        *count += 1;
        Some(StreamPlace { shared: Arc::clone(self), sandbox: sandbox.to_owned() })
    }
}

impl StreamingServer {
    /// Listens. Nothing is answered before [`Self::serve`].
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on.
    pub(crate) async fn bind(config: StreamingConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            tokens: Mutex::new(Tokens::new(config.token_lifetime, config.max_tokens)),
            streams: Mutex::default(),
            config,
            stop: stop.clone(),
        });
        Ok(Self { address, listener: Mutex::new(Some(listener)), shared, _stop: stop.drop_guard() })
    }

    /// Serves what `source` has, from now on; later calls change nothing. A source that owns this server must not be owned
    /// by it in turn: it should hold a weak reference.
    pub(crate) fn serve(&self, source: Arc<dyn StreamSource>) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listener) = listener {
            tokio::spawn(accept_loop(listener, Arc::clone(&self.shared), source));
        }
    }

    /// The URL under which the request will be carried out, once.
    ///
    /// # Errors
    ///
    /// When too many such URLs wait for somebody.
    pub(crate) fn url_for(&self, mut request: StreamRequest) -> Result<String, TooManyTokens> {
        if let StreamRequest::Execute { streams, .. } | StreamRequest::Attach { streams, .. } = &mut request {
            streams.stderr &= !streams.terminal;
        }
        let path = request.path();
        let mut tokens = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let token = tokens.issue(request, Instant::now())?;
        Ok(format!("http://{}/{path}/{}", self.address, token.reveal()))
    }
}

async fn accept_loop(listener: TcpListener, shared: Arc<Shared>, source: Arc<dyn StreamSource>) {
    let places = Arc::new(Semaphore::new(shared.config.max_connections));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((connection, _)) => {
                let (shared, source) = (Arc::clone(&shared), Arc::clone(&source));
                connections.spawn(async move {
                    serve_connection(connection, &shared, &source).await;
                    drop(place);
                });
            }
            Err(error) => {
                // No descriptors left, usually: whoever holds them has to give some back first.
                tracing::debug!(%error, "cannot accept a connection for a stream");
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn serve_connection(connection: TcpStream, shared: &Arc<Shared>, source: &Arc<dyn StreamSource>) {
    let service = service_fn(|request| {
        let response = answer(request, shared, source);
        async { Ok::<_, Infallible>(response) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_headers(100)
        .serve_connection(TokioIo::new(connection), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection for a stream broke");
    }
}

type Answer = Response<Full<Bytes>>;

fn refuse(status: StatusCode, text: &str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    response
}

/// Whether one of the words of a header is this one.
fn header_says(headers: &HeaderMap, name: http::HeaderName, word: &str) -> bool {
    header_words(headers, &name).any(|found| found.eq_ignore_ascii_case(word))
}

fn header_words<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

/// Judges a request without touching its token until everything else about it is right.
fn answer(mut request: Request<Incoming>, shared: &Arc<Shared>, source: &Arc<dyn StreamSource>) -> Answer {
    let headers = request.headers();
    if !header_says(headers, CONNECTION, "upgrade") || !header_says(headers, UPGRADE, "websocket") {
        return refuse(
            StatusCode::BAD_REQUEST,
            "unable to upgrade: ask for WebSocket (SPDY is not served here)",
        );
    }
    if request.method() != Method::GET {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "a WebSocket begins with GET");
    }
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes())) else {
        return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing");
    };
    let Some(protocol) = choose_protocol(header_words(headers, &SEC_WEBSOCKET_PROTOCOL)) else {
        return refuse(StatusCode::FORBIDDEN, "none of the offered subprotocols is known");
    };
    let redeemed = request.uri().path().strip_prefix('/').and_then(|path| path.split_once('/')).and_then(
        |(kind, token)| {
            let mut tokens = shared.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            tokens.redeem(&Token::from(token), Instant::now()).filter(|wanted| wanted.path() == kind)
        },
    );
    let Some(wanted) = redeemed else {
        return refuse(StatusCode::NOT_FOUND, "no such stream: the URL was used already, or is too old");
    };
    let wanted = match wanted {
        StreamRequest::PortForward { sandbox, ports } if ports.is_empty() => {
            match requested_ports(request.uri().query().unwrap_or_default()) {
                Some(ports) => StreamRequest::PortForward { sandbox, ports },
                None => {
                    return refuse(
                        StatusCode::BAD_REQUEST,
                        "name the ports: ?ports=80&ports=443 (1 to 127 of them)",
                    );
                }
            }
        }
        other => other,
    };
    let Some(place) = shared.take_place(wanted.sandbox()) else {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "the pod has as many streams as it may have");
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let (shared, source) = (Arc::clone(shared), Arc::clone(source));
    tokio::spawn(async move {
        let stop = shared.stop.clone();
        let session = async {
            match upgrade.await {
                Ok(connection) => {
                    serve_stream(TokioIo::new(connection), protocol, wanted, &shared, &source).await
                }
                Err(error) => tracing::debug!(%error, "a client went away before its stream began"),
            }
        };
        tokio::select! {
            () = session => {}
            () = stop.cancelled() => {}
        }
        drop(place);
    });

    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, key);
    }
    if let Some(name) = protocol.name {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
    }
    response
}

/// The ports that a query names, as `ports=80&ports=443` or `ports=80,443`; `None` when there is none, a wrong one, or too
/// many.
fn requested_ports(query: &str) -> Option<Vec<u16>> {
    let ports: Vec<u16> = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("ports=").or_else(|| pair.strip_prefix("port=")))
        .flat_map(|list| list.split(','))
        .map(|port| port.parse().ok().filter(|port| *port > 0))
        .collect::<Option<_>>()?;
    (1..=MAX_PORTS).contains(&ports.len()).then_some(ports)
}

async fn serve_stream(
    connection: TokioIo<hyper::upgrade::Upgraded>,
    protocol: Protocol,
    wanted: StreamRequest,
    shared: &Shared,
    source: &Arc<dyn StreamSource>,
) {
    let socket = websocket::accept(connection).await;
    let patience = Patience { idle: shared.config.idle_timeout, after_end: shared.config.quiet_after_end };
    let (started, streams, subject) = match wanted {
        StreamRequest::Execute { container, command, streams, .. } => {
            (source.execute(&container, &command, streams).await, streams, Subject::Command(command))
        }
        StreamRequest::Attach { container, streams, .. } => {
            (source.attach(&container, streams).await, streams, Subject::Container)
        }
        StreamRequest::PortForward { sandbox, ports } => {
            let connect = |port| {
                let opening = source.connect_port(&sandbox, port);
                async move { (port, opening.await) }
            };
            let opened = futures::future::join_all(ports.into_iter().map(connect)).await;
            return forward(socket, protocol, opened, patience.idle).await;
        }
    };
    let (inbound, from_client) = mpsc::channel(QUEUE);
    let (to_client, outbound) = mpsc::channel(QUEUE);
    let pump = websocket::pump(socket, protocol, streams, subject, inbound, outbound);
    match started {
        Ok(process) => {
            let session = carry(process, from_client, to_client, patience);
            tokio::join!(pump, session);
        }
        Err(error) => {
            let last_word = async move {
                // The client may be gone already.
                let _ = to_client.send(Outbound::End(SessionEnd::NotStarted(error))).await;
                drop(from_client);
            };
            tokio::join!(pump, last_word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_query() {
        for (query, expected) in [
            ("ports=80", Some(vec![80])),
            ("x=1&ports=80&ports=443", Some(vec![80, 443])),
            ("ports=80,443", Some(vec![80, 443])),
            ("port=80", Some(vec![80])),
            ("", None),
            ("ports=0", None),
            ("ports=65536", None),
            ("ports=80&ports=x", None),
        ] {
            assert_eq!(requested_ports(query), expected, "{query}");
        }
        let many = (1..=128).map(|port| format!("ports={port}")).collect::<Vec<_>>().join("&");
        assert_eq!(requested_ports(&many), None);
    }
}
