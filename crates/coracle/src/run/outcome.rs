//! What the state of a pod means for `coracle run`: still on its way, ended, or not to be started;
//! and which exit status all pods together give. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodStatus};

/// Waiting reasons after which a throwaway node does not wait any longer: nothing that it knows of will change them.
const HOPELESS: [&str; 11] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "CreatePodSandboxError",
    "EnvTooLarge",
];

/// Terminated reasons that mean that the process never ran.
const NEVER_RAN: [&str; 2] = ["StartError", "ContainerCannotRun"];

/// Waiting reasons of a container that did start: what follows the start went wrong.
const AFTER_START: [&str; 1] = ["PostStartHookError"];

/// Where a pod stands, as far as `coracle run` cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It runs, or will.
    Underway,
    /// All its containers ended well.
    Succeeded,
    /// A container failed; the status is that of the first one that did.
    Failed {
        /// Exit status of the process, 1 to 255.
        status: i32,
    },
    /// A container cannot be started as things are.
    CannotStart {
        /// The container; none when it is the pod as a whole.
        container: Option<String>,
        /// Kubernetes' reason, such as `CreateContainerConfigError`.
        reason: String,
        /// What stands in the way.
        message: String,
    },
}

impl Standing {
    /// Whether nothing more is expected of this pod.
    pub(crate) fn is_final(&self, wait: bool) -> bool {
        match self {
            Self::Underway => false,
            Self::Succeeded | Self::Failed { .. } => true,
            Self::CannotStart { .. } => !wait,
        }
    }
}

/// Where this pod stands.
pub(crate) fn standing(pod: &Pod) -> Standing {
    let Some(status) = &pod.status else { return Standing::Underway };
    let statuses = || {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    };
    if let Some(standing) = has_no_place(status) {
        return standing;
    }
    match status.phase.as_deref() {
        Some("Succeeded") => return Standing::Succeeded,
        Some("Failed") => {
            if status.container_statuses.is_none()
                && let Some(reason) = status.reason.clone()
            {
                // The node refused it: nothing of it ever was.
                return cannot_start(reason, status.message.clone());
            }
            if let Some(standing) = statuses().find_map(never_ran) {
                return standing;
            }
            let failed = statuses().filter_map(|each| each.state.as_ref()?.terminated.as_ref());
            let status = failed.map(|ended| ended.exit_code).find(|code| *code != 0).unwrap_or(1);
            return Standing::Failed { status };
        }
        _ => {}
    }
    statuses().find_map(hopeless).unwrap_or(Standing::Underway)
}

/// A pod that the node cannot take, whatever else ends on it.
fn has_no_place(status: &PodStatus) -> Option<Standing> {
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled")?;
    let message = scheduled.message.as_deref().unwrap_or_default();
    let hopeless = match scheduled.reason.as_deref() {
        Some("SchedulingGated") => true,
        // Where other pods stand in the way, they will end; and claims that were just created will be answered.
        Some("Unschedulable") => {
            message.ends_with("Preemption is not helpful for scheduling.") && !waits_for_claims(message)
        }
        Some(_) | None => false,
    };
    hopeless.then(|| cannot_start(scheduled.reason.clone().unwrap_or_default(), scheduled.message.clone()))
}

fn waits_for_claims(message: &str) -> bool {
    ["unbound immediate PersistentVolumeClaims", "waiting for ephemeral volume controller"]
        .iter()
        .any(|reason| message.contains(reason))
}

fn cannot_start(reason: String, message: Option<String>) -> Standing {
    Standing::CannotStart { container: None, reason, message: message.unwrap_or_default() }
}

