//! What a client and we agree on: the transport and the protocol on it. Pure: headers in, agreement or refusal out.
//!
//! Newer clients ask for WebSocket; older ones, and `crictl`, for SPDY/3.1. Both name the protocols that they know, in the
//! order of their preference.

use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::websocket::{Protocol, StatusForm, choose_protocol};

/// With this header a client names the protocols on SPDY that it knows, and we the chosen one.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// With this one a refusal names those that would have been taken.
pub(super) const ACCEPTED_VERSIONS: HeaderName =
    HeaderName::from_static("x-accepted-stream-protocol-versions");

/// What a stream is for, as its URL says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Exec and attach.
    Process,
    PortForward,
}

/// A protocol on SPDY for the streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpdyProcess {
    name: &'static str,
    pub(super) status: StatusForm,
    /// The client has a stream for the size of its terminal.
    pub(super) can_resize: bool,
}

/// Version 5 differs from version 4 on WebSocket only.
const PROCESS: [SpdyProcess; 4] = [
    SpdyProcess { name: "v4.channel.k8s.io", status: StatusForm::Object, can_resize: true },
    SpdyProcess { name: "v3.channel.k8s.io", status: StatusForm::Text, can_resize: true },
    SpdyProcess { name: "v2.channel.k8s.io", status: StatusForm::Text, can_resize: false },
    SpdyProcess { name: "channel.k8s.io", status: StatusForm::Text, can_resize: false },
];
const PROCESS_NAMES: [&str; 4] = [PROCESS[0].name, PROCESS[1].name, PROCESS[2].name, PROCESS[3].name];
const PORTS_NAMES: [&str; 1] = ["portforward.k8s.io"];

/// How a stream is carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Agreement {
    /// Channels in WebSocket messages.
    Channels { protocol: Protocol, accept: String },
    /// SPDY in WebSocket messages, for ports.
    Tunnel { accept: String },
    /// SPDY, for the streams of a process.
    SpdyProcess(SpdyProcess),
    /// SPDY, for ports.
    SpdyPorts,
}

impl Agreement {
    /// What the header `Upgrade` of the answer says.
    pub(super) fn upgrade(&self) -> &'static str {
        match self {
            Self::Channels { .. } | Self::Tunnel { .. } => "websocket",
            Self::SpdyProcess(_) | Self::SpdyPorts => "SPDY/3.1",
        }
    }

    /// The headers of the answer that name what was chosen.
    pub(super) fn headers(&self) -> Vec<(HeaderName, &str)> {
        use http::header::SEC_WEBSOCKET_ACCEPT;
        match self {
            Self::Channels { protocol, accept } => {
                let name = protocol.name.map(|name| (SEC_WEBSOCKET_PROTOCOL, name));
                [(SEC_WEBSOCKET_ACCEPT, accept.as_str())].into_iter().chain(name).collect()
            }
            Self::Tunnel { accept } => {
                vec![(SEC_WEBSOCKET_ACCEPT, accept), (SEC_WEBSOCKET_PROTOCOL, spdy::TUNNEL_PORT_FORWARD)]
            }
            Self::SpdyProcess(protocol) => vec![(PROTOCOL_VERSION, protocol.name)],
            Self::SpdyPorts => vec![(PROTOCOL_VERSION, PORTS_NAMES[0])],
        }
    }
}

/// Why there is no agreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disagreement {
    pub(super) status: StatusCode,
    pub(super) text: String,
    /// Protocols that would have been taken.
    pub(super) accepted: &'static [&'static str],
}

fn refuse(status: StatusCode, text: impl Into<String>) -> Disagreement {
    Disagreement { status, text: text.into(), accepted: &[] }
}

/// Judges the headers of a request.
pub(super) fn negotiate(
    method: &Method,
    headers: &HeaderMap,
    purpose: Purpose,
) -> Result<Agreement, Disagreement> {
    if !header_says(headers, &CONNECTION, "upgrade") {
        return Err(refuse(StatusCode::BAD_REQUEST, "Upgrade request required"));
    }
    if header_says(headers, &UPGRADE, "websocket") {
        return websocket(method, headers, purpose);
    }
    if header_says(headers, &UPGRADE, "SPDY/3.1") {
        if !matches!(*method, Method::GET | Method::POST) {
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "a stream begins with GET or POST"));
        }
        return over_spdy(headers, purpose);
    }
    Err(refuse(StatusCode::BAD_REQUEST, "unable to upgrade: ask for websocket or SPDY/3.1"))
}

fn websocket(method: &Method, headers: &HeaderMap, purpose: Purpose) -> Result<Agreement, Disagreement> {
    if method != Method::GET {
        return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "a WebSocket begins with GET"));
    }
    let Some(accept) = headers.get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes())) else {
        return Err(refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing"));
    };
    let mut offered = header_words(headers, &SEC_WEBSOCKET_PROTOCOL);
    if purpose == Purpose::PortForward && offered.any(|name| name == spdy::TUNNEL_PORT_FORWARD) {
        return Ok(Agreement::Tunnel { accept });
    }
    match choose_protocol(header_words(headers, &SEC_WEBSOCKET_PROTOCOL)) {
        Some(protocol) => Ok(Agreement::Channels { protocol, accept }),
        None => Err(refuse(StatusCode::FORBIDDEN, "none of the offered subprotocols is known")),
    }
}

