//! Runs one handler of a probe or a hook: a command in the container, an HTTP request, a connection. What the outcome means is
//! decided by who asked.

use std::time::Duration;

use api::reasons::event;
use cri::v1;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;

use crate::agent::Agent;
use crate::http_client::{self, HttpAnswer, HttpError, HttpHeaders, HttpQuestion};
use crate::http_url::{HttpUrl, Scheme};
use crate::pod_network::{PodConnectError, PodNetwork};
use events::EventType;

/// Bytes of an output that are looked at.
const OUTPUT: usize = 10 * 1024;

/// Where a handler is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandlerTarget<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) container_id: &'a str,
    /// From where it connects.
    pub(crate) network: &'a PodNetwork,
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
    #[error("Get {url:?}: {error}")]
    Http { url: String, error: HttpError },
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] PodConnectError),
    /// Nor will there be one in time.
    #[error("dial tcp {0}: i/o timeout")]
    ConnectTimedOut(String),
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
        ..v1::ExecSyncRequest::default()
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

/// Where an HTTP handler asks, and with which header fields.
pub(crate) fn http_question(
    target: HandlerTarget<'_>,
    action: &HTTPGetAction,
) -> Result<HttpQuestion, HandlerError> {
    let port = resolve_port(target.container, &action.port)?;
    let host = match action.host.as_deref().filter(|host| !host.is_empty()) {
        Some(host) => host.to_owned(),
        None => target.network.default_host(),
    };
    if host.is_empty() {
        return Err(PodConnectError::NoAddress.into());
    }
    let scheme = Scheme::of_manifest(action.scheme.as_deref());
    let url = HttpUrl::new(scheme, &host, port, action.path.as_deref().unwrap_or_default());
    let fields = action.http_headers.as_deref().unwrap_or_default();
    match HttpHeaders::new(target.agent_name, fields) {
        Ok(headers) => Ok(HttpQuestion { url, headers }),
        Err(error) => Err(HandlerError::Http { url: url.to_string(), error }),
    }
}

/// Asks by HTTP, from inside the pod. Answers the status and the beginning of the body.
pub(crate) async fn http_get(
    agent: &Agent,
    target: HandlerTarget<'_>,
    question: HttpQuestion,
    timeout: Option<Duration>,
) -> Result<HttpAnswer, HandlerError> {
    let url = question.url.to_string();
    let answer = http_client::get(agent, target.network, question, timeout).await;
    if let Err(HttpError::Connect(error)) = &answer {
        announce_refusal(agent, target, error);
    }
    answer.map_err(|error| HandlerError::Http { url, error })
}

/// Opens a connection from inside the pod.
pub(crate) async fn connect(
    agent: &Agent,
    target: HandlerTarget<'_>,
    host: &str,
    port: u16,
    timeout: Duration,
) -> Result<TcpStream, HandlerError> {
    match tokio::time::timeout(timeout, target.network.connect(agent, host, port)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => {
            announce_refusal(agent, target, &error);
            Err(error.into())
        }
        Err(_) => Err(HandlerError::ConnectTimedOut(format!("{host}:{port}"))),
    }
}

/// A host that the node refuses is told by an event of its own: the manifest has to change.
fn announce_refusal(agent: &Agent, target: HandlerTarget<'_>, error: &PodConnectError) {
    if error.is_refusal() {
        let name = &target.container.name;
        agent.container_event(target.pod, name, EventType::Warning, event::HOST_REFUSED, error.to_string());
    }
}
