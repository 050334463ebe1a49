//! The body of a watch: a cursor in the store's window, filtered by the selector, written as frames.
//!
//! Nothing is queued for a client beyond the batch that is being written: 64 KiB of values, or one object. A client that stops
//! reading costs that batch and what its connection buffers, together less than 256 KiB, and is told 410 when the window has
//! moved on. What an event is in protobuf is written once for all watchers; in JSON it is what the store has.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::vec::IntoIter;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use jiff::Timestamp;
use schema::protobuf::{self, ProtobufError};
use serde_json::{Value, json};
use store::{Event, EventKind, Object, ReadError, Watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::gatekeeper::Place;
use crate::kinds::Kind;
use crate::media::{Format, Notation};
use crate::object::tree;
use crate::responses::BodyError;
use crate::selector::Selector;
use crate::server::Server;
use crate::status::ApiError;
use crate::table::{Include, column_definitions, partial_metadata, row, table};

/// How often an idle watch is told how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How much of the initial state is written at once.
const INITIAL_PIECE: usize = 64 * 1024;
/// For how long a client may take for an initial state that is larger than [`INITIAL_FREE`]; versions that have been
/// replaced meanwhile are kept for it alone.
const INITIAL_TIME: Duration = Duration::from_secs(120);
/// Bytes of an initial state that may be kept for as long as the watch lasts.
const INITIAL_FREE: usize = 128 * 1024;
/// Marks the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How frames are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameStyle {
    pub(crate) format: Format,
    pub(crate) notation: Notation,
    pub(crate) include: Include,
}

impl FrameStyle {
    /// The event that says why a watch ends.
    pub(crate) fn failure(self, error: &ApiError) -> Bytes {
        let mut frames = BytesMut::new();
        self.frame(&mut frames, "ERROR", error.status().to_string().as_bytes());
        frames.freeze()
    }

    /// Appends an event; `object` is JSON.
    fn frame(self, frames: &mut BytesMut, kind: &str, object: &[u8]) {
        match self.notation {
            Notation::Json | Notation::Yaml => frame(frames, kind, object),
            Notation::Protobuf => protobuf_frame(frames, kind, protobuf::write_object(object)),
        }
    }
}

fn protobuf_frame(frames: &mut BytesMut, kind: &str, written: Result<Vec<u8>, ProtobufError>) {
    let mut bytes = Vec::new();
    match written {
        Ok(object) => protobuf::put_event(&mut bytes, kind, &object),
        Err(error) => put_failure(&mut bytes, error.to_string()),
    }
    frames.put_slice(&bytes);
}

fn put_failure(bytes: &mut Vec<u8>, message: String) {
    let status = ApiError::Internal { message }.status().to_string();
    let status = protobuf::write_object(status.as_bytes()).unwrap_or_default();
    protobuf::put_event(bytes, "ERROR", &status);
}

/// One running watch.
pub(crate) struct WatchStream {
    pub(crate) server: Arc<Server>,
    pub(crate) kind: Arc<Kind>,
    pub(crate) watch: Watch,
    pub(crate) selector: Selector,
    pub(crate) style: FrameStyle,
    pub(crate) bookmarks: bool,
    pub(crate) deadline: Instant,
    /// Sent before anything else; its revision is where the watch begins.
    pub(crate) initial: Option<Initial>,
    #[expect(dead_code, reason = "held until the watch ends, then given back")]
    pub(crate) place: Place,
}

/// The state that a watch begins with.
pub(crate) struct Initial {
    pub(crate) objects: Vec<Arc<Object>>,
    /// Whether a bookmark says that they are complete.
    pub(crate) announce_end: bool,
}

/// What is left of an initial state.
struct Rest {
    objects: Arc<Mutex<Option<IntoIter<Arc<Object>>>>>,
    announce_end: bool,
    /// Gives the objects up when the client does not come for them.
    guard: Option<JoinHandle<()>>,
}

impl Rest {
    fn new(initial: Initial, patience: Duration) -> Rest {
        let bytes: usize = initial.objects.iter().map(|object| object.value().len()).sum();
        let objects = Arc::new(Mutex::new(Some(initial.objects.into_iter())));
        let guard = (bytes > INITIAL_FREE).then(|| {
            let objects = Arc::downgrade(&objects);
            tokio::spawn(async move {
                tokio::time::sleep(patience).await;
                if let Some(objects) = objects.upgrade() {
                    drop(objects.lock().unwrap_or_else(PoisonError::into_inner).take());
                }
            })
        });
        Rest { objects, announce_end: initial.announce_end, guard }
    }

