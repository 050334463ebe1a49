//! `exec`, `attach` and `portforward`: an upgraded connection to the kubelet, handed through byte by byte.

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Empty;

use super::node_request::{container, node, pod, refusal, send};
use super::upgraded;
use crate::gatekeeper::Call;
use crate::query::percent_encode;
use crate::request::Verb;
use crate::responses::{Answer, failure, whole};
use crate::status::ApiError;

/// Headers of a stream that both sides must agree on.
const STREAM_HEADERS: [&str; 7] = [
    "connection",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-accept",
    "x-stream-protocol-version",
];

/// With this header a refusal names the protocols that would have been taken.
const ACCEPTED_VERSIONS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

pub(super) async fn run(mut call: Call, subresource: &str) -> Result<Answer, ApiError> {
    if !matches!(call.verb, Verb::Get | Verb::Create) {
        return Err(ApiError::MethodNotAllowed);
    }
    if !call.request.headers().contains_key(UPGRADE) {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    let pod = pod(&call)?;
    let Some(node) = node(&pod).map(str::to_owned) else {
        return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", call.name)));
    };
    let place = match subresource {
        "portforward" => {
            format!("/portForward/{}/{}", percent_encode(&call.namespace), percent_encode(&call.name))
        }
        other => format!(
            "/{other}/{}/{}/{}",
            percent_encode(&call.namespace),
            percent_encode(&call.name),
            percent_encode(&container(&call, &pod)?)
        ),
    };
    let query = call.request.uri().query().unwrap_or_default();
    let method = if call.verb == Verb::Get { Method::GET } else { Method::POST };
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{place}?{query}"))
        .header(HOST, HeaderValue::from_static("kubelet"))
        .body(Empty::<Bytes>::new())
        .map_err(|error| ApiError::Internal { message: error.to_string() })?;
    copy_headers(call.request.headers(), request.headers_mut());
    let mut response = send(&call.server, &node, request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let accepted: Vec<HeaderValue> =
            response.headers().get_all(&ACCEPTED_VERSIONS).iter().cloned().collect();
        let mut answer = failure(&refusal(response).await);
        for version in accepted {
            answer.headers_mut().append(ACCEPTED_VERSIONS, version);
        }
        return Ok(answer);
    }
    let mut reply = Response::new(whole(Bytes::new()));
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    copy_headers(response.headers(), reply.headers_mut());
    let near = hyper::upgrade::on(&mut call.request);
    upgraded::join(near, hyper::upgrade::on(&mut response), &call.server, call.place);
    Ok(reply)
}

fn copy_headers(from: &http::HeaderMap, to: &mut http::HeaderMap) {
    for name in STREAM_HEADERS {
        let name = HeaderName::from_static(name);
        for value in from.get_all(&name) {
            to.append(name.clone(), value.clone());
        }
    }
    to.entry(CONNECTION).or_insert(HeaderValue::from_static("Upgrade"));
}
