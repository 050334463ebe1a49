//! The conditions of a pod, in Kubernetes' words. Times of the last change are kept while a status does not change.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::memory::RestartAllOrder;
use crate::phase::PodPhase;
use crate::reasons;

/// What the conditions are made from.
pub(crate) struct ConditionInputs<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) phase: PodPhase,
    pub(crate) sandbox_ready: bool,
    pub(crate) init_statuses: &'a [ContainerStatus],
    pub(crate) statuses: &'a [ContainerStatus],
    pub(crate) restart_all: Option<&'a RestartAllOrder>,
    /// What the pod took too much of, when it was evicted.
    pub(crate) eviction: Option<&'a str>,
    pub(crate) now: Timestamp,
}

struct Verdict {
    true_: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn yes() -> Self {
        Self { true_: true, reason: None, message: None }
    }

    fn no(reason: &'static str, message: Option<String>) -> Self {
        Self { true_: false, reason: Some(reason), message }
    }
}

/// Condition of a pod whose containers all start again together.
pub(crate) const ALL_CONTAINERS_RESTARTING: &str = "AllContainersRestarting";

/// The conditions that the node decides; all others are somebody else's.
pub fn is_own_condition(type_: &str) -> bool {
    matches!(
        type_,
        "PodReadyToStartContainers" | "Initialized" | "Ready" | "ContainersReady" | "PodScheduled"
    ) || type_ == ALL_CONTAINERS_RESTARTING
        || type_ == reasons::DISRUPTION_TARGET
}

/// All conditions that the node decides, and those of others that the object has.
pub(crate) fn conditions(inputs: &ConditionInputs<'_>) -> Vec<PodCondition> {
    let containers_ready = containers_ready(inputs);
    let ready = ready(inputs, &containers_ready);
    let own = [
        ("PodReadyToStartContainers", bare(inputs.sandbox_ready)),
        ("Initialized", initialized(inputs)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Verdict::yes()),
    ];
    let old = inputs.pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let mut conditions: Vec<PodCondition> =
        own.into_iter().map(|(type_, verdict)| condition(inputs, old, type_, verdict)).collect();
    let restarted = old.iter().any(|condition| condition.type_ == ALL_CONTAINERS_RESTARTING);
    if restarted || inputs.restart_all.is_some() {
        conditions.push(condition(inputs, old, ALL_CONTAINERS_RESTARTING, restarting_all(inputs)));
    }
    if let Some(message) = inputs.eviction {
        let verdict = Verdict {
            true_: true,
            reason: Some(reasons::TERMINATION_BY_KUBELET),
            message: Some(message.to_owned()),
        };
        conditions.push(condition(inputs, old, reasons::DISRUPTION_TARGET, verdict));
    }
    for other in old {
        if !conditions.iter().any(|condition| condition.type_ == other.type_) {
            conditions.push(other.clone());
        }
    }
    conditions
}

fn condition(
    inputs: &ConditionInputs<'_>,
    old: &[PodCondition],
    type_: &str,
    verdict: Verdict,
) -> PodCondition {
    let status = if verdict.true_ { "True" } else { "False" };
    let kept = old
        .iter()
        .find(|old| old.type_ == type_ && old.status == status)
        .and_then(|old| old.last_transition_time.clone());
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.map(str::to_owned),
        message: verdict.message,
        last_transition_time: Some(kept.unwrap_or(Time(inputs.now))),
        observed_generation: inputs.pod.metadata.generation,
        last_probe_time: None,
    }
}

fn restarting_all(inputs: &ConditionInputs<'_>) -> Verdict {
    match inputs.restart_all {
        None => bare(false),
        Some(order) => Verdict {
            true_: true,
            reason: Some(reasons::CONTAINER_EXITED),
            message: Some(format!(
                "Container {} exited with code {}, restarting all containers",
                order.container, order.code
            )),
        },
    }
}

fn bare(true_: bool) -> Verdict {
    Verdict { true_, reason: None, message: None }
}

fn initialized(inputs: &ConditionInputs<'_>) -> Verdict {
    let sidecar = |name: &str| {
        crate::containers::pod_container(inputs.pod, name)
            .is_some_and(|container| container.role == crate::containers::ContainerRole::Sidecar)
    };
    let incomplete: Vec<&str> = inputs
        .init_statuses
        .iter()
        .filter(|status| if sidecar(&status.name) { status.started != Some(true) } else { !status.ready })
        .map(|status| status.name.as_str())
        .collect();
    match inputs.phase {
        PodPhase::Succeeded => Verdict { reason: Some(reasons::POD_COMPLETED), ..Verdict::yes() },
        _ if incomplete.is_empty() || app_has_started(inputs) => Verdict::yes(),
        PodPhase::Pending | PodPhase::Running | PodPhase::Failed => Verdict::no(
            reasons::CONTAINERS_NOT_INITIALIZED,
            Some(format!("containers with incomplete status: [{}]", incomplete.join(" "))),
        ),
    }
}

fn app_has_started(inputs: &ConditionInputs<'_>) -> bool {
    inputs.statuses.iter().any(|status| {
        let running = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
            state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        };
        status.container_id.is_some() && (running(&status.state) || running(&status.last_state))
    })
}

fn containers_ready(inputs: &ConditionInputs<'_>) -> Verdict {
    let sidecars = inputs.init_statuses.iter().filter(|status| {
        crate::containers::pod_container(inputs.pod, &status.name)
            .is_some_and(|container| container.role == crate::containers::ContainerRole::Sidecar)
    });
    let unready: Vec<&str> = sidecars
        .chain(inputs.statuses)
        .filter(|status| !status.ready)
        .map(|status| status.name.as_str())
        .collect();
    match inputs.phase {
        PodPhase::Succeeded => Verdict::no(reasons::POD_COMPLETED, None),
        PodPhase::Failed => Verdict::no(reasons::POD_FAILED, None),
        PodPhase::Pending | PodPhase::Running if unready.is_empty() => Verdict::yes(),
        PodPhase::Pending | PodPhase::Running => Verdict::no(
            reasons::CONTAINERS_NOT_READY,
            Some(format!("containers with unready status: [{}]", unready.join(" "))),
        ),
    }
}

fn ready(inputs: &ConditionInputs<'_>, containers_ready: &Verdict) -> Verdict {
    if !containers_ready.true_ {
        return Verdict {
            true_: false,
            reason: containers_ready.reason,
            message: containers_ready.message.clone(),
        };
    }
    let gates = inputs.pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let old = inputs.pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let mut missing = Vec::new();
    for gate in gates {
        match old.iter().find(|condition| condition.type_ == gate.condition_type) {
            Some(condition) if condition.status == "True" => {}
            Some(condition) => missing.push(format!(
                "the status of pod readiness gate {:?} is not \"True\", but {}",
                gate.condition_type, condition.status
            )),
            None => missing.push(format!(
                "corresponding condition of pod readiness gate {:?} does not exist.",
                gate.condition_type
            )),
        }
    }
    if missing.is_empty() {
        Verdict::yes()
    } else {
        Verdict::no(reasons::READINESS_GATES_NOT_READY, Some(missing.join(", ")))
    }
}