fn over_spdy(headers: &HeaderMap, purpose: Purpose) -> Result<Agreement, Disagreement> {
    let offered: Vec<&str> = header_words(headers, &PROTOCOL_VERSION).collect();
    if offered.is_empty() {
        let text = "unable to upgrade: X-Stream-Protocol-Version is required";
        return Err(refuse(StatusCode::BAD_REQUEST, text));
    }
    let (agreed, accepted): (Option<Agreement>, &'static [&'static str]) = match purpose {
        Purpose::Process => {
            let mut known =
                offered.iter().filter_map(|name| PROCESS.into_iter().find(|protocol| protocol.name == *name));
            (known.next().map(Agreement::SpdyProcess), &PROCESS_NAMES)
        }
        Purpose::PortForward => {
            let known = offered.iter().any(|name| PORTS_NAMES.contains(name));
            (known.then_some(Agreement::SpdyPorts), &PORTS_NAMES)
        }
    };
    agreed.ok_or_else(|| Disagreement {
        status: StatusCode::FORBIDDEN,
        // What the client offered is not repeated: it may be long.
        text: format!("unable to upgrade: unable to negotiate protocol: server accepts {accepted:?}"),
        accepted,
    })
}

/// Whether one of the words of a header is this one.
fn header_says(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    header_words(headers, name).any(|found| found.eq_ignore_ascii_case(word))
}

fn header_words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &Method, purpose: Purpose, headers: &[(&str, &str)]) -> Result<String, (u16, usize)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                value.parse().expect("a value"),
            );
        }
        match negotiate(method, &map, purpose) {
            Ok(agreement) => {
                let chosen: Vec<&str> = agreement
                    .headers()
                    .into_iter()
                    .filter(|(name, _)| name != "sec-websocket-accept")
                    .map(|(_, value)| value)
                    .collect();
                Ok(format!("{} {}", agreement.upgrade(), chosen.join(" ")).trim().to_owned())
            }
            Err(refused) => Err((refused.status.as_u16(), refused.accepted.len())),
        }
    }

    const VERSION: &str = "X-Stream-Protocol-Version";
    const SPDY: [(&str, &str); 2] = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")];
    const SOCKET: [(&str, &str); 3] =
        [("Connection", "keep-alive, Upgrade"), ("Upgrade", "WebSocket"), ("Sec-WebSocket-Key", "x")];

    #[test]
    fn the_clients_first_protocol_that_we_know_is_taken() {
        use Purpose::{PortForward, Process};
        let with = |base: &[(&'static str, &'static str)], more: &[(&'static str, &'static str)]| {
            [base, more].concat()
        };
        for (method, purpose, headers, expected) in [
            (
                Method::POST,
                Process,
                with(&SPDY, &[(VERSION, "v5.channel.k8s.io"), (VERSION, "v4.channel.k8s.io")]),
                Ok("SPDY/3.1 v4.channel.k8s.io"),
            ),
            (
                Method::GET,
                Process,
                with(&SPDY, &[(VERSION, "v2.channel.k8s.io, channel.k8s.io")]),
                Ok("SPDY/3.1 v2.channel.k8s.io"),
            ),
            (Method::POST, Process, with(&SPDY, &[(VERSION, "v9.channel.k8s.io")]), Err((403, 4))),
            (Method::POST, Process, SPDY.to_vec(), Err((400, 0))),
            (Method::PUT, Process, with(&SPDY, &[(VERSION, "channel.k8s.io")]), Err((405, 0))),
            (
                Method::POST,
                PortForward,
                with(&SPDY, &[(VERSION, "portforward.k8s.io")]),
                Ok("SPDY/3.1 portforward.k8s.io"),
            ),
            (Method::POST, PortForward, with(&SPDY, &[(VERSION, "v4.channel.k8s.io")]), Err((403, 1))),
            (
                Method::GET,
                PortForward,
                with(&SOCKET, &[("Sec-WebSocket-Protocol", "SPDY/3.1+portforward.k8s.io")]),
                Ok("websocket SPDY/3.1+portforward.k8s.io"),
            ),
            (
                Method::GET,
                Process,
                with(&SOCKET, &[("Sec-WebSocket-Protocol", "SPDY/3.1+portforward.k8s.io")]),
                Err((403, 0)),
            ),
            (
                Method::GET,
                Process,
                with(&SOCKET, &[("Sec-WebSocket-Protocol", "v5.channel.k8s.io")]),
                Ok("websocket v5.channel.k8s.io"),
            ),
            (Method::GET, Process, SOCKET.to_vec(), Ok("websocket")),
            (Method::POST, Process, SOCKET.to_vec(), Err((405, 0))),
            (Method::GET, Process, SOCKET[..2].to_vec(), Err((400, 0))),
            (Method::GET, Process, vec![("Connection", "Upgrade"), ("Upgrade", "h2c")], Err((400, 0))),
            (Method::GET, Process, vec![], Err((400, 0))),
        ] {
            assert_eq!(
                asked(&method, purpose, &headers),
                expected.map(str::to_owned),
                "{method} {purpose:?} {headers:?}"
            );
        }
    }
}
