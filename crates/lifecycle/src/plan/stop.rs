//! The half of the decision that brings a pod down: containers at once and in parallel, then sidecars in reverse order,
//! then the sandbox, then volumes, then, if its object was deleted, the rest.

use super::{Action, KillReason, Plan, PodView};
use crate::containers::{ContainerRole, pod_containers};
use crate::memory::{StopCause, StopOrder};
use crate::observed::{ContainerPhase, ObservedContainer};

/// Shortest time between stop signal and kill signal.
const MINIMUM_GRACE_SECONDS: i64 = 2;

pub(super) fn plan_stop(view: &PodView<'_>, order: StopOrder) -> Plan {
    let mut plan = Plan::default();
    let running: Vec<&ObservedContainer> =
        view.runtime.containers.iter().filter(|container| may_run(container)).collect();
    if running.is_empty() {
        plan_clearance(view, order, &mut plan);
        return plan;
    }
    let sidecars: Vec<&str> = pod_containers(view.pod)
        .filter(|container| container.role == ContainerRole::Sidecar)
        .map(|container| container.name())
        .collect();
    let is_sidecar = |container: &ObservedContainer| sidecars.contains(&container.name.as_str());
    let others: Vec<&ObservedContainer> =
        running.iter().copied().filter(|container| !is_sidecar(container)).collect();
    if !others.is_empty() {
        for container in others {
            stop(view, order, container, &mut plan);
        }
        return plan;
    }
    // The last one that runs in the order of the specification goes first.
    let last = sidecars
        .iter()
        .rev()
        .find_map(|name| running.iter().copied().find(|container| container.name == *name));
    if let Some(container) = last {
        stop(view, order, container, &mut plan);
    }
    plan
}

fn may_run(container: &ObservedContainer) -> bool {
    match container.phase {
        ContainerPhase::Running { .. } => true,
        ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => false,
    }
}

fn stop(view: &PodView<'_>, order: StopOrder, container: &ObservedContainer, plan: &mut Plan) {
    let left = order.deadline.seconds_from(view.now.boot);
    let begun = view.memory.stopping.get(&container.id);
    // A deletion with a shorter grace overtakes a stop that is already under way. Less than a second is rounding.
    let sooner = begun.is_some_and(|begun| {
        begun.deadline.millis_since(order.deadline) > 1_000
            && begun.deadline.millis_since(view.now.boot) > 2_000
    });
    match begun {
        Some(begun) if !sooner => plan.wake(begun.deadline.plus_seconds(2)),
        Some(_) | None => plan.actions.push(Action::StopContainer {
            id: container.id.clone(),
            name: container.name.clone(),
            reason: KillReason::PodStops(order.cause),
            grace_seconds: left.max(MINIMUM_GRACE_SECONDS),
        }),
    }
}

fn plan_clearance(view: &PodView<'_>, order: StopOrder, plan: &mut Plan) {
    if let Some(sandbox) = view.runtime.ready_sandbox() {
        plan.actions.push(Action::StopSandbox { id: sandbox.id.clone() });
    }
    if !view.memory.cleared {
        plan.actions.push(Action::ClearVolumes);
    }
    let deleted = view.pod.metadata.deletion_timestamp.is_some() || view.memory.vanished;
    match order.cause {
        StopCause::Delete => plan.actions.push(Action::Forget),
        StopCause::Deadline | StopCause::Shutdown | StopCause::Finished => {
            if deleted {
                plan.actions.push(Action::Forget);
            }
        }
    }
}
