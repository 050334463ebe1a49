//! One session: the streams of a process on one side, the two queues of a protocol on the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::status::SessionEnd;
use super::{ExecIo, TerminalSize};

/// How much of an output is read and sent at once.
const CHUNK: usize = 32 * 1024;
/// Messages that wait in a queue before whoever sends has to wait.
pub(super) const QUEUE: usize = 16;

/// How long silence is borne.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// As long as the process lives.
    pub(super) idle: Duration,
    /// After its end, with an output that a process left behind in the background still holds open.
    pub(super) after_end: Duration,
}

/// The outputs of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

/// What a client says, whatever the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inbound {
    Stdin(Bytes),
    StdinClosed,
    Resize(TerminalSize),
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outbound {
    Data(Output, Bytes),
    End(SessionEnd),
}

/// When something moved last, in milliseconds since the session began.
#[derive(Debug, Clone)]
struct Activity {
    began: Instant,
    last: Arc<AtomicU64>,
}

impl Activity {
    fn new() -> Self {
        Self { began: Instant::now(), last: Arc::new(AtomicU64::new(0)) }
    }

    fn note(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    fn quiet_until(&self, quiet: Duration) -> Instant {
        self.began + Duration::from_millis(self.last.load(Ordering::Relaxed)) + quiet
    }
}

/// Carries the streams until the process has ended, the client is gone, or nothing moves any more.
///
/// `inbound` ending means that the client is gone; then nothing is left to be told and the process is dropped.
pub(super) async fn carry(
    mut process: ExecIo,
    mut inbound: mpsc::Receiver<Inbound>,
    outbound: mpsc::Sender<Outbound>,
    patience: Patience,
) {
    let activity = Activity::new();
    let mut outputs = JoinSet::new();
    if let Some(stdout) = process.stdout.take() {
        outputs.spawn(pump_output(stdout, Output::Stdout, outbound.clone(), activity.clone()));
    }
    if let Some(stderr) = process.stderr.take() {
        outputs.spawn(pump_output(stderr, Output::Stderr, outbound.clone(), activity.clone()));
    }
    let mut inputs = JoinSet::new();
    let mut stdin = process.stdin.take().map(|writer| {
        let (sender, receiver) = mpsc::channel(QUEUE);
        inputs.spawn(pump_input(writer, receiver, activity.clone()));
        sender
    });
    let mut waiting: Option<Bytes> = None;
    let end = loop {
        let room_for_input = reserve(stdin.clone());
        tokio::select! {
            end = &mut process.end => break SessionEnd::Process(end),
            message = inbound.recv(), if waiting.is_none() => {
                activity.note();
                match message {
                    None => return,
                    Some(Inbound::Stdin(bytes)) => waiting = stdin.is_some().then_some(bytes),
                    Some(Inbound::StdinClosed) => stdin = None,
                    Some(Inbound::Resize(size)) => {
                        // A process that is gone has no terminal to resize.
                        let _ = process.resize.as_ref().map(|resize| resize.send(Some(size)));
                    }
                }
            }
            room = room_for_input, if waiting.is_some() => match (room, waiting.take()) {
                (Some(room), Some(bytes)) => drop(room.send(bytes)),
                // The process does not read any more; what it will not read is dropped.
                _ => stdin = None,
            },
            () = tokio::time::sleep_until(activity.quiet_until(patience.idle)) => {
                if Instant::now() >= activity.quiet_until(patience.idle) {
                    break SessionEnd::Idle;
                }
            }
        }
    };
    if matches!(end, SessionEnd::Process(_))
        && !drain(&mut outputs, &mut inbound, &outbound, &activity, patience.after_end).await
    {
        return;
    }
    // The client may have gone at this very moment.
    let _ = outbound.send(Outbound::End(end)).await;
}

async fn reserve(stdin: Option<mpsc::Sender<Bytes>>) -> Option<mpsc::OwnedPermit<Bytes>> {
    stdin?.reserve_owned().await.ok()
}

/// Sends what the outputs still hold. `false` when the client went away.
async fn drain(
    outputs: &mut JoinSet<()>,
    inbound: &mut mpsc::Receiver<Inbound>,
    outbound: &mpsc::Sender<Outbound>,
    activity: &Activity,
    quiet_after_end: Duration,
) -> bool {
    activity.note();
    loop {
        tokio::select! {
            done = outputs.join_next() => {
                if done.is_none() {
                    return true;
                }
            }
            message = inbound.recv() => {
                if message.is_none() {
                    return false;
                }
            }
            () = tokio::time::sleep_until(activity.quiet_until(quiet_after_end)) => {
                let sent_everything = outbound.capacity() == outbound.max_capacity();
                if !sent_everything {
                    // The client is slow, not the output quiet.
                    activity.note();
                } else if Instant::now() >= activity.quiet_until(quiet_after_end) {
                    outputs.shutdown().await;
                    return true;
                }
            }
        }
    }
}

async fn pump_output(
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    output: Output,
    outbound: mpsc::Sender<Outbound>,
    activity: Activity,
) {
    let mut buffer = vec![0; CHUNK];
    // A terminal whose last holder is gone answers with an error; both mean the end.
    while let Ok(length @ 1..) = reader.read(&mut buffer).await {
        activity.note();
        if outbound.send(Outbound::Data(output, Bytes::copy_from_slice(&buffer[..length]))).await.is_err() {
            return;
        }
    }
}

async fn pump_input(
    mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    mut queue: mpsc::Receiver<Bytes>,
    activity: Activity,
) {
    while let Some(bytes) = queue.recv().await {
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
        activity.note();
    }
    // A process that no longer reads does not mind.
    let _ = writer.shutdown().await;
}
