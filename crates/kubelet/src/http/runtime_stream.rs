//! The near end of the runtime's streams: a request for an upgrade at a URL that the runtime named.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;

use super::{Body, HttpError, HttpInterface};

/// What the runtime answered instead of an upgrade.
pub(super) fn hand_back(answer: Response<Incoming>) -> Response<Body> {
    answer.map(|body| body.map_err(std::io::Error::other).boxed_unsync())
}

/// Asks for an upgrade at the runtime's URL.
pub(super) async fn ask_runtime(
    interface: &HttpInterface,
    url: &str,
    method: Method,
    headers: HeaderMap,
) -> Result<Response<Incoming>, HttpError> {
    let failed = |what: &str, error: &dyn std::fmt::Display| HttpError::Internal(format!("{what}: {error}"));
    let uri: Uri = url.parse().map_err(|error| failed("the runtime named no URL", &error))?;
    let authority =
        uri.authority().ok_or_else(|| HttpError::Internal("the runtime's URL has no host".to_owned()))?;
    let address = match authority.port_u16() {
        Some(_) => authority.to_string(),
        None => format!("{authority}:80"),
    };
    let connection = tokio::net::TcpStream::connect(&address)
        .await
        .map_err(|error| failed("the runtime's stream cannot be reached", &error))?;
    // Small pieces must not wait for the answers to those before them.
    let _ = connection.set_nodelay(true);
    let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(connection))
        .await
        .map_err(|error| failed("the runtime's stream cannot be reached", &error))?;
    interface.agent.spawn(async move {
        if let Err(error) = driver.with_upgrades().await {
            tracing::debug!(%error, "the runtime's stream ended early");
        }
    });
    let mut forwarded = Request::builder()
        .method(method)
        .uri(uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str))
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed("the request cannot be passed on", &error))?;
    *forwarded.headers_mut() = headers;
    if let Ok(host) = http::HeaderValue::from_str(&address) {
        forwarded.headers_mut().insert(http::header::HOST, host);
    }
    forwarded.headers_mut().remove(http::header::AUTHORIZATION);
    sender
        .send_request(forwarded)
        .await
        .map_err(|error| failed("the runtime's stream was not answered", &error))
}
