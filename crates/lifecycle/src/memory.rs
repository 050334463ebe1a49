//! What the node remembers of a pod, on disk, across restarts of the daemon: what it started, how it ended, how long it
//! waits, who ordered the stop. The methods note what was done or seen; they decide nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::clock::{BootTime, Now};
use crate::containers::{ContainerRole, container_role};
use crate::hooks::{HookReason, HookRecord};
use crate::instance::latest_instance;
use crate::observed::{ContainerPhase, RuntimePod};

/// A container that ended longer ago than this is not dated back any further: no back-off is longer.
const OLDEST_EXIT_MILLIS: u64 = 300_000;

/// The grace of a pod that is evicted for the disk that it takes, as in Kubernetes.
const EVICTION_GRACE_SECONDS: i64 = 1;

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

/// Seconds until something is tried again after `failures` failures in a row: 1, 2, 4, 8, 10, 10, ...
fn retry_seconds(failures: u32) -> i64 {
    1_i64.checked_shl(failures.saturating_sub(1).min(4)).unwrap_or(10).min(10)
}

impl PodMemory {
    /// What is remembered of a container; empty if nothing is.
    pub fn container(&self, name: &str) -> ContainerMemory {
        self.containers.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn container_mut(&mut self, name: &str) -> &mut ContainerMemory {
        self.containers.entry(name.to_owned()).or_default()
    }

    /// Notes that the node has taken the pod up.
    pub fn note_accepted(&mut self, now: Now) {
        if self.started_at.is_none() {
            self.started_at = Some(now.wall);
        }
        let started_at = self.started_at;
        self.active_since.get_or_insert_with(|| now.boot_time_of(started_at, u64::MAX));
    }

    /// Notes what the runtime shows: ends that were not yet known, and stops that are over.
    pub fn note_observed(&mut self, pod: &Pod, runtime: &RuntimePod, now: Now) {
        for container in &runtime.containers {
            let ContainerPhase::Exited { code, reason, message, started_at, finished_at } = &container.phase
            else {
                continue;
            };
            let stop = self.stopping.remove(&container.id);
            let memory = self.container_mut(&container.name);
            let known = memory
                .exit
                .as_ref()
                .is_some_and(|exit| exit.id == container.id || exit.attempt > container.attempt);
            if known {
                continue;
            }
            let role = container_role(pod, &container.name);
            memory.note_exit(
                ExitRecord {
                    id: container.id.clone(),
                    attempt: container.attempt,
                    code: *code,
                    reason: exit_reason(reason, *code),
                    message: message.clone(),
                    started_at: *started_at,
                    finished_at: *finished_at,
                    ended: now.boot_time_of(*finished_at, OLDEST_EXIT_MILLIS),
                    probe_failed: stop.is_some_and(|stop| stop.probe_failed),
                },
                role,
            );
        }
        self.stopping.retain(|id, _| runtime.container(id).is_some());
        self.note_lost(pod, runtime, now);
    }

    /// What was made for the pod, has not ended as far as is known, and the runtime no longer has. With the sandbox its
    /// containers are lost as well, which is not said again.
    pub fn lost(&self, runtime: &RuntimePod) -> Vec<Lost> {
        let sandbox = self.sandbox.as_ref();
        let lost = sandbox.filter(|id| !runtime.sandboxes.iter().any(|sandbox| sandbox.id == **id));
        if let Some(id) = lost {
            return vec![Lost::Sandbox { id: id.clone() }];
        }
        let containers = self.containers.iter().filter_map(|(name, memory)| {
            let started = lost_instance(memory, runtime)?;
            Some(Lost::Container { name: name.clone(), id: started.id.clone() })
        });
        containers.collect()
    }

    /// Notes that the pod has no sandbox any more, and that this was said.
    pub fn note_sandbox_lost(&mut self) {
        self.sandbox = None;
    }

    /// A container that was started, has not ended as far as is known, and that the runtime no longer has.
    fn note_lost(&mut self, pod: &Pod, runtime: &RuntimePod, now: Now) {
        let lost: Vec<StartRecord> =
            self.containers.values().filter_map(|memory| lost_instance(memory, runtime).cloned()).collect();
        for started in lost {
            let Some(name) = self
                .containers
                .iter()
                .find(|(_, memory)| memory.started.as_ref() == Some(&started))
                .map(|(name, _)| name.clone())
            else {
                continue;
            };
            let role = container_role(pod, &name);
            self.container_mut(&name).note_exit(
                ExitRecord {
                    id: started.id,
                    attempt: started.attempt,
                    code: 137,
                    reason: crate::reasons::CONTAINER_STATUS_UNKNOWN.to_owned(),
                    message: crate::reasons::COULD_NOT_BE_LOCATED.to_owned(),
                    started_at: None,
                    finished_at: None,
                    ended: now.boot,
                    probe_failed: false,
                },
                role,
            );
        }
    }

    /// Notes a new sandbox: init containers run again in it.
    pub fn note_sandbox_created(&mut self, attempt: u32, id: String) {
        self.sandboxes = attempt.saturating_add(1);
        self.sandbox = Some(id);
        self.sandbox_failure = None;
        for memory in self.containers.values_mut() {
            memory.completed = false;
        }
    }

    /// Notes that no sandbox could be made.
    pub fn note_sandbox_failed(&mut self, message: String, now: Now) {
        let failures = self.sandbox_failure.as_ref().map_or(0, |failure| failure.failures) + 1;
        self.sandbox_failure =
            Some(SandboxFailure { message, retry: now.boot.plus_seconds(retry_seconds(failures)), failures });
    }

    /// Notes that an instance runs. If it is a restart, the next wait is longer.
    pub fn note_started(&mut self, name: &str, record: StartRecord, now: Now) {
        let memory = self.container_mut(name);
        if let Some(exit) = &memory.exit {
            memory.backoff.raise(exit.ended, now.boot);
        }
        memory.started = Some(record);
        memory.begins_anew = false;
        memory.failure = None;
        memory.image_backoff = Backoff::default();
    }

    /// Notes that a container could not be configured, created or its hook failed: it is tried again soon.
    pub fn note_start_failed(&mut self, name: &str, reason: &str, message: String, now: Now) {
        let memory = self.container_mut(name);
        let failures = memory.failure.as_ref().filter(|failure| failure.reason == reason);
        let failures = failures.map_or(0, |failure| failure.failures) + 1;
        memory.failure = Some(StartFailure {
            reason: reason.to_owned(),
            message,
            retry: now.boot.plus_seconds(retry_seconds(failures)),
            failures,
        });
        self.forget_pre_start(name);
    }

    /// Notes that an image could not be pulled: its own, longer back-off applies. Returns the seconds of the wait.
    pub fn note_pull_failed(&mut self, name: &str, reason: &str, message: String, now: Now) -> i64 {
        let memory = self.container_mut(name);
        let failures = memory.failure.as_ref().map_or(0, |failure| failure.failures) + 1;
        memory.image_backoff.raise(now.boot, now.boot);
        let delay = memory.image_backoff.delay_seconds;
        memory.failure = Some(StartFailure {
            reason: reason.to_owned(),
            message,
            retry: now.boot.plus_seconds(delay),
            failures,
        });
        self.forget_pre_start(name);
        delay
    }

    /// Notes that a created instance could not be started: it counts as ended with status 128.
    pub fn note_run_failed(&mut self, pod: &Pod, name: &str, record: StartRecord, message: String, now: Now) {
        let role = container_role(pod, name);
        let memory = self.container_mut(name);
        let before = memory.exit.as_ref().map(|exit| exit.ended);
        let exit = ExitRecord {
            id: record.id.clone(),
            attempt: record.attempt,
            code: 128,
            reason: crate::reasons::START_ERROR.to_owned(),
            message,
            started_at: None,
            finished_at: Some(now.wall),
            ended: now.boot,
            probe_failed: false,
        };
        memory.started = Some(record);
        memory.failure = None;
        if let Some(failed) = before {
            memory.backoff.raise(failed, now.boot);
        }
        memory.note_exit(exit, role);
    }

    /// Notes that a hook of a running instance failed: once the instance has ended, its container waits for this reason,
    /// besides its back-off.
    pub fn note_hook_failed(&mut self, name: &str, reason: &str, message: String) {
        let memory = self.container_mut(name);
        let failures = memory.failure.as_ref().map_or(0, |failure| failure.failures) + 1;
        memory.failure =
            Some(StartFailure { reason: reason.to_owned(), message, retry: BootTime::default(), failures });
    }

    /// Forgets waits of failed starts, so that a changed object is tried at once.
    pub fn retry_failed_starts(&mut self) {
        for memory in self.containers.values_mut() {
            if let Some(failure) = &mut memory.failure
                && memory.image_backoff == Backoff::default()
            {
                failure.retry = BootTime::default();
            }
        }
    }

    /// Notes that a stop of a container was begun.
    pub fn note_stopping(&mut self, id: &str, intent: StopIntent) {
        self.stopping.insert(id.to_owned(), intent);
    }

    /// Orders the pod to stop. A later order may only bring the deadline forward.
    pub fn order_stop(&mut self, cause: StopCause, grace_seconds: i64, now: Now) {
        let deadline = now.boot.plus_seconds(grace_seconds);
        match &mut self.stop {
            Some(order) => order.deadline = order.deadline.min(deadline),
            None => self.stop = Some(StopOrder { cause, deadline }),
        }
    }

    /// Notes that the pod takes more of the disk than it may: it is stopped, and has failed. Returns whether this call ordered
    /// the stop.
    pub fn note_evicted(&mut self, message: &str, now: Now) -> bool {
        if self.stop.is_some() {
            return false;
        }
        self.eviction = Some(message.to_owned());
        self.order_stop(StopCause::Eviction, EVICTION_GRACE_SECONDS, now);
        true
    }

    /// Notes that the node is taken down: the pod stops within its own grace, or within that many seconds if these are fewer.
    pub fn note_node_leaves(&mut self, pod: &Pod, longest_grace: Option<i64>, now: Now) {
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        self.node_leaves = true;
        self.order_stop(StopCause::Shutdown, grace.min(longest_grace.unwrap_or(grace)).max(1), now);
    }

    /// Notes that the node is back. What was stopped only because it left begins again; every other order stands.
    pub fn note_node_back(&mut self) {
        self.node_leaves = false;
        self.stop = self.stop.filter(|order| order.cause != StopCause::Shutdown);
    }

    /// Whether the node is taken down, and nothing of the pod runs on it any more.
    pub fn has_left(&self, runtime: &RuntimePod) -> bool {
        let runs = |phase: &ContainerPhase| match phase {
            ContainerPhase::Running { .. } => true,
            ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => false,
        };
        let stands = runtime.sandboxes.iter().any(|sandbox| sandbox.ready);
        self.node_leaves && !stands && !runtime.containers.iter().any(|container| runs(&container.phase))
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

    /// Runtime identifiers of instances that nothing needs any more: all but the latest and the one before it.
    pub fn outdated_instances<'a>(&self, pod: &Pod, runtime: &'a RuntimePod) -> Vec<&'a str> {
        runtime
            .containers
            .iter()
            .filter(|container| {
                let ended = match container.phase {
                    ContainerPhase::Exited { .. } => true,
                    ContainerPhase::Created | ContainerPhase::Running { .. } | ContainerPhase::Unknown => {
                        false
                    }
                };
                let latest = latest_instance(self, runtime, &container.name).attempt();
                ended
                    && container_role(pod, &container.name).is_some()
                    && latest.is_some_and(|latest| container.attempt + 1 < latest)
            })
            .map(|container| container.id.as_str())
            .collect()
    }
}

impl ContainerMemory {
    fn note_exit(&mut self, exit: ExitRecord, role: Option<ContainerRole>) {
        if role == Some(ContainerRole::Init) && exit.code == 0 {
            self.completed = true;
        }
        self.begins_anew = false;
        if let Some(before) = self.exit.replace(exit) {
            self.previous = Some(before);
        }
    }
}

/// The instance that was started, has not ended as far as is known, and that the runtime no longer has.
fn lost_instance<'m>(memory: &'m ContainerMemory, runtime: &RuntimePod) -> Option<&'m StartRecord> {
    let started = memory.started.as_ref()?;
    let ended = memory.exit.as_ref().is_some_and(|exit| exit.attempt >= started.attempt);
    (!ended && runtime.container(&started.id).is_none()).then_some(started)
}

fn exit_reason(reason: &str, code: i32) -> String {
    match (reason, code) {
        ("", 0) => crate::reasons::COMPLETED.to_owned(),
        ("", _) => crate::reasons::ERROR.to_owned(),
        (reason, _) => reason.to_owned(),
    }
}
