//! Drives one connection: a future that moves bytes between a transport and the streams in other tasks' hands. It waits for
//! all of it at once and keeps no task of its own: dropping it ends everything.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::connection::{Connection, Event, Limits, ProtocolError, Role, StreamId};
use crate::frame::ResetStatus;
use crate::header_block::Headers;
use crate::stream::{Command, DroppedWriter, Piece, Standing, Stream, StreamReader, StreamWriter};

/// Pieces of a stream that wait for their reader, before the connection is not read any more.
const QUEUE: usize = 16;
/// Bytes of all streams of a connection that wait for their readers, before it is not read any more.
const INPUT: usize = 1 << 20;
/// Bytes that wait for the peer, before streams have to wait and the peer is not listened to any more.
const OUTPUT: usize = 64 * 1024;
/// Read at once.
const CHUNK: usize = 16 * 1024;
/// After the last word the peer has so long to close: closing on a peer that still sends would lose what it did not read.
const LINGER: Duration = Duration::from_secs(5);
/// What a peer says after our last word is read up to here.
const LINGER_BYTES: usize = 16 << 20;

/// How a session ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionEnd {
    /// All streams of ours, and whoever could have more, are gone, and the peer was told everything.
    #[error("done")]
    Done,
    /// The peer closed.
    #[error("the peer closed the connection")]
    PeerClosed,
    /// The transport broke.
    #[error("the connection broke: {0}")]
    Transport(io::Error),
    /// The peer broke the rules.
    #[error(transparent)]
    Protocol(ProtocolError),
    /// Nothing moved for too long.
    #[error("nothing moved for too long")]
    Idle,
}

/// Streams that the peer opens. Dropping it refuses them.
#[derive(Debug)]
pub struct Streams {
    queue: mpsc::Receiver<Stream>,
}

impl Streams {
    /// The next one; `None` when the connection is over.
    pub async fn next(&mut self) -> Option<Stream> {
        self.queue.recv().await
    }
}

/// Opens streams of our own.
#[derive(Debug, Clone)]
pub struct Opener {
    queue: mpsc::Sender<(Headers, oneshot::Sender<Stream>)>,
}

impl Opener {
    /// Opens one; done when the peer has taken it. `None` when it refused or the connection is over.
    pub async fn open(&self, headers: Headers) -> Option<Stream> {
        let (answer, opened) = oneshot::channel();
        self.queue.send((headers, answer)).await.ok()?;
        opened.await.ok()
    }
}

/// A session over `transport`: the future that drives it, the streams of the peer, and a way to open our own.
///
/// The future ends when the peer closes, when nothing moved for `idle`, or when everything else of the session was dropped
/// and the peer has been told all of it.
pub fn session<T>(
    transport: T,
    role: Role,
    limits: Limits,
    idle: Duration,
) -> (impl Future<Output = SessionEnd>, Streams, Opener)
where
    T: AsyncRead + AsyncWrite,
{
    let (new, queue) = mpsc::channel(QUEUE);
    let (open, wanted) = mpsc::channel(QUEUE);
    let (say, commands) = mpsc::channel(QUEUE);
    let (drop, dropped) = mpsc::unbounded_channel();
    let driver = Driver {
        connection: Connection::new(role, limits),
        idle,
        new,
        held: BTreeMap::new(),
        awaited: BTreeMap::new(),
        writers: 0,
        room: Arc::new(Semaphore::new(INPUT)),
        say,
        drop,
        quiet_at: Instant::now() + idle,
    };
    let driven = driver.run(transport, wanted, commands, dropped);
    (driven, Streams { queue }, Opener { queue: open })
}

/// What the driver keeps of a stream that it handed out.
struct Held {
    /// Until the peer's half is over.
    queue: Option<mpsc::Sender<Piece>>,
    standing: Arc<Standing>,
    writer_gone: bool,
}

/// What the next step waits for: somebody who does not take what is theirs.
enum Blocked {
    Data(mpsc::Sender<Piece>, Bytes),
    Opened(Stream),
}

