//! Hooks: which one is due, how often it was delivered, for what reason a container is stopped, and what a status says while
//! one runs. What is remembered of each is a record; the delivery itself is somebody else's.
//!
//! ```text
//! first start:   preStart, (the container exists), postStart
//! restart:       preStart, (the container exists), postRestart, postStart
//! stop:          preStop, (stop signal)
//! ```
//!
//! A record without outcome that nobody carries out was cut off by the end of the node agent: the hook is delivered again.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::clock::{BootTime, Now};
use crate::hook_settings::hook_handler;
use crate::instance::{Instance, latest_instance};
use crate::memory::{PodMemory, StopCause};
use crate::plan::{KillReason, PodView};

/// Which hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HookKind {
    /// Before the container exists.
    PreStart,
    /// After a restart, before postStart.
    PostRestart,
    /// After each start.
    PostStart,
    /// Before the stop signal.
    PreStop,
}

impl HookKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::PreStart, Self::PostRestart, Self::PostStart, Self::PreStop];

    /// The name in manifests, and in `HOOK_NAME`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreStart => "preStart",
            Self::PostRestart => "postRestart",
            Self::PostStart => "postStart",
            Self::PreStop => "preStop",
        }
    }

    /// The name in events, as Kubernetes writes it: `PostStartHook`.
    pub fn title(self) -> &'static str {
        match self {
            Self::PreStart => "PreStartHook",
            Self::PostRestart => "PostRestartHook",
            Self::PostStart => "PostStartHook",
            Self::PreStop => "PreStopHook",
        }
    }

    /// The reason of the event, and of the kill, when it fails.
    pub fn failure_reason(self) -> &'static str {
        match self {
            Self::PreStart => "FailedPreStartHook",
            Self::PostRestart => "FailedPostRestartHook",
            Self::PostStart => "FailedPostStartHook",
            Self::PreStop => "FailedPreStopHook",
        }
    }

    /// The waiting reason of a container whose hook failed; a failed preStop hook changes nothing.
    pub fn waiting_reason(self) -> Option<&'static str> {
        match self {
            Self::PreStart => Some("PreStartHookError"),
            Self::PostRestart | Self::PostStart => Some("PostStartHookError"),
            Self::PreStop => None,
        }
    }

    /// The hook of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.as_str() == text)
    }
}

/// Why a container is stopped, as its preStop hook hears it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookReason {
    /// Ordered from outside: deletion, eviction, deadline, changed specification, end of the node.
    #[default]
    Delete,
    /// A liveness or startup probe, or a hook, failed.
    Health,
    /// Something that the container needs is gone: its sandbox, a volume, a device.
    Dependency,
}

impl HookReason {
    /// The word of the document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::Health => "Health",
            Self::Dependency => "Dependency",
        }
    }
}

impl KillReason {
    /// What the preStop hook is told.
    pub fn hook_reason(&self) -> HookReason {
        match self {
            Self::PodStops(
                StopCause::Delete
                | StopCause::Deadline
                | StopCause::Eviction
                | StopCause::Shutdown
                | StopCause::Finished,
            )
            | Self::DefinitionChanged
            | Self::RestartAll
            | Self::NotWanted => HookReason::Delete,
            Self::Unhealthy(_) | Self::HookFailed(_) => HookReason::Health,
            Self::SandboxDied | Self::VolumeFailed(_) => HookReason::Dependency,
        }
    }
}

/// One hook of one instance of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookKey {
    /// Name of the container.
    pub container: String,
    /// Restart count of the instance; for preStart, of the one that is to be.
    pub attempt: u32,
    /// Which hook.
    pub kind: HookKind,
}

/// What is remembered of a hook, from before its delivery on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRecord {
    /// Restart count of the instance.
    pub attempt: u32,
    /// Which hook.
    pub kind: HookKind,
    /// Deliveries that were begun: `HOOK_ATTEMPT` of the last one.
    pub deliveries: u32,
    /// When the last one began.
    pub began: BootTime,
    /// How it ended; none while it runs, or when the node agent ended before it did.
    #[serde(default)]
    pub outcome: Option<HookOutcome>,
}

/// How a hook ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookOutcome {
    /// As its contract wants it.
    Succeeded,
    /// Otherwise.
    Failed,
    /// Nobody waits for it any more.
    Abandoned,
}

/// What this process carries out at the moment. Nothing of it is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Hooks whose end will be told.
    pub hooks: BTreeSet<HookKey>,
    /// Stops of containers that the runtime was asked for, by its identifier.
    pub stops: BTreeSet<String>,
}

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
