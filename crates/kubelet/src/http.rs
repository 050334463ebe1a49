//! The kubelet's HTTP interface: health, pods, logs, environments, the relays of exec, attach and port-forward, and requests
//! to ports of pods. Who may
//! ask what is decided where the connection comes from: whoever holds it has been let through.

mod environment;
mod logs;
mod pod_proxy;
mod port_tunnel;
mod query;
mod runtime_stream;
mod streams;

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use cri::v1;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::agent::SharedAgent;
use crate::guard::{Guard, Refusal};
use crate::metrics;
use crate::pods::PodsHandle;

/// A client has so long to send the head of a request, and a connection without one is kept for so long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The body of an answer.
type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// What requests are answered from.
#[derive(Clone, Debug)]
pub(crate) struct HttpInterface {
    pub(crate) agent: SharedAgent,
    pub(crate) pods: PodsHandle,
}

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
enum HttpError {
    /// No such path, pod or container.
    #[error("{0}")]
    NotFound(String),
    /// A parameter cannot be read.
    #[error("{0}")]
    BadRequest(String),
    /// Another method is meant.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// Nobody answers at a port of a pod.
    #[error("error trying to reach service: {0}")]
    Unreachable(String),
    /// The runtime or the file system refused.
    #[error("{0}")]
    Internal(String),
}

impl HttpError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    answer(status, "text/plain; charset=utf-8", full(text))
}

fn json(value: &impl serde::Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => answer(StatusCode::OK, "application/json", full(bytes)),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

fn answer(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

impl HttpInterface {
    /// Serves one connection of the API server until it ends.
    pub(crate) async fn serve_connection(self, io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        self.serve_guarded(io, None).await;
    }

    /// Serves one connection until it ends; what the guard does not let through is refused.
    pub(crate) async fn serve_guarded(
        self,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        guard: Option<Guard>,
    ) {
        let service = service_fn(move |request: Request<Incoming>| {
            let (interface, guard) = (self.clone(), guard.clone());
            async move {
                if let Some(guard) = guard {
                    let judged = guard.judge(request.method(), request.uri().path(), request.headers()).await;
                    match judged {
                        Ok(()) => {}
                        Err(Refusal::Unauthorized) => {
                            return Ok::<_, Infallible>(text(StatusCode::UNAUTHORIZED, "Unauthorized"));
                        }
                        Err(Refusal::Forbidden { message }) => {
                            return Ok(text(StatusCode::FORBIDDEN, message));
                        }
                    }
                }
                Ok(interface.respond(request).await)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the node ended early");
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        match self.route(request).await {
            Ok(response) => response,
            // This one is handed on to clients of the API as it is.
            Err(error @ HttpError::Unreachable(_)) => {
                let mut answer = json(&serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": error.to_string(), "reason": "ServiceUnavailable", "code": 503,
                }));
                *answer.status_mut() = error.status();
                answer
            }
            Err(error) => text(error.status(), error.to_string()),
        }
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Response<Body>, HttpError> {
        let path = request.uri().path().to_owned();
        if let Some(target) = pod_proxy::Target::read(&path) {
            return pod_proxy::answer(self, target?, request).await;
        }
        let parts: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(query::decode)
            .collect::<Option<_>>()
            .ok_or_else(|| HttpError::BadRequest(format!("the path {path} cannot be decoded")))?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let get = request.method() == Method::GET;
        match parts.as_slice() {
            ["healthz"] if get => Ok(text(StatusCode::OK, "ok")),
            ["pods"] if get => Ok(self.list_pods().await),
            ["metrics"] if get => self.metrics().await,
            ["runningpods"] if get => self.list_running_pods().await,
            ["containerLogs", namespace, pod, container] if get => {
                logs::answer(self, (namespace, pod, container), request.uri().query()).await
            }
            ["environment", namespace, pod] if get => {
                environment::answer(self, (namespace, pod), request.uri().query()).await
            }
            ["exec" | "attach", namespace, pod, container] => {
                let target = (*namespace, *pod, *container);
                if parts[0] == "exec" {
                    streams::exec(self, target, request).await
                } else {
                    streams::attach(self, target, request).await
                }
            }
            ["portForward", namespace, pod] => streams::port_forward(self, (namespace, pod), request).await,
            ["healthz"]
            | ["pods"]
            | ["metrics"]
            | ["runningpods"]
            | ["containerLogs", _, _, _]
            | ["environment", _, _] => Err(HttpError::MethodNotAllowed),
            _ => Err(HttpError::NotFound(format!("the node has no path {path}"))),
        }
    }

    async fn list_pods(&self) -> Response<Body> {
        let pods = self.pods.list().await;
        let items: Vec<&k8s_openapi::api::core::v1::Pod> = pods.iter().map(AsRef::as_ref).collect();
        json(&serde_json::json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
    }

    async fn metrics(&self) -> Result<Response<Body>, HttpError> {
        let pods = self.pods.list().await;
        let text = self.agent.metrics.render(pods.iter().map(AsRef::as_ref));
        let text = text.map_err(|error| HttpError::Internal(error.to_string()))?;
        Ok(answer(StatusCode::OK, metrics::TEXT, full(text)))
    }

    /// The pods that have a sandbox in the runtime, with the containers that run: what is, whatever the API says.
    async fn list_running_pods(&self) -> Result<Response<Body>, HttpError> {
        let runtime = &self.agent.runtime;
        let refused = |status: tonic::Status| HttpError::Internal(status.message().to_owned());
        let sandboxes =
            runtime.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await.map_err(refused)?;
        let containers =
            runtime.list_containers(v1::ListContainersRequest::default()).await.map_err(refused)?;
        let containers = containers.into_inner().containers;
        let ready = v1::PodSandboxState::SandboxReady as i32;
        let items: Vec<serde_json::Value> = sandboxes
            .into_inner()
            .items
            .into_iter()
            .filter(|sandbox| sandbox.state == ready)
            .filter_map(|sandbox| {
                let running: Vec<serde_json::Value> = containers
                    .iter()
                    .filter(|one| one.pod_sandbox_id == sandbox.id)
                    .filter(|one| one.state == v1::ContainerState::ContainerRunning as i32)
                    .map(|one| {
                        let name = one.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
                        let image = one.image.as_ref().map_or("", |image| image.image.as_str());
                        serde_json::json!({"name": name, "image": image, "resources": {}})
                    })
                    .collect();
                let metadata = sandbox.metadata?;
                Some(serde_json::json!({
                    "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
                    "spec": {"containers": running},
                    "status": {},
                }))
            })
            .collect();
        Ok(json(&serde_json::json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})))
    }

    async fn find(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<std::sync::Arc<k8s_openapi::api::core::v1::Pod>, HttpError> {
        let found = self.pods.find(namespace, name).await;
        found.ok_or_else(|| HttpError::NotFound(format!("pod \"{name}_{namespace}\" not found")))
    }
}
