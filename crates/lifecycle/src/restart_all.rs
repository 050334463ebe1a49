//! All containers of a pod start again together, in the same sandbox: first everything is stopped, then the pod comes up
//! in its order, as if it were new. The rule action `RestartAllContainers` asks for it.

use k8s_openapi::api::core::v1::Pod;

use crate::containers::{ContainerRole, container_role, pod_containers};
use crate::instance::{Instance, latest_instance};
use crate::memory::{PodMemory, RestartAllOrder};
use crate::observed::{ContainerPhase, ObservedContainer, RuntimePod};
use crate::restart::{AfterExit, after_exit};

/// Status of a container that was stopped for it.
const KILLED: i32 = 137;

impl PodMemory {
    /// Notes that a container has ended by whose rule all start again, and later that nothing runs any more, so that they
    /// may. Call it after [`PodMemory::note_observed`].
    pub fn note_restart_all(&mut self, pod: &Pod, runtime: &RuntimePod) {
        if self.stop.is_some() {
            self.restart_all = None;
            return;
        }
        if self.restart_all.is_none() {
            self.restart_all = ordered(pod, self, runtime);
        }
        let Some(order) = &mut self.restart_all else {
            return;
        };
        let running: Vec<String> = running(pod, runtime).map(|container| container.id.clone()).collect();
        if running.is_empty() {
            self.begin_anew(pod);
        } else {
            order.stopped.extend(running);
            order.stopped.sort();
            order.stopped.dedup();
        }
    }

    fn begin_anew(&mut self, pod: &Pod) {
        let Some(order) = self.restart_all.take() else {
            return;
        };
        for container in pod_containers(pod) {
            let memory = self.container_mut(container.name());
            memory.completed = false;
            memory.failure = None;
            let Some(exit) = &mut memory.exit else {
                continue;
            };
            memory.begins_anew = true;
            if order.stopped.contains(&exit.id) {
                exit.code = KILLED;
                exit.reason = crate::reasons::RESTARTING_ALL_CONTAINERS.to_owned();
                exit.message = crate::reasons::RESTARTING_ALL_CONTAINERS_MESSAGE.to_owned();
            }
        }
    }
}

/// Instances that run and have to be stopped first. Ephemeral containers go on.
pub(crate) fn running<'a>(
    pod: &'a Pod,
    runtime: &'a RuntimePod,
) -> impl Iterator<Item = &'a ObservedContainer> {
    runtime.containers.iter().filter(|container| {
        let runs = match container.phase {
            ContainerPhase::Running { .. } => true,
            ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => false,
        };
        runs && container_role(pod, &container.name) != Some(ContainerRole::Ephemeral)
    })
}

fn ordered(pod: &Pod, memory: &PodMemory, runtime: &RuntimePod) -> Option<RestartAllOrder> {
    pod_containers(pod).find_map(|container| {
        let Instance::Ended(exit) = latest_instance(memory, runtime, container.name()) else {
            return None;
        };
        if memory.container(container.name()).begins_anew {
            return None;
        }
        match after_exit(pod, container, exit.code, exit.probe_failed) {
            AfterExit::RestartAll => Some(RestartAllOrder {
                container: container.name().to_owned(),
                code: exit.code,
                stopped: Vec::new(),
            }),
            AfterExit::Restart | AfterExit::Stay => None,
        }
    })
}
