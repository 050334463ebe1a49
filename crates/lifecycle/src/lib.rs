//! What to do next with a pod: (desired, observed, memory, now) in, actions out.
//!
//! The node agent observes, calls [`plan`], carries out the actions, tells [`PodMemory`] what came of them, and calls
//! [`plan`] again. It decides nothing by itself. [`status`] turns the same view into the status that the API shows.
//! The crate performs no IO and reads no clock: time comes in as [`Now`].
//!
//! | file | decides |
//! |---|---|
//! | `plan.rs` | which of the two halves below applies |
//! | `plan/start.rs` | sandbox, init containers, sidecars, containers, restarts |
//! | `plan/stop.rs` | who is stopped when, and what is cleared away |
//! | `stop_orders.rs` | who orders a pod to stop, and which order is in force |
//! | `restart_all.rs` | when all containers of a pod start again together |
//! | `plan/hooks.rs` | which hook holds what up |
//! | `hooks.rs`, `hook_settings.rs` | which hook is due, and how often it was delivered |
//! | `action.rs` | what a plan consists of, and for what reason a container is stopped |
//! | `restart.rs` | whether a container that ended starts again |
//! | `backoff.rs` | how long it waits before it does |
//! | `instance.rs` | what is the latest instance of a container, from runtime and memory together |
//! | `placement.rs` | whether a pod fits a node |
//! | `probe.rs` | when results of a probe count |
//! | `phase.rs`, `status.rs`, `conditions.rs` | what the API shows |
//!
//! `view.rs` is what a decision may look at, `memory.rs` and `hook.rs` what is remembered, `notes.rs` how it becomes so.

mod action;
mod backoff;
mod clock;
mod conditions;
mod containers;
mod hook;
mod hook_settings;
mod hooks;
mod instance;
mod memory;
mod notes;
mod observed;
mod phase;
mod placement;
mod plan;
mod probe;
mod restart;
mod restart_all;
mod status;
mod stop_orders;
mod view;

pub mod reasons;

pub use action::{Action, KillReason, Plan};
pub use backoff::Backoff;
pub use clock::{BootTime, Now};
pub use conditions::is_own_condition;
pub use containers::{
    AnyContainer, ContainerRole, PodContainer, all_containers, any_container, container_role,
    ephemeral_containers, pod_container, pod_containers,
};
pub use hook::{HookKey, HookKind, HookOutcome, HookReason, HookRecord, UnderWay};
pub use hook_settings::{
    HOOK_CONTRACT, HOOK_CONTRACT_DOCUMENT, HOOK_EXPAND, HOOK_HANDLERS, HOOK_PARAMETERS, HOOK_TIMEOUTS,
    HookSettings, hook_handler, hook_timeout, parse_hook_timeout,
};
pub use hooks::{StartHooks, start_hooks};
pub use instance::{Exit, Instance, latest_instance};
pub use memory::{
    ContainerMemory, ExitRecord, Lost, PodMemory, RestartAllOrder, SandboxFailure, StartFailure, StartRecord,
    StopCause, StopIntent, StopOrder,
};
pub use observed::{ContainerHealth, ContainerPhase, Health, ObservedContainer, ObservedSandbox, RuntimePod};
pub use phase::{PodPhase, pod_phase};
pub use placement::{
    Amounts, Claim, HostPort, Load, Obstacle, Refusal, allocatable, is_kept_out, is_wanted, obstacles,
    refusal, selects_node, tolerates,
};
pub use plan::{is_ending, plan};
pub use probe::{ProbeCounter, ProbeKind, ProbeTiming};
pub use restart::{AfterExit, RestartPolicy, after_exit, will_restart};
pub use status::{NodeIdentity, status};
pub use view::PodView;

#[cfg(test)]
mod tests;
