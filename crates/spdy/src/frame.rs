//! Frames: what stands on the wire, in both directions.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::connection::{ProtocolError, StreamId};
use crate::header_block::{Compressor, Decompressor, HeaderLimits, Headers};

const VERSION: u16 = 3;
const CONTROL: u8 = 0x80;
/// Flag: the sender's half of the stream ends with this frame.
const FINISH: u8 = 0x01;
/// Control frames larger than this end the connection: their headers could not be borne either.
const MAX_CONTROL: usize = 64 * 1024;
/// Data frames are written in pieces of this size at most, so that streams share a connection.
const MAX_WRITTEN: usize = 32 * 1024;
/// A frame's head: which stream or which kind, flags and length.
const HEAD: usize = 8;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

/// Why a stream was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetStatus(pub u32);

impl ResetStatus {
    /// The peer broke the rules of the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// The stream was not taken.
    pub const REFUSED_STREAM: Self = Self(3);
    /// Nobody wants it any more.
    pub const CANCEL: Self = Self(5);
}

/// One frame, or a piece of one that carries data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A stream begins.
    Open {
        /// The new stream.
        stream: StreamId,
        /// What it is for.
        headers: Headers,
        /// The opener's half is over already.
        finished: bool,
    },
    /// A stream was taken.
    Reply {
        /// Which.
        stream: StreamId,
        /// The answer.
        headers: Headers,
        /// The half of whoever took it is over already.
        finished: bool,
    },
    /// A stream is torn down, both halves.
    Reset {
        /// Which.
        stream: StreamId,
        /// Why.
        status: ResetStatus,
    },
    /// A sign of life that asks for the same.
    Ping(u32),
    /// No new streams.
    GoAway,
    /// More headers of a stream.
    Headers {
        /// Of which.
        stream: StreamId,
        /// Those.
        headers: Headers,
        /// The sender's half is over.
        finished: bool,
    },
    /// Bytes of a stream.
    Data {
        /// Of which.
        stream: StreamId,
        /// Those.
        bytes: Bytes,
        /// The sender's half is over.
        finished: bool,
    },
}

/// Bytes to frames. Holds at most one control frame: data is handed on as it comes.
#[derive(Default)]
pub struct FrameReader {
    buffer: BytesMut,
    /// The rest of a data frame whose head was read.
    data: Option<DataRest>,
    decompressor: Decompressor,
}

struct DataRest {
    stream: StreamId,
    left: usize,
    finishes: bool,
}

impl FrameReader {
    /// Takes what arrived.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame of what has arrived; `None` when more has to arrive first.
    ///
    /// # Errors
    ///
    /// What ends the connection: nothing after it can be read.
    pub fn next(&mut self, limits: HeaderLimits) -> Result<Option<Frame>, ProtocolError> {
        loop {
            if let Some(rest) = &mut self.data {
                if self.buffer.is_empty() && rest.left > 0 {
                    return Ok(None);
                }
                let bytes = self.buffer.split_to(rest.left.min(self.buffer.len())).freeze();
                rest.left -= bytes.len();
                let (stream, finished) = (rest.stream, rest.finishes && rest.left == 0);
                if rest.left == 0 {
                    self.data = None;
                }
                return Ok(Some(Frame::Data { stream, bytes, finished }));
            }
            let Some(head) = self.buffer.first_chunk::<HEAD>().copied() else { return Ok(None) };
            let [a, b, c, d, flags, lengths @ ..] = head;
            let length =
                usize::from(lengths[0]) << 16 | usize::from(lengths[1]) << 8 | usize::from(lengths[2]);
            if a & CONTROL == 0 {
                self.buffer.advance(HEAD);
                let stream = StreamId(u32::from_be_bytes([a, b, c, d]));
                self.data = Some(DataRest { stream, left: length, finishes: flags & FINISH != 0 });
                continue;
            }
            let version = u16::from_be_bytes([a & !CONTROL, b]);
            if version != VERSION {
                return Err(ProtocolError::Version { version });
            }
            if length > MAX_CONTROL {
                return Err(ProtocolError::FrameTooLarge { length, limit: MAX_CONTROL });
            }
            if self.buffer.len() < HEAD + length {
                return Ok(None);
            }
            self.buffer.advance(HEAD);
            let payload = self.buffer.split_to(length).freeze();
            if let Some(frame) = self.control(u16::from_be_bytes([c, d]), flags, &payload, limits)? {
                return Ok(Some(frame));
            }
        }
    }

