//! The half of the decision that brings a pod down: containers at once and in parallel, then sidecars in reverse order,
//! then the sandbox, then volumes, then, if its object was deleted, the rest.

use super::hooks::{MINIMUM_GRACE_SECONDS, Stop, abandon_start_hooks, stop_step};
use crate::action::{Action, KillReason, Plan};
use crate::containers::{ContainerRole, pod_containers};
use crate::memory::{StopCause, StopOrder};
use crate::observed::{ContainerPhase, ObservedContainer};
use crate::view::PodView;

pub(super) fn plan_stop(view: &PodView<'_>, order: StopOrder) -> Plan {
    let mut plan = Plan::default();
    abandon_start_hooks(view, &mut plan);
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
    for container in &others {
        stop(view, order, container, true, &mut plan);
    }
    // Hooks of sidecars begin with the others'; signals come later, and the last one that runs in the order of the
    // specification goes first.
    let last = sidecars.iter().rev().find(|name| running.iter().any(|container| container.name == **name));
    for container in running.iter().copied().filter(|container| is_sidecar(container)) {
        let may_signal = others.is_empty() && last.is_some_and(|last| *last == container.name);
        stop(view, order, container, may_signal, &mut plan);
    }
    plan
}

fn may_run(container: &ObservedContainer) -> bool {
    match container.phase {
        ContainerPhase::Running { .. } => true,
        ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => false,
    }
}

fn stop(
    view: &PodView<'_>,
    order: StopOrder,
    container: &ObservedContainer,
    may_signal: bool,
    plan: &mut Plan,
) {
    let left = order.deadline.seconds_from(view.now.boot);
    let stop = Stop {
        container,
        reason: KillReason::PodStops(order.cause),
        grace_seconds: left.max(MINIMUM_GRACE_SECONDS),
        order: Some(order.deadline),
        may_signal,
    };
    stop_step(view, stop, plan);
}

fn plan_clearance(view: &PodView<'_>, order: StopOrder, plan: &mut Plan) {
    if let Some(sandbox) = view.runtime.ready_sandbox() {
        plan.actions.push(Action::StopSandbox { id: sandbox.id.clone() });
    }
    if view.memory.node_leaves {
        // Volumes and objects stay where they are until the node is back.
        return;
    }
    if !view.memory.cleared {
        plan.actions.push(Action::ClearVolumes);
    }
    let deleted = view.pod.metadata.deletion_timestamp.is_some() || view.memory.vanished;
    match order.cause {
        StopCause::Delete => plan.actions.push(Action::Forget),
        StopCause::Deadline | StopCause::Eviction | StopCause::Shutdown | StopCause::Finished => {
            if deleted {
                plan.actions.push(Action::Forget);
            }
        }
    }
}
