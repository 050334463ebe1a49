//! `proxy`: any HTTP request, handed through the kubelet to a pod or to the kubelet itself, with its path and query as they
//! came. What speaks of this connection or says who the caller is stays here.

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{
    CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt as _;

use super::node_request::send;
use super::proxy_target::{self, ProxyTarget};
use super::upgraded;
use crate::gatekeeper::Call;
use crate::responses::{Answer, BodyError, streamed, whole};
use crate::status::ApiError;

/// Headers that mean one connection only, besides those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Beginnings of headers that say who the caller is: the pod is to learn nothing that it could use itself, and to believe
/// nothing that the caller only says.
const IDENTITY: [&str; 4] = ["authorization", "impersonate-", "x-remote-", "x-forwarded-"];

pub(super) async fn run(mut call: Call, rest: &str) -> Result<Answer, ApiError> {
    let target = proxy_target::find(&call)?;
    let own_path = call.request.uri().path().to_owned();
    let query = call.request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let upgrade = wanted_upgrade(call.request.headers());
    if rest.is_empty() && upgrade.is_none() && matches!(*call.request.method(), Method::GET | Method::HEAD) {
        return redirect(&format!("{own_path}/{query}"));
    }
    let ProxyTarget { node, prefix } = target;
    let path = if rest.is_empty() { "/" } else { rest };
    // What is ours of the path; the rest is the target's.
    let own_prefix = own_path.strip_suffix(rest).unwrap_or(&own_path).to_owned();
    let near = hyper::upgrade::on(&mut call.request);
    let Call { server, request, place, .. } = call;
    let (head, body) = request.into_parts();
    let mut forwarded = Request::builder()
        .method(head.method)
        .uri(format!("{prefix}{path}{query}"))
        .version(Version::HTTP_11)
        .body(body)
        .map_err(|error| ApiError::bad_request(format!("the path cannot be passed on: {error}")))?;
    *forwarded.headers_mut() = passed_on(&head.headers);
    let headers = forwarded.headers_mut();
    headers.insert(HOST, HeaderValue::from_static("kubelet"));
    if let Ok(path) = HeaderValue::from_str(&own_path) {
        headers.insert(HeaderName::from_static("x-forwarded-uri"), path);
    }
    if let Some(upgrade) = &upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade.clone());
    }
    let mut response = send(&server, &node, forwarded).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let mut reply = Response::new(whole(Bytes::new()));
        *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *reply.headers_mut() = without_hops(response.headers());
        let protocol = response.headers().get(UPGRADE).cloned().or(upgrade);
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Some(protocol) = protocol {
            reply.headers_mut().insert(UPGRADE, protocol);
        }
        upgraded::join(near, hyper::upgrade::on(&mut response), &server, place);
        return Ok(reply);
    }
    let (head, body) = response.into_parts();
    let closing = server.closing().clone();
    let pieces = body
        .into_data_stream()
        .map(move |piece| {
            // The request counts as running until its last piece.
            let _ = &place;
            piece.map_err(BodyError::from)
        })
        .take_until(closing.cancelled_owned());
    let mut reply = Response::new(streamed(pieces));
    *reply.status_mut() = head.status;
    *reply.headers_mut() = without_hops(&head.headers);
    lead_back(reply.headers_mut(), &own_prefix);
    Ok(reply)
}

/// The page of a directory has relative links: its path has to end with a slash.
fn redirect(path: &str) -> Result<Answer, ApiError> {
    let location = HeaderValue::from_str(path)
        .map_err(|_| ApiError::bad_request("the path cannot stand in a header"))?;
    let mut reply = Response::new(whole(Bytes::new()));
    *reply.status_mut() = StatusCode::MOVED_PERMANENTLY;
    reply.headers_mut().insert(LOCATION, location);
    Ok(reply)
}

/// The protocol to which the client wants to go over, if it does.
fn wanted_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let named = named_by_connection(headers).any(|name| name.eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| named).cloned()
}

fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

fn without_hops(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<&str> = named_by_connection(headers).collect();
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let hop =
            HOP_BY_HOP.contains(name) || named.iter().any(|named| name.as_str().eq_ignore_ascii_case(named));
        if !hop {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in &without_hops(headers) {
        if !IDENTITY.iter().any(|start| name.as_str().starts_with(start)) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// A redirect to a path of the target becomes one to the same place through here.
fn lead_back(headers: &mut HeaderMap, own_prefix: &str) {
    let Some(location) = headers.get(LOCATION).and_then(|location| location.to_str().ok()) else { return };
    let own = location.starts_with('/') && !location.starts_with("//");
    if own && let Ok(location) = HeaderValue::from_str(&format!("{own_prefix}{location}")) {
        headers.insert(LOCATION, location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn what_means_one_connection_or_the_caller_stays_behind() {
        let all = headers(&[
            ("Connection", "close, X-Mine"),
            ("X-Mine", "1"),
            ("Keep-Alive", "5"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "websocket"),
            ("Authorization", "Bearer secret"),
            ("Impersonate-User", "root"),
            ("Impersonate-Extra-Scopes", "x"),
            ("X-Remote-Group", "system:masters"),
            ("X-Forwarded-For", "1.1.1.1"),
            ("Accept", "text/html"),
            ("X-Custom", "a"),
            ("X-Custom", "b"),
        ]);
        let kept = passed_on(&all);
        let mut names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "x-custom"]);
        assert_eq!(kept.get_all("x-custom").iter().count(), 2);
    }

    #[test]
    fn an_upgrade_has_to_be_named_by_the_connection() {
        let wanted = |pairs: &[(&str, &str)]| wanted_upgrade(&headers(pairs)).is_some();
        assert!(wanted(&[("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket")]));
        assert!(!wanted(&[("Connection", "keep-alive"), ("Upgrade", "websocket")]));
        assert!(!wanted(&[("Upgrade", "h2c")]));
        assert!(!wanted(&[("Connection", "Upgrade")]));
    }

    #[test]
    fn redirects_of_the_target_lead_back_through_the_proxy() {
        for (location, expected) in [
            ("/login?x=1", "/p/proxy/login?x=1"),
            ("relative", "relative"),
            ("https://example.com/", "https://example.com/"),
            ("//example.com/", "//example.com/"),
        ] {
            let mut map = headers(&[("Location", location)]);
            lead_back(&mut map, "/p/proxy");
            assert_eq!(map[LOCATION], expected);
        }
    }
}
