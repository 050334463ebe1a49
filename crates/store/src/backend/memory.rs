//! The backend that keeps nothing: for throwaway nodes and tests. The objects live in the store's own memory.

use super::{Backend, BackendError, Change, Loaded};

/// A backend without durability.
#[derive(Debug, Default)]
pub struct MemoryBackend(());

impl MemoryBackend {
    /// An empty one.
    pub fn new() -> MemoryBackend {
        MemoryBackend(())
    }
}

impl Backend for MemoryBackend {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        Ok(Loaded::default())
    }

    fn commit(&mut self, _revision: u64, _changes: &[Change]) -> Result<(), BackendError> {
        Ok(())
    }
}
