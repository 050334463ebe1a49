//! Those who talk to a shim over its socket: normally one daemon.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::protocol::{Message, Reply, Request};
use crate::wire::{FrameReader, Inflow, OutgoingFrame};

/// Whom an answer goes to: which client, and which of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) client: u64,
    pub(super) number: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) stream: UnixStream,
    reader: FrameReader,
    outgoing: VecDeque<OutgoingFrame>,
    broken: bool,
}

impl Client {
    pub(super) fn new(id: u64, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { id, stream, reader: FrameReader::default(), outgoing: VecDeque::new(), broken: false })
    }

    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Receives what is there, and answers the requests that are whole.
    pub(super) fn receive(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        match self.reader.receive(&self.stream) {
            Ok(Inflow::Arrived | Inflow::Nothing) => {}
            Ok(Inflow::Closed) | Err(_) => self.broken = true,
        }
        loop {
            match self.reader.next::<Request>() {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => return requests,
                Err(_) => {
                    self.broken = true;
                    return requests;
                }
            }
        }
    }

    pub(super) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.reader.take_descriptor()
    }

    pub(super) fn send(&mut self, message: &Message, descriptors: Vec<OwnedFd>) {
        match OutgoingFrame::encode(message, descriptors) {
            Ok(frame) => self.outgoing.push_back(frame),
            Err(_) => self.broken = true,
        }
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        while let Some(frame) = self.outgoing.front_mut() {
            match frame.send(&self.stream) {
                Ok(true) => drop(self.outgoing.pop_front()),
                Ok(false) => return,
                Err(_) => {
                    self.broken = true;
                    self.outgoing.clear();
                    return;
                }
            }
        }
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) list: Vec<Client>,
    next_id: u64,
}

impl Clients {
    pub(super) fn add(&mut self, stream: UnixStream) {
        self.next_id += 1;
        if let Ok(client) = Client::new(self.next_id, stream) {
            self.list.push(client);
        }
    }

    pub(super) fn reply(&mut self, asker: Asker, reply: Reply) {
        self.reply_with(asker, reply, Vec::new());
    }

    pub(super) fn reply_with(&mut self, asker: Asker, reply: Reply, descriptors: Vec<OwnedFd>) {
        if let Some(client) = self.list.iter_mut().find(|client| client.id == asker.client) {
            client.send(&Message::Reply { number: asker.number, reply }, descriptors);
        }
    }

    pub(super) fn broadcast(&mut self, message: &Message) {
        for client in &mut self.list {
            client.send(message, Vec::new());
        }
    }

    pub(super) fn forget_broken(&mut self) {
        self.list.retain(|client| !client.is_broken());
    }
}
