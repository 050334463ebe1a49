//! A watch: a cursor into the window of recent changes. It owns no queue, so a reader that stalls costs nothing; when the
//! window has moved past its cursor it is told to start again.

use std::sync::{Arc, RwLock};

use tokio::sync::watch;

use crate::error::ReadError;
use crate::handle::read_state;
use crate::key::Collection;
use crate::state::{Event, State};

/// How many changes are handed out at once.
const BATCH: usize = 256;
/// After how many bytes of values no further change is handed out at once: what a reader that stalls keeps alive.
const BATCH_BYTES: usize = 64 * 1024;

/// The changes of one collection, or of one namespace of it, after a revision.
#[derive(Debug)]
pub struct Watch {
    state: Arc<RwLock<State>>,
    changed: watch::Receiver<u64>,
    collection: Collection,
    namespace: Option<Box<str>>,
    position: u64,
}

impl Watch {
    pub(crate) fn new(
        state: Arc<RwLock<State>>,
        changed: watch::Receiver<u64>,
        collection: Collection,
        namespace: Option<&str>,
        position: u64,
    ) -> Watch {
        Watch { state, changed, collection, namespace: namespace.map(Box::from), position }
    }

    /// Every change up to this revision has been handed out: what a bookmark may say.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether something may have changed since the last call of [`Watch::advance`]: one atomic read. A change of the collection
    /// that was acknowledged is seen.
    pub fn has_changes(&self) -> bool {
        self.changed.has_changed().unwrap_or(false)
    }

    /// The changes that are there now, without waiting: at most a few hundred, oldest first, possibly none. When none
    /// are left, [`Watch::position`] is the store's current revision.
    ///
    /// # Errors
    /// [`ReadError::Expired`] when changes were forgotten before this watch came to them.
    pub fn advance(&mut self) -> Result<Vec<Event>, ReadError> {
        self.changed.borrow_and_update();
        let state = read_state(&self.state);
        let Some(collection) = state.collection(&self.collection) else {
            self.position = self.position.max(state.revision());
            return Ok(Vec::new());
        };
        collection.check_window(self.position)?;
        let mut events = Vec::new();
        let mut bytes = 0;
        for event in collection.events_after(self.position) {
            if events.len() == BATCH || bytes >= BATCH_BYTES {
                return Ok(events);
            }
            self.position = event.revision();
            if self.namespace.as_deref().is_none_or(|wanted| event.object.key().namespace() == wanted) {
                bytes += event.bytes();
                events.push(event.clone());
            }
        }
        self.position = self.position.max(state.revision());
        Ok(events)
    }

    /// Waits for changes and hands them out: at least one, oldest first. `None` when the store has ended.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// As [`Watch::advance`].
    pub async fn next(&mut self) -> Result<Option<Vec<Event>>, ReadError> {
        loop {
            let events = self.advance()?;
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if self.changed.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}
