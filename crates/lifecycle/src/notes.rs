//! How what was done and seen becomes memory. Notes are taken; nothing is decided.

use k8s_openapi::api::core::v1::Pod;

use crate::backoff::Backoff;
use crate::clock::{BootTime, Now};
use crate::containers::{ContainerRole, container_role};
use crate::instance::latest_instance;
use crate::memory::{
    ContainerMemory, ExitRecord, Lost, PodMemory, SandboxFailure, StartFailure, StartRecord, StopIntent,
};
use crate::observed::{ContainerPhase, RuntimePod};

/// A container that ended longer ago than this is not dated back any further: no back-off is longer.
const OLDEST_EXIT_MILLIS: u64 = 300_000;

/// Seconds until something is tried again after `failures` failures in a row: 1, 2, 4, 8, 10, 10, ...
fn retry_seconds(failures: u32) -> i64 {
    1_i64.checked_shl(failures.saturating_sub(1).min(4)).unwrap_or(10).min(10)
}

impl PodMemory {
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
            // It began when it was tried again, or later: no clock that was set meanwhile makes its end older than that.
            let ended = now.boot_time_of(*finished_at, OLDEST_EXIT_MILLIS).max(memory.backoff.raised);
            memory.note_exit(
                ExitRecord {
                    id: container.id.clone(),
                    attempt: container.attempt,
                    code: *code,
                    reason: exit_reason(reason, *code),
                    message: message.clone(),
                    started_at: *started_at,
                    finished_at: *finished_at,
                    ended,
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
