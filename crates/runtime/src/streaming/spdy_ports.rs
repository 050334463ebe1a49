//! Port forwarding over SPDY: the client opens two streams for each connection, one for errors and one for data, which
//! belong together by their `requestID`. Connections come and go as long as the client stays.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spdy::{Received, Stream, Streams};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{PortIo, StreamSource};

/// The second stream of a connection has to follow its first within this time.
const OPENING: Duration = Duration::from_secs(30);
/// Connections of which one stream is there and the other is not.
const MAX_HALF_OPEN: usize = 256;

/// The half of a connection that waits for the other.
struct HalfOpen {
    port: u16,
    kind: Kind,
    stream: Stream,
    opened: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    Data,
}

/// What the headers of a stream say: its port, its kind, and the connection that it belongs to. `None`: nothing that is known.
///
/// The oldest clients name no connection; they open the stream for data right after the one for errors.
fn meaning(stream: &Stream) -> Option<(u16, Kind, String)> {
    let port = stream.headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
    let (kind, default) = match stream.headers.get("streamType")? {
        "error" => (Kind::Error, stream.id().0),
        "data" => (Kind::Data, stream.id().0.saturating_sub(2)),
        _ => return None,
    };
    let connection = match stream.headers.get("requestID") {
        None | Some("") => format!("stream {default}"),
        Some(named) => format!("request {named}"),
    };
    Some((port, kind, connection))
}

/// Carries connections until the client goes.
pub(super) async fn forward(mut streams: Streams, sandbox: String, source: Arc<dyn StreamSource>) {
    let mut half_open: BTreeMap<String, HalfOpen> = BTreeMap::new();
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let oldest = half_open.values().map(|half| half.opened + OPENING).min();
        let stream = tokio::select! {
            stream = streams.next() => stream,
            () = wait_until(oldest) => {
                // The stream that waited in vain is torn down.
                half_open.retain(|_, half| half.opened.elapsed() < OPENING);
                continue;
            }
        };
        let Some(stream) = stream else { return };
        // What has no meaning is refused by being dropped.
        let Some((port, kind, connection)) = meaning(&stream) else { continue };
        match half_open.remove(&connection) {
            None if half_open.len() >= MAX_HALF_OPEN => {}
            None => {
                if stream.accept().await.is_err() {
                    return;
                }
                half_open.insert(connection, HalfOpen { port, kind, stream, opened: Instant::now() });
            }
            Some(first) if first.port == port && first.kind != kind => {
                if stream.accept().await.is_err() {
                    return;
                }
                let (error, data) = match kind {
                    Kind::Data => (first.stream, stream),
                    Kind::Error => (stream, first.stream),
                };
                let opening = source.connect_port(&sandbox, port);
                let sandbox = sandbox.clone();
                connections.spawn(async move {
                    match opening.await {
                        Ok(port) => carry(port, error, data).await,
                        Err(failure) => {
                            let text =
                                format!("error forwarding port {port} to pod {sandbox}, uid : {failure}");
                            report(error, data, text).await;
                        }
                    }
                });
            }
            // Two of a kind, or for different ports: neither is taken.
            Some(_) => {}
        }
    }
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn report(mut error: Stream, mut data: Stream, text: String) {
    // The client may be gone already.
    let _ = error.writer.send(text.into()).await;
    let _ = error.writer.finish().await;
    let _ = data.writer.finish().await;
}

/// One connection. What the pod has said ends both of our streams: that is how a client sees the end of the connection.
/// What the client says goes on to the pod until either of them is done with it.
async fn carry(port: PortIo, error: Stream, data: Stream) {
    let PortIo { mut reader, mut writer } = port;
    let Stream { reader: mut from_client, writer: mut to_client, .. } = data;
    let Stream { reader: mut error_reader, writer: mut error_writer, .. } = error;
    let inwards = async {
        loop {
            match from_client.next().await {
                Received::Data(bytes) => {
                    if writer.write_all(&bytes).await.is_err() {
                        // The pod does not read any more. What it still says is worth hearing.
                        return Half::Over;
                    }
                }
                Received::Finished => {
                    let _ = writer.shutdown().await;
                    return Half::Over;
                }
                Received::Lost => return Half::ClientGaveUp,
            }
        }
    };
    let outwards = async {
        let mut buffer = vec![0; 32 * 1024];
        loop {
            match reader.read(&mut buffer).await {
                Ok(0) => break,
                Ok(count) => {
                    if to_client.send(Bytes::copy_from_slice(&buffer[..count])).await.is_err() {
                        return Half::ClientGaveUp;
                    }
                }
                Err(broken) => {
                    let _ = error_writer.send(format!("the connection broke: {broken}").into()).await;
                    break;
                }
            }
        }
        let _ = to_client.finish().await;
        let _ = error_writer.finish().await;
        Half::Over
    };
    let error_is_lost = async {
        // A client ends its half of this stream at once; when it tears it down, it gave the connection up.
        while matches!(error_reader.next().await, Received::Data(_)) {}
        if error_reader.next().await == Received::Finished {
            std::future::pending::<()>().await;
        }
    };
    let both = async {
        let mut inwards = std::pin::pin!(inwards);
        let mut outwards = std::pin::pin!(outwards);
        tokio::select! {
            half = &mut inwards => if half == Half::Over { outwards.await; },
            half = &mut outwards => if half == Half::Over { inwards.await; },
        }
    };
    tokio::select! {
        () = both => {}
        () = error_is_lost => {}
    }
}

/// How one direction of a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// By itself: the other goes on.
    Over,
    /// And with it the other.
    ClientGaveUp,
}
