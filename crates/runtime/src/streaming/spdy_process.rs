//! The streams of a process over SPDY: one stream each for errors, input, outputs and the terminal's size, all opened by the
//! client, the one for errors first. The streams are there before the process is started.

use std::time::Duration;

use serde::Deserialize as _;
use spdy::{Received, Stream, StreamReader, Streams};
use tokio::sync::mpsc;

use super::WantedStreams;
use super::negotiation::SpdyProcess;
use super::session::{Inbound, Outbound, Output};
use super::status::{Subject, status_object, status_text};
use super::websocket::{ResizeMessage, StatusForm};

/// A client has so long to open the streams that it asked for.
const OPENING: Duration = Duration::from_secs(30);
/// More than this is no size of a terminal.
const MAX_SIZE_MESSAGE: usize = 4096;

/// The streams of one client.
pub(super) struct ProcessStreams {
    protocol: SpdyProcess,
    /// Those that it opens beyond.
    more: Streams,
    error: Stream,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

/// Waits for the streams that the client asked for; `None` when it goes away, or does not open them in time.
pub(super) async fn gather(
    mut streams: Streams,
    protocol: SpdyProcess,
    wanted: WantedStreams,
) -> Option<ProcessStreams> {
    let [mut error, mut stdin, mut stdout, mut stderr, mut resize] = [const { None }; 5];
    let all = async {
        loop {
            let stream = streams.next().await?;
            let place = match stream.headers.get("streamType") {
                Some("error") => Some(&mut error),
                Some("stdin") if wanted.stdin => Some(&mut stdin),
                Some("stdout") if wanted.stdout => Some(&mut stdout),
                Some("stderr") if wanted.stderr => Some(&mut stderr),
                Some("resize") if wanted.terminal && protocol.can_resize => Some(&mut resize),
                _ => None,
            };
            // What nobody asked for, and what is there already, is refused by being dropped.
            if let Some(place) = place
                && place.is_none()
            {
                stream.accept().await.ok()?;
                *place = Some(stream);
            }
            let complete = error.is_some()
                && stdin.is_some() == wanted.stdin
                && stdout.is_some() == wanted.stdout
                && stderr.is_some() == wanted.stderr
                && resize.is_some() == (wanted.terminal && protocol.can_resize);
            if complete {
                return Some(());
            }
        }
    };
    tokio::time::timeout(OPENING, all).await.ok()??;
    Some(ProcessStreams { protocol, more: streams, error: error?, stdin, stdout, stderr, resize })
}

/// Carries the streams between the connection and a session's queues until the session says its last word or the client goes.
pub(super) async fn pump(
    streams: ProcessStreams,
    subject: Subject,
    inbound: mpsc::Sender<Inbound>,
    outbound: mpsc::Receiver<Outbound>,
) {
    let ProcessStreams { protocol, mut more, error, stdin, stdout, stderr, resize } = streams;
    let (stdin_reader, stdin_writer) = stdin.map(halves).unzip();
    let (resize_reader, resize_writer) = resize.map(halves).unzip();
    let client_is_gone = async { while more.next().await.is_some() {} };
    let receive = async {
        tokio::join!(receive_input(stdin_reader, &inbound), receive_sizes(resize_reader, &inbound));
    };
    let transmit = async move {
        transmit(protocol, subject, error, stdout, stderr, outbound).await;
        // Nothing is said on these, and that ends well too.
        for mut writer in [stdin_writer, resize_writer].into_iter().flatten() {
            let _ = writer.finish().await;
        }
    };
    tokio::select! {
        () = client_is_gone => {}
        () = receive => {}
        () = transmit => {}
    }
}

fn halves(stream: Stream) -> (StreamReader, spdy::StreamWriter) {
    (stream.reader, stream.writer)
}

/// Never ends: that the client is gone is seen where streams come from.
async fn receive_input(reader: Option<StreamReader>, inbound: &mpsc::Sender<Inbound>) {
    if let Some(mut reader) = reader {
        loop {
            let message = match reader.next().await {
                Received::Data(bytes) => Inbound::Stdin(bytes),
                // A client that tears its input down says nothing more either.
                Received::Finished | Received::Lost => Inbound::StdinClosed,
            };
            let last = message == Inbound::StdinClosed;
            if inbound.send(message).await.is_err() || last {
                break;
            }
        }
    }
    std::future::pending::<()>().await;
}

/// Sizes are JSON objects one after the other, cut anywhere. Never ends.
async fn receive_sizes(reader: Option<StreamReader>, inbound: &mpsc::Sender<Inbound>) {
    if let Some(mut reader) = reader {
        let mut sizes = Sizes::default();
        while let Received::Data(bytes) = reader.next().await {
            let Some(size) = sizes.receive(&bytes) else { break };
            if let Some(size) = size
                && inbound.send(Inbound::Resize(size)).await.is_err()
            {
                break;
            }
        }
    }
    std::future::pending::<()>().await;
}

#[derive(Default)]
struct Sizes {
    text: Vec<u8>,
}

impl Sizes {
    /// The latest size of what arrived, if one was completed; `None` when this is no stream of sizes.
    fn receive(&mut self, bytes: &[u8]) -> Option<Option<super::TerminalSize>> {
        self.text.extend_from_slice(bytes);
        let mut latest = None;
        let mut read = 0;
        loop {
            let mut documents = serde_json::Deserializer::from_slice(&self.text[read..]).into_iter();
            match documents.next() {
                Some(Ok(value)) => {
                    read += documents.byte_offset();
                    let value: serde_json::Value = value;
                    if let Some(size) = ResizeMessage::deserialize(value).ok().and_then(ResizeMessage::size) {
                        latest = Some(size);
                    }
                }
                Some(Err(error)) if !error.is_eof() => return None,
                Some(Err(_)) | None => break,
            }
        }
        self.text.drain(..read);
        (self.text.len() <= MAX_SIZE_MESSAGE).then_some(latest)
    }
}

async fn transmit(
    protocol: SpdyProcess,
    subject: Subject,
    mut error: Stream,
    mut stdout: Option<Stream>,
    mut stderr: Option<Stream>,
    mut outbound: mpsc::Receiver<Outbound>,
) {
    let mut last_word = None;
    while let Some(message) = outbound.recv().await {
        match message {
            Outbound::Data(output, bytes) => {
                let stream = match output {
                    Output::Stdout => &mut stdout,
                    Output::Stderr => &mut stderr,
                };
                // A client that gave one of its outputs up still has the other.
                if let Some(stream) = stream {
                    let _ = stream.writer.send(bytes).await;
                }
            }
            Outbound::End(end) => {
                last_word = match protocol.status {
                    StatusForm::Object => Some(status_object(&subject, &end).to_string()),
                    StatusForm::Text => status_text(&subject, &end),
                };
                break;
            }
        }
    }
    // The outputs end before the last word: older clients take it for the end of everything.
    for mut stream in [stdout, stderr].into_iter().flatten() {
        let _ = stream.writer.finish().await;
    }
    if let Some(text) = last_word {
        let _ = error.writer.send(text.into()).await;
    }
    let _ = error.writer.finish().await;
}

#[cfg(test)]
mod tests {
    use super::super::TerminalSize;
    use super::*;

    #[test]
    fn sizes_are_read_however_they_are_cut() {
        let text =
            b"{\"Width\":80,\"Height\":24}\n{\"Width\":0,\"Height\":1}\n{\"Width\":100,\"Height\":50}\n";
        let mut whole = Sizes::default();
        assert_eq!(whole.receive(text), Some(Some(TerminalSize { width: 100, height: 50 })));
        let mut cut = Sizes::default();
        let seen: Vec<TerminalSize> =
            text.iter().filter_map(|byte| cut.receive(&[*byte]).expect("sizes")).collect();
        let size = |width, height| TerminalSize { width, height };
        assert_eq!(seen, [size(80, 24), size(100, 50)]);
    }

    #[test]
    fn what_is_no_stream_of_sizes_is_not_read_on() {
        assert_eq!(Sizes::default().receive(b"80x24\n"), None);
        assert_eq!(Sizes::default().receive(&b"[".repeat(5000)), None);
        assert_eq!(Sizes::default().receive(format!("{{\"{}", "x".repeat(5000)).as_bytes()), None);
    }
}
