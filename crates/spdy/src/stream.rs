//! One stream in the hands of whoever uses it: a half to read and a half to write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::connection::StreamId;
use crate::header_block::Headers;

/// A stream. Dropping its writing half before [`StreamWriter::finish`] tears the whole stream down.
#[derive(Debug)]
pub struct Stream {
    /// What the opener says that it is for.
    pub headers: Headers,
    /// What the peer says.
    pub reader: StreamReader,
    /// What we say.
    pub writer: StreamWriter,
}

impl Stream {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.writer.stream
    }

    /// Takes a stream that the peer opened. To refuse it, drop it.
    ///
    /// # Errors
    ///
    /// When the connection is over.
    pub async fn accept(&self) -> Result<(), StreamGone> {
        self.writer.say(Command::Accept(self.writer.stream)).await
    }
}

/// The stream or its connection is over; nobody would read what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream is over")]
pub struct StreamGone;

/// What a stream's reader meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// Bytes.
    Data(Bytes),
    /// The peer said all that it wanted to say.
    Finished,
    /// The stream was torn down, or the connection ended.
    Lost,
}

/// What both halves and the driver know of a stream.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    pub(crate) finished: AtomicBool,
    pub(crate) gone: AtomicBool,
}

/// Bytes that wait for their reader, and the room that they take.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) _room: OwnedSemaphorePermit,
}

/// The half of a stream that is read.
#[derive(Debug)]
pub struct StreamReader {
    pub(crate) queue: mpsc::Receiver<Piece>,
    pub(crate) standing: Arc<Standing>,
}

impl StreamReader {
    /// Waits for more. After `Finished` or `Lost` it says the same again. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Received {
        match self.queue.recv().await {
            Some(piece) => Received::Data(piece.bytes),
            None if self.standing.finished.load(Ordering::Acquire) => Received::Finished,
            None => Received::Lost,
        }
    }
}

/// What streams say to the driver of their connection.
#[derive(Debug)]
pub(crate) enum Command {
    Accept(StreamId),
    Data(StreamId, Bytes),
    Finish(StreamId),
}

/// News of a writing half that was dropped.
#[derive(Debug)]
pub(crate) struct DroppedWriter {
    pub(crate) stream: StreamId,
    /// Its owner had said everything.
    pub(crate) finished: bool,
}

/// The half of a stream that is written.
#[derive(Debug)]
pub struct StreamWriter {
    pub(crate) stream: StreamId,
    pub(crate) commands: mpsc::Sender<Command>,
    /// Not bounded, since a drop cannot wait; a stream is dropped once.
    pub(crate) dropped: mpsc::UnboundedSender<DroppedWriter>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) finished: bool,
}

impl StreamWriter {
    /// Sends bytes; waits while the peer does not read.
    ///
    /// # Errors
    ///
    /// When nobody would read them.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), StreamGone> {
        if self.finished {
            return Err(StreamGone);
        }
        self.say(Command::Data(self.stream, bytes)).await
    }

    /// Ends this half; what was sent before arrives before it.
    ///
    /// # Errors
    ///
    /// When the stream is over anyway.
    pub async fn finish(&mut self) -> Result<(), StreamGone> {
        if self.finished {
            return Ok(());
        }
        self.say(Command::Finish(self.stream)).await?;
        self.finished = true;
        Ok(())
    }

    async fn say(&self, command: Command) -> Result<(), StreamGone> {
        if self.standing.gone.load(Ordering::Acquire) {
            return Err(StreamGone);
        }
        self.commands.send(command).await.map_err(|_| StreamGone)
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        // The connection may be over, and the stream with it.
        let _ = self.dropped.send(DroppedWriter { stream: self.stream, finished: self.finished });
    }
}
