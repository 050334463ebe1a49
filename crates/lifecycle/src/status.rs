//! The status that the API shows: container states with their reasons, phase, conditions, addresses.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::backoff::Backoff;
use crate::conditions::{ConditionInputs, conditions};
use crate::containers::{ContainerRole, PodContainer, ephemeral_containers, pod_containers};
use crate::hooks::{StartHooks, start_hooks, starting_text, stopping_text};
use crate::instance::{Exit, Instance, latest_instance};
use crate::memory::{ContainerMemory, StopCause};
use crate::phase::{PodPhase, pod_phase};
use crate::reasons;
use crate::restart::will_restart;
use crate::view::PodView;

/// What a status says of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The node's addresses, the primary one first.
    pub addresses: Vec<String>,
    /// The runtime's name: what stands before `://` in a container's identifier.
    pub runtime_name: String,
}

/// The status of the pod of this view. Fields of others (`resize`, `nominatedNodeName`, foreign conditions, the QoS
/// class) are taken over from the object.
pub fn status(view: &PodView<'_>, node: &NodeIdentity) -> PodStatus {
    let old = view.pod.status.clone().unwrap_or_default();
    let phase = pod_phase(view.pod, view.memory, view.runtime);
    let states = |wanted: fn(ContainerRole) -> bool| -> Vec<ContainerStatus> {
        pod_containers(view.pod)
            .filter(|container| wanted(container.role))
            .map(|container| StatusWriter { view, node, container, phase }.status())
            .collect()
    };
    let init_statuses = states(|role| match role {
        ContainerRole::Init | ContainerRole::Sidecar => true,
        ContainerRole::App | ContainerRole::Ephemeral => false,
    });
    let statuses = states(|role| role == ContainerRole::App);
    let ephemeral_statuses: Vec<ContainerStatus> = ephemeral_containers(view.pod)
        .map(|container| StatusWriter { view, node, container: container.as_pod_container(), phase }.status())
        .collect();
    let ips = pod_ips(view, node, &old);
    let (reason, message) = match view.memory.stop.map(|order| order.cause) {
        Some(StopCause::Deadline) if phase.is_terminal() => {
            (Some(reasons::DEADLINE_EXCEEDED.to_owned()), Some(reasons::DEADLINE_EXCEEDED_MESSAGE.to_owned()))
        }
        Some(StopCause::Eviction) if phase.is_terminal() => {
            (Some(reasons::EVICTED.to_owned()), view.memory.eviction.clone())
        }
        Some(
            StopCause::Deadline
            | StopCause::Eviction
            | StopCause::Delete
            | StopCause::Shutdown
            | StopCause::Finished,
        )
        | None => (None, None),
    };
    PodStatus {
        phase: Some(phase.as_str().to_owned()),
        reason,
        message: message.or_else(|| stopping_text(view)),
        conditions: Some(conditions(&ConditionInputs {
            pod: view.pod,
            phase,
            sandbox_ready: view.runtime.ready_sandbox().is_some(),
            init_statuses: &init_statuses,
            statuses: &statuses,
            restart_all: view.memory.restart_all.as_ref(),
            eviction: view.memory.eviction.as_deref(),
            now: view.now.wall,
        })),
        init_container_statuses: (!init_statuses.is_empty()).then_some(init_statuses),
        container_statuses: Some(statuses),
        ephemeral_container_statuses: (!ephemeral_statuses.is_empty()).then_some(ephemeral_statuses),
        start_time: view.memory.started_at.map(Time),
        host_ip: node.addresses.first().cloned(),
        host_ips: Some(node.addresses.iter().map(|ip| HostIP { ip: ip.clone() }).collect()),
        pod_ip: ips.first().cloned(),
        pod_ips: (!ips.is_empty()).then(|| ips.into_iter().map(|ip| PodIP { ip }).collect()),
        observed_generation: view.pod.metadata.generation,
        ..old
    }
}

fn pod_ips(view: &PodView<'_>, node: &NodeIdentity, old: &PodStatus) -> Vec<String> {
    let host_network = view.pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false);
    match view.runtime.ready_sandbox() {
        Some(_) if host_network => node.addresses.clone(),
        Some(sandbox) => sandbox.ips.clone(),
        // A pod that has ended keeps the addresses that it had.
        None => old.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect(),
    }
}

