//! One HTTP/1.1 request to a kubelet, and its answer handed on.

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::gatekeeper::Call;
use crate::object::{list, text, tree};
use crate::query::percent_encode;
use crate::responses::{Answer, BodyError, answer, streamed};
use crate::server::Server;
use crate::status::ApiError;

/// Most bytes of a kubelet's error that are handed on.
const ERROR_BYTES: usize = 4096;

/// The pod that a request is about.
pub(super) fn pod(call: &Call) -> Result<Value, ApiError> {
    let stored =
        call.server.store.get(&call.key()).ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
    Ok(tree(&stored))
}

/// The container that a request is about: the named one, or the only one.
pub(super) fn container(call: &Call, pod: &Value) -> Result<String, ApiError> {
    let names = |field: &str| -> Vec<&str> {
        list(pod, &["spec", field]).iter().map(|container| text(container, &["name"])).collect()
    };
    let (main, init, ephemeral) =
        (names("containers"), names("initContainers"), names("ephemeralContainers"));
    let choices = || {
        let mut words = format!("choose one of: [{}]", main.join(" "));
        if !init.is_empty() {
            words.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
        }
        if !ephemeral.is_empty() {
            words.push_str(&format!(" or one of the ephemeral containers: [{}]", ephemeral.join(" ")));
        }
        words
    };
    match (call.query.text("container"), main.as_slice()) {
        (Some(wanted), _) if main.iter().chain(&init).chain(&ephemeral).any(|own| *own == wanted) => {
            Ok(wanted.to_owned())
        }
        (Some(wanted), _) => {
            Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {}", call.name)))
        }
        (None, [only]) if init.is_empty() && ephemeral.is_empty() => Ok((*only).to_owned()),
        (None, _) => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {}, {}",
            call.name,
            choices()
        ))),
    }
}

/// The node that a pod is on; `None` before it was given to one.
pub(super) fn node(pod: &Value) -> Option<&str> {
    Some(text(pod, &["spec", "nodeName"])).filter(|node| !node.is_empty())
}

/// `KEY=VALUE&...` of those parameters of the request that are named.
pub(super) fn chosen_query(call: &Call, names: &[&str]) -> String {
    let pairs: Vec<String> = names
        .iter()
        .filter_map(|name| call.query.text(name).map(|value| format!("{name}={}", percent_encode(value))))
        .collect();
    pairs.join("&")
}

/// Opens a connection to a node and starts to speak HTTP on it.
pub(super) async fn send<B>(
    server: &Server,
    node: &str,
    request: Request<B>,
) -> Result<Response<Incoming>, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    let unreachable = |reason: String| ApiError::NodeUnreachable { node: node.to_owned(), reason };
    let io = server.nodes.0.connect(node).await.map_err(|error| unreachable(error.to_string()))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io))
        .await
        .map_err(|error| unreachable(error.to_string()))?;
    // The connection ends with the answer's body, or with the upgraded stream.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a node ended badly");
        }
    });
    sender.send_request(request).await.map_err(|error| unreachable(error.to_string()))
}

/// Asks a kubelet for `path` and hands its answer on as it comes.
pub(super) async fn get(call: Call, node: &str, path: &str) -> Result<Answer, ApiError> {
    let request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header(HOST, HeaderValue::from_static("kubelet"))
        .body(Empty::<Bytes>::new())
        .map_err(|error| ApiError::Internal { message: error.to_string() })?;
    let response = send(&call.server, node, request).await?;
    if response.status() != StatusCode::OK {
        return Err(refusal(response).await);
    }
    let content_type = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("text/plain")
        .to_owned();
    let closing = call.server.closing().clone();
    let place = call.place;
    let pieces = response
        .into_body()
        .into_data_stream()
        .map(move |piece| {
            // The request counts as running until its last piece.
            let _ = &place;
            piece.map_err(BodyError::from)
        })
        .take_until(closing.cancelled_owned());
    Ok(answer(StatusCode::OK, &content_type, streamed(pieces)))
}

/// What a kubelet said instead of an answer.
pub(super) async fn refusal(response: Response<Incoming>) -> ApiError {
    let code = response.status();
    let text = match Limited::new(response.into_body(), ERROR_BYTES).collect().await {
        Ok(collected) => String::from_utf8_lossy(&collected.to_bytes()).trim().to_owned(),
        Err(_) => String::new(),
    };
    let message = if text.is_empty() { format!("the kubelet answered {code}") } else { text };
    let code = if code.is_client_error() || code.is_server_error() {
        code
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    ApiError::NodeAnswered { code, message }
}
