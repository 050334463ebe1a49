//! The only writer: a thread that takes what is queued, decides each request against the state and the batch so far, commits the
//! batch, publishes it and answers.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use crate::backend::{Backend, BackendError, Change};
use crate::error::WriteError;
use crate::handle::{Purpose, read_state};
use crate::key::Key;
use crate::object::{Draft, Object};
use crate::state::{Event, EventKind, State};

/// Most requests of one batch.
const BATCH_REQUESTS: usize = 512;
/// Bytes after which a batch is closed.
const BATCH_BYTES: usize = 1 << 20;
/// Quiet time after which the backend may do its maintenance.
const IDLE_AFTER: Duration = Duration::from_millis(250);
/// On a full disk, how long to wait before looking for room again.
const ROOM_CHECK: Duration = Duration::from_millis(500);

pub(crate) enum Wanted {
    Create(Draft),
    Update(Draft, u64),
    Delete(Option<u64>),
}

pub(crate) struct Request {
    pub(crate) key: Key,
    pub(crate) wanted: Wanted,
    pub(crate) purpose: Purpose,
    pub(crate) reply: oneshot::Sender<Result<Arc<Object>, WriteError>>,
}

pub(crate) enum Command {
    Write(Request),
    Close(oneshot::Sender<()>),
}

/// Starts the thread `store-writer`.
pub(crate) fn spawn_writer(
    backend: Box<dyn Backend>,
    state: Arc<RwLock<State>>,
    commands: Receiver<Command>,
    stop: watch::Sender<Option<String>>,
) -> io::Result<()> {
    let revision = read_state(&state).revision();
    // Dirty at first, so that maintenance comes soon after the start.
    let task = WriterTask { backend, state, commands, stop, revision, room: Room::Enough, dirty: true };
    std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || task.run())?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Room {
    Enough,
    Full { checked: Instant },
}

struct WriterTask {
    backend: Box<dyn Backend>,
    state: Arc<RwLock<State>>,
    commands: Receiver<Command>,
    stop: watch::Sender<Option<String>>,
    /// The last revision that was given, committed or not.
    revision: u64,
    room: Room,
    /// Something was written since the last maintenance.
    dirty: bool,
}

/// What one commit decides.
#[derive(Default)]
struct Batch {
    accepted: Vec<Accepted>,
    /// Requests that fail because of what the batch itself is about to do. Nobody may be told so before it is done: until then
    /// others see the old state, and if the commit fails there never is a new one.
    turned_down: Vec<(Request, WriteError)>,
}

/// A request that passed its precondition and waits for the commit.
struct Accepted {
    request: Request,
    change: Change,
    event: Event,
}

enum Turn {
    Continue,
    End(Option<oneshot::Sender<()>>),
}

impl WriterTask {
    fn run(mut self) {
        let done = loop {
            match self.turn() {
                Ok(Turn::Continue) => {}
                Ok(Turn::End(done)) => break done,
                Err(reason) => {
                    tracing::error!(%reason, "a commit failed; nothing is acknowledged any more");
                    self.stop.send_replace(Some(reason));
                    break None;
                }
            }
        };
        // The backend is closed before the caller of `close` is answered.
        drop(self);
        if let Some(done) = done {
            let _ = done.send(());
        }
    }

    fn turn(&mut self) -> Result<Turn, String> {
        let first = if self.dirty {
            match self.commands.recv_timeout(IDLE_AFTER) {
                Ok(command) => command,
                Err(RecvTimeoutError::Timeout) => {
                    self.dirty = false;
                    return match self.backend.idle() {
                        Ok(()) | Err(BackendError::Full { .. }) => Ok(Turn::Continue),
                        Err(BackendError::Failed { reason }) => Err(reason),
                    };
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Turn::End(None)),
            }
        } else {
            match self.commands.recv() {
                Ok(command) => command,
                Err(_) => return Ok(Turn::End(None)),
            }
        };
        let mut requests = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        let mut close = None;
        while let Some(command) = next {
            match command {
                Command::Write(request) => {
                    bytes += match &request.wanted {
                        Wanted::Create(draft) | Wanted::Update(draft, _) => draft.len(),
                        Wanted::Delete(_) => 0,
                    };
                    requests.push(request);
                }
                Command::Close(done) => {
                    close = Some(done);
                    break;
                }
            }
            if requests.len() >= BATCH_REQUESTS || bytes >= BATCH_BYTES {
                break;
            }
            next = self.commands.try_recv().ok();
        }
        self.write(requests)?;
        Ok(match close {
            Some(done) => Turn::End(Some(done)),
            None => Turn::Continue,
        })
    }

    fn write(&mut self, requests: Vec<Request>) -> Result<(), String> {
        let requests = self.turn_away_for_room(requests);
        let batch = self.decide(requests);
        if batch.accepted.is_empty() {
            return Ok(());
        }
        match self.commit(batch)? {
            None => Ok(()),
            // The disk is full: what only removes gets a second chance, one by one, in the room that the backend kept back.
            Some(refused) => {
                for request in refused {
                    match request.purpose {
                        Purpose::Ordinary => answer_full(request),
                        Purpose::Removal => self.remove_on_full_disk(request)?,
                    }
                }
                Ok(())
            }
        }
    }

    fn remove_on_full_disk(&mut self, request: Request) -> Result<(), String> {
        let mut request = request;
        // The kept room holds the first try; the second one comes after the backend has tidied up.
        for attempt in 0..2 {
            if attempt > 0 {
                self.backend.has_room();
            }
            let alone = self.decide(vec![request]);
            if alone.accepted.is_empty() {
                return Ok(());
            }
            let Some(refused) = self.commit(alone)? else { return Ok(()) };
            let Some(again) = refused.into_iter().next() else { return Ok(()) };
            request = again;
        }
        answer_full(request);
        Ok(())
    }

