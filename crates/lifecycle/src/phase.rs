//! A pod's phase, from what its containers do and will do.

use k8s_openapi::api::core::v1::Pod;

use crate::containers::{ContainerRole, all_containers, pod_containers};
use crate::hooks::{StartHooks, start_hooks};
use crate::instance::{Instance, latest_instance};
use crate::memory::{PodMemory, StopCause};
use crate::observed::RuntimePod;
use crate::restart::will_restart;

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not all containers have started once.
    Pending,
    /// At least one container runs, or will again.
    Running,
    /// All containers have ended with status 0.
    Succeeded,
    /// All containers have ended, at least one of them otherwise.
    Failed,
}

impl PodPhase {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// The pod has ended.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Succeeded | Self::Failed => true,
        }
    }
}

/// How the pod ends if nothing stops it from outside: `None` while something runs, is to run, or runs again.
pub(crate) fn outcome(pod: &Pod, memory: &PodMemory, runtime: &RuntimePod) -> Option<PodPhase> {
    if memory.restart_all.is_some() {
        return None;
    }
    for container in pod_containers(pod).filter(|container| container.role == ContainerRole::Init) {
        let own = memory.container(container.name());
        if own.completed || own.begins_anew {
            continue;
        }
        if let Instance::Ended(exit) = latest_instance(memory, runtime, container.name())
            && exit.code != 0
            && !will_restart(pod, container, exit.code, exit.probe_failed)
        {
            return Some(PodPhase::Failed);
        }
    }
    let mut phase = PodPhase::Succeeded;
    for container in pod_containers(pod).filter(|container| container.role == ContainerRole::App) {
        match latest_instance(memory, runtime, container.name()) {
            Instance::None | Instance::Stuck(_) | Instance::Running { .. } => return None,
            Instance::Ended(exit) => {
                if memory.container(container.name()).begins_anew
                    || will_restart(pod, container, exit.code, exit.probe_failed)
                {
                    return None;
                }
                if exit.code != 0 {
                    phase = PodPhase::Failed;
                }
            }
        }
    }
    Some(phase)
}

/// The phase to show. A pod that is to end keeps the phase that it had until nothing of it runs any more.
pub fn pod_phase(pod: &Pod, memory: &PodMemory, runtime: &RuntimePod) -> PodPhase {
    let tally = Tally::of(pod, memory, runtime);
    if tally.anything_runs {
        return if tally.app_waits || tally.init_waits { PodPhase::Pending } else { PodPhase::Running };
    }
    if memory.stop.is_some_and(|order| matches!(order.cause, StopCause::Deadline | StopCause::Eviction)) {
        return PodPhase::Failed;
    }
    if let Some(phase) = outcome(pod, memory, runtime) {
        return phase;
    }
    let stopped = memory.stop.is_some() && runtime.ready_sandbox().is_none();
    match (stopped, tally.app_waits || tally.init_waits) {
        (true, true) => PodPhase::Failed,
        (true, false) if tally.failed => PodPhase::Failed,
        (true, false) => PodPhase::Succeeded,
        (false, true) => PodPhase::Pending,
        (false, false) => PodPhase::Running,
    }
}

/// What the containers of a pod do, counted as far as the phase needs it.
#[derive(Default)]
struct Tally {
    anything_runs: bool,
    init_waits: bool,
    app_waits: bool,
    failed: bool,
}

impl Tally {
    fn of(pod: &Pod, memory: &PodMemory, runtime: &RuntimePod) -> Self {
        let mut tally = Self::default();
        for container in all_containers(pod) {
            let instance = latest_instance(memory, runtime, container.name());
            let runs = match instance {
                Instance::Running { .. } => true,
                Instance::None | Instance::Stuck(_) | Instance::Ended(_) => false,
            };
            tally.anything_runs |= runs;
            let own = memory.container(container.name());
            match (container.role, instance) {
                (ContainerRole::Init, _) if own.completed => {}
                (ContainerRole::Init | ContainerRole::App, Instance::Ended(_)) if own.begins_anew => {}
                // Nothing of the phase depends on an ephemeral container, but that the pod has not ended while it runs.
                (ContainerRole::Ephemeral, _) => {}
                (ContainerRole::Init, Instance::Ended(exit)) => {
                    tally.init_waits |= exit.code != 0;
                    tally.failed |= exit.code != 0;
                }
                (ContainerRole::Init, Instance::Running { .. }) => tally.init_waits = true,
                (ContainerRole::Init, Instance::None | Instance::Stuck(_)) | (ContainerRole::Sidecar, _) => {}
                (ContainerRole::App, Instance::None | Instance::Stuck(_)) => tally.app_waits = true,
                // Before its first start hooks have returned it has not started yet.
                (ContainerRole::App, Instance::Running { container, .. }) => {
                    let hooks = start_hooks(pod, memory, &container.name, container.attempt);
                    tally.app_waits |=
                        hooks != StartHooks::Done && own.exit.is_none() && memory.stop.is_none();
                }
                (ContainerRole::App, Instance::Ended(exit)) => tally.failed |= exit.code != 0,
            }
        }
        tally
    }
}

impl PodMemory {
    /// How the pod ends, if all that it runs has ended and nothing starts again.
    pub fn outcome(&self, pod: &Pod, runtime: &RuntimePod) -> Option<PodPhase> {
        outcome(pod, self, runtime)
    }
}
