//! Netlink messages: the encoder and decoder of headers and attributes, and a socket that waits for every acknowledgement.
//!
//! A socket belongs for ever to the network namespace in which it was made, whatever thread uses it later.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use netlink_sys::{Socket, SocketAddr};
use rustix::net::RecvFlags;
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size_force, set_socket_send_buffer_size,
    set_socket_send_buffer_size_force, set_socket_timeout,
};

const HEADER_LENGTH: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NESTED: u16 = 0x8000;

/// The message asks for something.
pub(crate) const REQUEST: u16 = 0x01;
/// The kernel answers also when all went well.
pub(crate) const ACK: u16 = 0x04;
/// All objects instead of one.
pub(crate) const DUMP: u16 = 0x300;
/// Fail when the object exists.
pub(crate) const EXCLUSIVE: u16 = 0x200;
/// Replace the object if it exists.
pub(crate) const REPLACE: u16 = 0x100;
/// Make the object if it does not exist.
pub(crate) const CREATE: u16 = 0x400;
/// Behind the objects that exist.
pub(crate) const APPEND: u16 = 0x800;

/// A netlink exchange that did not end well.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused a message.
    #[error("{what}: {}{}", io::Error::from_raw_os_error(*errno), detail.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// What the message asked for.
        what: String,
        /// The kernel's error number, positive.
        errno: i32,
        /// The kernel's explanation, where it gives one.
        detail: Option<String>,
    },
    /// The socket could not be made or used.
    #[error("netlink socket")]
    Socket(#[source] io::Error),
    /// The kernel's answer is cut short or not of the expected form.
    #[error("the kernel's netlink answer is malformed")]
    Malformed,
}

impl NetlinkError {
    /// The error number with which the kernel refused, if it did.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            Self::Socket(error) => error.raw_os_error(),
            Self::Malformed => None,
        }
    }

    /// The object is not there (the kernel has three ways to say so).
    pub(crate) fn is_absent(&self) -> bool {
        use rustix::io::Errno;
        let absent = [Errno::NOENT, Errno::NODEV, Errno::SRCH, Errno::ADDRNOTAVAIL, Errno::NXIO];
        absent.iter().any(|errno| self.errno() == Some(errno.raw_os_error()))
    }
}

/// One request under construction.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// What it asks for, in words, for errors.
    pub(crate) what: String,
    flags: u16,
    bytes: Vec<u8>,
}

impl Message {
    /// A message of type `kind` whose fixed part is `head`.
    pub(crate) fn new(what: impl Into<String>, kind: u16, flags: u16, head: &[u8]) -> Self {
        let flags = flags | REQUEST;
        let mut bytes = vec![0; HEADER_LENGTH];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(head);
        let mut message = Self { what: what.into(), flags, bytes };
        message.pad();
        message
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Appends an attribute.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(4 + value.len()).expect("attributes are built here and short");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Appends a text attribute with its closing zero.
    pub(crate) fn put_text(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes)
    }

    /// Appends a number in the machine's byte order, as the route family wants it.
    pub(crate) fn put_u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Appends a number in network byte order, as the packet filter wants it.
    pub(crate) fn put_u32_be(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_be_bytes())
    }

    /// Appends an attribute whose value are the attributes that `fill` puts.
    pub(crate) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).expect("nests are built here and short");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Appends an attribute whose value are attributes that are made already.
    pub(crate) fn put_nested(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.put(kind | NESTED, value)
    }

    /// Appends fixed bytes inside a nest (a veth peer begins with a link header).
    pub(crate) fn put_raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// The kernel answers only what was asked for: a list ends with a mark of its own.
    pub(crate) fn without_acknowledgement(&mut self) {
        self.flags &= !ACK;
        self.bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
    }

    fn finish(&self, sequence: u32, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&self.bytes);
        let length = u32::try_from(self.bytes.len()).expect("messages are built here and short");
        into[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        into[start + 8..start + 12].copy_from_slice(&sequence.to_ne_bytes());
    }
}

