//! The kubelet's HTTP interface: health, pods, logs, environments, and the relays of exec, attach and port-forward. Who may
//! ask what is decided where the connection comes from: whoever holds it has been let through.

mod environment;
mod logs;
mod query;
mod streams;

use std::convert::Infallible;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::agent::SharedAgent;
use crate::metrics;
use crate::pods::PodsHandle;

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
    /// Serves one connection until it ends.
    pub(crate) async fn serve_connection(self, io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let service = service_fn(move |request| {
            let interface = self.clone();
            async move { Ok::<_, Infallible>(interface.respond(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the node ended early");
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        match self.route(request).await {
            Ok(response) => response,
            Err(error) => text(error.status(), error.to_string()),
        }
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Response<Body>, HttpError> {
        let path = request.uri().path().to_owned();
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
            ["healthz"] | ["pods"] | ["metrics"] | ["containerLogs", _, _, _] | ["environment", _, _] => {
                Err(HttpError::MethodNotAllowed)
            }
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

    async fn find(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<std::sync::Arc<k8s_openapi::api::core::v1::Pod>, HttpError> {
        let found = self.pods.find(namespace, name).await;
        found.ok_or_else(|| HttpError::NotFound(format!("pod \"{name}_{namespace}\" not found")))
    }
}
