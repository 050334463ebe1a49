//! Whether a container that ended starts again: the container's own rules, else its own policy, else the pod's.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, Pod};

use crate::containers::{ContainerRole, PodContainer};

/// When a container that ended starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// After every end.
    Always,
    /// After an exit status other than 0.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "Always" => Some(Self::Always),
            "OnFailure" => Some(Self::OnFailure),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }

    /// The policy of a pod, `Always` if it names none.
    pub fn of_pod(pod: &Pod) -> Self {
        pod.spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref())
            .and_then(Self::parse)
            .unwrap_or(Self::Always)
    }

    /// The policy of a container of a pod: its own, else the pod's. An init container has ended for good with status
    /// 0, so that `Always` means `OnFailure` for it; a sidecar always runs, and an
    /// ephemeral container never again.
    pub fn of_container(pod: &Pod, container: PodContainer<'_>) -> Self {
        let own = container.spec.restart_policy.as_deref().and_then(Self::parse);
        let policy = own.unwrap_or_else(|| Self::of_pod(pod));
        match (container.role, policy) {
            (ContainerRole::Sidecar, _) => Self::Always,
            (ContainerRole::Ephemeral, _) => Self::Never,
            (ContainerRole::Init, Self::Always) => Self::OnFailure,
            (ContainerRole::Init, Self::OnFailure | Self::Never) | (ContainerRole::App, _) => policy,
        }
    }
}

/// What follows when a container has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterExit {
    /// It starts again.
    Restart,
    /// All containers of the pod are stopped and start again in order, in the same sandbox.
    RestartAll,
    /// It has ended for good.
    Stay,
}

/// What follows when a container has ended with `code`. `probe_failed` says that a failed probe ended it: then exit
/// status and rules do not count. Of the rules, the first that matches does.
pub fn after_exit(pod: &Pod, container: PodContainer<'_>, code: i32, probe_failed: bool) -> AfterExit {
    let policy = RestartPolicy::of_container(pod, container);
    if container.role == ContainerRole::Ephemeral {
        return AfterExit::Stay;
    }
    if !probe_failed {
        if container.role == ContainerRole::Init && code == 0 {
            return AfterExit::Stay;
        }
        match matching_rule(container.spec, code) {
            Some("Restart") => return AfterExit::Restart,
            Some("RestartAllContainers") => return AfterExit::RestartAll,
            Some(_) | None => {}
        }
    }
    let restarts = match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => probe_failed || code != 0,
        RestartPolicy::Never => false,
    };
    if restarts { AfterExit::Restart } else { AfterExit::Stay }
}

/// Whether a container that ended with `code` starts again, alone or with all others.
pub fn will_restart(pod: &Pod, container: PodContainer<'_>, code: i32, probe_failed: bool) -> bool {
    match after_exit(pod, container, code, probe_failed) {
        AfterExit::Restart | AfterExit::RestartAll => true,
        AfterExit::Stay => false,
    }
}

/// The action of the first rule that an exit status matches.
fn matching_rule(container: &Container, code: i32) -> Option<&str> {
    let matches = |rule: &&ContainerRestartRule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|value| *value == code);
            match codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    };
    container.restart_policy_rules.iter().flatten().find(matches).map(|rule| rule.action.as_str())
}
