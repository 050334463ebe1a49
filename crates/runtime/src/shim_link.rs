//! The daemon's end of the connection to one shim.
//!
//! Task: one for each shim, started by [`connect`]. It owns the connection, reads calls from a channel, and stops when
//! the shim closes or every [`ShimLink`] is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use crate::launch::ExitRecord;
use crate::protocol::{Call, Message, Reply, Request, files};
use crate::wire::{FrameReader, Inflow, OutgoingFrame};

/// Something that happened in a pod.
#[derive(Debug)]
pub(crate) enum ShimEvent {
    ContainerExited {
        container: String,
        exit: ExitRecord,
    },
    Executed {
        execution: u64,
        exit_code: i32,
    },
    /// The shim is gone. Nothing comes after this.
    Gone,
}

/// Why a call was not answered.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CallShimError {
    #[error("the pod's shim is gone")]
    Gone,
    #[error("the call cannot be sent: {0}")]
    Encode(String),
}

struct Pending {
    call: Call,
    descriptors: Vec<OwnedFd>,
    answer: oneshot::Sender<(Reply, Vec<OwnedFd>)>,
}

/// A handle of the connection; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ShimLink {
    calls: mpsc::UnboundedSender<Pending>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.call.fmt(formatter)
    }
}

impl ShimLink {
    /// Calls the shim and waits for its answer, as long as it takes.
    pub(crate) async fn call(&self, call: Call) -> Result<Reply, CallShimError> {
        Ok(self.call_with(call, Vec::new()).await?.0)
    }

    /// The same with descriptors both ways.
    pub(crate) async fn call_with(
        &self,
        call: Call,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(Reply, Vec<OwnedFd>), CallShimError> {
        let (answer, answered) = oneshot::channel();
        self.calls.send(Pending { call, descriptors, answer }).map_err(|_| CallShimError::Gone)?;
        answered.await.map_err(|_| CallShimError::Gone)
    }
}

/// Connects to the shim of a sandbox; `on_event` gets everything that happens, in order.
pub(crate) async fn connect(
    sandbox_directory: &Path,
    on_event: impl Fn(ShimEvent) + Send + 'static,
) -> io::Result<ShimLink> {
    // A short path whatever the length of the directory's: sockets take 107 bytes.
    let directory = rustix::fs::open(
        sandbox_directory,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(files::SOCKET);
    let stream = UnixStream::connect(path).await?;
    let (calls, queue) = mpsc::unbounded_channel();
    tokio::spawn(serve(stream, queue, on_event));
    Ok(ShimLink { calls })
}

async fn serve(
    stream: UnixStream,
    mut queue: mpsc::UnboundedReceiver<Pending>,
    on_event: impl Fn(ShimEvent) + Send + 'static,
) {
    let mut reader = FrameReader::default();
    let mut outgoing: VecDeque<OutgoingFrame> = VecDeque::new();
    let mut waiting: BTreeMap<u64, oneshot::Sender<(Reply, Vec<OwnedFd>)>> = BTreeMap::new();
    let mut next_number = 0;
    loop {
        let interest =
            if outgoing.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        tokio::select! {
            pending = queue.recv() => {
                // Nobody holds the link any more: the sandbox was removed, or the daemon ends.
                let Some(Pending { call, descriptors, answer }) = pending else { return };
                next_number += 1;
                match OutgoingFrame::encode(&Request { number: next_number, call }, descriptors) {
                    Ok(frame) => {
                        outgoing.push_back(frame);
                        waiting.insert(next_number, answer);
                    }
                    Err(error) => {
                        let message = CallShimError::Encode(error.to_string()).to_string();
                        let _ = answer.send((Reply::Failed { message }, Vec::new()));
                    }
                }
            }
            ready = stream.ready(interest) => {
                let open = ready.and_then(|ready| {
                    if ready.is_writable() {
                        send_all(&stream, &mut outgoing)?;
                    }
                    if ready.is_readable() { receive(&stream, &mut reader) } else { Ok(true) }
                });
                let understood = deliver(&mut reader, &mut waiting, &on_event);
                if !matches!(open, Ok(true)) || understood.is_err() {
                    break;
                }
            }
        }
        if send_all(&stream, &mut outgoing).is_err() {
            break;
        }
    }
    // Dropping the senders tells every caller.
    drop(waiting);
    on_event(ShimEvent::Gone);
}

fn send_all(stream: &UnixStream, outgoing: &mut VecDeque<OutgoingFrame>) -> io::Result<()> {
    while let Some(frame) = outgoing.front_mut() {
        let sent = stream.try_io(Interest::WRITABLE, || {
            if frame.send(stream)? { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        match sent {
            Ok(()) => drop(outgoing.pop_front()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(stream: &UnixStream, reader: &mut FrameReader) -> io::Result<bool> {
    loop {
        let inflow = stream.try_io(Interest::READABLE, || match reader.receive(stream)? {
            Inflow::Nothing => Err(io::ErrorKind::WouldBlock.into()),
            inflow => Ok(inflow),
        });
        match inflow {
            Ok(Inflow::Closed) => return Ok(false),
            Ok(Inflow::Arrived | Inflow::Nothing) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}

fn deliver(
    reader: &mut FrameReader,
    waiting: &mut BTreeMap<u64, oneshot::Sender<(Reply, Vec<OwnedFd>)>>,
    on_event: &impl Fn(ShimEvent),
) -> io::Result<()> {
    while let Some(message) = reader.next::<Message>()? {
        match message {
            Message::Reply { number, reply } => {
                let descriptors = match reply {
                    Reply::DoneWithDescriptors => reader.take_descriptor().into_iter().collect(),
                    Reply::Done
                    | Reply::Created { .. }
                    | Reply::Failed { .. }
                    | Reply::Unknown
                    | Reply::WrongState { .. } => Vec::new(),
                };
                if let Some(answer) = waiting.remove(&number) {
                    // A caller that went away is no error.
                    let _ = answer.send((reply, descriptors));
                }
            }
            Message::ContainerExited { container, exit } => {
                on_event(ShimEvent::ContainerExited { container, exit })
            }
            Message::Executed { execution, exit_code } => {
                on_event(ShimEvent::Executed { execution, exit_code })
            }
        }
    }
    Ok(())
}
