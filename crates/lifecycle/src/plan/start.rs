//! The half of the decision that brings a pod up and keeps it so.

use super::hooks::{AfterStart, Stop, after_start, announced, is_held_up, stop_step};
use crate::action::{Action, KillReason, Plan};
use crate::clock::BootTime;
use crate::containers::{ContainerRole, PodContainer, container_role, ephemeral_containers, pod_containers};
use crate::hook::HookKind;
use crate::hooks::has_start_hooks;
use crate::instance::{Exit, Instance, latest_instance};
use crate::observed::{ContainerPhase, ObservedContainer, ObservedSandbox};
use crate::restart::will_restart;
use crate::stop_orders::active_deadline;
use crate::view::PodView;

/// What a container lets happen after it in the order of the pod.
enum Gate {
    /// The next one may start.
    Open,
    /// It has to wait.
    Closed,
}

pub(super) fn plan_start(view: &PodView<'_>) -> Plan {
    let mut plan = Plan::default();
    if let Some(deadline) = active_deadline(view) {
        plan.wake(deadline);
    }
    stop_unwanted(view, &mut plan);
    let Some(sandbox) = view.runtime.ready_sandbox() else {
        plan_sandbox(view, &mut plan);
        return plan;
    };
    if is_held_up(view, &mut plan) {
        return plan;
    }
    plan_ephemeral(view, sandbox, &mut plan);
    if view.memory.restart_all.is_some() {
        for container in crate::restart_all::running(view.pod, view.runtime) {
            stop_once(view, container, KillReason::RestartAll, 0, &mut plan);
        }
        return plan;
    }
    for container in pod_containers(view.pod) {
        let gate = match container.role {
            ContainerRole::Init => plan_init(view, container, sandbox, &mut plan),
            ContainerRole::Sidecar => plan_sidecar(view, container, sandbox, &mut plan),
            ContainerRole::App => plan_container(view, container, sandbox, &mut plan),
            ContainerRole::Ephemeral => Gate::Open,
        };
        match gate {
            Gate::Open => {}
            Gate::Closed => break,
        }
    }
    for id in view.memory.outdated_instances(view.pod, view.runtime) {
        plan.actions.push(Action::RemoveContainer { id: id.to_owned() });
    }
    plan
}

fn grace_of(view: &PodView<'_>) -> i64 {
    view.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30)
}

/// Stops `container`, one step at a time.
fn stop_once(
    view: &PodView<'_>,
    container: &ObservedContainer,
    reason: KillReason,
    grace_seconds: i64,
    plan: &mut Plan,
) {
    stop_step(view, Stop { container, reason, grace_seconds, order: None, may_signal: true }, plan);
}

/// Containers that run outside the ready sandbox, or that the specification does not name.
fn stop_unwanted(view: &PodView<'_>, plan: &mut Plan) {
    let sandbox = view.runtime.ready_sandbox();
    for container in &view.runtime.containers {
        let running = match container.phase {
            ContainerPhase::Running { .. } => true,
            ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => false,
        };
        if !running {
            continue;
        }
        if sandbox.is_none_or(|sandbox| sandbox.id != container.sandbox_id) {
            stop_once(view, container, KillReason::SandboxDied, grace_of(view), plan);
        } else if container_role(view.pod, &container.name).is_none() {
            stop_once(view, container, KillReason::NotWanted, grace_of(view), plan);
        }
    }
}

fn plan_sandbox(view: &PodView<'_>, plan: &mut Plan) {
    let still_running = view.runtime.containers.iter().any(|container| match container.phase {
        ContainerPhase::Running { .. } => true,
        ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => false,
    });
    if still_running {
        return;
    }
    if let Some(failure) = &view.memory.sandbox_failure
        && failure.retry > view.now.boot
    {
        plan.wake(failure.retry);
        return;
    }
    if let Some(sandbox) = view.runtime.sandboxes.first() {
        plan.actions.push(Action::StopSandbox { id: sandbox.id.clone() });
    }
    let newest = view.runtime.sandboxes.first().map_or(0, |sandbox| sandbox.attempt + 1);
    plan.actions.push(Action::CreateSandbox { attempt: view.memory.sandboxes.max(newest) });
}