    /// The next object; `Err` when they were given up.
    fn next(&self) -> Result<Option<Arc<Object>>, GivenUp> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.as_mut().map(Iterator::next).ok_or(GivenUp)
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        if let Some(guard) = &self.guard {
            guard.abort();
        }
    }
}

/// The initial state has been given up.
#[derive(Debug, PartialEq, Eq)]
struct GivenUp;

struct Running {
    stream: WatchStream,
    /// What is left of the initial state.
    initial: Option<Rest>,
    next_bookmark: Instant,
    columns_sent: bool,
    ended: bool,
}

impl WatchStream {
    /// The frames, batch by batch.
    pub(crate) fn into_frames(mut self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static {
        let initial = self.initial.take();
        let running = Running {
            initial: initial.map(|initial| Rest::new(initial, INITIAL_TIME)),
            next_bookmark: Instant::now() + BOOKMARK_EVERY,
            columns_sent: false,
            ended: false,
            stream: self,
        };
        futures::stream::unfold(running, |mut running| async move {
            let bytes = running.next().await?;
            Some((Ok(bytes), running))
        })
    }
}

impl Running {
    async fn next(&mut self) -> Option<Bytes> {
        let initial = self.initial_frames();
        if !initial.is_empty() {
            return Some(initial);
        }
        while !self.ended {
            let closing = self.stream.server.closing().clone();
            let wake = self.stream.deadline.min(self.next_bookmark);
            let mut frames = BytesMut::new();
            tokio::select! {
                outcome = self.stream.watch.next() => match outcome {
                    Ok(Some(events)) => {
                        for event in &events {
                            self.write_event(&mut frames, event);
                        }
                    }
                    Ok(None) => self.ended = true,
                    Err(error) => {
                        frames.put_slice(&self.stream.style.failure(&ApiError::from_read(error)));
                        self.ended = true;
                    }
                },
                () = tokio::time::sleep_until(wake) => {
                    self.ended = self.stream.deadline <= Instant::now();
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    self.write_bookmark(&mut frames, false);
                }
                () = closing.cancelled() => self.ended = true,
            }
            if !frames.is_empty() {
                return Some(frames.freeze());
            }
        }
        None
    }

    /// The next piece of the initial state; empty when there is none.
    fn initial_frames(&mut self) -> Bytes {
        let mut frames = BytesMut::new();
        while frames.len() < INITIAL_PIECE
            && let Some(rest) = &self.initial
        {
            let announce_end = rest.announce_end;
            match rest.next() {
                Ok(Some(object)) => self.write_object(&mut frames, "ADDED", &object),
                Ok(None) => {
                    self.initial = None;
                    if announce_end {
                        self.write_bookmark(&mut frames, true);
                    }
                }
                Err(GivenUp) => {
                    self.initial = None;
                    self.ended = true;
                    let position = self.stream.watch.position();
                    let oldest = self.stream.server.store.revision();
                    let error = ApiError::from_read(ReadError::Expired { requested: position, oldest });
                    frames.put_slice(&self.stream.style.failure(&error));
                }
            }
        }
        frames.freeze()
    }

    /// What an event means to this client: an object can come into and go out of a selection by a change.
    fn write_event(&mut self, frames: &mut BytesMut, event: &Event) {
        let selector = &self.stream.selector;
        let is_selected = |object: &Arc<Object>| selector.is_empty() || selector.selects(object);
        let (is, was) = match event.kind {
            EventKind::Added => (is_selected(&event.object), false),
            EventKind::Modified => {
                (is_selected(&event.object), event.previous.as_ref().is_some_and(is_selected))
            }
            EventKind::Deleted => (false, event.previous.as_ref().is_some_and(is_selected)),
        };
        match (was, is) {
            (false, false) => {}
            (false, true) => self.write_newest(frames, "ADDED", event),
            (true, true) => self.write_newest(frames, "MODIFIED", event),
            (true, false) => {
                // The last version that was selected, under the revision of the change.
                match (&event.previous, event.kind) {
                    (Some(previous), EventKind::Modified) => {
                        self.write_object(
                            frames,
                            "DELETED",
                            &Arc::new(previous.at_revision(event.revision())),
                        );
                    }
                    _ => self.write_newest(frames, "DELETED", event),
                }
            }
        }
    }