/// One container's part of the status.
struct StatusWriter<'a> {
    view: &'a PodView<'a>,
    node: &'a NodeIdentity,
    container: PodContainer<'a>,
    phase: PodPhase,
}

impl StatusWriter<'_> {
    fn status(&self) -> ContainerStatus {
        let Self { view, container, .. } = self;
        let name = container.name();
        let memory = view.memory.container(name);
        let instance = latest_instance(view.memory, view.runtime, name);
        let running = match &instance {
            // While its start hooks run, nobody is told that it is up.
            Instance::Running { .. } if self.starting(&instance).is_some() => None,
            Instance::Running { container, .. } => Some(*container),
            Instance::None | Instance::Stuck(_) | Instance::Ended(_) => None,
        };
        let health = running.and_then(|instance| view.health.get(&instance.id));
        let started = running.is_some()
            && (container.spec.startup_probe.is_none() || health.is_some_and(|health| health.started));
        let probed = container.spec.readiness_probe.is_some();
        let ready = match (container.role, running) {
            (ContainerRole::Init, _) => memory.completed,
            (ContainerRole::Ephemeral, _) | (ContainerRole::Sidecar | ContainerRole::App, None) => false,
            (ContainerRole::Sidecar | ContainerRole::App, Some(_)) => {
                started && (!probed || health.is_some_and(|health| health.ready))
            }
        };
        let (state, last_state) = self.states(&instance);
        let id = match &instance {
            Instance::None => None,
            Instance::Stuck(instance) => Some(instance.id.clone()),
            Instance::Running { container, .. } => Some(container.id.clone()),
            Instance::Ended(exit) => Some(exit.id.clone()),
        };
        let observed = id.as_deref().and_then(|id| view.runtime.container(id));
        let image_id = observed
            .map(|observed| observed.image_id.clone())
            .or_else(|| memory.started.as_ref().map(|record| record.image_id.clone()));
        ContainerStatus {
            name: name.to_owned(),
            image: container.spec.image.clone().unwrap_or_default(),
            image_id: image_id.unwrap_or_default(),
            container_id: id.map(|id| self.container_id(&id)),
            restart_count: i32::try_from(instance.attempt().unwrap_or(0)).unwrap_or(i32::MAX),
            ready,
            started: (container.role != ContainerRole::Ephemeral).then_some(started),
            state: Some(state),
            last_state,
            ..ContainerStatus::default()
        }
    }

    /// The start hooks that an instance still has before it; none once they are done, or when the pod stops anyway.
    fn starting(&self, instance: &Instance<'_>) -> Option<StartHooks> {
        let Instance::Running { container, .. } = instance else {
            return None;
        };
        let name = self.container.name();
        let hooks = start_hooks(self.view.pod, self.view.memory, name, container.attempt);
        (hooks != StartHooks::Done && self.view.memory.stop.is_none()).then_some(hooks)
    }

    /// The API writes the runtime's name before the identifier.
    fn container_id(&self, id: &str) -> String {
        format!("{}://{id}", self.node.runtime_name)
    }

    /// `state` and `lastState`.
    fn states(&self, instance: &Instance<'_>) -> (ContainerState, Option<ContainerState>) {
        let memory = self.view.memory.container(self.container.name());
        if let Some(hooks) = self.starting(instance) {
            let text = starting_text(self.view, self.container.name());
            let state = match (&hooks, &memory.failure) {
                (StartHooks::Failed(_), Some(failure)) => {
                    waiting(&failure.reason, Some(failure.message.clone()))
                }
                (StartHooks::Failed(_) | StartHooks::Next(_) | StartHooks::Done, _) => {
                    waiting(default_reason(self.view), text)
                }
            };
            return (state, memory.exit.as_ref().map(|exit| self.terminated(exit)));
        }
        match instance {
            Instance::Running { started_at, .. } => {
                let running = ContainerState {
                    running: Some(ContainerStateRunning { started_at: started_at.map(Time) }),
                    ..ContainerState::default()
                };
                (running, memory.exit.as_ref().map(|exit| self.terminated(exit)))
            }
            Instance::Ended(exit) => self.ended_states(&memory, exit),
            Instance::None | Instance::Stuck(_) if self.phase.is_terminal() && app_has_run(self.view) => {
                (never_located(), None)
            }
            Instance::None | Instance::Stuck(_) => {
                let text = starting_text(self.view, self.container.name());
                match (text, &memory.failure) {
                    (None, Some(failure)) => (waiting(&failure.reason, Some(failure.message.clone())), None),
                    (text, _) => (waiting(default_reason(self.view), text), None),
                }
            }
        }
    }

    fn ended_states(
        &self,
        memory: &ContainerMemory,
        exit: &Exit,
    ) -> (ContainerState, Option<ContainerState>) {
        let ended = self.terminated(exit);
        let previous = memory.previous.as_ref().map(|exit| self.terminated(exit));
        let restarting_all = self.view.memory.restart_all.is_some();
        let anew = memory.begins_anew || restarting_all && self.container.role != ContainerRole::Ephemeral;
        let stays = self.phase.is_terminal()
            || self.view.memory.stop.is_some()
            || !anew && !will_restart(self.view.pod, self.container, exit.code, exit.probe_failed);
        if stays {
            return (ended, previous);
        }
        if let Some(text) = starting_text(self.view, self.container.name()) {
            return (waiting(default_reason(self.view), Some(text)), Some(ended));
        }
        if let Some(failure) = &memory.failure {
            return (waiting(&failure.reason, Some(failure.message.clone())), Some(ended));
        }
        if memory.backoff.due(exit.ended) > self.view.now.boot {
            let delay = memory.backoff.delay_after(exit.ended);
            let message = back_off_message(self.view, self.container, delay);
            return (waiting(reasons::CRASH_LOOP_BACK_OFF, Some(message)), Some(ended));
        }
        if anew {
            let message = reasons::RESTARTING_ALL_CONTAINERS_MESSAGE.to_owned();
            return (waiting(reasons::RESTARTING_ALL_CONTAINERS, Some(message)), Some(ended));
        }
        (ended, previous)
    }

    fn terminated(&self, exit: &Exit) -> ContainerState {
        ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(self.container_id(&exit.id)),
                exit_code: exit.code,
                signal: None,
                reason: Some(exit.reason.clone()),
                message: (!exit.message.is_empty()).then(|| exit.message.clone()),
                started_at: exit.started_at.map(Time),
                finished_at: exit.finished_at.map(Time),
            }),
            ..ContainerState::default()
        }
    }
}