/// The reason why this container will not start by itself, if there is one.
fn hopeless(status: &ContainerStatus) -> Option<Standing> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.clone()?;
    if reason == "CrashLoopBackOff" {
        // It will be tried again, but a process that cannot even be executed will not come to life by that.
        return status.last_state.as_ref().and_then(|last| last.terminated.as_ref()).and_then(|ended| {
            let never = ended.reason.as_deref().is_some_and(|reason| NEVER_RAN.contains(&reason));
            never.then(|| Standing::CannotStart {
                container: Some(status.name.clone()),
                reason: ended.reason.clone().unwrap_or_default(),
                message: ended.message.clone().unwrap_or_default(),
            })
        });
    }
    HOPELESS.contains(&reason.as_str()).then(|| Standing::CannotStart {
        container: Some(status.name.clone()),
        reason,
        message: waiting.message.clone().unwrap_or_default(),
    })
}

fn never_ran(status: &ContainerStatus) -> Option<Standing> {
    let ended = status.state.as_ref()?.terminated.as_ref()?;
    let reason = ended.reason.clone()?;
    NEVER_RAN.contains(&reason.as_str()).then(|| Standing::CannotStart {
        container: Some(status.name.clone()),
        reason,
        message: ended.message.clone().unwrap_or_default(),
    })
}

/// The exit status of `coracle run` when every pod has come to its end.
///
/// 0: all succeeded; 125: something could not be started; the status of the container when one pod failed; 1: several failed.
pub(crate) fn exit_status<'a>(ends: impl IntoIterator<Item = &'a Standing>) -> u8 {
    let mut failed = Vec::new();
    for end in ends {
        match end {
            Standing::CannotStart { .. } => return 125,
            Standing::Failed { status } => failed.push(*status),
            Standing::Succeeded | Standing::Underway => {}
        }
    }
    match failed.as_slice() {
        [] => 0,
        [one] => u8::try_from(*one).ok().filter(|status| *status != 0).unwrap_or(1),
        _ => 1,
    }
}

/// One change of a container that is worth a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContainerChange {
    /// The process runs; its log can be followed. The number counts restarts.
    Started {
        /// Name of the container.
        container: String,
        /// Restarts so far.
        restarts: i32,
    },
    /// The process ended.
    Ended {
        /// Name of the container.
        container: String,
        /// Restarts so far.
        restarts: i32,
        /// Exit status.
        status: i32,
        /// Kubernetes' reason, such as `Completed` or `OOMKilled`.
        reason: String,
    },
    /// It waits for a reason that people should see.
    Waits {
        /// Name of the container.
        container: String,
        /// Kubernetes' reason.
        reason: String,
        /// What is waited for.
        message: String,
    },
}

/// What has been told about each container of a pod, so that each change is told once.
#[derive(Debug, Default)]
pub(crate) struct Told {
    started: BTreeMap<String, i32>,
    ended: BTreeMap<String, i32>,
    waits: BTreeMap<String, (String, String)>,
}

impl Told {
    /// The changes in this pod since the last call, in the order of its containers.
    pub(crate) fn changes(&mut self, pod: &Pod) -> Vec<ContainerChange> {
        let mut changes = Vec::new();
        let Some(status) = &pod.status else { return changes };
        let init = status.init_container_statuses.iter().flatten();
        let ephemeral = status.ephemeral_container_statuses.iter().flatten();
        for each in init.chain(status.container_statuses.iter().flatten()).chain(ephemeral) {
            self.changes_of(each, &mut changes);
        }
        changes
    }

    fn changes_of(&mut self, each: &ContainerStatus, changes: &mut Vec<ContainerChange>) {
        let name = &each.name;
        let state = each.state.as_ref();
        let last = each.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let terminated = state.and_then(|state| state.terminated.as_ref());
        if let Some(ended) = last.filter(|_| terminated.is_none()) {
            let run = run_of(ended, each);
            self.tell_end(name, run, ended.exit_code, ended.reason.as_deref(), changes);
        }
        if let Some(state) = state {
            if state.running.is_some() {
                self.tell_start(name, each.restart_count, changes);
            }
            if let Some(ended) = terminated {
                self.tell_end(name, each.restart_count, ended.exit_code, ended.reason.as_deref(), changes);
            }
            if let Some(waiting) = &state.waiting {
                let reason = waiting.reason.clone().unwrap_or_default();
                let message = waiting.message.clone().unwrap_or_default();
                let ordinary = matches!(reason.as_str(), "" | "ContainerCreating" | "PodInitializing");
                if AFTER_START.contains(&reason.as_str()) {
                    self.tell_start(name, each.restart_count, changes);
                }
                let seen = self.waits.get(name).is_some_and(|told| told.0 == reason && told.1 == message);
                if !ordinary && !seen {
                    self.waits.insert(name.clone(), (reason.clone(), message.clone()));
                    changes.push(ContainerChange::Waits { container: name.clone(), reason, message });
                }
            }
        }
    }

