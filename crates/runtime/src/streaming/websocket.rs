//! The WebSocket protocols of Kubernetes: which one a client and we agree on, and the pump between its frames and the
//! session's queues.
//!
//! A message is the number of its channel and the bytes: as they are in `channel.k8s.io`, `v4.channel.k8s.io` and
//! `v5.channel.k8s.io`, as a digit and base64 in `base64.channel.k8s.io` and `v4.base64.channel.k8s.io`. From version 4 on
//! the error channel carries a `Status`; version 5 can close a single channel.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use super::session::{Inbound, Outbound, Output};
use super::status::{Subject, status_object, status_text};
use super::{TerminalSize, WantedStreams};

/// Larger messages of a client end the session; clients send 32 KiB at a time.
const MAX_MESSAGE: usize = 4 << 20;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Version 5: the channel whose number follows is closed.
const CLOSE: u8 = 255;

/// How the bytes of a channel stand in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Binary,
    Base64,
}

/// A protocol that both sides know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Protocol {
    /// As the header names it; `None` when the client named none.
    pub(super) name: Option<&'static str>,
    pub(super) encoding: Encoding,
    pub(super) status: StatusForm,
    pub(super) can_close: bool,
}

/// What the error channel carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusForm {
    Text,
    Object,
}

const fn known(name: &'static str, encoding: Encoding, status: StatusForm, can_close: bool) -> Protocol {
    Protocol { name: Some(name), encoding, status, can_close }
}

const PROTOCOLS: [Protocol; 5] = [
    known("v5.channel.k8s.io", Encoding::Binary, StatusForm::Object, true),
    known("v4.channel.k8s.io", Encoding::Binary, StatusForm::Object, false),
    known("v4.base64.channel.k8s.io", Encoding::Base64, StatusForm::Object, false),
    known("channel.k8s.io", Encoding::Binary, StatusForm::Text, false),
    known("base64.channel.k8s.io", Encoding::Base64, StatusForm::Text, false),
];

/// The protocol for a client that offers these, in its order; the oldest for a client that offers none.
pub(super) fn choose_protocol<'a>(offered: impl Iterator<Item = &'a str>) -> Option<Protocol> {
    let mut none_offered = true;
    for name in offered {
        none_offered = false;
        if let Some(protocol) = PROTOCOLS.into_iter().find(|protocol| protocol.name == Some(name)) {
            return Some(protocol);
        }
    }
    none_offered.then_some(Protocol {
        name: None,
        encoding: Encoding::Binary,
        status: StatusForm::Text,
        can_close: false,
    })
}

/// One message for a channel.
pub(super) fn encode(encoding: Encoding, channel: u8, bytes: &[u8]) -> Message {
    match encoding {
        Encoding::Binary => {
            let mut message = Vec::with_capacity(bytes.len() + 1);
            message.push(channel);
            message.extend_from_slice(bytes);
            Message::binary(message)
        }
        Encoding::Base64 => {
            let mut text = String::with_capacity(bytes.len() * 4 / 3 + 5);
            text.push(char::from(b'0' + channel % 10));
            STANDARD.encode_string(bytes, &mut text);
            Message::text(text)
        }
    }
}

/// The channel of a message and its bytes; `None` for what is not of the protocol.
pub(super) fn decode(encoding: Encoding, message: &[u8]) -> Option<(u8, Bytes)> {
    let (first, rest) = message.split_first()?;
    match encoding {
        Encoding::Binary => Some((*first, Bytes::copy_from_slice(rest))),
        Encoding::Base64 => {
            let channel = first.checked_sub(b'0').filter(|channel| *channel < 10)?;
            Some((channel, STANDARD.decode(rest).ok()?.into()))
        }
    }
}

/// A terminal's size as clients write it.
#[derive(Deserialize)]
pub(super) struct ResizeMessage {
    #[serde(rename = "Width")]
    width: u16,
    #[serde(rename = "Height")]
    height: u16,
}

impl ResizeMessage {
    /// The size, unless it is none.
    pub(super) fn size(self) -> Option<TerminalSize> {
        let size = TerminalSize { width: self.width, height: self.height };
        (size.width > 0 && size.height > 0).then_some(size)
    }
}

/// What a message of a client means. Channels that the client may not write to, and sizes that are none, mean nothing.
pub(super) fn read_message(protocol: Protocol, channel: u8, bytes: Bytes) -> Option<Inbound> {
    match channel {
        STDIN => Some(Inbound::Stdin(bytes)),
        RESIZE => {
            let size: ResizeMessage = serde_json::from_slice(&bytes).ok()?;
            size.size().map(Inbound::Resize)
        }
        CLOSE if protocol.can_close && bytes.first() == Some(&STDIN) => Some(Inbound::StdinClosed),
        _ => None,
    }
}

/// The WebSocket over a connection that was upgraded.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(connection: S) -> WebSocketStream<S> {
    let limits =
        WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    WebSocketStream::from_raw_socket(connection, Role::Server, Some(limits)).await
}

