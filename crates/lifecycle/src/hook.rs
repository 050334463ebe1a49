//! What a hook is: its kinds, the reasons that it hears, and what is remembered of one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::clock::BootTime;

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