    fn tell_start(&mut self, name: &str, restarts: i32, changes: &mut Vec<ContainerChange>) {
        if self.started.get(name).is_none_or(|told| *told < restarts) {
            self.started.insert(name.to_owned(), restarts);
            changes.push(ContainerChange::Started { container: name.to_owned(), restarts });
        }
    }

    fn tell_end(
        &mut self,
        name: &str,
        restarts: i32,
        status: i32,
        reason: Option<&str>,
        changes: &mut Vec<ContainerChange>,
    ) {
        if restarts < 0 || self.ended.get(name).is_some_and(|told| *told >= restarts) {
            return;
        }
        let reason = reason.unwrap_or("Error").to_owned();
        if !NEVER_RAN.contains(&reason.as_str()) {
            // A process so short that it was never seen running has a log all the same.
            self.tell_start(name, restarts, changes);
        }
        self.ended.insert(name.to_owned(), restarts);
        changes.push(ContainerChange::Ended { container: name.to_owned(), restarts, status, reason });
    }
}

/// Which run of the container this last end belongs to, counted by restarts. An end that is seen only after the restart
/// is that of the run before; a container that waits may be between two runs, or be in the next one already, where
/// its start hook runs: the identifiers tell.
fn run_of(ended: &ContainerStateTerminated, each: &ContainerStatus) -> i32 {
    let is_next = match (&ended.container_id, &each.container_id) {
        (Some(ended), Some(now)) => ended != now,
        _ => each.state.as_ref().is_some_and(|state| state.running.is_some()),
    };
    each.restart_count - i32::from(is_next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn a_failed_pod_gives_the_status_of_its_first_failing_container() {
        let failed = pod(serde_json::json!({"phase": "Failed", "containerStatuses": [
            {"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}},
            {"name": "b", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 7}}},
        ]}));
        assert_eq!(standing(&failed), Standing::Failed { status: 7 });
        assert_eq!(exit_status([&Standing::Failed { status: 7 }, &Standing::Succeeded]), 7);
        assert_eq!(exit_status([&Standing::Failed { status: 7 }, &Standing::Failed { status: 3 }]), 1);
        assert_eq!(exit_status([&Standing::Succeeded]), 0);
    }

    #[test]
    fn a_pod_that_the_node_cannot_take_is_not_waited_for_unless_others_stand_in_the_way() {
        let unscheduled = |reason: &str, end: &str| {
            let message = format!("0/1 nodes are available: 1 Insufficient cpu. {end}");
            standing(&pod(serde_json::json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]})))
        };
        let hopeless = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
        let others = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
        assert_eq!(exit_status([&unscheduled("Unschedulable", hopeless)]), 125);
        assert_eq!(unscheduled("Unschedulable", others), Standing::Underway);
        let claims = format!("pod has unbound immediate PersistentVolumeClaims. {hopeless}");
        assert_eq!(unscheduled("Unschedulable", &claims), Standing::Underway);
        assert_eq!(exit_status([&unscheduled("SchedulingGated", "")]), 125);
        let refused = pod(
            serde_json::json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: x"}),
        );
        assert_eq!(exit_status([&standing(&refused)]), 125);
    }

    #[test]
    fn a_container_that_cannot_be_configured_is_not_waited_for() {
        let waits = pod(serde_json::json!({"phase": "Pending", "containerStatuses": [
            {"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "configmap \"x\" not found"}}},
        ]}));
        let end = standing(&waits);
        assert!(end.is_final(false) && !end.is_final(true));
        assert_eq!(exit_status([&end]), 125);
    }

    #[test]
    fn a_process_that_was_never_seen_running_still_has_a_start_and_an_end() {
        let ended = pod(serde_json::json!({"phase": "Succeeded", "containerStatuses": [
            {"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
        ]}));
        let mut told = Told::default();
        assert_eq!(
            told.changes(&ended),
            [
                ContainerChange::Started { container: "a".into(), restarts: 0 },
                ContainerChange::Ended {
                    container: "a".into(),
                    restarts: 0,
                    status: 0,
                    reason: "Completed".into()
                },
            ]
        );
        assert_eq!(told.changes(&ended), [], "each change is told once");
    }

    #[test]
    fn a_container_whose_hook_failed_was_started() {
        let waits = pod(serde_json::json!({"phase": "Pending", "containerStatuses": [
            {"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"waiting": {"reason": "PostStartHookError", "message": "it failed"}}},
        ]}));
        let changes = Told::default().changes(&waits);
        assert_eq!(changes[0], ContainerChange::Started { container: "a".into(), restarts: 0 });
        assert!(matches!(changes[1], ContainerChange::Waits { .. }));
    }

    /// The numbers of what is told when one container has these states after each other.
    fn told(states: &[(i32, &str, serde_json::Value, serde_json::Value)]) -> Vec<(&'static str, i32, i32)> {
        let mut told = Told::default();
        let mut changes = Vec::new();
        for (restarts, id, state, last) in states {
            changes.extend(told.changes(&pod(serde_json::json!({"phase": "Running", "containerStatuses": [
                {"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
                 "containerID": id, "state": state, "lastState": last}]}))));
        }
        changes
            .iter()
            .filter_map(|change| match change {
                ContainerChange::Started { restarts, .. } => Some(("started", *restarts, 0)),
                ContainerChange::Ended { restarts, status, .. } => Some(("ended", *restarts, *status)),
                ContainerChange::Waits { .. } => None,
            })
            .collect()
    }

    #[test]
    fn the_last_end_is_not_told_again_while_the_start_hook_of_the_next_run_runs() {
        use serde_json::json;
        let ended = |id: &str, status: i32| json!({"terminated": {"exitCode": status, "containerID": id}});
        let (hook, runs) = (json!({"waiting": {"reason": "ContainerCreating"}}), json!({"running": {}}));
        let (pause, none) = (json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({}));
        let first = (0, "x://0", hook.clone(), none.clone());
        let crashed = (0, "x://0", pause.clone(), ended("x://0", 1));
        let again = (1, "x://1", hook.clone(), ended("x://0", 1));
        let up = (1, "x://1", runs.clone(), ended("x://0", 1));
        let done = (1, "x://1", ended("x://1", 0), ended("x://0", 1));
        let all = [("started", 0, 0), ("ended", 0, 1), ("started", 1, 0), ("ended", 1, 0)];
        let table: [(&[_], &[_]); 6] = [
            (&[first.clone(), crashed.clone(), again.clone(), up.clone(), done.clone()], &all),
            // States that come between are not always seen.
            (&[first.clone(), again.clone(), done.clone()], &all),
            (&[again.clone(), again.clone()], &all[..2]),
            (&[up, done], &all),
            (
                &[first, crashed.clone(), (1, "x://1", pause, ended("x://1", 1))],
                &[all[0], all[1], all[2], ("ended", 1, 1)],
            ),
            // Without identifiers, the state tells what it can.
            (&[(1, "x://1", runs, json!({"terminated": {"exitCode": 1}}))], &all[..3]),
        ];
        for (states, expected) in table {
            assert_eq!(told(states), expected, "{states:?}");
        }
    }

    #[test]
    fn a_command_that_does_not_exist_is_a_start_that_failed_not_an_exit_status() {
        let never = pod(serde_json::json!({"phase": "Failed", "containerStatuses": [
            {"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file"}}},
        ]}));
        assert!(matches!(standing(&never), Standing::CannotStart { .. }));
    }
}
