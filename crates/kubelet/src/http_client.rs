//! One HTTP request of a hook or probe and its answer, over a connection that begins in the pod: no verification of
//! certificates, redirects within the same host only, and no more of an answer than a cap, whatever the other side sends.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::HTTPHeader;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::agent::Agent;
use crate::http_url::{HttpUrl, Scheme};
use crate::pod_network::{PodConnectError, PodNetwork};

/// Bytes of an answer's head that are read.
const HEAD: usize = 16 * 1024;

/// Header fields of an answer that are read.
const FIELDS: usize = 256;

/// Bytes of an answer's body that are read.
const BODY: usize = 10 * 1024;

/// Redirects that are followed.
const REDIRECTS: usize = 10;

/// How long the rest of an answer may take once its head is there. The head decides; a body without end holds up nobody.
const BODY_TIME: Duration = Duration::from_secs(10);

/// What an answer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    /// HTTP status.
    pub(crate) status: u16,
    /// The beginning of its body.
    pub(crate) body: String,
    /// It is a redirect to another host, which was not followed.
    pub(crate) leads_away: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] PodConnectError),
    /// Plain HTTP where TLS was expected.
    #[error("http: server gave HTTP response to HTTPS client")]
    NotTls,
    /// The manifest's header fields cannot be sent.
    #[error("net/http: invalid header field {0:?}")]
    Header(String),
    /// Round and round.
    #[error("stopped after {REDIRECTS} redirects")]
    Redirects,
    /// The other side broke a rule or went away.
    #[error("{0}")]
    Exchange(String),
    /// Too late.
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    TimedOut,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct HttpQuestion {
    pub(crate) url: HttpUrl,
    pub(crate) headers: HttpHeaders,
}

/// The header fields of a request: the manifest's, and what is added to them.
#[derive(Clone, Debug)]
pub(crate) struct HttpHeaders {
    map: HeaderMap,
    /// `Host`, if the manifest names one.
    host: Option<HeaderValue>,
}

impl HttpHeaders {
    /// The manifest's fields in their order; `User-Agent: AGENT/1.36` and `Accept: */*` unless the manifest sets them. One
    /// that it sets to nothing is left out.
    pub(crate) fn new(agent: &str, fields: &[HTTPHeader]) -> Result<Self, HttpError> {
        let mut map = HeaderMap::new();
        let mut host = None;
        for field in fields {
            let refused = || HttpError::Header(field.name.clone());
            let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| refused())?;
            let value = HeaderValue::from_str(&field.value).map_err(|_| refused())?;
            if name == HOST {
                if host.is_none() && !value.is_empty() {
                    host = Some(value);
                }
            } else if name == USER_AGENT && map.contains_key(USER_AGENT) {
                // The first one counts.
            } else if name != CONNECTION {
                map.try_append(name, value).map_err(|_| refused())?;
            }
        }
        let own_agent = HeaderValue::from_str(&format!("{agent}/1.36"))
            .map_err(|_| HttpError::Header("User-Agent".to_owned()))?;
        map.entry(USER_AGENT).or_insert(own_agent);
        map.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        for name in [USER_AGENT, ACCEPT] {
            if map.get(&name).is_some_and(HeaderValue::is_empty) {
                map.remove(name);
            }
        }
        map.insert(CONNECTION, HeaderValue::from_static("close"));
        Ok(Self { map, host })
    }

    /// The same without what must not be sent in the clear.
    pub(crate) fn without_authorization(mut self) -> Self {
        self.map.remove(http::header::AUTHORIZATION);
        self
    }
}

/// Asks, and follows redirects within the same host. Without a timeout only the body has one.
pub(crate) async fn get(
    agent: &Agent,
    network: &PodNetwork,
    question: HttpQuestion,
    timeout: Option<Duration>,
) -> Result<HttpAnswer, HttpError> {
    let asked = follow(agent, network, question);
    match timeout {
        None => asked.await,
        Some(timeout) => tokio::time::timeout(timeout, asked).await.unwrap_or(Err(HttpError::TimedOut)),
    }
}