struct Driver {
    connection: Connection,
    idle: Duration,
    new: mpsc::Sender<Stream>,
    held: BTreeMap<StreamId, Held>,
    /// Own streams that the peer has not taken yet, and who waits for them.
    awaited: BTreeMap<StreamId, (Stream, oneshot::Sender<Stream>)>,
    /// Writing halves that were handed out and not dropped.
    writers: usize,
    /// For bytes that wait for their readers.
    room: Arc<Semaphore>,
    say: mpsc::Sender<Command>,
    drop: mpsc::UnboundedSender<DroppedWriter>,
    quiet_at: Instant,
}

impl Driver {
    async fn run<T>(
        mut self,
        transport: T,
        mut wanted: mpsc::Receiver<(Headers, oneshot::Sender<Stream>)>,
        mut commands: mpsc::Receiver<Command>,
        mut dropped: mpsc::UnboundedReceiver<DroppedWriter>,
    ) -> SessionEnd
    where
        T: AsyncRead + AsyncWrite,
    {
        let (mut from, mut to) = tokio::io::split(transport);
        let mut chunk = vec![0; CHUNK];
        let mut blocked = None;
        let mut may_open = true;
        loop {
            while blocked.is_none()
                && let Some(event) = self.connection.next_event()
            {
                blocked = self.hand_over(event);
            }
            let waiting = self.connection.output().len();
            let in_use = self.writers > 0 || may_open || !self.new.is_closed() || !commands.is_empty();
            if !in_use && waiting == 0 {
                take_leave(from, to).await;
                return SessionEnd::Done;
            }
            let room = waiting < OUTPUT;
            tokio::select! {
                written = to.write(self.connection.output()), if waiting > 0 => match written {
                    Ok(0) => return SessionEnd::Transport(io::ErrorKind::WriteZero.into()),
                    Ok(count) => self.connection.output().advance(count),
                    Err(error) => return SessionEnd::Transport(error),
                },
                read = from.read(&mut chunk), if blocked.is_none() && room => match read {
                    Ok(0) => return SessionEnd::PeerClosed,
                    Ok(count) => if let Err(error) = self.connection.receive(&chunk[..count]) {
                        return SessionEnd::Protocol(error);
                    },
                    Err(error) => return SessionEnd::Transport(error),
                },
                () = unblocked(&blocked, &self.new, &self.room), if blocked.is_some() => {
                    blocked = match blocked.take() {
                        Some(Blocked::Data(queue, bytes)) if !queue.is_closed() => self.hand_data(queue, bytes),
                        Some(Blocked::Opened(stream)) => self.hand_stream(stream),
                        Some(Blocked::Data(..)) | None => None,
                    };
                }
                // One is kept here, so there always is an answer.
                Some(command) = commands.recv(), if room => self.obey(command),
                Some(writer) = dropped.recv() => self.let_go(writer),
                want = wanted.recv(), if may_open && room => match want {
                    Some((headers, answer)) => {
                        let id = self.connection.open(headers);
                        let stream = self.hold(id, Headers::new());
                        self.awaited.insert(id, (stream, answer));
                    }
                    None => may_open = false,
                },
                () = self.new.closed(), if !self.new.is_closed() => {}
                () = tokio::time::sleep_until(self.quiet_at) => return SessionEnd::Idle,
            }
        }
    }

    fn note_activity(&mut self) {
        self.quiet_at = Instant::now() + self.idle;
    }

    /// A stream for somebody else's hands.
    fn hold(&mut self, id: StreamId, headers: Headers) -> Stream {
        let (sender, queue) = mpsc::channel(QUEUE);
        let standing = Arc::new(Standing::default());
        let held = Held { queue: Some(sender), standing: Arc::clone(&standing), writer_gone: false };
        self.held.insert(id, held);
        self.writers += 1;
        let writer = StreamWriter {
            stream: id,
            commands: self.say.clone(),
            dropped: self.drop.clone(),
            standing: Arc::clone(&standing),
            finished: false,
        };
        Stream { headers, reader: StreamReader { queue, standing }, writer }
    }

