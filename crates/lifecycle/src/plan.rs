//! The decision: one pure function from what is wanted, seen and remembered to what is done next.
//!
//! ```text
//!            accepted                      told to stop, deadline over,
//!               |                          or everything has ended
//!      +--------v---------+                +---------------------------+
//!      | start (start.rs) +--------------->| stop (stop.rs)            |
//!      | sandbox          |                | containers, then sidecars |
//!      | init, sidecars   |                | sandbox                   |
//!      | containers       |                | volumes                   |
//!      +------------------+                | object deleted? forget    |
//!                                          +---------------------------+
//! ```
//!
//! A pod that stops never starts anything again.

mod hooks;
mod start;
mod stop;

use k8s_openapi::api::core::v1::Pod;

use crate::clock::{BootTime, Now};
use crate::containers::ContainerRole;
use crate::hooks::{HookKey, UnderWay, next_look};
use crate::memory::{PodMemory, StopCause, StopOrder};
use crate::observed::{Health, RuntimePod};
use crate::phase::{PodPhase, outcome};

/// Everything that a decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// What is wanted. Of a pod that has vanished from the API, the last known object.
    pub pod: &'a Pod,
    /// What the runtime shows.
    pub runtime: &'a RuntimePod,
    /// What is remembered, after [`PodMemory::note_observed`].
    pub memory: &'a PodMemory,
    /// What probes found out.
    pub health: &'a Health,
    /// Hash of a container's specification as it is now, by which a changed image is noticed. Ephemeral containers never
    /// change.
    pub spec_hash: fn(&k8s_openapi::api::core::v1::Container) -> String,
    /// What this process is carrying out.
    pub under_way: &'a UnderWay,
    /// The moment.
    pub now: Now,
}

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
    fn wake(&mut self, at: BootTime) {
        self.wake_at = Some(self.wake_at.map_or(at, |wake_at| wake_at.min(at)));
    }
}

/// Decides what to do next. Calling it again with the same view gives the same plan.
pub fn plan(view: PodView<'_>) -> Plan {
    let mut plan = match stop_order(&view) {
        Some(order) => stop::plan_stop(&view, order),
        None => start::plan_start(&view),
    };
    // The status says for how long a hook has been running.
    for record in view.under_way.hooks.iter().filter_map(|key| view.memory.hook(key)) {
        plan.wake(next_look(record.began, view.now));
    }
    plan
}

/// Seconds of `activeDeadlineSeconds` that are left, and when they end.
fn active_deadline(view: &PodView<'_>) -> Option<BootTime> {
    let seconds = view.pod.spec.as_ref()?.active_deadline_seconds?;
    view.memory.active_until(seconds)
}

/// The order to stop that is in force.
fn stop_order(view: &PodView<'_>) -> Option<StopOrder> {
    let finished = || outcome(view.pod, view.memory, view.runtime).is_some();
    let grace = view.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
    let deadline = view.now.boot.plus_seconds(grace.max(1));
    if let Some(order) = view.memory.stop {
        return Some(order);
    }
    if view.pod.metadata.deletion_timestamp.is_some() || view.memory.vanished {
        // The agent normally writes the order into memory first; this is the same decision without it.
        return Some(StopOrder { cause: StopCause::Delete, deadline });
    }
    if active_deadline(view).is_some_and(|deadline| deadline <= view.now.boot) && !finished() {
        return Some(StopOrder { cause: StopCause::Deadline, deadline });
    }
    finished().then_some(StopOrder { cause: StopCause::Finished, deadline })
}

/// The order to stop that a changed object gives: the agent writes it into memory before it plans. `None` when the
/// object does not ask for a stop.
pub(crate) fn requested_stop(pod: &Pod) -> Option<i64> {
    pod.metadata.deletion_timestamp.as_ref()?;
    let spec_grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Some(pod.metadata.deletion_grace_period_seconds.or(spec_grace).unwrap_or(30).max(1))
}

impl PodMemory {
    /// Notes the object as the API shows it: a deletion mark becomes an order to stop, whose deadline a later mark may
    /// only bring forward. `vanished` says that the object is gone: then the pod's own grace applies.
    pub fn note_object(&mut self, pod: &Pod, vanished: bool, now: Now) {
        if let Some(grace) = requested_stop(pod) {
            self.order_stop(StopCause::Delete, grace, now);
        }
        if vanished && !self.vanished {
            self.vanished = true;
            let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
            self.order_stop(StopCause::Delete, grace.unwrap_or(30).max(1), now);
        }
    }

    /// Notes that the deadline of an active pod is over, if it is. Returns whether this call ordered the stop.
    pub fn note_deadline(&mut self, pod: &Pod, runtime: &RuntimePod, now: Now) -> bool {
        let Some(seconds) = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds) else {
            return false;
        };
        let over = self.active_until(seconds).is_some_and(|until| until <= now.boot);
        if !over || self.stop.is_some() || outcome(pod, self, runtime).is_some() {
            return false;
        }
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        self.order_stop(StopCause::Deadline, grace.max(1), now);
        true
    }

    /// When a pod that may be active for `seconds` has been.
    fn active_until(&self, seconds: i64) -> Option<BootTime> {
        Some(self.active_since?.plus_seconds(seconds).minus_millis(self.active_before_boot))
    }

    /// How the pod ends, if all that it runs has ended and nothing starts again.
    pub fn outcome(&self, pod: &Pod, runtime: &RuntimePod) -> Option<PodPhase> {
        outcome(pod, self, runtime)
    }
}