async fn follow(
    agent: &Agent,
    network: &PodNetwork,
    HttpQuestion { mut url, mut headers }: HttpQuestion,
) -> Result<HttpAnswer, HttpError> {
    for _ in 0..=REDIRECTS {
        let response = ask(agent, network, &url, &headers).await?;
        match redirect(&url, response.head.status.as_u16(), &response.head.headers)? {
            Redirect::None => return Ok(response.finish(false).await),
            Redirect::Away => return Ok(response.finish(true).await),
            Redirect::To(next) => {
                // A name that the manifest gave belongs to the place that it gave.
                if next.authority() != url.authority() {
                    headers.host = None;
                }
                url = next;
            }
        }
    }
    Err(HttpError::Redirects)
}

/// What a status and its `Location` mean.
#[derive(Debug, PartialEq, Eq)]
enum Redirect {
    None,
    Away,
    To(HttpUrl),
}

fn redirect(from: &HttpUrl, status: u16, headers: &HeaderMap) -> Result<Redirect, HttpError> {
    let Some(location) = headers.get(LOCATION).filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308))
    else {
        return Ok(Redirect::None);
    };
    let next = location.to_str().ok().and_then(|location| from.redirect(location));
    match next {
        None => Err(HttpError::Exchange("failed to parse Location header".to_owned())),
        Some(next) if next.host.eq_ignore_ascii_case(&from.host) => Ok(Redirect::To(next)),
        Some(_) => Ok(Redirect::Away),
    }
}

/// An answer whose body is still to come.
struct Head {
    head: http::response::Parts,
    body: Incoming,
    /// Carries the connection as long as the answer is read.
    _driver: AbortOnDrop,
}

impl Head {
    /// Reads the beginning of the body; one that breaks off or takes too long is as long as it was.
    async fn finish(self, leads_away: bool) -> HttpAnswer {
        let mut body = self.body;
        let mut text = Vec::new();
        let reading = async {
            while text.len() < BODY
                && let Some(Ok(frame)) = body.frame().await
            {
                if let Ok(data) = frame.into_data() {
                    text.extend_from_slice(&data[..data.len().min(BODY - text.len())]);
                }
            }
        };
        let _ = tokio::time::timeout(BODY_TIME, reading).await;
        HttpAnswer {
            status: self.head.status.as_u16(),
            body: String::from_utf8_lossy(&text).into_owned(),
            leads_away,
        }
    }
}

async fn ask(
    agent: &Agent,
    network: &PodNetwork,
    url: &HttpUrl,
    headers: &HttpHeaders,
) -> Result<Head, HttpError> {
    let stream = network.connect(agent, &url.host, url.port).await?;
    match url.scheme {
        Scheme::Http => exchange(stream, url, headers).await,
        Scheme::Https => exchange(encrypt(stream, &url.host).await?, url, headers).await,
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &HttpUrl,
    headers: &HttpHeaders,
) -> Result<Head, HttpError> {
    let broken = |error: &dyn std::error::Error| HttpError::Exchange(chain(error));
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(HEAD)
        .max_headers(FIELDS)
        .title_case_headers(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    let mut request =
        Request::builder().uri(&url.target).body(Empty::<Bytes>::new()).map_err(|error| broken(&error))?;
    *request.headers_mut() = headers.map.clone();
    let host = match &headers.host {
        Some(host) => host.clone(),
        None => HeaderValue::from_str(&url.authority()).map_err(|_| HttpError::Header("Host".to_owned()))?,
    };
    request.headers_mut().insert(HOST, host);
    // What goes wrong with the connection shows in the answer.
    let driver = AbortOnDrop(tokio::spawn(async move { drop(connection.await) }));
    let response: Response<Incoming> = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let (head, body) = response.into_parts();
    Ok(Head { head, body, _driver: driver })
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The error and its causes; those that repeat themselves once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// Goes over to TLS on a connection, with whatever certificate the other side has.
pub(crate) async fn encrypt(
    stream: TcpStream,
    host: &str,
) -> Result<tokio_rustls::client::TlsStream<FirstBytes>, HttpError> {
    // A name that no certificate can have is not sent; nobody looks at the certificate.
    let name = ServerName::try_from(host.to_owned())
        .unwrap_or_else(|_| ServerName::IpAddress(std::net::IpAddr::from([0, 0, 0, 0]).into()));
    let connector = tokio_rustls::TlsConnector::from(tls_config());
    let stream = FirstBytes { stream, seen: Vec::new() };
    match connector.connect(name, stream).into_fallible().await {
        Ok(stream) => Ok(stream),
        Err((_, stream)) if stream.seen == b"HTTP/" => Err(HttpError::NotTls),
        Err((error, _)) => Err(HttpError::Exchange(format!("tls: {error}"))),
    }
}

/// Remembers how what is read begins, by which a server is known that talks plain HTTP.
pub(crate) struct FirstBytes {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl AsyncRead for FirstBytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let wanted = 5_usize.saturating_sub(self.seen.len());
        let new = &buffer.filled()[before..];
        self.seen.extend_from_slice(&new[..new.len().min(wanted)]);
        polled
    }
}

impl AsyncWrite for FirstBytes {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn tls_config() -> Arc<rustls::ClientConfig> {
    static CONFIG: OnceLock<Arc<rustls::ClientConfig>> = OnceLock::new();
    CONFIG
        .get_or_init(|| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let schemes = provider.signature_verification_algorithms.supported_schemes();
            let mut config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("the provider knows the protocol's versions")
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(schemes)))
                .with_no_client_auth();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Arc::new(config)
        })
        .clone()
}

