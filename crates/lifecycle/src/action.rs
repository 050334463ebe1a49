//! What a decision answers: actions in order, and why a container is stopped.

use crate::clock::BootTime;
use crate::containers::ContainerRole;
use crate::hook::{HookKey, HookReason};
use crate::memory::StopCause;

/// What is to be done, in order, and when to look again at the latest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Actions in order. One that fails does not keep the next from being carried out.
    pub actions: Vec<Action>,
    /// When a timer of the pod ends. Something that happens earlier leads to a new plan earlier.
    pub wake_at: Option<BootTime>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create a sandbox.
    CreateSandbox {
        /// Its attempt.
        attempt: u32,
    },
    /// Stop a sandbox (again, if need be).
    StopSandbox {
        /// Identifier of the runtime.
        id: String,
    },
    /// Pull the image if need be, make the configuration, create the container and start it.
    StartContainer {
        /// Name in the specification.
        name: String,
        /// Its role.
        role: ContainerRole,
        /// Restart count of the new instance.
        attempt: u32,
        /// The sandbox that it belongs to.
        sandbox_id: String,
    },
    /// Say that a restart waits: event `BackOff`.
    AnnounceBackOff {
        /// Name in the specification.
        name: String,
        /// Its role.
        role: ContainerRole,
    },
    /// Remember that a container is stopped, and say so: its preStop hook comes before the signal.
    BeginStop {
        /// Identifier of the runtime.
        id: String,
        /// Name in the specification.
        name: String,
        /// Why.
        reason: KillReason,
        /// Seconds until the kill signal.
        grace_seconds: i64,
    },
    /// Deliver a hook, without waiting for its end.
    RunHook {
        /// Which.
        key: HookKey,
        /// The instance's identifier in the runtime; a preStart hook has none.
        id: Option<String>,
        /// The number of this delivery, from 1.
        delivery: u32,
    },
    /// Wait no longer for a hook: it is left to itself.
    AbandonHook {
        /// Which.
        key: HookKey,
    },
    /// Stop a container, without waiting for its end.
    StopContainer {
        /// Identifier of the runtime.
        id: String,
        /// Name in the specification.
        name: String,
        /// Why.
        reason: KillReason,
        /// Seconds between the stop signal and the kill signal.
        grace_seconds: i64,
    },
    /// Remove an instance that does not run.
    RemoveContainer {
        /// Identifier of the runtime.
        id: String,
    },
    /// Take volumes down: nothing of the pod runs any more.
    ClearVolumes,
    /// Write the last status, delete the object, remove containers, sandboxes and everything on disk.
    Forget,
}

/// Why a container is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// The pod stops.
    PodStops(StopCause),
    /// A failed liveness or startup probe, in its sentence.
    Unhealthy(String),
    /// A failed hook: the reason of its event.
    HookFailed(String),
    /// The container's specification has changed.
    DefinitionChanged,
    /// All containers of the pod start again together.
    RestartAll,
    /// The specification has no such container.
    NotWanted,
    /// Its sandbox has died.
    SandboxDied,
    /// A volume or device of it, by the volume's name, is not there any more.
    VolumeFailed(String),
}

impl KillReason {
    /// What the preStop hook is told.
    pub fn hook_reason(&self) -> HookReason {
        match self {
            Self::PodStops(
                StopCause::Delete
                | StopCause::Deadline
                | StopCause::Eviction
                | StopCause::Shutdown
                | StopCause::Finished,
            )
            | Self::DefinitionChanged
            | Self::RestartAll
            | Self::NotWanted => HookReason::Delete,
            Self::Unhealthy(_) | Self::HookFailed(_) => HookReason::Health,
            Self::SandboxDied | Self::VolumeFailed(_) => HookReason::Dependency,
        }
    }

    /// Whether the container failed, so that its policy decides as after a failure, whatever its exit status.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Unhealthy(_) | Self::HookFailed(_) | Self::VolumeFailed(_) => true,
            Self::PodStops(_)
            | Self::DefinitionChanged
            | Self::RestartAll
            | Self::NotWanted
            | Self::SandboxDied => false,
        }
    }

    /// The message of the event `Killing`.
    pub fn message(&self, container: &str) -> String {
        match self {
            Self::PodStops(_) | Self::RestartAll | Self::NotWanted | Self::SandboxDied => {
                format!("Stopping container {container}")
            }
            Self::Unhealthy(message) | Self::HookFailed(message) => message.clone(),
            Self::VolumeFailed(volume) => {
                format!("Container {container} has lost its volume {volume}, will be restarted")
            }
            Self::DefinitionChanged => {
                format!("Container {container} definition changed, will be restarted")
            }
        }
    }
}

impl Plan {
    /// Has the next look come then at the latest.
    pub(crate) fn wake(&mut self, at: BootTime) {
        self.wake_at = Some(self.wake_at.map_or(at, |wake_at| wake_at.min(at)));
    }
}