    /// What a control frame says; `None` for those that mean nothing here: settings, windows, and kinds yet to be invented.
    fn control(
        &mut self,
        kind: u16,
        flags: u8,
        mut payload: &[u8],
        limits: HeaderLimits,
    ) -> Result<Option<Frame>, ProtocolError> {
        let finished = flags & FINISH != 0;
        let cut = ProtocolError::CutOff { kind };
        let mut number = || -> Result<u32, ProtocolError> {
            let (bytes, rest) = payload.split_first_chunk::<4>().ok_or(cut)?;
            payload = rest;
            Ok(u32::from_be_bytes(*bytes))
        };
        // The highest bit of a stream's number is reserved.
        let stream_of = |number: u32| StreamId(number & 0x7fff_ffff);
        let frame = match kind {
            SYN_STREAM => {
                let stream = stream_of(number()?);
                let _associated = number()?;
                // Priority and credential slot mean nothing here.
                let block = payload.get(2..).ok_or(cut)?;
                let headers = self.decompressor.decompress(block, limits)?;
                Frame::Open { stream, headers, finished }
            }
            SYN_REPLY => {
                let stream = stream_of(number()?);
                let headers = self.decompressor.decompress(payload, limits)?;
                Frame::Reply { stream, headers, finished }
            }
            RST_STREAM => Frame::Reset { stream: stream_of(number()?), status: ResetStatus(number()?) },
            PING => Frame::Ping(number()?),
            GO_AWAY => Frame::GoAway,
            HEADERS => {
                let stream = stream_of(number()?);
                let headers = self.decompressor.decompress(payload, limits)?;
                Frame::Headers { stream, headers, finished }
            }
            _ => return Ok(None),
        };
        Ok(Some(frame))
    }
}

/// Frames to bytes.
#[derive(Default)]
pub struct FrameWriter {
    compressor: Compressor,
}

impl FrameWriter {
    /// Appends a frame; a large one with data as several.
    pub fn write(&mut self, frame: &Frame, output: &mut BytesMut) {
        match frame {
            Frame::Open { stream, headers, finished } => {
                let block = self.compressor.compress(headers);
                put_control(output, SYN_STREAM, *finished, &[stream.0, 0], &[&[0, 0], &block]);
            }
            Frame::Reply { stream, headers, finished } => {
                let block = self.compressor.compress(headers);
                put_control(output, SYN_REPLY, *finished, &[stream.0], &[&block]);
            }
            Frame::Reset { stream, status } => {
                put_control(output, RST_STREAM, false, &[stream.0, status.0], &[]);
            }
            Frame::Ping(number) => put_control(output, PING, false, &[*number], &[]),
            Frame::GoAway => put_control(output, GO_AWAY, false, &[0, 0], &[]),
            Frame::Headers { stream, headers, finished } => {
                let block = self.compressor.compress(headers);
                put_control(output, HEADERS, *finished, &[stream.0], &[&block]);
            }
            Frame::Data { stream, bytes, finished } => {
                let mut rest = bytes.as_ref();
                loop {
                    let (piece, after) = rest.split_at(rest.len().min(MAX_WRITTEN));
                    output.extend_from_slice(&stream.0.to_be_bytes());
                    put_flags(output, *finished && after.is_empty(), piece.len());
                    output.extend_from_slice(piece);
                    rest = after;
                    if rest.is_empty() {
                        break;
                    }
                }
            }
        }
    }
}

fn put_control(output: &mut BytesMut, kind: u16, finished: bool, numbers: &[u32], rest: &[&[u8]]) {
    output.extend_from_slice(&(VERSION | 0x8000).to_be_bytes());
    output.extend_from_slice(&kind.to_be_bytes());
    let length = numbers.len() * 4 + rest.iter().map(|part| part.len()).sum::<usize>();
    put_flags(output, finished, length);
    for number in numbers {
        output.extend_from_slice(&number.to_be_bytes());
    }
    for part in rest {
        output.extend_from_slice(part);
    }
}