/// The attributes of an answer, in order.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of type `kind`.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// A netlink socket of one protocol in one network namespace.
pub(crate) struct NetlinkSocket {
    socket: Socket,
    sequence: u32,
    /// What the buffers for sending and receiving were made to hold, in bytes.
    room: (usize, usize),
}

impl NetlinkSocket {
    /// A socket in the namespace of the calling thread.
    pub(crate) fn open(protocol: isize) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(protocol).map_err(NetlinkError::Socket)?;
        socket.bind_auto().map_err(NetlinkError::Socket)?;
        // Short answers with the kernel's explanation; a kernel that knows neither still answers.
        let _ = socket.set_cap_ack(true);
        let _ = socket.set_ext_ack(true);
        // The kernel answers within the call; the limit is for a kernel that swallowed an answer, not for a slow one.
        set_socket_timeout(socket.as_fd(), Timeout::Recv, Some(Duration::from_secs(10)))
            .map_err(|error| NetlinkError::Socket(error.into()))?;
        Ok(Self { socket, sequence: 0, room: (0, 0) })
    }

    fn send(&mut self, messages: &[Message]) -> Result<u32, NetlinkError> {
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::with_capacity(messages.iter().map(|message| message.bytes.len()).sum());
        for message in messages {
            self.sequence = self.sequence.wrapping_add(1);
            message.finish(self.sequence, &mut bytes);
        }
        self.make_room(bytes.len(), messages.len());
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).map_err(NetlinkError::Socket)?;
        Ok(first)
    }

    /// The kernel takes a piece only if it fits into the socket's buffer, and keeps the answers to all of it in another.
    fn make_room(&mut self, bytes: usize, messages: usize) {
        /// What every kernel gives without being asked.
        const USUAL: usize = 128 * 1024;
        /// What an acknowledgement takes, with the kernel's book-keeping and an explanation.
        const ANSWER: usize = 1024;
        let (send, receive) = (bytes + bytes / 4, messages * ANSWER);
        if send > self.room.0.max(USUAL) {
            // Without the right to more, as much as anybody may have; the kernel refuses what does not fit.
            let _ = set_socket_send_buffer_size_force(self.socket.as_fd(), send)
                .or_else(|_| set_socket_send_buffer_size(self.socket.as_fd(), send));
            self.room.0 = send;
        }
        if receive > self.room.1.max(USUAL) {
            let _ = set_socket_recv_buffer_size_force(self.socket.as_fd(), receive);
            self.room.1 = receive;
        }
    }

    fn receive(&self) -> Result<Vec<u8>, NetlinkError> {
        // The kernel never sends more than 32 KiB in one piece.
        let mut bytes = vec![0; 64 * 1024];
        let (length, _) = rustix::net::recv(self.socket.as_fd(), bytes.as_mut_slice(), RecvFlags::empty())
            .map_err(|error| NetlinkError::Socket(error.into()))?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Sends the messages in one piece and waits until each that asks for an acknowledgement has one.
    ///
    /// The first refusal is the answer; the rest of that exchange is read and dropped.
    pub(crate) fn exchange(&mut self, messages: &[Message]) -> Result<(), NetlinkError> {
        let first = self.send(messages)?;
        let mut waiting = messages.iter().filter(|message| message.flags & ACK != 0).count();
        while waiting > 0 {
            let datagram = self.receive()?;
            for (kind, sequence, payload) in split(&datagram) {
                let index = sequence.wrapping_sub(first) as usize;
                let Some(message) = messages.get(index) else { continue };
                if kind != NLMSG_ERROR {
                    continue;
                }
                match refusal(message, payload)? {
                    Some(refused) => return Err(refused),
                    None => waiting -= 1,
                }
            }
        }
        Ok(())
    }

    /// Sends one message that asks for a list and answers the payload of each entry.
    pub(crate) fn dump(&mut self, message: &Message) -> Result<Vec<Vec<u8>>, NetlinkError> {
        let mut entries = Vec::new();
        self.dump_each(message, |entry| entries.push(entry.to_vec()))?;
        Ok(entries)
    }

    /// Sends one message that asks for a list and shows the payload of each entry.
    pub(crate) fn dump_each(
        &mut self,
        message: &Message,
        mut show: impl FnMut(&[u8]),
    ) -> Result<(), NetlinkError> {
        let first = self.send(std::slice::from_ref(message))?;
        loop {
            let datagram = self.receive()?;
            for (kind, sequence, payload) in split(&datagram) {
                if sequence != first {
                    continue;
                }
                match kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return Err(refusal(message, payload)?.unwrap_or(NetlinkError::Malformed)),
                    _ => show(payload),
                }
            }
        }
    }

    /// Sends one message that asks for one object and answers its payload.
    pub(crate) fn get(&mut self, message: &Message) -> Result<Vec<u8>, NetlinkError> {
        let first = self.send(std::slice::from_ref(message))?;
        loop {
            let datagram = self.receive()?;
            for (kind, sequence, payload) in split(&datagram) {
                if sequence != first {
                    continue;
                }
                if kind == NLMSG_ERROR {
                    return Err(refusal(message, payload)?.unwrap_or(NetlinkError::Malformed));
                }
                return Ok(payload.to_vec());
            }
        }
    }
}

