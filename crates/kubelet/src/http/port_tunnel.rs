//! The newer form of port-forward: SPDY inside a WebSocket. Runtimes speak SPDY without it (those of others have never heard
//! of the tunnel), so it ends here.

use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::runtime_stream::{ask_runtime, hand_back};
use super::{Body, HttpError, HttpInterface};

/// Larger messages of a client end the tunnel; clients send 32 KiB at a time.
const MAX_MESSAGE: usize = 4 << 20;

/// Whether a request asks for the tunnel.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    let words = |name| {
        headers
            .get_all(name)
            .into_iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
    };
    words(&UPGRADE).any(|word| word.eq_ignore_ascii_case("websocket"))
        && words(&SEC_WEBSOCKET_PROTOCOL).any(|word| word == spdy::TUNNEL_PORT_FORWARD)
}

/// Ends the tunnel of a client here; what is inside it goes to the runtime's URL.
pub(super) async fn answer(
    interface: &HttpInterface,
    url: &str,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY).filter(|_| request.method() == Method::GET)
    else {
        return Err(HttpError::BadRequest("a WebSocket begins with GET and has a key".to_owned()));
    };
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|error| HttpError::Internal(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    headers.insert("x-stream-protocol-version", HeaderValue::from_static("portforward.k8s.io"));
    let mut answered = ask_runtime(interface, url, Method::POST, headers).await?;
    if answered.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(hand_back(answered));
    }
    let (near, far) = (hyper::upgrade::on(&mut request), hyper::upgrade::on(&mut answered));
    interface.agent.spawn(async move {
        let (Ok(near), Ok(far)) = tokio::join!(near, far) else { return };
        let limits =
            WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(near), Role::Server, Some(limits)).await;
        spdy::tunnel(socket, TokioIo::new(far)).await;
    });
    let mut response = Response::new(super::full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(spdy::TUNNEL_PORT_FORWARD));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tunnel_is_asked_for_by_its_name() {
        let asked = |upgrade: &'static str, protocol: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
            is_asked_for(&headers)
        };
        assert!(asked("websocket", "SPDY/3.1+portforward.k8s.io"));
        assert!(asked("WebSocket", "x, SPDY/3.1+portforward.k8s.io"));
        assert!(!asked("websocket", "v4.channel.k8s.io"));
        assert!(!asked("SPDY/3.1", "SPDY/3.1+portforward.k8s.io"));
        assert!(!is_asked_for(&HeaderMap::new()));
    }
}