    /// On a full disk answers the ordinary writes, unless there is room again.
    fn turn_away_for_room(&mut self, requests: Vec<Request>) -> Vec<Request> {
        let Room::Full { checked } = self.room else { return requests };
        if checked.elapsed() >= ROOM_CHECK {
            if self.backend.has_room() {
                self.room = Room::Enough;
                tracing::info!("there is room on the disk again");
                return requests;
            }
            self.room = Room::Full { checked: Instant::now() };
        }
        let (removals, ordinary): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| request.purpose == Purpose::Removal);
        ordinary.into_iter().for_each(answer_full);
        removals
    }

    /// Checks each request against the state and what the batch has already decided; answers those that fail because of the state.
    fn decide(&mut self, requests: Vec<Request>) -> Batch {
        let state = read_state(&self.state);
        let mut pending: BTreeMap<Key, Option<Arc<Object>>> = BTreeMap::new();
        let mut batch = Batch { accepted: Vec::with_capacity(requests.len()), turned_down: Vec::new() };
        for request in requests {
            // Nobody waits any more: the client has gone, and the write has not been begun.
            if request.reply.is_closed() {
                continue;
            }
            let decided = pending.get(&request.key);
            let is_pending = decided.is_some();
            let current = match decided {
                Some(decided) => decided.clone(),
                None => state
                    .collection(request.key.collection())
                    .and_then(|collection| collection.object(&request.key.place()))
                    .cloned(),
            };
            match plan_write(&request, current, self.revision + 1) {
                Ok((change, event)) => {
                    self.revision += 1;
                    let after = match event.kind {
                        EventKind::Added | EventKind::Modified => Some(event.object.clone()),
                        EventKind::Deleted => None,
                    };
                    pending.insert(request.key.clone(), after);
                    batch.accepted.push(Accepted { request, change, event });
                }
                Err(error) if is_pending => batch.turned_down.push((request, error)),
                Err(error) => {
                    let _ = request.reply.send(Err(error));
                }
            }
        }
        batch
    }

    /// Commits and publishes; `Some` hands the requests back because the disk is full.
    fn commit(&mut self, batch: Batch) -> Result<Option<Vec<Request>>, String> {
        let Batch { accepted, turned_down } = batch;
        let mut requests = Vec::with_capacity(accepted.len());
        let mut changes = Vec::with_capacity(accepted.len());
        let mut events = Vec::with_capacity(accepted.len());
        for accepted in accepted {
            requests.push(accepted.request);
            changes.push(accepted.change);
            events.push(accepted.event);
        }
        fault::point("commit.due");
        match self.backend.commit(self.revision, &changes) {
            Ok(()) => {
                fault::point("commit.done");
                self.dirty = true;
                let written: Vec<Arc<Object>> = events.iter().map(|event| event.object.clone()).collect();
                self.state
                    .write()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .publish(events, self.revision);
                fault::point("commit.published");
                for (request, object) in requests.into_iter().zip(written) {
                    let _ = request.reply.send(Ok(object));
                }
                for (request, error) in turned_down {
                    let _ = request.reply.send(Err(error));
                }
                Ok(None)
            }
            Err(BackendError::Full { reason }) => {
                if matches!(self.room, Room::Enough) {
                    tracing::warn!(%reason, "the disk is full; only removals are stored until there is room");
                }
                self.room = Room::Full { checked: Instant::now() };
                requests.extend(turned_down.into_iter().map(|(request, _)| request));
                Ok(Some(requests))
            }
            Err(BackendError::Failed { reason }) => {
                for request in requests.into_iter().chain(turned_down.into_iter().map(|(request, _)| request))
                {
                    let _ = request.reply.send(Err(WriteError::Stopped { reason: reason.clone() }));
                }
                Err(reason)
            }
        }
    }
}

fn answer_full(request: Request) {
    let _ = request.reply.send(Err(WriteError::Full { key: request.key }));
}

/// What a request does to `current` under `revision`, or why it may not.
fn plan_write(
    request: &Request,
    current: Option<Arc<Object>>,
    revision: u64,
) -> Result<(Change, Event), WriteError> {
    let key = &request.key;
    match (&request.wanted, current) {
        (Wanted::Create(_), Some(_)) => Err(WriteError::Exists { key: key.clone() }),
        (Wanted::Create(draft), None) => {
            let object = Arc::new(draft.finish(key.clone(), revision, revision));
            Ok((Change::Insert(object.clone()), Event::new(EventKind::Added, object, None)))
        }
        (Wanted::Update(..) | Wanted::Delete(_), None) => Err(WriteError::Missing { key: key.clone() }),
        (Wanted::Update(draft, expected), Some(current)) => {
            expect_revision(key, *expected, &current)?;
            let object = Arc::new(draft.finish(key.clone(), revision, current.created()));
            Ok((Change::Replace(object.clone()), Event::new(EventKind::Modified, object, Some(current))))
        }
        (Wanted::Delete(expected), Some(current)) => {
            if let Some(expected) = expected {
                expect_revision(key, *expected, &current)?;
            }
            let object = Arc::new(current.at_revision(revision));
            Ok((
                Change::Remove { created: current.created() },
                Event::new(EventKind::Deleted, object, Some(current)),
            ))
        }
    }
}

fn expect_revision(key: &Key, expected: u64, current: &Object) -> Result<(), WriteError> {
    if current.revision() == expected {
        return Ok(());
    }
    Err(WriteError::Conflict { key: key.clone(), expected, current: current.revision() })
}
