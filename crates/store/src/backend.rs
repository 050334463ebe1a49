//! The narrow seam between the store and what makes changes durable.

pub(crate) mod memory;
pub(crate) mod sqlite;

use std::sync::Arc;

use crate::object::Object;

/// One change of a batch. Later changes of a batch may touch the same object again.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new object.
    Insert(Arc<Object>),
    /// A new version of the object with the same [`Object::created`].
    Replace(Arc<Object>),
    /// The object that was created at this revision is gone.
    Remove {
        /// [`Object::created`] of the object.
        created: u64,
    },
}

/// What a backend holds when the store starts.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The last revision that was ever committed; 0 for a new store.
    pub revision: u64,
    /// Every current object, in any order.
    pub objects: Vec<Object>,
}

/// Why a batch was not committed.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// No room; the batch has been rolled back completely and the backend can be used on.
    #[error("no room left: {reason}")]
    Full {
        /// The cause in the backend's words.
        reason: String,
    },
    /// Anything else: whether the batch is durable is unknown, and the backend must not be used any more.
    #[error("{reason}")]
    Failed {
        /// The cause in the backend's words.
        reason: String,
    },
}

/// Where objects are kept. Called by one thread only, which owns it.
pub trait Backend: Send + 'static {
    /// Hands over everything that is stored. Called once, before anything else.
    ///
    /// # Errors
    /// When the content cannot be read.
    fn load(&mut self) -> Result<Loaded, BackendError>;

    /// Makes `changes` durable as a whole, together with the fact that `revision` has been used. When it returns `Ok`,
    /// a crash of the process or of the machine must not undo it.
    ///
    /// # Errors
    /// See [`BackendError`].
    fn commit(&mut self, revision: u64, changes: &[Change]) -> Result<(), BackendError>;

    /// Called after the backend answered [`BackendError::Full`]: tidies up, and says whether there is room for ordinary writes
    /// again.
    fn has_room(&mut self) -> bool {
        true
    }

    /// Called when nothing has been written for a moment: the time for maintenance.
    ///
    /// # Errors
    /// As [`Backend::commit`].
    fn idle(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}