/// The messages of a datagram: type, sequence number, payload.
fn split(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let sequence = u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?);
        let payload = bytes.get(HEADER_LENGTH..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, sequence, payload))
    })
}

/// Reads an acknowledgement: `None` when the message was carried out.
fn refusal(message: &Message, payload: &[u8]) -> Result<Option<NetlinkError>, NetlinkError> {
    let number = payload.get(..4).and_then(|bytes| bytes.try_into().ok()).ok_or(NetlinkError::Malformed)?;
    let errno = -i32::from_ne_bytes(number);
    if errno == 0 {
        return Ok(None);
    }
    // The head of the message that was refused follows, then the explanation (attribute 1).
    let detail = payload
        .get(4 + HEADER_LENGTH..)
        .and_then(|rest| attribute(rest, 1))
        .map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
    Ok(Some(NetlinkError::Refused { what: message.what.clone(), errno, detail }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let mut message = Message::new("x", 16, 0, &[]);
        message.put_text(3, "eth0").put_u32(4, 1500).nest(18, |inner| {
            inner.put(1, b"veth");
        });
        let mut bytes = Vec::new();
        message.finish(7, &mut bytes);
        let (kind, sequence, payload) = split(&bytes).next().expect("one message");
        assert_eq!((kind, sequence), (16, 7));
        assert_eq!(attribute(payload, 3), Some(&b"eth0\0"[..]));
        assert_eq!(attribute(payload, 4), Some(&1500_u32.to_ne_bytes()[..]));
        assert_eq!(attribute(attribute(payload, 18).expect("the nest"), 1), Some(&b"veth"[..]));
        assert_eq!(attribute(payload, 5), None);
    }

    #[test]
    fn cut_or_lying_answers_end_the_walk() {
        for bytes in [&b""[..], &[8], &[200, 0, 1, 0, 9], &[0, 0, 1, 0], &[3, 0, 1, 0, 0, 0, 0, 0]] {
            assert_eq!(attributes(bytes).count(), 0, "{bytes:?}");
            assert_eq!(split(bytes).count(), 0, "{bytes:?}");
        }
    }

    #[test]
    fn an_acknowledgement_is_no_refusal_and_a_refusal_says_why() {
        let message = Message::new("add the route", 24, ACK, &[]);
        assert!(refusal(&message, &[0; 20]).expect("well formed").is_none());
        let mut payload = (-17_i32).to_ne_bytes().to_vec();
        payload.extend_from_slice(&[0; HEADER_LENGTH]);
        payload.extend_from_slice(&[9, 0, 1, 0]);
        payload.extend_from_slice(b"busy\0\0\0\0");
        let refused = refusal(&message, &payload).expect("well formed").expect("refused");
        assert_eq!(refused.errno(), Some(17));
        assert_eq!(refused.to_string(), "add the route: File exists (os error 17) (busy)");
    }
}
