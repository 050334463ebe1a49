//! The handle that everybody holds: reads from memory, queues writes for the writer thread.

use std::path::Path;
use std::sync::{Arc, RwLock, RwLockReadGuard, mpsc};

use tokio::sync::{oneshot, watch};

use crate::backend::Backend;
use crate::backend::memory::MemoryBackend;
use crate::backend::sqlite::{Quarantine, SqliteBackend};
use crate::error::{OpenError, ReadError, WriteError};
use crate::key::{Collection, Key, Place};
use crate::object::{Draft, Object};
use crate::state::State;
use crate::watch::Watch;
use crate::writer::{Command, Request, Wanted, spawn_writer};

/// What a write is for; decides whether it is tried on a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Adds or changes something: refused while the disk is full.
    Ordinary,
    /// Leads to the removal of something: tried even while the disk is full.
    Removal,
}

/// Objects of a collection at one revision.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The revision at which this was the whole truth.
    pub revision: u64,
    /// The objects, by namespace and name.
    pub objects: Vec<Arc<Object>>,
}

/// A store that was opened from a file.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// The damaged file that was moved aside, if the old one was damaged. To be shown to the user.
    pub quarantine: Option<Quarantine>,
}

/// A handle to the store; clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Store {
    state: Arc<RwLock<State>>,
    queue: mpsc::Sender<Command>,
    stopped: watch::Receiver<Option<String>>,
}

/// Reads go on after a panic of another reader: nothing is ever left half-changed, since only the writer changes the state.
pub(crate) fn read_state(state: &RwLock<State>) -> RwLockReadGuard<'_, State> {
    state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Store {
    /// A store that lives as long as the process.
    ///
    /// # Errors
    /// When the writer thread cannot be started.
    pub fn in_memory() -> Result<Store, OpenError> {
        Store::start(MemoryBackend::new(), Path::new("memory"))
    }

    /// Opens or makes the SQLite store `path`.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path) -> Result<Opened, OpenError> {
        let backend = SqliteBackend::open(path)?;
        let quarantine = backend.quarantine().cloned();
        Ok(Opened { store: Store::start(backend, path)?, quarantine })
    }

    /// A store over any backend; `path` only names it in errors.
    ///
    /// # Errors
    /// When the backend cannot be loaded or the writer thread cannot be started.
    pub fn start(mut backend: impl Backend, path: &Path) -> Result<Store, OpenError> {
        let loaded = backend
            .load()
            .map_err(|error| OpenError::Database { path: path.to_owned(), reason: error.to_string() })?;
        let state = Arc::new(RwLock::new(State::new(loaded.revision, loaded.objects)));
        let (queue, commands) = mpsc::channel();
        let (stop, stopped) = watch::channel(None);
        spawn_writer(Box::new(backend), state.clone(), commands, stop)
            .map_err(|source| OpenError::Thread { source })?;
        Ok(Store { state, queue, stopped })
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        read_state(&self.state).revision()
    }

    /// Follows the newest revision, whatever collection it is of; ends with the store.
    pub fn changes(&self) -> watch::Receiver<u64> {
        read_state(&self.state).changes()
    }

    /// The current version of an object.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        read_state(&self.state).collection(key.collection())?.object(&key.place()).cloned()
    }

    /// How many objects a collection holds.
    pub fn count(&self, collection: &Collection) -> usize {
        read_state(&self.state).collection(collection).map_or(0, |found| found.len())
    }

    /// All objects of a collection, or of one of its namespaces, at one revision: the newest, or `at` if it is still remembered.
    /// `after` (namespace, name) leaves out everything up to and including that place.
    ///
    /// # Errors
    /// [`ReadError`] when `at` is forgotten or has not happened yet.
    pub fn list(
        &self,
        collection: &Collection,
        namespace: Option<&str>,
        after: Option<(&str, &str)>,
        at: Option<u64>,
    ) -> Result<Listing, ReadError> {
        let start = after.map(|(namespace, name)| Place { namespace: namespace.into(), name: name.into() });
        let state = read_state(&self.state);
        let current = state.revision();
        let revision = at.unwrap_or(current);
        if revision > current {
            return Err(ReadError::Future { requested: revision, current });
        }
        let objects = match state.collection(collection) {
            None if revision < state.began() => {
                return Err(ReadError::Expired { requested: revision, oldest: state.began() });
            }
            None => Vec::new(),
            Some(found) if revision == current => found.list(namespace, start.as_ref()),
            Some(found) => {
                found.check_window(revision)?;
                found.list_at(namespace, start.as_ref(), revision)
            }
        };
        Ok(Listing { revision, objects })
    }

    /// Watches the changes of a collection, or of one of its namespaces, after revision `from`. A revision that has not happened
    /// yet is waited for.
    ///
    /// # Errors
    /// [`ReadError::Expired`] when changes after `from` are forgotten.
    pub fn watch(
        &self,
        collection: &Collection,
        namespace: Option<&str>,
        from: u64,
    ) -> Result<Watch, ReadError> {
        let changed = {
            let state = read_state(&self.state);
            match state.collection(collection) {
                Some(found) => {
                    found.check_window(from)?;
                    Some(found.subscribe())
                }
                None => None,
            }
        };
        let changed = match changed {
            Some(changed) => changed,
            None => {
                let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
                let found = state.collection_mut(collection);
                found.check_window(from)?;
                found.subscribe()
            }
        };
        Ok(Watch::new(self.state.clone(), changed, collection.clone(), namespace, from))
    }

    /// Stores a new object; it is durable when this returns.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn create(&self, key: Key, draft: Draft) -> Result<Arc<Object>, WriteError> {
        self.write(key, Wanted::Create(draft), Purpose::Ordinary).await
    }

    /// Replaces an object whose revision is `expected`; it is durable when this returns.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn update(
        &self,
        key: Key,
        expected: u64,
        draft: Draft,
        purpose: Purpose,
    ) -> Result<Arc<Object>, WriteError> {
        self.write(key, Wanted::Update(draft, expected), purpose).await
    }

    /// Removes an object, if its revision is `expected` where that is given. Answers the last version under the revision of the deletion.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn delete(&self, key: Key, expected: Option<u64>) -> Result<Arc<Object>, WriteError> {
        self.write(key, Wanted::Delete(expected), Purpose::Removal).await
    }

    async fn write(&self, key: Key, wanted: Wanted, purpose: Purpose) -> Result<Arc<Object>, WriteError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { key, wanted, purpose, reply };
        if self.queue.send(Command::Write(request)).is_err() {
            return Err(self.ended());
        }
        match answer.await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.ended()),
        }
    }

    fn ended(&self) -> WriteError {
        match &*self.stopped.borrow() {
            Some(reason) => WriteError::Stopped { reason: reason.clone() },
            None => WriteError::Closed,
        }
    }

    /// Whether a commit has failed and nothing is stored any more.
    pub fn is_stopped(&self) -> bool {
        self.stopped.borrow().is_some()
    }

    /// Resolves with the reason when a commit has failed and the process should end; never when the store is closed in order.
    pub async fn stopped(&self) -> String {
        let mut stopped = self.stopped.clone();
        loop {
            if let Some(reason) = stopped.borrow_and_update().clone() {
                return reason;
            }
            if stopped.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Writes what is queued, closes the backend and waits for it. Later writes answer [`WriteError::Closed`]; reads go on.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Command::Close(done)).is_ok() {
            let _ = closed.await;
        }
    }
}
