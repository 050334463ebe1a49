//! Whether a container that ended starts again: the container's own rules, else its own policy, else the pod's.

use k8s_openapi::api::core::v1::{Container, Pod};

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
    /// 0, so that `Always` means `OnFailure` for it; a sidecar always runs.
    pub fn of_container(pod: &Pod, container: PodContainer<'_>) -> Self {
        let own = container.spec.restart_policy.as_deref().and_then(Self::parse);
        let policy = own.unwrap_or_else(|| Self::of_pod(pod));
        match (container.role, policy) {
            (ContainerRole::Sidecar, _) => Self::Always,
            (ContainerRole::Init, Self::Always) => Self::OnFailure,
            (ContainerRole::Init, Self::OnFailure | Self::Never) | (ContainerRole::App, _) => policy,
        }
    }
}

/// Whether a container that ended with `code` starts again. `probe_failed` says that a failed probe ended it: then
/// exit status and rules do not count.
pub fn will_restart(pod: &Pod, container: PodContainer<'_>, code: i32, probe_failed: bool) -> bool {
    let policy = RestartPolicy::of_container(pod, container);
    if probe_failed {
        return policy != RestartPolicy::Never;
    }
    if container.role == ContainerRole::Init && code == 0 {
        return false;
    }
    if rule_restarts(container.spec, code) {
        return true;
    }
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => code != 0,
        RestartPolicy::Never => false,
    }
}

fn rule_restarts(container: &Container, code: i32) -> bool {
    container
        .restart_policy_rules
        .iter()
        .flatten()
        .find(|rule| {
            rule.exit_codes.as_ref().is_some_and(|codes| {
                let listed = codes.values.iter().flatten().any(|value| *value == code);
                match codes.operator.as_str() {
                    "In" => listed,
                    "NotIn" => !listed,
                    _ => false,
                }
            })
        })
        .is_some_and(|rule| rule.action == "Restart")
}