/// Takes every certificate: pods sign their own, and a hook trusts its pod as it is.
#[derive(Debug)]
struct AnyCertificate(Vec<rustls::SignatureScheme>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpHeaders, Redirect, redirect};
    use crate::http_url::{HttpUrl, Scheme};
    use http::{HeaderMap, HeaderValue};
    use k8s_openapi::api::core::v1::HTTPHeader;

    fn fields(headers: &[(&str, &str)]) -> Vec<String> {
        let given: Vec<HTTPHeader> = headers
            .iter()
            .map(|(name, value)| HTTPHeader { name: (*name).to_owned(), value: (*value).to_owned() })
            .collect();
        let made = HttpHeaders::new("kube-lifecycle", &given).expect("valid");
        let host = made.host.iter().map(|host| format!("host: {}", host.to_str().expect("text")));
        let others =
            made.map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")));
        host.chain(others).filter(|field| field != "connection: close").collect()
    }

    #[test]
    fn fields_of_the_manifest_come_before_those_of_the_node() {
        assert_eq!(fields(&[]), ["user-agent: kube-lifecycle/1.36", "accept: */*"]);
        assert_eq!(
            fields(&[("X-A", "1"), ("x-a", "2"), ("Host", "web.local"), ("HOST", "second")]),
            ["host: web.local", "x-a: 1", "x-a: 2", "user-agent: kube-lifecycle/1.36", "accept: */*"]
        );
        assert_eq!(fields(&[("Accept", ""), ("User-Agent", "me")]), ["user-agent: me"]);
        assert_eq!(fields(&[("User-Agent", ""), ("accept", "text/plain")]), ["accept: text/plain"]);
        let bad = [HTTPHeader { name: "X".to_owned(), value: "a\r\nEvil: b".to_owned() }];
        assert!(HttpHeaders::new("kube-lifecycle", &bad).is_err());
    }

    #[test]
    fn only_redirects_within_the_same_host_are_followed() {
        let from = HttpUrl::new(Scheme::Http, "10.0.0.1", 8080, "/a");
        let rows = [
            (302, Some("/b"), Ok(Redirect::To(HttpUrl::new(Scheme::Http, "10.0.0.1", 8080, "/b")))),
            (
                308,
                Some("https://10.0.0.1/"),
                Ok(Redirect::To(HttpUrl::new(Scheme::Https, "10.0.0.1", 443, "/"))),
            ),
            (301, Some("http://169.254.169.254/"), Ok(Redirect::Away)),
            (301, None, Ok(Redirect::None)),
            (304, Some("/b"), Ok(Redirect::None)),
            (200, Some("/b"), Ok(Redirect::None)),
        ];
        for (status, location, expected) in rows {
            let mut headers = HeaderMap::new();
            if let Some(location) = location {
                headers.insert("location", HeaderValue::from_static(location));
            }
            assert_eq!(redirect(&from, status, &headers), expected, "{status} {location:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("location", HeaderValue::from_static("gopher://x/"));
        assert!(redirect(&from, 302, &headers).is_err());
    }
}
