//! Looks at the runtime: what it holds for one pod, as decisions need it.

use std::collections::BTreeMap;

use cri::v1;
use lifecycle::{ContainerPhase, ObservedContainer, ObservedSandbox, PodMemory, RuntimePod};

use crate::clock;
use crate::labels;
use crate::runtime_calls::RuntimeCalls;

/// The sandboxes and containers of a pod. Details of ended containers that `memory` already holds are not read again, nor
/// what the last look has seen and cannot change: the addresses of a sandbox that stands, the start of what runs.
pub(crate) async fn observe_pod(
    runtime: &RuntimeCalls,
    uid: &str,
    memory: &PodMemory,
    last: &RuntimePod,
) -> Result<RuntimePod, tonic::Status> {
    let selector = BTreeMap::from([(labels::POD_UID.to_owned(), uid.to_owned())]);
    let sandboxes = runtime
        .list_pod_sandbox(v1::ListPodSandboxRequest {
            filter: Some(v1::PodSandboxFilter {
                label_selector: selector.clone(),
                ..v1::PodSandboxFilter::default()
            }),
        })
        .await?
        .into_inner()
        .items;
    let containers = runtime
        .list_containers(v1::ListContainersRequest {
            filter: Some(v1::ContainerFilter { label_selector: selector, ..v1::ContainerFilter::default() }),
        })
        .await?
        .into_inner()
        .containers;
    let mut observed = RuntimePod::default();
    for sandbox in sandboxes {
        observed.sandboxes.push(observe_sandbox(runtime, sandbox, last).await?);
    }
    observed.sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.attempt));
    for container in containers {
        if let Some(container) = observe_container(runtime, container, memory, last).await? {
            observed.containers.push(container);
        }
    }
    observed
        .containers
        .sort_by(|one, other| (one.name.as_str(), one.attempt).cmp(&(other.name.as_str(), other.attempt)));
    Ok(observed)
}

async fn observe_sandbox(
    runtime: &RuntimeCalls,
    sandbox: v1::PodSandbox,
    last: &RuntimePod,
) -> Result<ObservedSandbox, tonic::Status> {
    let attempt = sandbox.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
    let ready = sandbox.state == v1::PodSandboxState::SandboxReady as i32;
    let seen = last.sandboxes.iter().find(|seen| seen.ready && seen.id == sandbox.id);
    let mut ips = seen.map(|seen| seen.ips.clone()).unwrap_or_default();
    if ready && ips.is_empty() {
        let request = v1::PodSandboxStatusRequest { pod_sandbox_id: sandbox.id.clone(), verbose: false };
        let status = not_found_is_none(runtime.pod_sandbox_status(request).await)?;
        let network = status.and_then(|status| status.into_inner().status).and_then(|status| status.network);
        if let Some(network) = network {
            ips.push(network.ip);
            ips.extend(network.additional_ips.into_iter().map(|ip| ip.ip));
        }
        ips.retain(|ip| ip.parse::<std::net::IpAddr>().is_ok());
    }
    if !ready {
        ips.clear();
    }
    Ok(ObservedSandbox { id: sandbox.id, attempt, ready, ips })
}

async fn observe_container(
    runtime: &RuntimeCalls,
    container: v1::Container,
    memory: &PodMemory,
    last: &RuntimePod,
) -> Result<Option<ObservedContainer>, tonic::Status> {
    let Some(metadata) = container.metadata.clone() else {
        return Ok(None);
    };
    let state = v1::ContainerState::try_from(container.state).unwrap_or(v1::ContainerState::ContainerUnknown);
    let phase = match state {
        v1::ContainerState::ContainerCreated => ContainerPhase::Created,
        v1::ContainerState::ContainerUnknown => ContainerPhase::Unknown,
        v1::ContainerState::ContainerRunning | v1::ContainerState::ContainerExited => {
            match known_end(memory, &metadata.name, &container.id, metadata.attempt) {
                Some(phase) => phase,
                None => match known_start(last, &container.id, state) {
                    Some(phase) => phase,
                    None => match read_phase(runtime, &container.id).await? {
                        Some(phase) => phase,
                        // It was removed between the list and this.
                        None => return Ok(None),
                    },
                },
            }
        }
    };
    Ok(Some(ObservedContainer {
        name: metadata.name,
        attempt: metadata.attempt,
        spec_hash: container.annotations.get(labels::CONTAINER_HASH).cloned(),
        image: container.image.map(|image| image.image).unwrap_or_default(),
        image_id: if container.image_id.is_empty() { container.image_ref } else { container.image_id },
        id: container.id,
        sandbox_id: container.pod_sandbox_id,
        phase,
    }))
}

fn known_end(memory: &PodMemory, name: &str, id: &str, attempt: u32) -> Option<ContainerPhase> {
    let exit = memory.containers.get(name)?.exit.as_ref()?;
    let known = exit.id == id || exit.attempt > attempt;
    known.then(|| ContainerPhase::Exited {
        code: exit.code,
        reason: exit.reason.clone(),
        message: exit.message.clone(),
        started_at: exit.started_at,
        finished_at: exit.finished_at,
    })
}

/// What ran when it was last looked at, and runs, began when it did.
fn known_start(last: &RuntimePod, id: &str, state: v1::ContainerState) -> Option<ContainerPhase> {
    let phase = &last.container(id)?.phase;
    let runs = state == v1::ContainerState::ContainerRunning
        && matches!(phase, ContainerPhase::Running { started_at: Some(_) });
    runs.then(|| phase.clone())
}

async fn read_phase(runtime: &RuntimeCalls, id: &str) -> Result<Option<ContainerPhase>, tonic::Status> {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
    let Some(answer) = not_found_is_none(runtime.container_status(request).await)? else {
        return Ok(None);
    };
    Ok(answer.into_inner().status.map(|status| phase_of(&status)))
}

/// What a container does, from its full status.
pub(crate) fn phase_of(status: &v1::ContainerStatus) -> ContainerPhase {
    match v1::ContainerState::try_from(status.state).unwrap_or(v1::ContainerState::ContainerUnknown) {
        v1::ContainerState::ContainerCreated => ContainerPhase::Created,
        v1::ContainerState::ContainerUnknown => ContainerPhase::Unknown,
        v1::ContainerState::ContainerRunning => {
            ContainerPhase::Running { started_at: clock::from_nanos(status.started_at) }
        }
        v1::ContainerState::ContainerExited => ContainerPhase::Exited {
            code: status.exit_code,
            reason: status.reason.clone(),
            message: status.message.clone(),
            started_at: clock::from_nanos(status.started_at),
            finished_at: clock::from_nanos(status.finished_at),
        },
    }
}

/// Something that is gone is no error.
pub(crate) fn not_found_is_none<T>(result: Result<T, tonic::Status>) -> Result<Option<T>, tonic::Status> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(status) if status.code() == tonic::Code::NotFound => Ok(None),
        Err(status) => Err(status),
    }
}
