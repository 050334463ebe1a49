//! The state machine of one connection: bytes of the peer in, events out; what we do in, bytes for the peer out. No input or
//! output, no clock.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use crate::frame::{Frame, FrameReader, FrameWriter, ResetStatus};
use crate::header_block::{HeaderBlockError, HeaderLimits, Headers};

/// The number of a stream: odd for those of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Which side of the connection we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Opens streams with odd numbers.
    Client,
    /// Takes them.
    Server,
}

/// What a peer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams at the same time; more are refused, one by one.
    pub streams: usize,
    /// Headers of a stream; more ends the connection.
    pub headers: HeaderLimits,
}

impl Default for Limits {
    /// Enough for a thousand forwarded connections, each with two streams.
    fn default() -> Self {
        Self { streams: 2048, headers: HeaderLimits { bytes: 16 * 1024, count: 64 } }
    }
}

/// What ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Another version.
    #[error("this is not SPDY/3 but version {version}")]
    Version {
        /// The peer's.
        version: u16,
    },
    /// A control frame that is not borne.
    #[error("a control frame has {length} bytes, more than {limit}")]
    FrameTooLarge {
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A frame that ends before what has to be in it.
    #[error("a frame of kind {kind} is cut off")]
    CutOff {
        /// The frame's kind.
        kind: u16,
    },
    /// Headers that cannot be read.
    #[error(transparent)]
    Headers(#[from] HeaderBlockError),
    /// Numbers of streams are odd for a client's, even for a server's, and grow.
    #[error("a stream has the number {number}, which it cannot have")]
    StreamNumber {
        /// The number.
        number: u32,
    },
}

/// What happened on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The peer opened a stream; it waits for [`Connection::accept`] or [`Connection::reset`].
    Opened {
        /// The stream.
        stream: StreamId,
        /// What it is for.
        headers: Headers,
    },
    /// The peer took a stream of ours.
    Accepted(StreamId),
    /// Bytes of the peer.
    Data(StreamId, Bytes),
    /// The peer's half of a stream is over.
    Finished(StreamId),
    /// The peer tore a stream down.
    Reset(StreamId),
}

#[derive(Debug, Clone, Copy)]
struct Halves {
    ours: bool,
    theirs: bool,
}

/// One connection.
pub struct Connection {
    role: Role,
    limits: Limits,
    reader: FrameReader,
    writer: FrameWriter,
    /// Those of which a half at least is open.
    streams: BTreeMap<StreamId, Halves>,
    highest_of_peer: u32,
    next_own: u32,
    events: VecDeque<Event>,
    output: BytesMut,
}

impl Connection {
    /// A new one, on which nothing was said yet.
    #[must_use]
    pub fn new(role: Role, limits: Limits) -> Self {
        Self {
            role,
            limits,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            streams: BTreeMap::new(),
            highest_of_peer: 0,
            next_own: match role {
                Role::Client => 1,
                Role::Server => 2,
            },
            events: VecDeque::new(),
            output: BytesMut::new(),
        }
    }

