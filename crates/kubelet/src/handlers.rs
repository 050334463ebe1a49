//! Runs one handler of a probe or a hook: a command in the container, an HTTP request, a connection. What the outcome means is
//! decided by who asked.

use std::time::Duration;

use bytes::Bytes;
use cri::v1;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;

use crate::agent::Agent;

/// Bytes of an answer or an output that are looked at.
const OUTPUT: usize = 10 * 1024;

/// Where a handler is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandlerTarget<'a> {
    pub(crate) container: &'a Container,
    pub(crate) container_id: &'a str,
    pub(crate) pod_ip: &'a str,
    /// `kube-probe` or `kube-lifecycle`.
    pub(crate) agent_name: &'static str,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecOutcome {
    pub(crate) exit_code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Why a handler gave no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandlerError {
    /// It took too long.
    #[error("command timed out: {command:?} timed out after {seconds}s")]
    TimedOut { command: String, seconds: u64 },
    /// The runtime refused the command.
    #[error("{0}")]
    Runtime(String),
    /// The port cannot be read or found.
    #[error("{0}")]
    Port(String),
    /// The request was not answered.
    #[error("Get {url:?}: {message}")]
    Http { url: String, message: String },
    /// The connection was refused.
    #[error("dial tcp {address}: {message}")]
    Connect { address: String, message: String },
    /// The node does not carry this kind out yet.
    #[error("{0} is not supported by this node yet")]
    Unsupported(&'static str),
}

/// Runs a command in the container. A timeout of 0 means none.
pub(crate) async fn exec(
    agent: &Agent,
    target: HandlerTarget<'_>,
    command: Vec<String>,
    timeout: Duration,
) -> Result<ExecOutcome, HandlerError> {
    let shown = command.join(" ");
    let seconds = timeout.as_secs();
    let request = v1::ExecSyncRequest {
        container_id: target.container_id.to_owned(),
        cmd: command,
        timeout: i64::try_from(seconds).unwrap_or(0),
    };
    let cut = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes[..bytes.len().min(OUTPUT)]).into_owned();
    match agent.runtime.exec_sync(request).await {
        Ok(answer) => {
            let answer = answer.into_inner();
            Ok(ExecOutcome {
                exit_code: answer.exit_code,
                stdout: cut(answer.stdout),
                stderr: cut(answer.stderr),
            })
        }
        Err(status) if status.code() == tonic::Code::DeadlineExceeded => {
            Err(HandlerError::TimedOut { command: shown, seconds })
        }
        Err(status) => Err(HandlerError::Runtime(status.message().to_owned())),
    }
}

/// The number of a port that may be a name of the container's.
pub(crate) fn resolve_port(container: &Container, port: &IntOrString) -> Result<u16, HandlerError> {
    let number = match port {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            match named {
                Some(port) => i64::from(port.container_port),
                None => name.parse().map_err(|_| {
                    HandlerError::Port(format!("strconv.Atoi: parsing {name:?}: invalid syntax"))
                })?,
            }
        }
    };
    match u16::try_from(number) {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err(HandlerError::Port(format!("invalid port number: {number}"))),
    }
}

/// Asks by HTTP. Answers the status and the beginning of the body; redirects are not followed.
pub(crate) async fn http_get(
    target: HandlerTarget<'_>,
    action: &HTTPGetAction,
    timeout: Option<Duration>,
) -> Result<(u16, String), HandlerError> {
    if action.scheme.as_deref() == Some("HTTPS") {
        return Err(HandlerError::Unsupported("httpGet with scheme HTTPS"));
    }
    let port = resolve_port(target.container, &action.port)?;
    let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(target.pod_ip);
    let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let path = action.path.as_deref().unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let url = format!("http://{bracketed}:{port}{slash}{path}");
    let failed = |message: String| HandlerError::Http { url: url.clone(), message };
    let asked = ask(target, action, &url, (host.to_owned(), port));
    let answer = match timeout {
        None => asked.await,
        Some(timeout) => match tokio::time::timeout(timeout, asked).await {
            Ok(answer) => answer,
            Err(_) => {
                Err("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned())
            }
        },
    };
    answer.map_err(failed)
}

async fn ask(
    target: HandlerTarget<'_>,
    action: &HTTPGetAction,
    url: &str,
    address: (String, u16),
) -> Result<(u16, String), String> {
    let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let connection = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, driver) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(16 * 1024)
        .handshake(TokioIo::new(connection))
        .await
        .map_err(|error| error.to_string())?;
    let mut request = Request::builder()
        .uri(uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str))
        .header(http::header::HOST, uri.authority().map_or("", http::uri::Authority::as_str))
        .header(http::header::USER_AGENT, format!("{}/1.36", target.agent_name))
        .header(http::header::ACCEPT, "*/*")
        .header(http::header::CONNECTION, "close");
    if let Some(headers) = request.headers_mut() {
        for header in action.http_headers.iter().flatten() {
            let name =
                http::HeaderName::from_bytes(header.name.as_bytes()).map_err(|error| error.to_string())?;
            let value = http::HeaderValue::from_str(&header.value).map_err(|error| error.to_string())?;
            // Header fields set twice by the manifest are kept; those of the node are replaced.
            match name == http::header::HOST
                || name == http::header::USER_AGENT
                || name == http::header::ACCEPT
            {
                true => drop(headers.insert(name, value)),
                false => drop(headers.append(name, value)),
            }
        }
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let driven = async {
        // The connection ends with the answer; what goes wrong shows there.
        let _ = driver.await;
        std::future::pending::<()>().await;
    };
    let answered = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), OUTPUT).collect().await;
        let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        Ok((status, text.unwrap_or_default()))
    };
    tokio::select! {
        answer = answered => answer,
        () = driven => Err("the connection was closed".to_owned()),
    }
}

/// Opens a connection and closes it.
pub(crate) async fn connect(host: &str, port: u16, timeout: Duration) -> Result<(), HandlerError> {
    let failed = |message: String| HandlerError::Connect { address: format!("{host}:{port}"), message };
    match tokio::time::timeout(timeout, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("i/o timeout".to_owned())),
    }
}
