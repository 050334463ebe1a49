//! Frames over a Unix stream socket: a length, JSON, and descriptors riding along.
//!
//! A frame is four bytes of length (little endian) and that many bytes of JSON. Descriptors are attached to the first
//! byte of their frame, so that after reading a whole frame its descriptors have arrived.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Larger frames are refused: nothing that is sent comes near it.
const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// More descriptors than any message carries.
const MAX_DESCRIPTORS: usize = 8;

/// A frame ready to be sent, as far as it has not left yet.
#[derive(Debug)]
pub(crate) struct OutgoingFrame {
    bytes: Vec<u8>,
    sent: usize,
    descriptors: Vec<OwnedFd>,
}

impl OutgoingFrame {
    /// Encodes a message together with the descriptors that it is about.
    pub(crate) fn encode<T: Serialize>(message: &T, descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let mut bytes = vec![0; 4];
        serde_json::to_writer(&mut bytes, message)?;
        let length = u32::try_from(bytes.len() - 4).ok().filter(|length| *length as usize <= MAX_FRAME_BYTES);
        let length =
            length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "message too large"))?;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        Ok(Self { bytes, sent: 0, descriptors })
    }

    /// Sends what the socket takes. True when everything has left.
    pub(crate) fn send(&mut self, socket: impl AsFd) -> io::Result<bool> {
        while self.sent < self.bytes.len() {
            let rest = [IoSlice::new(&self.bytes[self.sent..])];
            let borrowed: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
            }
            match rustix::net::sendmsg(socket.as_fd(), &rest, &mut control, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.sent += count;
                    self.descriptors.clear();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// Collects what arrives until frames are whole.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

/// Whether the other side may send more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inflow {
    /// Something arrived.
    Arrived,
    /// Nothing for now.
    Nothing,
    /// The other side closed.
    Closed,
}

impl FrameReader {
    /// Receives once.
    pub(crate) fn receive(&mut self, socket: impl AsFd) -> io::Result<Inflow> {
        let mut chunk = [0u8; 8192];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut chunk)];
            match rustix::net::recvmsg(socket.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(Inflow::Nothing),
                Err(rustix::io::Errno::CONNRESET) => return Ok(Inflow::Closed),
                Err(error) => return Err(error.into()),
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if received.bytes == 0 {
            return Ok(Inflow::Closed);
        }
        self.bytes.extend_from_slice(&chunk[..received.bytes]);
        Ok(Inflow::Arrived)
    }

    /// The next whole frame, if there is one.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((length, rest)) = self.bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "frame too large"));
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(content)?;
        self.bytes.drain(..4 + length);
        Ok(Some(message))
    }

    /// The next descriptor that arrived with a frame.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn frames_and_their_descriptors_arrive_in_order() {
        let (near, far) = UnixStream::pair().unwrap();
        let (reader, mut writer) = UnixStream::pair().unwrap();
        assert!(OutgoingFrame::encode(&"first", vec![reader.into()]).unwrap().send(&near).unwrap());
        assert!(OutgoingFrame::encode(&"second", vec![]).unwrap().send(&near).unwrap());
        drop(near);
        let mut frames = FrameReader::default();
        while frames.receive(&far).unwrap() != Inflow::Closed {}
        assert_eq!(frames.next::<String>().unwrap().as_deref(), Some("first"));
        let mut passed = UnixStream::from(frames.take_descriptor().unwrap());
        writer.write_all(b"x").unwrap();
        let mut byte = [0];
        passed.read_exact(&mut byte).unwrap();
        assert_eq!(frames.next::<String>().unwrap().as_deref(), Some("second"));
        assert_eq!(frames.next::<String>().unwrap(), None);
        assert!(frames.take_descriptor().is_none());
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(&u32::MAX.to_le_bytes()).unwrap();
        let mut frames = FrameReader::default();
        frames.receive(&far).unwrap();
        assert!(frames.next::<String>().is_err());
    }
}