    /// Takes bytes of the peer.
    ///
    /// # Errors
    ///
    /// When the peer broke the rules and nothing after it can be understood. The events before it remain.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        self.reader.receive(bytes);
        while let Some(frame) = self.reader.next(self.limits.headers)? {
            self.act_on(frame)?;
        }
        Ok(())
    }

    /// The next thing that happened.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What is to be sent to the peer; whoever sends takes from its front.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// Streams of which a half at least is open.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream of our own.
    pub fn open(&mut self, headers: Headers) -> StreamId {
        let stream = StreamId(self.next_own);
        self.next_own += 2;
        self.streams.insert(stream, Halves { ours: true, theirs: true });
        self.writer.write(&Frame::Open { stream, headers, finished: false }, &mut self.output);
        stream
    }

    /// Takes a stream that the peer opened.
    pub fn accept(&mut self, stream: StreamId) {
        if self.streams.contains_key(&stream) {
            let reply = Frame::Reply { stream, headers: Headers::new(), finished: false };
            self.writer.write(&reply, &mut self.output);
        }
    }

    /// Sends bytes on a stream; nothing if our half is over.
    pub fn send(&mut self, stream: StreamId, bytes: Bytes) {
        let open = self.streams.get(&stream).is_some_and(|halves| halves.ours);
        if open && !bytes.is_empty() {
            self.writer.write(&Frame::Data { stream, bytes, finished: false }, &mut self.output);
        }
    }

    /// Ends our half of a stream.
    pub fn finish(&mut self, stream: StreamId) {
        let Some(halves) = self.streams.get_mut(&stream).filter(|halves| halves.ours) else { return };
        halves.ours = false;
        if !halves.theirs {
            self.streams.remove(&stream);
        }
        self.writer.write(&Frame::Data { stream, bytes: Bytes::new(), finished: true }, &mut self.output);
    }

    /// Tears a stream down; nothing if it is over.
    pub fn reset(&mut self, stream: StreamId, status: ResetStatus) {
        if self.streams.remove(&stream).is_some() {
            self.writer.write(&Frame::Reset { stream, status }, &mut self.output);
        }
    }

    fn act_on(&mut self, frame: Frame) -> Result<(), ProtocolError> {
        match frame {
            Frame::Open { stream, headers, finished } => self.opened(stream, headers, finished)?,
            Frame::Reply { stream, finished, .. } => {
                if self.streams.contains_key(&stream) && self.is_own(stream) {
                    self.events.push_back(Event::Accepted(stream));
                    self.end_theirs(stream, finished);
                }
            }
            Frame::Reset { stream, .. } => {
                if self.streams.remove(&stream).is_some() {
                    self.events.push_back(Event::Reset(stream));
                }
            }
            // Signs of life of the peer have its parity; the answer to one of ours has ours.
            Frame::Ping(number) => {
                if (number % 2 == 1) != (self.role == Role::Client) {
                    self.writer.write(&Frame::Ping(number), &mut self.output);
                }
            }
            // The streams that there are go on; whoever opens more will be told.
            Frame::GoAway => {}
            Frame::Headers { stream, finished, .. } => self.end_theirs(stream, finished),
            Frame::Data { stream, bytes, finished } => {
                // What is still under way for a stream that is over is no fault of the peer.
                if self.streams.get(&stream).is_some_and(|halves| halves.theirs) {
                    if !bytes.is_empty() {
                        self.events.push_back(Event::Data(stream, bytes));
                    }
                    self.end_theirs(stream, finished);
                }
            }
        }
        Ok(())
    }

    fn opened(&mut self, stream: StreamId, headers: Headers, finished: bool) -> Result<(), ProtocolError> {
        let number = stream.0;
        if self.is_own(stream) || number == 0 || number <= self.highest_of_peer {
            return Err(ProtocolError::StreamNumber { number });
        }
        self.highest_of_peer = number;
        if self.streams.len() >= self.limits.streams {
            let refusal = Frame::Reset { stream, status: ResetStatus::REFUSED_STREAM };
            self.writer.write(&refusal, &mut self.output);
            return Ok(());
        }
        self.streams.insert(stream, Halves { ours: true, theirs: true });
        self.events.push_back(Event::Opened { stream, headers });
        self.end_theirs(stream, finished);
        Ok(())
    }

    fn is_own(&self, stream: StreamId) -> bool {
        (stream.0 % 2 == 1) == (self.role == Role::Client)
    }

    fn end_theirs(&mut self, stream: StreamId, finished: bool) {
        if !finished {
            return;
        }
        let Some(halves) = self.streams.get_mut(&stream).filter(|halves| halves.theirs) else { return };
        halves.theirs = false;
        if !halves.ours {
            self.streams.remove(&stream);
        }
        self.events.push_back(Event::Finished(stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Connection, Connection) {
        let limits = Limits { streams: 2, ..Limits::default() };
        (Connection::new(Role::Client, limits), Connection::new(Role::Server, limits))
    }

    /// Hands on what one side has said; what happened at the other.
    fn hand(from: &mut Connection, to: &mut Connection) -> Vec<Event> {
        let bytes = from.output().split();
        to.receive(&bytes).expect("understood");
        std::iter::from_fn(|| to.next_event()).collect()
    }

    fn opened(stream: StreamId, name: &str) -> Event {
        Event::Opened { stream, headers: Headers::new().with("streamType", name) }
    }

    #[test]
    fn a_stream_is_opened_taken_used_and_ended_half_by_half() {
        let (mut client, mut server) = pair();
        let stream = client.open(Headers::new().with("streamType", "stdin"));
        assert_eq!(hand(&mut client, &mut server), [opened(stream, "stdin")]);
        server.accept(stream);
        assert_eq!(hand(&mut server, &mut client), [Event::Accepted(stream)]);

        client.send(stream, Bytes::from_static(b"typed"));
        client.finish(stream);
        let typed = Event::Data(stream, Bytes::from_static(b"typed"));
        assert_eq!(hand(&mut client, &mut server), [typed, Event::Finished(stream)]);
        client.send(stream, Bytes::from_static(b"too late"));
        assert!(client.output().is_empty());

        server.send(stream, Bytes::from_static(b"answer"));
        server.finish(stream);
        let answer = Event::Data(stream, Bytes::from_static(b"answer"));
        assert_eq!(hand(&mut server, &mut client), [answer, Event::Finished(stream)]);
        assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
    }

    #[test]
    fn a_reset_ends_both_halves_and_what_was_under_way_is_dropped() {
        let (mut client, mut server) = pair();
        let stream = client.open(Headers::new().with("streamType", "data"));
        hand(&mut client, &mut server);
        client.send(stream, Bytes::from_static(b"under way"));
        server.reset(stream, ResetStatus::CANCEL);
        assert_eq!(hand(&mut server, &mut client), [Event::Reset(stream)]);
        assert_eq!(hand(&mut client, &mut server), []);
        server.reset(stream, ResetStatus::CANCEL);
        server.finish(stream);
        server.accept(stream);
        assert!(server.output().is_empty(), "nothing is said twice");
    }

    #[test]
    fn more_streams_than_a_peer_may_have_are_refused_and_the_others_go_on() {
        let (mut client, mut server) = pair();
        let streams: Vec<StreamId> =
            (0..3).map(|_| client.open(Headers::new().with("streamType", "x"))).collect();
        let seen = hand(&mut client, &mut server);
        assert_eq!(seen, [opened(streams[0], "x"), opened(streams[1], "x")]);
        assert_eq!(hand(&mut server, &mut client), [Event::Reset(streams[2])]);
        server.reset(streams[0], ResetStatus::CANCEL);
        hand(&mut server, &mut client);
        let next = client.open(Headers::new().with("streamType", "y"));
        assert_eq!(hand(&mut client, &mut server), [opened(next, "y")], "there is room again");
    }

    #[test]
    fn a_stream_may_be_finished_as_it_is_opened() {
        let (_, mut server) = pair();
        let mut output = BytesMut::new();
        let stream = StreamId(1);
        let open = Frame::Open { stream, headers: Headers::new(), finished: true };
        FrameWriter::default().write(&open, &mut output);
        server.receive(&output).expect("understood");
        let seen: Vec<Event> = std::iter::from_fn(|| server.next_event()).collect();
        assert_eq!(seen, [Event::Opened { stream, headers: Headers::new() }, Event::Finished(stream)]);
    }

    #[test]
    fn numbers_of_streams_have_the_peers_parity_and_grow() {
        for numbers in [&[2][..], &[0], &[3, 1], &[1, 1]] {
            let (_, mut server) = pair();
            let (mut writer, mut output) = (FrameWriter::default(), BytesMut::new());
            for number in numbers {
                let open =
                    Frame::Open { stream: StreamId(*number), headers: Headers::new(), finished: false };
                writer.write(&open, &mut output);
            }
            let number = numbers[numbers.len() - 1];
            assert_eq!(server.receive(&output), Err(ProtocolError::StreamNumber { number }), "{numbers:?}");
        }
    }

    #[test]
    fn signs_of_life_are_answered_once() {
        let (mut client, mut server) = pair();
        server.receive(b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x07").expect("understood");
        let echo = server.output().split();
        assert_eq!(echo.as_ref(), b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x07");
        client.receive(&echo).expect("understood");
        assert!(client.output().is_empty(), "an answer is not answered");
    }
}