/// Flags and length. Nothing that is written here is longer than three bytes can say: headers are ours, data is cut.
fn put_flags(output: &mut BytesMut, finished: bool, length: usize) {
    let [_, lengths @ ..] = u32::try_from(length).unwrap_or(0x00ff_ffff).to_be_bytes();
    output.extend_from_slice(&[if finished { FINISH } else { 0 }]);
    output.extend_from_slice(&lengths);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeaderLimits = HeaderLimits { bytes: 16 * 1024, count: 64 };

    fn written(frame: &Frame) -> Vec<u8> {
        let mut output = BytesMut::new();
        FrameWriter::default().write(frame, &mut output);
        output.to_vec()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Frame>, ProtocolError> {
        let mut reader = FrameReader::default();
        reader.receive(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = reader.next(LIMITS)? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn frames_stand_on_the_wire_as_the_protocol_says() {
        let stream = StreamId(5);
        let bytes = Bytes::from_static(b"hi");
        for (frame, expected) in [
            (
                Frame::Reset { stream, status: ResetStatus::CANCEL },
                &b"\x80\x03\0\x03\0\0\0\x08\0\0\0\x05\0\0\0\x05"[..],
            ),
            (Frame::Ping(7), b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x07"),
            (Frame::GoAway, b"\x80\x03\0\x07\0\0\0\x08\0\0\0\0\0\0\0\0"),
            (Frame::Data { stream, bytes: bytes.clone(), finished: false }, b"\0\0\0\x05\0\0\0\x02hi"),
            (Frame::Data { stream, bytes: Bytes::new(), finished: true }, b"\0\0\0\x05\x01\0\0\0"),
        ] {
            assert_eq!(written(&frame), expected, "{frame:?}");
            assert_eq!(read(expected), Ok(vec![frame]));
        }
    }

    #[test]
    fn frames_with_headers_are_read_back_however_they_are_cut() {
        let headers = Headers::new().with("streamType", "data").with("port", "80");
        let frames = [
            Frame::Open { stream: StreamId(1), headers: headers.clone(), finished: false },
            Frame::Open { stream: StreamId(3), headers: headers.clone(), finished: true },
            Frame::Reply { stream: StreamId(1), headers: Headers::new(), finished: false },
            Frame::Headers { stream: StreamId(1), headers, finished: true },
        ];
        let (mut writer, mut output) = (FrameWriter::default(), BytesMut::new());
        for frame in &frames {
            writer.write(frame, &mut output);
        }
        let mut reader = FrameReader::default();
        let mut seen = Vec::new();
        for byte in &output {
            reader.receive(&[*byte]);
            while let Some(frame) = reader.next(LIMITS).expect("frames") {
                seen.push(frame);
            }
        }
        assert_eq!(seen, frames);
    }

    #[test]
    fn large_data_is_cut_and_only_its_last_piece_finishes() {
        let bytes = Bytes::from(vec![7; 2 * MAX_WRITTEN + 1]);
        let frames = read(&written(&Frame::Data { stream: StreamId(1), bytes, finished: true }));
        let pieces: Vec<(usize, bool)> = frames
            .expect("frames")
            .into_iter()
            .map(|frame| match frame {
                Frame::Data { bytes, finished, .. } => (bytes.len(), finished),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(pieces, [(MAX_WRITTEN, false), (MAX_WRITTEN, false), (1, true)]);
    }

    #[test]
    fn data_is_handed_on_before_its_frame_is_complete() {
        // A frame of almost 16 MiB.
        let frames = read(b"\0\0\0\x01\x01\xff\xff\xffbegin").expect("frames");
        let bytes = Bytes::from_static(b"begin");
        assert_eq!(frames, [Frame::Data { stream: StreamId(1), bytes, finished: false }]);
    }

    #[test]
    fn what_means_nothing_here_is_passed_over() {
        let settings = b"\x80\x03\0\x04\0\0\0\x0c\0\0\0\x01\0\0\0\x07\0\x01\0\0";
        let window = b"\x80\x03\0\x09\0\0\0\x08\0\0\0\x01\0\x01\0\0";
        let unknown = b"\x80\x03\x7f\xff\0\0\0\x01x";
        let all = [&settings[..], window, unknown, b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x01"].concat();
        assert_eq!(read(&all), Ok(vec![Frame::Ping(1)]));
    }

    #[test]
    fn what_breaks_the_rules_ends_the_connection() {
        for (bytes, expected) in [
            (&b"\x80\x02\0\x06\0\0\0\x04\0\0\0\x01"[..], ProtocolError::Version { version: 2 }),
            (
                b"\x80\x03\0\x01\0\xff\xff\xff",
                ProtocolError::FrameTooLarge { length: 0xff_ffff, limit: MAX_CONTROL },
            ),
            (b"\x80\x03\0\x03\0\0\0\x04\0\0\0\x01", ProtocolError::CutOff { kind: 3 }),
            (b"\x80\x03\0\x01\0\0\0\x08\0\0\0\x01\0\0\0\0", ProtocolError::CutOff { kind: 1 }),
            (b"\x80\x03\0\x06\0\0\0\0", ProtocolError::CutOff { kind: 6 }),
        ] {
            assert_eq!(read(bytes), Err(expected), "{bytes:?}");
        }
    }
}