/// Ephemeral containers start once, whatever the others do, and never again.
fn plan_ephemeral(view: &PodView<'_>, sandbox: &ObservedSandbox, plan: &mut Plan) {
    for container in ephemeral_containers(view.pod) {
        let container = container.as_pod_container();
        match latest_instance(view.memory, view.runtime, container.name()) {
            Instance::None => start(view, container, sandbox, 0, plan),
            Instance::Stuck(stuck) => replace_stuck(view, container, sandbox, stuck, plan),
            Instance::Running { .. } | Instance::Ended(_) => Gate::Open,
        };
    }
}

fn plan_init(
    view: &PodView<'_>,
    container: PodContainer<'_>,
    sandbox: &ObservedSandbox,
    plan: &mut Plan,
) -> Gate {
    if view.memory.container(container.name()).completed || later_has_started(view, container, sandbox) {
        return Gate::Open;
    }
    match latest_instance(view.memory, view.runtime, container.name()) {
        Instance::None => start(view, container, sandbox, 0, plan),
        Instance::Stuck(stuck) => replace_stuck(view, container, sandbox, stuck, plan),
        Instance::Running { .. } => Gate::Closed,
        Instance::Ended(exit) => restart(view, container, sandbox, &exit, plan),
    };
    Gate::Closed
}

/// An init container need not run when something that comes after it already did in this sandbox: then it ran to its
/// end, even if both memory and its instance were lost.
fn later_has_started(view: &PodView<'_>, container: PodContainer<'_>, sandbox: &ObservedSandbox) -> bool {
    let after = pod_containers(view.pod).skip_while(|other| other.name() != container.name()).skip(1);
    // What ran before all containers were stopped, to start again together, does not count.
    let counts = |later: &PodContainer<'_>| !view.memory.container(later.name()).begins_anew;
    after.filter(counts).any(|later| {
        view.runtime.containers.iter().any(|instance| {
            instance.name == later.name()
                && instance.sandbox_id == sandbox.id
                && match instance.phase {
                    ContainerPhase::Running { .. } | ContainerPhase::Exited { .. } => true,
                    ContainerPhase::Created | ContainerPhase::Unknown => false,
                }
        })
    })
}

fn plan_sidecar(
    view: &PodView<'_>,
    container: PodContainer<'_>,
    sandbox: &ObservedSandbox,
    plan: &mut Plan,
) -> Gate {
    match latest_instance(view.memory, view.runtime, container.name()) {
        Instance::Running { container: instance, .. } => {
            match after_start(view, instance, plan) {
                AfterStart::Waits => return Gate::Closed,
                AfterStart::Failed(kind) => stop_for_hook(view, instance, kind, plan),
                AfterStart::Done => {
                    check_running(view, container, instance, plan);
                    if has_started(view, container, instance) {
                        return Gate::Open;
                    }
                }
            }
            return if later_has_started(view, container, sandbox) { Gate::Open } else { Gate::Closed };
        }
        Instance::None => start(view, container, sandbox, 0, plan),
        Instance::Stuck(stuck) => replace_stuck(view, container, sandbox, stuck, plan),
        Instance::Ended(exit) => restart(view, container, sandbox, &exit, plan),
    };
    // A sidecar that fails while the pod already runs does not hold up the others.
    if later_has_started(view, container, sandbox) { Gate::Open } else { Gate::Closed }
}

fn has_started(view: &PodView<'_>, container: PodContainer<'_>, instance: &ObservedContainer) -> bool {
    container.spec.startup_probe.is_none()
        || view.health.get(&instance.id).is_some_and(|health| health.started)
}

fn plan_container(
    view: &PodView<'_>,
    container: PodContainer<'_>,
    sandbox: &ObservedSandbox,
    plan: &mut Plan,
) -> Gate {
    match latest_instance(view.memory, view.runtime, container.name()) {
        Instance::None => start(view, container, sandbox, 0, plan),
        Instance::Stuck(stuck) => replace_stuck(view, container, sandbox, stuck, plan),
        Instance::Running { container: instance, .. } => match after_start(view, instance, plan) {
            AfterStart::Waits => Gate::Closed,
            AfterStart::Failed(kind) => {
                stop_for_hook(view, instance, kind, plan);
                Gate::Open
            }
            AfterStart::Done => {
                check_running(view, container, instance, plan);
                Gate::Open
            }
        },
        Instance::Ended(exit) => restart(view, container, sandbox, &exit, plan),
    }
}