    /// Writes the object of an event; in protobuf, what was written for the first watcher is taken by all others.
    fn write_newest(&mut self, frames: &mut BytesMut, kind: &str, event: &Event) {
        let stream = &self.stream;
        let is_shared = stream.style.format == Format::Object
            && stream.style.notation == Notation::Protobuf
            && !stream.kind.is_alias();
        if !is_shared {
            return self.write_object(frames, kind, &event.object);
        }
        // Empty: the object cannot be written so, which the ordinary way says in words.
        let written = event
            .other_form(|| protobuf::write_object(event.object.value()).map(Bytes::from).unwrap_or_default());
        if written.is_empty() {
            return self.write_object(frames, kind, &event.object);
        }
        let mut bytes = Vec::with_capacity(written.len() + 64);
        protobuf::put_event(&mut bytes, kind, &written);
        frames.put_slice(&bytes);
    }

    fn write_object(&mut self, frames: &mut BytesMut, kind: &str, object: &Arc<Object>) {
        match self.stream.style.format {
            Format::Object => {
                self.stream.style.frame(frames, kind, &self.stream.kind.shown_bytes(object.value()))
            }
            Format::Metadata(version) if self.stream.style.notation == Notation::Protobuf => {
                let partial =
                    protobuf::write_object_as(version.api_version(), "PartialObjectMetadata", object.value());
                protobuf_frame(frames, kind, partial);
            }
            Format::Metadata(version) => {
                self.stream.style.frame(
                    frames,
                    kind,
                    partial_metadata(&tree(object), version).to_string().as_bytes(),
                );
            }
            Format::Table(version) => {
                let row = row(
                    &self.stream.kind,
                    &tree(object),
                    self.stream.style.include,
                    version,
                    Timestamp::now(),
                );
                let columns = (!self.columns_sent).then(|| column_definitions(&self.stream.kind));
                self.columns_sent = true;
                let metadata = json!({"resourceVersion": object.revision().to_string()});
                self.stream.style.frame(
                    frames,
                    kind,
                    table(metadata, columns, vec![row], version).to_string().as_bytes(),
                );
            }
        }
    }

    fn write_bookmark(&mut self, frames: &mut BytesMut, ends_initial: bool) {
        if !self.stream.bookmarks {
            return;
        }
        let mut metadata =
            json!({"resourceVersion": self.stream.watch.position().to_string(), "creationTimestamp": null});
        if ends_initial {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let typed = |kind: &str, api_version: &str| -> Value {
            json!({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        };
        let bookmark = match self.stream.style.format {
            Format::Object => typed(self.stream.kind.kind(), self.stream.kind.group_version()),
            Format::Metadata(version) => typed("PartialObjectMetadata", version.api_version()),
            Format::Table(version) => {
                let object = typed("PartialObjectMetadata", version.api_version());
                let metadata = json!({"resourceVersion": metadata["resourceVersion"]});
                table(metadata, None, vec![json!({"cells": [], "object": object})], version)
            }
        };
        self.stream.style.frame(frames, "BOOKMARK", bookmark.to_string().as_bytes());
    }
}

fn frame(frames: &mut BytesMut, kind: &str, object: &[u8]) {
    frames.reserve(object.len() + 40);
    frames.put_slice(b"{\"type\":\"");
    frames.put_slice(kind.as_bytes());
    frames.put_slice(b"\",\"object\":");
    frames.put_slice(object);
    frames.put_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use store::{Collection, Draft, Key, Object, Store};

    use super::{GivenUp, Initial, Rest};

    async fn objects(count: usize) -> Vec<Arc<Object>> {
        let store = Store::in_memory().expect("opens");
        let maps = Collection::new("", "configmaps");
        for number in 0..count {
            let draft = Draft::new(vec![b'x'; 1000], 0).expect("inside");
            store.create(Key::new(&maps, "a", &format!("n{number}")), draft).await.expect("stored");
        }
        store.list(&maps, None, None, None).expect("a list").objects
    }

    #[tokio::test]
    async fn a_large_initial_state_that_nobody_comes_for_is_given_up_and_a_small_one_is_not() {
        let patience = Duration::from_millis(10);
        let small = Rest::new(Initial { objects: objects(10).await, announce_end: true }, patience);
        let mut large = Rest::new(Initial { objects: objects(300).await, announce_end: true }, patience);
        assert!(large.next().expect("there").is_some());
        assert!(small.guard.is_none());
        large.guard.take().expect("it is large").await.expect("no panic");
        assert_eq!(large.next(), Err(GivenUp));
        assert!(small.next().expect("there").is_some());
    }
}
