//! Where hooks come in between: a start hook holds up everything else of its pod, a preStop hook the stop signal of its
//! container.

use crate::action::{Action, KillReason, Plan};
use crate::clock::BootTime;
use crate::hook::{HookKey, HookKind, HookOutcome};
use crate::hook_settings::hook_handler;
use crate::hooks::{StartHooks, instance_runs, start_hooks};
use crate::observed::ObservedContainer;
use crate::view::PodView;

/// Shortest time between stop signal and kill signal.
pub(super) const MINIMUM_GRACE_SECONDS: i64 = 2;

/// While a hook runs nothing else of its pod goes on, but the stop that a preStop hook belongs to. A hook whose container has
/// ended is given up, unless it runs in that container and so ends with it.
pub(super) fn is_held_up(view: &PodView<'_>, plan: &mut Plan) -> bool {
    let mut held = false;
    for key in &view.under_way.hooks {
        if has_outlived(view, key) {
            plan.actions.push(Action::AbandonHook { key: key.clone() });
            continue;
        }
        held = true;
        let stopped = view.runtime.containers.iter().find(|container| {
            key.kind == HookKind::PreStop
                && container.name == key.container
                && view.memory.stopping.contains_key(&container.id)
        });
        if let Some(container) = stopped {
            // It was said when it began why it is stopped.
            let reason = KillReason::NotWanted;
            let stop = Stop { container, reason, grace_seconds: 0, order: None, may_signal: true };
            stop_step(view, stop, plan);
        }
    }
    held
}

/// A pod that stops waits for no start hook: it is left to itself, and ends with its container.
pub(super) fn abandon_start_hooks(view: &PodView<'_>, plan: &mut Plan) {
    for key in &view.under_way.hooks {
        let is_waited_for = match key.kind {
            HookKind::PreStart | HookKind::PostRestart | HookKind::PostStart => false,
            HookKind::PreStop => !has_outlived(view, key),
        };
        if !is_waited_for {
            plan.actions.push(Action::AbandonHook { key: key.clone() });
        }
    }
}

/// Whether a hook runs outside of its container, which has ended.
fn has_outlived(view: &PodView<'_>, key: &HookKey) -> bool {
    let handler = hook_handler(view.pod, &key.container, key.kind);
    !instance_runs(view, key) && handler.is_none_or(|handler| handler.exec.is_none())
}

/// The delivery of a hook that is due.
fn deliver(view: &PodView<'_>, key: HookKey, id: Option<&str>, plan: &mut Plan) {
    plan.actions.push(Action::RunHook {
        delivery: view.memory.hook(&key).map_or(0, |record| record.deliveries).saturating_add(1),
        id: id.map(str::to_owned),
        key,
    });
}

/// Lets the preStart hook of an instance that is to be created run first. Answers whether the container may be created.
pub(super) fn announced(view: &PodView<'_>, container: &str, attempt: u32, plan: &mut Plan) -> bool {
    if hook_handler(view.pod, container, HookKind::PreStart).is_none() {
        return true;
    }
    let key = HookKey { container: container.to_owned(), attempt, kind: HookKind::PreStart };
    match view.memory.hook(&key).and_then(|record| record.outcome) {
        Some(HookOutcome::Succeeded) => true,
        Some(HookOutcome::Failed | HookOutcome::Abandoned) | None => {
            deliver(view, key, None, plan);
            false
        }
    }
}

/// What the start hooks of a running instance let happen.
pub(super) enum AfterStart {
    /// They are done, or there are none.
    Done,
    /// One of them was put into the plan.
    Waits,
    /// One of them failed.
    Failed(HookKind),
}

/// Goes on with the start hooks of a running instance. A stop that was begun ends them.
pub(super) fn after_start(view: &PodView<'_>, instance: &ObservedContainer, plan: &mut Plan) -> AfterStart {
    match start_hooks(view.pod, view.memory, &instance.name, instance.attempt) {
        StartHooks::Done => AfterStart::Done,
        StartHooks::Failed(kind) => AfterStart::Failed(kind),
        StartHooks::Next(_) if view.memory.stopping.contains_key(&instance.id) => AfterStart::Done,
        StartHooks::Next(key) => {
            deliver(view, key, Some(&instance.id), plan);
            AfterStart::Waits
        }
    }
}

/// A stop of one container.
pub(super) struct Stop<'a> {
    pub(super) container: &'a ObservedContainer,
    pub(super) reason: KillReason,
    /// Grace of a stop that has not been begun.
    pub(super) grace_seconds: i64,
    /// An order for the whole pod may end earlier than the container's own stop.
    pub(super) order: Option<BootTime>,
    /// Whether its turn has come: a sidecar's hook runs before that, its signal comes after.
    pub(super) may_signal: bool,
}

/// The next step of a stop: say so, the hook, the signal, each once.
pub(super) fn stop_step(view: &PodView<'_>, stop: Stop<'_>, plan: &mut Plan) {
    let Stop { container, reason, grace_seconds, order, may_signal } = stop;
    let (id, name) = (container.id.clone(), container.name.clone());
    let has_hook = hook_handler(view.pod, &name, HookKind::PreStop).is_some();
    let Some(intent) = view.memory.stopping.get(&id) else {
        if has_hook && grace_seconds > 0 {
            plan.actions.push(Action::BeginStop { id, name, reason, grace_seconds });
        } else if may_signal {
            plan.actions.push(Action::StopContainer { id, name, reason, grace_seconds });
        }
        return;
    };
    let now = view.now.boot;
    let deadline = order.map_or(intent.deadline, |order| intent.deadline.min(order));
    if intent.with_hook && has_hook {
        let key = HookKey { container: name.clone(), attempt: container.attempt, kind: HookKind::PreStop };
        let record = view.memory.hook(&key);
        // One that begins when the grace is over already (the node was away) gets a moment all the same.
        let hook_deadline = match record {
            Some(record) if record.began >= deadline => record.began.plus_seconds(MINIMUM_GRACE_SECONDS),
            Some(_) | None => deadline,
        };
        let is_over = hook_deadline <= now;
        match record {
            Some(record) if record.outcome.is_some() => {}
            Some(_) if view.under_way.hooks.contains(&key) && is_over => {
                plan.actions.push(Action::AbandonHook { key });
            }
            Some(_) if view.under_way.hooks.contains(&key) => return plan.wake(hook_deadline),
            // It was cut off, and there is no time left for another one.
            Some(_) if is_over => {}
            Some(_) | None => return deliver(view, key, Some(&id), plan),
        }
    }
    if !may_signal {
        return;
    }
    let sooner = intent.deadline.millis_since(deadline) > 1_000 && intent.deadline.millis_since(now) > 2_000;
    if view.under_way.stops.contains(&id) && !sooner {
        // The runtime kills by itself at the end of the grace; looking again covers a stop that was lost.
        return plan.wake(intent.deadline.plus_seconds(2).max(now.plus_seconds(2)));
    }
    let grace_seconds = deadline.seconds_from(now).max(MINIMUM_GRACE_SECONDS);
    plan.actions.push(Action::StopContainer { id, name, reason, grace_seconds });
}
