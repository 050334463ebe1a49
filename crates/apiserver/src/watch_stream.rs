//! The body of a watch: a cursor in the store's window, filtered by the selector, written as frames.
//!
//! Nothing is queued for a client beyond the batch that is being written; a client that stops reading costs that batch and is told 410 when
//! the window has moved on.

use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use jiff::Timestamp;
use schema::protobuf;
use serde_json::{Value, json};
use store::{Event, EventKind, Object, Watch};
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
    /// Appends an event; `object` is JSON.
    fn frame(self, frames: &mut BytesMut, kind: &str, object: &[u8]) {
        match self.notation {
            Notation::Json | Notation::Yaml => frame(frames, kind, object),
            Notation::Protobuf => {
                let mut bytes = Vec::new();
                match protobuf::write_object(object) {
                    Ok(object) => protobuf::put_event(&mut bytes, kind, &object),
                    Err(error) => {
                        let status = ApiError::Internal { message: error.to_string() }.status().to_string();
                        let status = protobuf::write_object(status.as_bytes()).unwrap_or_default();
                        protobuf::put_event(&mut bytes, "ERROR", &status);
                    }
                }
                frames.put_slice(&bytes);
            }
        }
    }
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

struct Running {
    stream: WatchStream,
    /// What is left of the initial state, and whether a bookmark follows it.
    initial: Option<(IntoIter<Arc<Object>>, bool)>,
    next_bookmark: Instant,
    columns_sent: bool,
    ended: bool,
}

impl WatchStream {
    /// The frames, batch by batch.
    pub(crate) fn into_frames(mut self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static {
        let initial = self.initial.take();
        let running = Running {
            initial: initial.map(|initial| (initial.objects.into_iter(), initial.announce_end)),
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
                        self.stream.style.frame(&mut frames, "ERROR", ApiError::from_read(error).status().to_string().as_bytes());
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
            && let Some((objects, announce_end)) = &mut self.initial
        {
            let announce_end = *announce_end;
            if let Some(object) = objects.next() {
                self.write_object(&mut frames, "ADDED", &object);
            } else {
                self.initial = None;
                if announce_end {
                    self.write_bookmark(&mut frames, true);
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
            (false, true) => self.write_object(frames, "ADDED", &event.object),
            (true, true) => self.write_object(frames, "MODIFIED", &event.object),
            (true, false) => {
                // The last version that was selected, under the revision of the change.
                let last = match (&event.previous, event.kind) {
                    (Some(previous), EventKind::Modified) => Arc::new(previous.at_revision(event.revision())),
                    _ => event.object.clone(),
                };
                self.write_object(frames, "DELETED", &last);
            }
        }
    }

    fn write_object(&mut self, frames: &mut BytesMut, kind: &str, object: &Arc<Object>) {
        match self.stream.style.format {
            Format::Object => {
                self.stream.style.frame(frames, kind, &self.stream.kind.shown_bytes(object.value()))
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
