//! The tunnel in which newer clients put SPDY for port-forward: its bytes in binary WebSocket messages, cut anywhere.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// The WebSocket subprotocol of such a tunnel for port-forward.
pub const TUNNEL_PORT_FORWARD: &str = "SPDY/3.1+portforward.k8s.io";

/// Carries bytes between a WebSocket and whatever is at the other end of the tunnel, until either side closes.
pub async fn tunnel<S, T>(socket: WebSocketStream<S>, far: T)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite,
{
    let (mut sink, mut stream) = socket.split();
    let (mut from, mut to) = tokio::io::split(far);
    let inwards = async {
        while let Some(Ok(message)) = stream.next().await {
            let bytes: Bytes = match message {
                Message::Binary(bytes) => bytes,
                // Text, too, is bytes to those who write it.
                Message::Text(text) => text.into(),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
                Message::Close(_) => break,
            };
            if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                break;
            }
        }
        // Whoever is at the other end learns that nothing follows; it may be gone already.
        let _ = to.shutdown().await;
    };
    let outwards = async {
        let mut chunk = vec![0; 32 * 1024];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            if sink.send(Message::binary(chunk[..count].to_vec())).await.is_err() {
                return;
            }
        }
        let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        // The client may be gone already.
        let _ = sink.send(Message::Close(Some(normal))).await;
        let _ = sink.close().await;
    };
    tokio::select! {
        () = inwards => {}
        () = outwards => {}
    }
}