/// Carries messages between the connection and a session's queues until the session says its last word or the client goes.
pub(super) async fn pump<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<S>,
    protocol: Protocol,
    streams: WantedStreams,
    subject: Subject,
    inbound: mpsc::Sender<Inbound>,
    outbound: mpsc::Receiver<Outbound>,
) {
    let (sink, stream) = socket.split();
    tokio::select! {
        () = receive(stream, protocol, inbound) => {}
        // A client that is gone is seen by the other half; an error here is the same news.
        _ = transmit(sink, protocol, streams, subject, outbound) => {}
    }
}

async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: SplitStream<WebSocketStream<S>>,
    protocol: Protocol,
    inbound: mpsc::Sender<Inbound>,
) {
    while let Some(Ok(message)) = stream.next().await {
        let bytes: Bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            Message::Close(_) => return,
        };
        let meaning = decode(protocol.encoding, &bytes)
            .and_then(|(channel, bytes)| read_message(protocol, channel, bytes));
        if let Some(meaning) = meaning
            && inbound.send(meaning).await.is_err()
        {
            // The session is over; its last word is under way in the other half.
            std::future::pending::<()>().await;
        }
    }
}

async fn transmit<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    protocol: Protocol,
    streams: WantedStreams,
    subject: Subject,
    mut outbound: mpsc::Receiver<Outbound>,
) -> Result<(), WebSocketError> {
    // Tells the client that the connection stands, on the lowest channel that it reads.
    let first = if streams.stdout {
        STDOUT
    } else if streams.stderr {
        STDERR
    } else {
        ERROR
    };
    sink.send(encode(protocol.encoding, first, &[])).await?;
    while let Some(message) = outbound.recv().await {
        match message {
            Outbound::Data(Output::Stdout, bytes) => {
                sink.send(encode(protocol.encoding, STDOUT, &bytes)).await?
            }
            Outbound::Data(Output::Stderr, bytes) => {
                sink.send(encode(protocol.encoding, STDERR, &bytes)).await?
            }
            Outbound::End(end) => {
                let text = match protocol.status {
                    StatusForm::Object => Some(status_object(&subject, &end).to_string()),
                    StatusForm::Text => status_text(&subject, &end),
                };
                if let Some(text) = text {
                    sink.send(encode(protocol.encoding, ERROR, text.as_bytes())).await?;
                }
                let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
                sink.send(Message::Close(Some(normal))).await?;
                return sink.close().await;
            }
        }
    }
    sink.close().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(offered: &[&str]) -> Option<Option<&'static str>> {
        choose_protocol(offered.iter().copied()).map(|protocol| protocol.name)
    }

    #[test]
    fn the_clients_first_protocol_that_we_know_is_taken() {
        assert_eq!(chosen(&["v5.channel.k8s.io"]), Some(Some("v5.channel.k8s.io")));
        assert_eq!(
            chosen(&["v9.channel.k8s.io", "channel.k8s.io", "v4.channel.k8s.io"]),
            Some(Some("channel.k8s.io"))
        );
        assert_eq!(chosen(&["base64.channel.k8s.io"]), Some(Some("base64.channel.k8s.io")));
        assert_eq!(chosen(&[]), Some(None), "a client that names none speaks the oldest");
        assert_eq!(chosen(&["chat"]), None);
    }

    #[test]
    fn messages_are_written_and_read_back() {
        for encoding in [Encoding::Binary, Encoding::Base64] {
            for bytes in [&b""[..], b"hello", &[0, 255, 128]] {
                let message = encode(encoding, STDERR, bytes).into_data();
                assert_eq!(
                    decode(encoding, &message),
                    Some((STDERR, Bytes::copy_from_slice(bytes))),
                    "{encoding:?}"
                );
            }
        }
        assert_eq!(encode(Encoding::Base64, STDOUT, b"hi"), Message::text("1aGk="));
        for nonsense in [&b""[..], b"xaGk=", b"1***", b"/aGk="] {
            assert_eq!(decode(Encoding::Base64, nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn a_client_may_type_resize_and_close_its_input_and_nothing_else() {
        let [five, four, ..] = PROTOCOLS;
        let read = |protocol, channel, bytes: &'static [u8]| {
            read_message(protocol, channel, Bytes::from_static(bytes))
        };
        assert_eq!(read(four, 0, b"x"), Some(Inbound::Stdin(Bytes::from_static(b"x"))));
        let size = TerminalSize { width: 80, height: 24 };
        assert_eq!(read(four, 4, br#"{"Width":80,"Height":24}"#), Some(Inbound::Resize(size)));
        for nonsense in
            [&b"{}"[..], b"", b"{\"Width\":0,\"Height\":24}", b"{\"Width\":70000,\"Height\":1}", b"80x24"]
        {
            assert_eq!(read(four, 4, nonsense), None, "{nonsense:?}");
        }
        assert_eq!(read(five, 255, &[0]), Some(Inbound::StdinClosed));
        assert_eq!(read(five, 255, &[1]), None);
        assert_eq!(read(five, 255, &[]), None);
        assert_eq!(read(four, 255, &[0]), None, "only version 5 closes");
        for channel in [1, 2, 3, 5, 100] {
            assert_eq!(read(five, channel, b"x"), None, "{channel}");
        }
    }
}