/// A container whose start hook failed is stopped as any other.
fn stop_for_hook(view: &PodView<'_>, instance: &ObservedContainer, kind: HookKind, plan: &mut Plan) {
    let reason = KillReason::HookFailed(kind.failure_reason().to_owned());
    stop_once(view, instance, reason, grace_of(view), plan);
}

/// A running instance is stopped when a probe has failed or its specification has changed.
fn check_running(
    view: &PodView<'_>,
    container: PodContainer<'_>,
    instance: &ObservedContainer,
    plan: &mut Plan,
) {
    let health = view.health.get(&instance.id);
    if view.memory.stopping.contains_key(&instance.id) {
        // What was begun is finished, even if its cause has gone away. Why was said when it began.
        stop_once(view, instance, KillReason::NotWanted, grace_of(view), plan);
    } else if let Some(volume) = health.and_then(|health| health.lost_volume.clone()) {
        stop_once(view, instance, KillReason::VolumeFailed(volume), grace_of(view), plan);
    } else if let Some((health, message)) = health.and_then(|health| Some((health, health.failed.as_ref()?)))
    {
        let grace = health.grace_seconds.unwrap_or_else(|| grace_of(view));
        stop_once(view, instance, KillReason::Unhealthy(message.clone()), grace, plan);
    } else if instance.spec_hash.as_ref().is_some_and(|hash| *hash != (view.spec_hash)(container.spec)) {
        stop_once(view, instance, KillReason::DefinitionChanged, grace_of(view), plan);
    }
}

/// An instance that was created and never started (the daemon ended in between) is replaced under its own attempt, so
/// that nothing is counted as a restart.
fn replace_stuck(
    view: &PodView<'_>,
    container: PodContainer<'_>,
    sandbox: &ObservedSandbox,
    stuck: &ObservedContainer,
    plan: &mut Plan,
) -> Gate {
    plan.actions.push(Action::RemoveContainer { id: stuck.id.clone() });
    start(view, container, sandbox, stuck.attempt, plan)
}

fn restart(
    view: &PodView<'_>,
    container: PodContainer<'_>,
    sandbox: &ObservedSandbox,
    exit: &Exit,
    plan: &mut Plan,
) -> Gate {
    let memory = view.memory.container(container.name());
    let fresh_sandbox = container.role == ContainerRole::Init && exit.code == 0 && !memory.begins_anew;
    let restarts = memory.begins_anew || will_restart(view.pod, container, exit.code, exit.probe_failed);
    if !fresh_sandbox && !restarts {
        return Gate::Open;
    }
    let due = memory.backoff.due(exit.ended);
    if due > view.now.boot && !fresh_sandbox {
        plan.actions
            .push(Action::AnnounceBackOff { name: container.name().to_owned(), role: container.role });
        plan.wake(due);
        return Gate::Open;
    }
    start(view, container, sandbox, exit.attempt + 1, plan)
}

/// Starts a container unless an earlier failure makes it wait. Hooks of its start hold up what comes after it.
fn start(
    view: &PodView<'_>,
    container: PodContainer<'_>,
    sandbox: &ObservedSandbox,
    attempt: u32,
    plan: &mut Plan,
) -> Gate {
    let name = container.name();
    let retry: Option<BootTime> = view.memory.container(name).failure.map(|failure| failure.retry);
    if let Some(retry) = retry.filter(|retry| *retry > view.now.boot) {
        plan.wake(retry);
        return Gate::Open;
    }
    if !announced(view, name, attempt, plan) {
        return Gate::Closed;
    }
    plan.actions.push(Action::StartContainer {
        name: name.to_owned(),
        role: container.role,
        attempt,
        sandbox_id: sandbox.id.clone(),
    });
    if has_start_hooks(view.pod, name, attempt) { Gate::Closed } else { Gate::Open }
}
