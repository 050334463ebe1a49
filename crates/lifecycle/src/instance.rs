//! The latest instance of a container, from the runtime and from memory together. The runtime may have lost an instance
//! that was started, and memory may be older than the runtime; the higher attempt wins, and of equals the runtime.

use jiff::Timestamp;

use crate::memory::{ExitRecord, PodMemory};
use crate::observed::{ContainerPhase, ObservedContainer, RuntimePod};

/// How an instance ended.
pub type Exit = ExitRecord;

/// What the latest instance of a container does.
#[derive(Clone, Debug, PartialEq)]
pub enum Instance<'a> {
    /// There has been none.
    None,
    /// Created, and not started, or in a state that the runtime does not know.
    Stuck(&'a ObservedContainer),
    /// Running.
    Running {
        /// The instance.
        container: &'a ObservedContainer,
        /// Since when.
        started_at: Option<Timestamp>,
    },
    /// Ended.
    Ended(Exit),
}

impl Instance<'_> {
    /// Restart count of the instance.
    pub fn attempt(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Stuck(container) | Self::Running { container, .. } => Some(container.attempt),
            Self::Ended(exit) => Some(exit.attempt),
        }
    }
}

/// The latest instance of the container `name`. Ends are read from memory, so call
/// [`PodMemory::note_observed`] first.
pub fn latest_instance<'a>(memory: &PodMemory, runtime: &'a RuntimePod, name: &str) -> Instance<'a> {
    let observed = runtime
        .containers
        .iter()
        .filter(|container| container.name == name)
        .max_by_key(|container| container.attempt);
    let exit = memory.containers.get(name).and_then(|memory| memory.exit.as_ref());
    match (observed, exit) {
        (None, None) => Instance::None,
        (None, Some(exit)) => Instance::Ended(exit.clone()),
        (Some(container), Some(exit)) if exit.attempt > container.attempt || exit.id == container.id => {
            Instance::Ended(exit.clone())
        }
        (Some(container), _) => match &container.phase {
            ContainerPhase::Created | ContainerPhase::Unknown => Instance::Stuck(container),
            ContainerPhase::Running { started_at } => {
                Instance::Running { container, started_at: *started_at }
            }
            ContainerPhase::Exited { code, reason, message, started_at, finished_at } => {
                Instance::Ended(Exit {
                    id: container.id.clone(),
                    attempt: container.attempt,
                    code: *code,
                    reason: reason.clone(),
                    message: message.clone(),
                    started_at: *started_at,
                    finished_at: *finished_at,
                    ended: crate::clock::BootTime::default(),
                    probe_failed: false,
                })
            }
        },
    }
}