    fn hand_over(&mut self, event: Event) -> Option<Blocked> {
        match event {
            Event::Opened { stream, headers } => {
                self.note_activity();
                let stream = self.hold(stream, headers);
                self.hand_stream(stream)
            }
            Event::Accepted(id) => {
                if let Some((stream, answer)) = self.awaited.remove(&id) {
                    // Who does not wait any more does not want it: it is dropped.
                    let _ = answer.send(stream);
                }
                None
            }
            Event::Data(id, bytes) => {
                self.note_activity();
                let queue = self.held.get(&id).and_then(|held| held.queue.clone())?;
                if queue.is_closed() { None } else { self.hand_data(queue, bytes) }
            }
            Event::Finished(id) => {
                let held = self.held.get_mut(&id)?;
                held.standing.finished.store(true, Ordering::Release);
                held.queue = None;
                if held.writer_gone {
                    self.held.remove(&id);
                }
                None
            }
            Event::Reset(id) => {
                self.awaited.remove(&id);
                if let Some(held) = self.held.remove(&id) {
                    held.standing.gone.store(true, Ordering::Release);
                }
                None
            }
        }
    }

    fn hand_stream(&mut self, stream: Stream) -> Option<Blocked> {
        match self.new.try_send(stream) {
            Err(mpsc::error::TrySendError::Full(stream)) => Some(Blocked::Opened(stream)),
            // Nobody takes streams (any more): dropping it refuses it.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
        }
    }

    fn hand_data(&mut self, queue: mpsc::Sender<Piece>, bytes: Bytes) -> Option<Blocked> {
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(room_for(&bytes)) else {
            return Some(Blocked::Data(queue, bytes));
        };
        match queue.try_send(Piece { bytes, _room: room }) {
            Err(mpsc::error::TrySendError::Full(piece)) => Some(Blocked::Data(queue, piece.bytes)),
            // Nobody reads it (any more).
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Accept(id) => self.connection.accept(id),
            Command::Data(id, bytes) => {
                self.note_activity();
                self.connection.send(id, bytes);
            }
            Command::Finish(id) => self.connection.finish(id),
        }
    }

    fn let_go(&mut self, writer: DroppedWriter) {
        self.writers -= 1;
        if writer.finished {
            if let Some(held) = self.held.get_mut(&writer.stream) {
                held.writer_gone = true;
                if held.queue.is_none() {
                    self.held.remove(&writer.stream);
                }
            }
        } else {
            self.connection.reset(writer.stream, ResetStatus::CANCEL);
            self.held.remove(&writer.stream);
        }
    }
}

/// What is read at once is less than all the room.
fn room_for(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len().min(INPUT)).unwrap_or(u32::MAX)
}

async fn unblocked(blocked: &Option<Blocked>, new: &mpsc::Sender<Stream>, room: &Semaphore) {
    // Room, or nobody who would ever make some: both are an answer.
    match blocked {
        Some(Blocked::Data(queue, bytes)) => {
            let both = async {
                drop(queue.reserve().await);
                drop(room.acquire_many(room_for(bytes)).await);
            };
            tokio::select! {
                () = both => {}
                () = queue.closed() => {}
            }
        }
        Some(Blocked::Opened(_)) => drop(new.reserve().await),
        None => {}
    }
}

/// Closes after everything was said: the peer has a moment to close as well.
async fn take_leave(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let farewell = async {
        if to.shutdown().await.is_err() {
            return;
        }
        let mut chunk = vec![0; CHUNK];
        let mut total = 0;
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            total += count;
            if total > LINGER_BYTES {
                return;
            }
        }
    };
    // Who does not close in time is closed upon.
    let _ = tokio::time::timeout(LINGER, farewell).await;
}
