//! Hooks: which one is due, how often it was delivered, and what a status says while one runs. What is remembered of each is a record; the delivery itself is somebody else's.
//!
//! ```text
//! first start:   preStart, (the container exists), postStart
//! restart:       preStart, (the container exists), postRestart, postStart
//! stop:          preStop, (stop signal)
//! ```
//!
//! A record without outcome that nobody carries out was cut off by the end of the node agent: the hook is delivered again.

use k8s_openapi::api::core::v1::Pod;

use crate::clock::{BootTime, Now};
use crate::hook::{HookKey, HookKind, HookOutcome, HookRecord};
use crate::hook_settings::hook_handler;
use crate::instance::{Instance, latest_instance};
use crate::memory::PodMemory;
use crate::view::PodView;

impl PodMemory {
    /// What is remembered of a hook.
    pub fn hook(&self, key: &HookKey) -> Option<&HookRecord> {
        let hooks = &self.containers.get(&key.container)?.hooks;
        hooks.iter().find(|record| record.attempt == key.attempt && record.kind == key.kind)
    }

    /// Notes that a hook is about to be delivered. What earlier instances had is forgotten.
    pub fn note_hook_begun(&mut self, key: &HookKey, now: Now) {
        let hooks = &mut self.container_mut(&key.container).hooks;
        hooks.retain(|record| record.attempt == key.attempt);
        match hooks.iter_mut().find(|record| record.kind == key.kind) {
            Some(record) => {
                record.deliveries = record.deliveries.saturating_add(1);
                record.began = now.boot;
                record.outcome = None;
            }
            None => hooks.push(HookRecord {
                attempt: key.attempt,
                kind: key.kind,
                deliveries: 1,
                began: now.boot,
                outcome: None,
            }),
        }
    }

    /// Notes how a hook ended. A later end of the same delivery changes nothing.
    pub fn note_hook_ended(&mut self, key: &HookKey, outcome: HookOutcome) {
        let hooks = &mut self.container_mut(&key.container).hooks;
        let record = hooks.iter_mut().find(|one| one.attempt == key.attempt && one.kind == key.kind);
        if let Some(record) = record
            && record.outcome.is_none()
        {
            record.outcome = Some(outcome);
        }
    }

    /// Forgets that the container was announced: what follows is a new attempt to create it.
    pub(crate) fn forget_pre_start(&mut self, container: &str) {
        if let Some(memory) = self.containers.get_mut(container) {
            memory.hooks.retain(|record| record.kind != HookKind::PreStart);
        }
    }
}

/// Where an instance stands between its start and the end of its start hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartHooks {
    /// It has none, or all have succeeded.
    Done,
    /// This one comes next, or runs.
    Next(HookKey),
    /// This one failed, or was given up: the instance is stopped.
    Failed(HookKind),
}

/// The start hooks of an instance that runs, in their order.
pub fn start_hooks(pod: &Pod, memory: &PodMemory, container: &str, attempt: u32) -> StartHooks {
    for kind in [HookKind::PostRestart, HookKind::PostStart] {
        let applies = kind != HookKind::PostRestart || attempt > 0;
        if !applies || hook_handler(pod, container, kind).is_none() {
            continue;
        }
        let key = HookKey { container: container.to_owned(), attempt, kind };
        match memory.hook(&key).and_then(|record| record.outcome) {
            Some(HookOutcome::Succeeded) => {}
            Some(HookOutcome::Failed | HookOutcome::Abandoned) => return StartHooks::Failed(kind),
            None => return StartHooks::Next(key),
        }
    }
    StartHooks::Done
}

/// Whether an instance with that attempt has hooks that run before anything else of the pod goes on.
pub(crate) fn has_start_hooks(pod: &Pod, container: &str, attempt: u32) -> bool {
    start_hooks(pod, &PodMemory::default(), container, attempt) != StartHooks::Done
}

/// What a status says of the start hooks of a container that is otherwise up: `None` when there is nothing to say.
pub(crate) fn starting_text(view: &PodView<'_>, container: &str) -> Option<String> {
    let kinds = [HookKind::PreStart, HookKind::PostRestart, HookKind::PostStart];
    running_text(view, |key| key.container == container && kinds.contains(&key.kind))
}

/// What a status says of preStop hooks that run: `container a: running preStop hook for 12 s`.
pub(crate) fn stopping_text(view: &PodView<'_>) -> Option<String> {
    let key = view.under_way.hooks.iter().find(|key| key.kind == HookKind::PreStop)?;
    let text = running_text(view, |other| other == key)?;
    Some(format!("container {}: {text}", key.container))
}

fn running_text(view: &PodView<'_>, wanted: impl Fn(&HookKey) -> bool) -> Option<String> {
    let key = view.under_way.hooks.iter().find(|key| wanted(key))?;
    let record = view.memory.hook(key)?;
    let again =
        if record.deliveries > 1 { format!(", attempt {}", record.deliveries) } else { String::new() };
    let age = shown_age(view.now.boot.millis_since(record.began) / 1000);
    Some(format!("running {} hook for {age} s{again}", key.kind.as_str()))
}

/// Whole seconds as they are shown: the longer it lasts the rarer a status is written for it.
fn shown_age(seconds: u64) -> u64 {
    seconds - seconds % age_step(seconds)
}

fn age_step(seconds: u64) -> u64 {
    match seconds {
        0..10 => 1,
        10..60 => 2,
        60..600 => 10,
        _ => 60,
    }
}

/// When the age of a hook that began then is shown anew.
pub(crate) fn next_look(began: BootTime, now: Now) -> BootTime {
    let seconds = now.boot.millis_since(began) / 1000;
    let next = shown_age(seconds) + age_step(seconds);
    began.plus_seconds(i64::try_from(next).unwrap_or(i64::MAX))
}

/// Whether the instance that a start hook belongs to still runs. A preStart hook belongs to none.
pub(crate) fn instance_runs(view: &PodView<'_>, key: &HookKey) -> bool {
    match (key.kind, latest_instance(view.memory, view.runtime, &key.container)) {
        (HookKind::PreStart, _) => true,
        (
            HookKind::PostRestart | HookKind::PostStart | HookKind::PreStop,
            Instance::Running { container, .. },
        ) => container.attempt == key.attempt,
        (
            HookKind::PostRestart | HookKind::PostStart | HookKind::PreStop,
            Instance::None | Instance::Stuck(_) | Instance::Ended(_),
        ) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{age_step, shown_age};

    #[test]
    fn ages_are_shown_the_coarser_the_longer_a_hook_runs() {
        let rows = [(0, 0), (9, 9), (10, 10), (12, 12), (13, 12), (61, 60), (69, 60), (601, 600), (659, 600)];
        for (seconds, shown) in rows {
            assert_eq!(shown_age(seconds), shown, "{seconds}");
            assert!(age_step(seconds) > 0);
        }
    }
}
