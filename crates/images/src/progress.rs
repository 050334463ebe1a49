//! How pulls and imports tell what they are doing.

use crate::digest::Digest;

/// One step of a pull or an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferEvent {
    /// A manifest is being fetched from this registry.
    Resolving {
        /// Host name of the registry or mirror.
        registry: String,
    },
    /// The image has this layer; it will be fetched and unpacked, or is there already.
    Layer {
        /// Digest of the transported or unpacked form; the same in all events of this layer.
        layer: Digest,
        /// Transported bytes.
        size: u64,
        /// Whether the store has it.
        present: bool,
    },
    /// More bytes of this layer have arrived.
    Received {
        /// The layer.
        layer: Digest,
        /// Bytes since the last event.
        bytes: u64,
    },
    /// Arrived and verified; unpacking begins.
    Unpacking {
        /// The layer.
        layer: Digest,
    },
    /// Unpacked and verified.
    Unpacked {
        /// The layer.
        layer: Digest,
        /// Entries that were left out (device nodes, reserved attributes).
        skipped: u64,
    },
    /// A registry or mirror failed and the next one is tried, or a transfer is resumed.
    Retrying {
        /// What failed, one line.
        reason: String,
    },
}

/// Receives the steps. Called from several threads.
pub trait PullProgress: Send + Sync {
    /// Something happened.
    fn report(&self, event: TransferEvent);
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl PullProgress for Silent {
    fn report(&self, _event: TransferEvent) {}
}