/// The state of a container that never ran in a pod that has ended after others ran.
fn never_located() -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: 137,
            reason: Some(reasons::CONTAINER_STATUS_UNKNOWN.to_owned()),
            message: Some(reasons::COULD_NOT_BE_LOCATED_AT_END.to_owned()),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

/// `back-off 10s restarting failed container=C pod=NAME_NS(UID)`.
fn back_off_message(view: &PodView<'_>, container: PodContainer<'_>, delay: i64) -> String {
    let metadata = &view.pod.metadata;
    format!(
        "back-off {} restarting failed container={} pod={}_{}({})",
        Backoff::delay_text(delay),
        container.name(),
        metadata.name.as_deref().unwrap_or_default(),
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.uid.as_deref().unwrap_or_default(),
    )
}

fn app_has_run(view: &PodView<'_>) -> bool {
    pod_containers(view.pod).filter(|container| container.role == ContainerRole::App).any(|container| {
        match latest_instance(view.memory, view.runtime, container.name()) {
            Instance::Running { .. } | Instance::Ended(_) => true,
            Instance::None | Instance::Stuck(_) => false,
        }
    })
}

fn default_reason(view: &PodView<'_>) -> &'static str {
    let has_init = pod_containers(view.pod).any(|container| match container.role {
        ContainerRole::Init | ContainerRole::Sidecar => true,
        ContainerRole::App | ContainerRole::Ephemeral => false,
    });
    if has_init { reasons::POD_INITIALIZING } else { reasons::CONTAINER_CREATING }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ContainerState::default()
    }
}
