//! What readers see: the current objects of each collection, and the window of recent changes that watches and older lists
//! are served from. Changed by the writer only, after a commit.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;

use crate::error::ReadError;
use crate::key::{Collection, Place};
use crate::object::Object;

/// How many changes of a collection are remembered at most.
const WINDOW_EVENTS: usize = 4096;
/// How many bytes of superseded values of a collection are remembered at most, beyond [`WINDOW_MINIMUM`] changes.
const WINDOW_BYTES: usize = 4 << 20;
/// How many changes of a collection are remembered whatever their size.
const WINDOW_MINIMUM: usize = 128;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It has a new version.
    Modified,
    /// It is gone.
    Deleted,
}

/// One change, in the order of revisions.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The new version; for a deletion the last version under the revision of the deletion.
    pub object: Arc<Object>,
    /// The version before; none for a creation.
    pub previous: Option<Arc<Object>>,
    /// Another form of `object`; shared by everybody who has the event.
    other_form: Arc<OnceLock<Bytes>>,
}

impl Event {
    pub(crate) fn new(kind: EventKind, object: Arc<Object>, previous: Option<Arc<Object>>) -> Event {
        Event { kind, object, previous, other_form: Arc::default() }
    }

    /// [`Event::object`] in the other form that watchers want besides the stored one: made by the first who asks, shared by
    /// all others, and forgotten with the event. Everybody has to mean the same form.
    pub fn other_form(&self, make: impl FnOnce() -> Bytes) -> Bytes {
        self.other_form.get_or_init(make).clone()
    }

    /// The bytes of the values that the event keeps alive.
    pub(crate) fn bytes(&self) -> usize {
        self.object.value().len() + self.previous.as_ref().map_or(0, |object| object.value().len())
    }

    /// The revision of the change.
    pub fn revision(&self) -> u64 {
        self.object.revision()
    }

    fn weight(&self) -> usize {
        self.previous.as_ref().map_or(0, |object| object.value().len())
            + if self.kind == EventKind::Deleted { self.object.value().len() } else { 0 }
    }
}

/// One collection.
#[derive(Debug)]
pub(crate) struct CollectionState {
    objects: BTreeMap<Place, Arc<Object>>,
    window: VecDeque<Event>,
    window_bytes: usize,
    /// Changes after this revision are all in the window.
    oldest: u64,
    /// Carries the revision of the last change; wakes watchers.
    changed: watch::Sender<u64>,
}

impl CollectionState {
    fn new(oldest: u64) -> CollectionState {
        CollectionState {
            objects: BTreeMap::new(),
            window: VecDeque::new(),
            window_bytes: 0,
            oldest,
            changed: watch::Sender::new(oldest),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn object(&self, place: &Place) -> Option<&Arc<Object>> {
        self.objects.get(place)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn check_window(&self, revision: u64) -> Result<(), ReadError> {
        if revision < self.oldest {
            return Err(ReadError::Expired { requested: revision, oldest: self.oldest });
        }
        Ok(())
    }

    /// The changes after `revision`, oldest first.
    pub(crate) fn events_after(&self, revision: u64) -> impl Iterator<Item = &Event> {
        let start = self.window.partition_point(|event| event.revision() <= revision);
        self.window.range(start..)
    }

    fn apply(&mut self, event: Event) {
        let place = event.object.key().place();
        match event.kind {
            EventKind::Added | EventKind::Modified => {
                self.objects.insert(place, event.object.clone());
            }
            EventKind::Deleted => {
                self.objects.remove(&place);
            }
        }
        self.window_bytes += event.weight();
        self.window.push_back(event);
        while self.window.len() > WINDOW_EVENTS
            || (self.window_bytes > WINDOW_BYTES && self.window.len() > WINDOW_MINIMUM)
        {
            let Some(forgotten) = self.window.pop_front() else { break };
            self.window_bytes -= forgotten.weight();
            self.oldest = forgotten.revision();
        }
    }

    /// The objects of `namespace` (all when `None`) after `start`, by place.
    fn range(
        &self,
        namespace: Option<&str>,
        start: Option<&Place>,
    ) -> impl Iterator<Item = (&Place, &Arc<Object>)> {
        let lower = match (start, namespace) {
            (Some(place), _) => Bound::Excluded(place.clone()),
            (None, Some(namespace)) => {
                Bound::Included(Place { namespace: namespace.into(), name: "".into() })
            }
            (None, None) => Bound::Unbounded,
        };
        let namespace = namespace.map(str::to_owned);
        self.objects.range((lower, Bound::Unbounded)).take_while(move |(place, _)| {
            namespace.as_deref().is_none_or(|wanted| *place.namespace == *wanted)
        })
    }

    pub(crate) fn list(&self, namespace: Option<&str>, start: Option<&Place>) -> Vec<Arc<Object>> {
        self.range(namespace, start).map(|(_, object)| object.clone()).collect()
    }

    /// The list as it was at `revision`: the current one with the later changes taken back.
    pub(crate) fn list_at(
        &self,
        namespace: Option<&str>,
        start: Option<&Place>,
        revision: u64,
    ) -> Vec<Arc<Object>> {
        if self.window.back().is_none_or(|event| event.revision() <= revision) {
            return self.list(namespace, start);
        }
        let mut objects: BTreeMap<Place, Arc<Object>> =
            self.range(namespace, start).map(|(place, object)| (place.clone(), object.clone())).collect();
        for event in self.window.iter().rev().take_while(|event| event.revision() > revision) {
            let place = event.object.key().place();
            if namespace.is_some_and(|wanted| *place.namespace != *wanted)
                || start.is_some_and(|start| place <= *start)
            {
                continue;
            }
            match &event.previous {
                Some(previous) => objects.insert(place, previous.clone()),
                None => objects.remove(&place),
            };
        }
        objects.into_values().collect()
    }
}

/// Everything.
#[derive(Debug)]
pub(crate) struct State {
    revision: u64,
    /// The revision at which this process began; nothing before it is remembered.
    began: u64,
    collections: BTreeMap<Collection, CollectionState>,
    /// Carries the newest revision; wakes whoever follows everything.
    changed: watch::Sender<u64>,
}

impl State {
    pub(crate) fn new(revision: u64, objects: Vec<Object>) -> State {
        let mut state = State {
            revision,
            began: revision,
            collections: BTreeMap::new(),
            changed: watch::Sender::new(revision),
        };
        for object in objects {
            let place = object.key().place();
            let collection = object.key().collection().clone();
            state.collection_mut(&collection).objects.insert(place, Arc::new(object));
        }
        state
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn collection(&self, collection: &Collection) -> Option<&CollectionState> {
        self.collections.get(collection)
    }

    pub(crate) fn collection_mut(&mut self, collection: &Collection) -> &mut CollectionState {
        let began = self.began;
        self.collections.entry(collection.clone()).or_insert_with(|| CollectionState::new(began))
    }

    /// Publishes a committed batch.
    pub(crate) fn publish(&mut self, events: Vec<Event>, revision: u64) {
        self.revision = revision;
        let mut touched: Vec<(Collection, u64)> = Vec::new();
        for event in events {
            let collection = event.object.key().collection().clone();
            let at = event.revision();
            self.collection_mut(&collection).apply(event);
            match touched.iter_mut().find(|(seen, _)| *seen == collection) {
                Some((_, last)) => *last = at,
                None => touched.push((collection, at)),
            }
        }
        for (collection, last) in touched {
            self.collection_mut(&collection).changed.send_replace(last);
        }
        self.changed.send_replace(revision);
    }
}
