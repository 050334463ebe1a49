//! Versioned objects: create, get, list, compare-and-swap, delete and watch, over memory or SQLite.
//!
//! The store keeps every current object in memory and hands out shared values; a [`Backend`] makes changes durable.
//! Exactly one thread writes: it checks preconditions, assigns revisions, commits what is queued as one batch, and only
//! then publishes the result to readers and watchers and answers the callers. A revision is never given twice and never
//! decreases. The first commit whose outcome is unknown (a failed write or sync) stops all further writing for good:
//! what is in memory can then no longer be proved to be on the disk.
//!
//! Tasks:
//!
//! | name | owns | reads | emits | stops when |
//! |---|---|---|---|---|
//! | thread `store-writer` | the backend, the revision counter | the queue of writes | answers, events | the last [`Store`] is dropped or [`Store::close`] is called |
//!
//! Errors: [`WriteError`] for one write, [`ReadError`] for lists and watches at a revision, [`OpenError`] for opening.

mod backend;
mod error;
mod handle;
mod key;
mod object;
mod state;
mod watch;
mod writer;

pub use backend::memory::MemoryBackend;
pub use backend::sqlite::{Quarantine, SqliteBackend};
pub use backend::{Backend, BackendError, Change, Loaded};
pub use error::{OpenError, ReadError, WriteError};
pub use handle::{Listing, Opened, Purpose, Store};
pub use key::{Collection, Key};
pub use object::{Draft, DraftError, Object};
pub use state::{Event, EventKind};
pub use watch::Watch;
