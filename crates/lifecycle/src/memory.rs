//! What the node remembers of a pod, on disk, across restarts of the daemon: what it started, how it ended, how long it
//! waits, who ordered the stop.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::clock::{BootTime, Now};
use crate::hook::{HookReason, HookRecord};

/// All that is remembered of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodMemory {
    /// By container name.
    #[serde(default)]
    pub containers: BTreeMap<String, ContainerMemory>,
    /// When the pod became active here, on the wall clock: `status.startTime`.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// The same on the boot clock, for `activeDeadlineSeconds`.
    #[serde(default)]
    pub active_since: Option<BootTime>,
    /// Milliseconds that it was active before the machine was booted.
    #[serde(default)]
    pub active_before_boot: u64,
    /// Sandboxes created so far; the next one's attempt.
    #[serde(default)]
    pub sandboxes: u32,
    /// Identifier of the last sandbox in the runtime.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// Why the last sandbox could not be created.
    #[serde(default)]
    pub sandbox_failure: Option<SandboxFailure>,
    /// An order to stop that the API object does not show, or no longer.
    #[serde(default)]
    pub stop: Option<StopOrder>,
    /// What the pod took too much of, when it was evicted.
    #[serde(default)]
    pub eviction: Option<String>,
    /// Stops that were begun, by runtime identifier of the container.
    #[serde(default)]
    pub stopping: BTreeMap<String, StopIntent>,
    /// All containers are being stopped, to start again together.
    #[serde(default)]
    pub restart_all: Option<RestartAllOrder>,
    /// All containers ended and the sandbox is gone: volumes were cleared away.
    #[serde(default)]
    pub cleared: bool,
    /// The object is gone from the API (or was replaced by another of the same name).
    #[serde(default)]
    pub vanished: bool,
    /// The node is taken down: the pod stops, and begins again with the node.
    #[serde(default)]
    pub node_leaves: bool,
}

/// What is remembered of one container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerMemory {
    /// The last instance that was started.
    #[serde(default)]
    pub started: Option<StartRecord>,
    /// How the last ended instance ended.
    #[serde(default)]
    pub exit: Option<ExitRecord>,
    /// How the instance before the latest ended: `lastState`.
    #[serde(default)]
    pub previous: Option<ExitRecord>,
    /// Waits between restarts.
    #[serde(default)]
    pub backoff: Backoff,
    /// Waits between image pulls.
    #[serde(default)]
    pub image_backoff: Backoff,
    /// Why the last attempt to start it failed.
    #[serde(default)]
    pub failure: Option<StartFailure>,
    /// Hooks of the latest instance, and of the one that is to be.
    #[serde(default)]
    pub hooks: Vec<HookRecord>,
    /// An init container that ran to its end in the present sandbox.
    #[serde(default)]
    pub completed: bool,
    /// It starts again with all others, whatever its policy says of its last end.
    #[serde(default)]
    pub begins_anew: bool,
}

/// Why all containers of a pod start again together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartAllOrder {
    /// The container whose rule asked for it.
    pub container: String,
    /// The exit status that the rule matched.
    pub code: i32,
    /// Those that run are stopped for it, by runtime identifier.
    pub stopped: Vec<String>,
}

/// An instance that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRecord {
    /// Identifier of the runtime.
    pub id: String,
    /// Restart count.
    pub attempt: u32,
    /// Image as named, and the identifier that it had.
    pub image: String,
    /// Identifier of the image.
    pub image_id: String,
}

/// An instance that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Identifier of the runtime.
    pub id: String,
    /// Restart count.
    pub attempt: u32,
    /// Exit status.
    pub code: i32,
    /// Reason in the API's words.
    pub reason: String,
    /// Termination message.
    pub message: String,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended, on the wall clock.
    pub finished_at: Option<Timestamp>,
    /// When it ended, on the boot clock.
    pub ended: BootTime,
    /// A failed probe ended it.
    #[serde(default)]
    pub probe_failed: bool,
}

/// An attempt to start a container that failed before it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    /// Waiting reason.
    pub reason: String,
    /// Waiting message.
    pub message: String,
    /// When it is tried again.
    pub retry: BootTime,
    /// Attempts that failed one after another.
    pub failures: u32,
}

/// An attempt to create a sandbox that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxFailure {
    /// What the runtime said.
    pub message: String,
    /// When it is tried again.
    pub retry: BootTime,
    /// Attempts that failed one after another.
    pub failures: u32,
}

/// Something that the runtime had, and has no longer without having been told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The pod's sandbox, with everything in it.
    Sandbox {
        /// Identifier of the runtime.
        id: String,
    },
    /// One container.
    Container {
        /// Name in the specification.
        name: String,
        /// Identifier of the runtime.
        id: String,
    },
}

/// Why a pod is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopCause {
    /// Its object was deleted, or has vanished.
    Delete,
    /// It was active for longer than `activeDeadlineSeconds`.
    Deadline,
    /// It took more of the node's disk than it may.
    Eviction,
    /// The node is taken down.
    Shutdown,
    /// Its containers have ended and none starts again.
    Finished,
}

/// An order to stop a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOrder {
    /// Why.
    pub cause: StopCause,
    /// When the grace is over.
    pub deadline: BootTime,
}

/// A stop of one container that was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopIntent {
    /// When it is killed.
    pub deadline: BootTime,
    /// A failed probe ordered it.
    pub probe_failed: bool,
    /// What its preStop hook is told.
    #[serde(default)]
    pub reason: HookReason,
    /// The grace has room for a preStop hook.
    #[serde(default)]
    pub with_hook: bool,
}

impl PodMemory {
    /// What is remembered of a container; empty if nothing is.
    pub fn container(&self, name: &str) -> ContainerMemory {
        self.containers.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn container_mut(&mut self, name: &str) -> &mut ContainerMemory {
        self.containers.entry(name.to_owned()).or_default()
    }

    /// Puts the timers right after a reboot of the machine, when boot times on disk mean nothing any more: waits are
    /// over and begin anew, and what a pod was active before counts.
    pub fn rebase(&mut self, now: Now) {
        let started_at = self.started_at;
        self.active_since = self.active_since.map(|_| now.boot_time_of(started_at, u64::MAX));
        let age = started_at
            .map_or(0, |at| u64::try_from(now.wall.as_millisecond() - at.as_millisecond()).unwrap_or(0));
        self.active_before_boot = age.saturating_sub(now.boot.0);
        self.sandbox_failure = None;
        self.stopping.clear();
        if let Some(order) = &mut self.stop {
            order.deadline = now.boot;
        }
        for memory in self.containers.values_mut() {
            memory.backoff = Backoff::default();
            memory.image_backoff = Backoff::default();
            memory.failure = None;
            for record in &mut memory.hooks {
                record.began = now.boot;
            }
            for exit in memory.exit.iter_mut().chain(&mut memory.previous) {
                exit.ended = BootTime::default();
            }
        }
    }
}
