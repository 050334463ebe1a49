//! `/podProxy/NAMESPACE/POD/SCHEME/PORT/PATH`: any HTTP request to a port of a pod, from inside the pod's network. Path and
//! query of the target stay as they came.

use cri::v1;
use http::header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Body, HttpError, HttpInterface, query, streams};
use crate::http_client::encrypt;
use crate::pod_network::PodNetwork;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    namespace: String,
    pod: String,
    encrypted: bool,
    port: u16,
    path: String,
}

impl Target {
    /// Reads a path; `None` when it is none of these.
    pub(super) fn read(path: &str) -> Option<Result<Self, HttpError>> {
        let rest = path.strip_prefix("/podProxy/")?;
        Some(Self::parts(rest).ok_or_else(|| HttpError::NotFound(format!("the node has no path {path}"))))
    }

    fn parts(rest: &str) -> Option<Self> {
        let mut parts = rest.splitn(5, '/');
        let mut decoded = || parts.next().and_then(query::decode).filter(|part| !part.is_empty());
        let (namespace, pod, scheme, port) = (decoded()?, decoded()?, decoded()?, decoded()?);
        let encrypted = match scheme.as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let path = format!("/{}", parts.next().unwrap_or_default());
        Some(Self { namespace, pod, encrypted, port, path })
    }
}

pub(super) async fn answer(
    interface: &HttpInterface,
    target: Target,
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let network = network(interface, &target).await?;
    let host = network.default_host();
    let unreachable = |error: &dyn std::fmt::Display| HttpError::Unreachable(error.to_string());
    let connected = network.connect(&interface.agent, &host, target.port).await;
    let stream = connected.map_err(|error| unreachable(&error))?;
    let authority = match host.contains(':') {
        true => format!("[{host}]:{}", target.port),
        false => format!("{host}:{}", target.port),
    };
    if target.encrypted {
        let stream = encrypt(stream, &host).await.map_err(|error| unreachable(&error))?;
        exchange(interface, stream, &authority, &target.path, request).await
    } else {
        exchange(interface, stream, &authority, &target.path, request).await
    }
}

/// The network of a pod that runs.
async fn network(interface: &HttpInterface, target: &Target) -> Result<PodNetwork, HttpError> {
    let pod = interface.find(&target.namespace, &target.pod).await?;
    let Some(sandbox) = streams::ready_sandbox(interface, &pod).await? else {
        return Err(HttpError::Unreachable(format!("pod {} does not run", target.pod)));
    };
    let addresses = if crate::sandbox::in_host_network(&pod) {
        interface.agent.config.addresses.clone()
    } else {
        let request = v1::PodSandboxStatusRequest { pod_sandbox_id: sandbox.clone(), verbose: false };
        let answer = interface.agent.runtime.pod_sandbox_status(request).await;
        let answer = answer.map_err(|status| HttpError::Internal(status.message().to_owned()))?;
        let network = answer.into_inner().status.and_then(|status| status.network);
        network.map(|network| network.ip).into_iter().filter(|address| !address.is_empty()).collect()
    };
    Ok(PodNetwork::new(&interface.agent, &pod, &sandbox, &addresses))
}

async fn exchange(
    interface: &HttpInterface,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    authority: &str,
    path: &str,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let broken = |error: &dyn std::fmt::Display| HttpError::Unreachable(error.to_string());
    let (mut sender, driver) = hyper::client::conn::http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    interface.agent.spawn(async move {
        if let Err(error) = driver.with_upgrades().await {
            tracing::debug!(%error, "a connection to a pod ended early");
        }
    });
    let near = hyper::upgrade::on(&mut request);
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let (mut head, body) = request.into_parts();
    head.uri = format!("{path}{query}")
        .parse()
        .map_err(|error| HttpError::BadRequest(format!("the path cannot be passed on: {error}")))?;
    // The length of the body is told again, as fits this connection.
    head.headers.remove(TRANSFER_ENCODING);
    if !head.headers.contains_key(UPGRADE) {
        head.headers.remove(CONNECTION);
    }
    if let Ok(host) = HeaderValue::from_str(authority) {
        head.headers.insert(HOST, host);
    }
    let mut answer =
        sender.send_request(Request::from_parts(head, body)).await.map_err(|error| broken(&error))?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        streams::join(interface, near, hyper::upgrade::on(&mut answer));
        return Ok(answer.map(|_| super::full(bytes::Bytes::new())));
    }
    answer.headers_mut().remove(TRANSFER_ENCODING);
    answer.headers_mut().remove(CONNECTION);
    Ok(answer.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_target_stays_as_it_came() {
        let read = |path: &str| {
            Target::read(path).map(|target| {
                target
                    .ok()
                    .map(|target| (target.namespace, target.pod, target.encrypted, target.port, target.path))
            })
        };
        let row = |encrypted, port, path: &str| {
            Some(Some(("ns".to_owned(), "web".to_owned(), encrypted, port, path.to_owned())))
        };
        assert_eq!(read("/podProxy/ns/web/http/80/a//b%2fc/../d/"), row(false, 80, "/a//b%2fc/../d/"));
        assert_eq!(read("/podProxy/ns/web/https/8443/"), row(true, 8443, "/"));
        assert_eq!(read("/podProxy/ns/web/http/80"), row(false, 80, "/"));
        for nonsense in [
            "/podProxy/ns/web/ftp/80/",
            "/podProxy/ns/web/http/0/",
            "/podProxy/ns/web/http/x/",
            "/podProxy//web/http/80/",
            "/podProxy/ns/web",
        ] {
            assert_eq!(read(nonsense), Some(None), "{nonsense}");
        }
        assert_eq!(read("/pods"), None);
    }
}
