//! The listener: tokens in, upgraded connections out to sessions.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::negotiation::{ACCEPTED_VERSIONS, Agreement, Purpose, negotiate};
use super::ports::{MAX_PORTS, forward};
use super::session::{Inbound, Outbound, Patience, QUEUE, carry};
use super::status::{SessionEnd, Subject};
use super::tokens::{Token, Tokens, TooManyTokens};
use super::{
    ExecIo, StartStreamError, StreamRequest, StreamSource, StreamingConfig, WantedStreams, spdy_ports,
    spdy_process, websocket,
};

/// A client has so long to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a tunnel that are under way to the session inside it, in each direction.
const TUNNEL_BYTES: usize = 64 * 1024;

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
    // What is typed is one small piece after the other; each would wait for the answer to the one before.
    let _ = connection.set_nodelay(true);
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

/// Judges a request without touching its token until everything else about it is right.
fn answer(mut request: Request<Incoming>, shared: &Arc<Shared>, source: &Arc<dyn StreamSource>) -> Answer {
    let purpose = if request.uri().path().starts_with("/portforward/") {
        Purpose::PortForward
    } else {
        Purpose::Process
    };
    let agreement = match negotiate(request.method(), request.headers(), purpose) {
        Ok(agreement) => agreement,
        Err(disagreement) => {
            let mut response = refuse(disagreement.status, &disagreement.text);
            for name in disagreement.accepted {
                response.headers_mut().append(ACCEPTED_VERSIONS, HeaderValue::from_static(name));
            }
            return response;
        }
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
        // Over channels the ports are known at the beginning; over SPDY each connection names its own.
        StreamRequest::PortForward { sandbox, ports }
            if ports.is_empty() && matches!(agreement, Agreement::Channels { .. }) =>
        {
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
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(agreement.upgrade()));
    for (name, value) in agreement.headers() {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }

    let upgrade = hyper::upgrade::on(&mut request);
    let (shared, source) = (Arc::clone(shared), Arc::clone(source));
    tokio::spawn(async move {
        let stop = shared.stop.clone();
        let session = async {
            match upgrade.await {
                Ok(connection) => {
                    serve_stream(TokioIo::new(connection), agreement, wanted, &shared.config, &source).await
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

type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

async fn serve_stream(
    connection: Upgraded,
    agreement: Agreement,
    wanted: StreamRequest,
    config: &StreamingConfig,
    source: &Arc<dyn StreamSource>,
) {
    match (agreement, wanted) {
        (Agreement::Channels { protocol, .. }, StreamRequest::PortForward { sandbox, ports }) => {
            let connect = |port| {
                let opening = source.connect_port(&sandbox, port);
                async move { (port, opening.await) }
            };
            let opened = futures::future::join_all(ports.into_iter().map(connect)).await;
            forward(websocket::accept(connection).await, protocol, opened, config.idle_timeout).await;
        }
        (Agreement::Channels { protocol, .. }, wanted) => {
            let socket = websocket::accept(connection).await;
            let (started, streams, subject) = start(wanted, source).await;
            let (inbound, from_client) = mpsc::channel(QUEUE);
            let (to_client, outbound) = mpsc::channel(QUEUE);
            let pump = websocket::pump(socket, protocol, streams, subject, inbound, outbound);
            tokio::join!(pump, hold_session(started, from_client, to_client, config));
        }
        (Agreement::SpdyProcess(protocol), wanted) => {
            let streams = wanted.streams();
            over_spdy(connection, config, async |new| {
                // The process is not started for a client that never gets as far as this.
                let Some(gathered) = spdy_process::gather(new, protocol, streams).await else { return };
                let (started, _, subject) = start(wanted, source).await;
                let (inbound, from_client) = mpsc::channel(QUEUE);
                let (to_client, outbound) = mpsc::channel(QUEUE);
                let pump = spdy_process::pump(gathered, subject, inbound, outbound);
                tokio::join!(pump, hold_session(started, from_client, to_client, config));
            })
            .await;
        }
        (Agreement::SpdyPorts, wanted) => {
            let sandbox = wanted.sandbox().to_owned();
            over_spdy(connection, config, |new| spdy_ports::forward(new, sandbox, Arc::clone(source))).await;
        }
        (Agreement::Tunnel { .. }, wanted) => {
            let sandbox = wanted.sandbox().to_owned();
            let (near, far) = tokio::io::duplex(TUNNEL_BYTES);
            let tunnel = spdy::tunnel(websocket::accept(connection).await, far);
            let ports = over_spdy(near, config, |new| spdy_ports::forward(new, sandbox, Arc::clone(source)));
            tokio::join!(tunnel, ports);
        }
    }
}

/// Drives a SPDY session while `work` deals with the streams that the client opens.
async fn over_spdy<T, W>(transport: T, config: &StreamingConfig, work: impl FnOnce(spdy::Streams) -> W)
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite,
    W: Future<Output = ()>,
{
    let (driver, streams, opener) =
        spdy::session(transport, spdy::Role::Server, spdy::Limits::default(), config.idle_timeout);
    // Streams are opened by clients only.
    drop(opener);
    let driver = async {
        let end = driver.await;
        tracing::debug!(%end, "a SPDY session ended");
    };
    tokio::join!(driver, work(streams));
}

/// Begins what a URL stands for, unless that is ports.
async fn start(
    wanted: StreamRequest,
    source: &Arc<dyn StreamSource>,
) -> (Result<ExecIo, StartStreamError>, WantedStreams, Subject) {
    let streams = wanted.streams();
    match wanted {
        StreamRequest::Execute { container, command, .. } => {
            (source.execute(&container, &command, streams).await, streams, Subject::Command(command))
        }
        StreamRequest::Attach { container, .. } => {
            (source.attach(&container, streams).await, streams, Subject::Container)
        }
        StreamRequest::PortForward { .. } => {
            let message = "ports have no streams of a process".to_owned();
            (Err(StartStreamError { message }), streams, Subject::Container)
        }
    }
}

/// The session of a process that was started; the last word about one that was not.
async fn hold_session(
    started: Result<ExecIo, StartStreamError>,
    from_client: mpsc::Receiver<Inbound>,
    to_client: mpsc::Sender<Outbound>,
    config: &StreamingConfig,
) {
    match started {
        Ok(process) => {
            let patience = Patience { idle: config.idle_timeout, after_end: config.quiet_after_end };
            carry(process, from_client, to_client, patience).await;
        }
        Err(error) => {
            // The client may be gone already.
            let _ = to_client.send(Outbound::End(SessionEnd::NotStarted(error))).await;
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
