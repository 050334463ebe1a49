//! Port forwarding over WebSocket channels: two channels for each port, data and error, in the order of the ports. The
//! first message of each channel is the number of its port (two bytes, little endian).

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use super::session::QUEUE;
use super::websocket::{Protocol, decode, encode};
use super::{PortIo, StartStreamError};

/// The most ports of one session: channels are numbered with one byte and 255 has a meaning of its own.
pub(super) const MAX_PORTS: usize = 127;

/// A port and how connecting to it went.
pub(super) type OpenedPort = (u16, Result<PortIo, StartStreamError>);

/// Carries the ports until the client goes, all connections have ended, or nothing moves any more.
pub(super) async fn forward<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    socket: WebSocketStream<S>,
    protocol: Protocol,
    ports: Vec<OpenedPort>,
    idle_timeout: Duration,
) {
    let (mut sink, stream) = socket.split();
    let (outbound, queue) = mpsc::channel(QUEUE);
    let mut pumps = JoinSet::new();
    let mut inputs = Vec::new();
    for (place, (port, opened)) in ports.into_iter().enumerate() {
        let Ok(channel) = u8::try_from(2 * place) else { break };
        let number = Bytes::copy_from_slice(&port.to_le_bytes());
        for channel in [channel, channel + 1] {
            if sink.send(encode(protocol.encoding, channel, &number)).await.is_err() {
                return;
            }
        }
        match opened {
            Ok(PortIo { reader, writer }) => {
                let (sender, receiver) = mpsc::channel(QUEUE);
                inputs.push(Some(sender));
                pumps.spawn(pump_in(writer, receiver));
                pumps.spawn(pump_out(reader, channel, outbound.clone()));
            }
            Err(error) => {
                inputs.push(None);
                if sink.send(encode(protocol.encoding, channel + 1, error.message.as_bytes())).await.is_err()
                {
                    return;
                }
            }
        }
    }
    drop(outbound);
    let (moved, watch) = tokio::sync::watch::channel(());
    tokio::select! {
        () = receive(stream, protocol, inputs, moved.clone()) => {}
        _ = transmit(sink, protocol, queue, moved) => {}
        () = until_quiet(watch, idle_timeout) => {}
    }
}

async fn until_quiet(mut watch: tokio::sync::watch::Receiver<()>, quiet: Duration) {
    while let Ok(Ok(())) = tokio::time::timeout(quiet, watch.changed()).await {}
}

async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: SplitStream<WebSocketStream<S>>,
    protocol: Protocol,
    inputs: Vec<Option<mpsc::Sender<Bytes>>>,
    moved: tokio::sync::watch::Sender<()>,
) {
    while let Some(Ok(message)) = stream.next().await {
        let bytes: Bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            Message::Close(_) => return,
        };
        moved.send_replace(());
        let Some((channel, bytes)) = decode(protocol.encoding, &bytes) else { continue };
        // Odd channels are for errors, which only we have.
        if channel % 2 == 0
            && let Some(Some(input)) = inputs.get(usize::from(channel / 2))
        {
            // A connection that has ended takes nothing more.
            let _ = input.send(bytes).await;
        }
    }
}

async fn transmit<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    protocol: Protocol,
    mut queue: mpsc::Receiver<(u8, Bytes)>,
    moved: tokio::sync::watch::Sender<()>,
) -> Result<(), WebSocketError> {
    while let Some((channel, bytes)) = queue.recv().await {
        moved.send_replace(());
        sink.send(encode(protocol.encoding, channel, &bytes)).await?;
    }
    sink.close().await
}

async fn pump_out(
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    channel: u8,
    outbound: mpsc::Sender<(u8, Bytes)>,
) {
    let mut buffer = vec![0; 32 * 1024];
    while let Ok(length @ 1..) = reader.read(&mut buffer).await {
        if outbound.send((channel, Bytes::copy_from_slice(&buffer[..length]))).await.is_err() {
            return;
        }
    }
}

async fn pump_in(mut writer: Box<dyn AsyncWrite + Send + Unpin>, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = queue.recv().await {
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}
