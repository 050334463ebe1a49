//! What the runtime knows, as the messages of the protocol: pure.

use std::collections::BTreeMap;

use cri::v1;
use serde_json::json;

use crate::capabilities::names_of;
use crate::container::{Container, Phase};
use crate::containers::signal_of;
use crate::launch::{LaunchSpec, ProcessRecord};
use crate::sandbox::Sandbox;

/// Whether all wanted labels are there.
pub(crate) fn labels_match(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// Whether a list with this filter has the sandbox. Asked before the item is made: a node agent lists once for each look at a
/// pod, and the items of all other pods would be made for nothing.
pub(crate) fn is_wanted_sandbox(sandbox: &Sandbox, filter: &v1::PodSandboxFilter) -> bool {
    labels_match(&sandbox.config.labels, &filter.label_selector)
        && (filter.id.is_empty() || sandbox.id().starts_with(&filter.id))
        && filter.state.is_none_or(|wanted| wanted.state == i32::from(sandbox_state(sandbox)))
}

/// Whether a list with this filter has the container.
pub(crate) fn is_wanted_container(container: &Container, filter: &v1::ContainerFilter) -> bool {
    let record = &container.record;
    labels_match(&container.config.labels, &filter.label_selector)
        && (filter.id.is_empty() || record.id.starts_with(&filter.id))
        && (filter.pod_sandbox_id.is_empty() || record.sandbox.starts_with(&filter.pod_sandbox_id))
        && filter.state.is_none_or(|wanted| wanted.state == i32::from(container.phase().state()))
}

fn sandbox_state(sandbox: &Sandbox) -> v1::PodSandboxState {
    if sandbox.is_ready() { v1::PodSandboxState::SandboxReady } else { v1::PodSandboxState::SandboxNotready }
}

pub(crate) fn sandbox_item(sandbox: &Sandbox) -> v1::PodSandbox {
    let record = sandbox.record();
    v1::PodSandbox {
        id: record.id,
        metadata: sandbox.config.metadata.clone(),
        state: sandbox_state(sandbox).into(),
        created_at: record.created_at,
        labels: sandbox.config.labels.clone(),
        annotations: sandbox.config.annotations.clone(),
        runtime_handler: record.runtime_handler,
    }
}

pub(crate) fn sandbox_status(sandbox: &Sandbox) -> v1::PodSandboxStatus {
    let record = sandbox.record();
    let mut addresses = record.addresses.into_iter();
    v1::PodSandboxStatus {
        id: record.id,
        metadata: sandbox.config.metadata.clone(),
        state: sandbox_state(sandbox).into(),
        created_at: record.created_at,
        network: Some(v1::PodSandboxNetworkStatus {
            ip: addresses.next().unwrap_or_default(),
            additional_ips: addresses.map(|ip| v1::PodIp { ip }).collect(),
        }),
        linux: Some(v1::LinuxPodSandboxStatus {
            namespaces: Some(v1::Namespace { options: Some(sandbox.namespace_options()) }),
        }),
        labels: sandbox.config.labels.clone(),
        annotations: sandbox.config.annotations.clone(),
        runtime_handler: record.runtime_handler,
    }
}

pub(crate) fn sandbox_info(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let record = sandbox.record();
    let info = json!({
        "pid": record.shim_pid,
        "hostname": record.hostname,
        "cgroupParent": record.cgroup_parent,
        "directory": sandbox.directory,
    });
    BTreeMap::from([("info".to_owned(), info.to_string())])
}

fn image_spec(container: &Container) -> v1::ImageSpec {
    container.config.image.clone().unwrap_or_default()
}

pub(crate) fn container_item(container: &Container) -> v1::Container {
    v1::Container {
        id: container.record.id.clone(),
        pod_sandbox_id: container.record.sandbox.clone(),
        metadata: container.config.metadata.clone(),
        image: Some(image_spec(container)),
        image_ref: container.record.image_ref.clone(),
        state: container.phase().state().into(),
        created_at: container.record.created_at,
        labels: container.config.labels.clone(),
        annotations: container.config.annotations.clone(),
        image_id: container.record.image_id.clone(),
    }
}

pub(crate) fn container_status(container: &Container) -> v1::ContainerStatus {
    let mut status = v1::ContainerStatus {
        id: container.record.id.clone(),
        metadata: container.config.metadata.clone(),
        created_at: container.record.created_at,
        image: Some(image_spec(container)),
        image_ref: container.record.image_ref.clone(),
        labels: container.config.labels.clone(),
        annotations: container.config.annotations.clone(),
        mounts: container.config.mounts.clone(),
        log_path: container.record.log_path.clone(),
        resources: Some(v1::ContainerResources { linux: Some(container.resources()) }),
        image_id: container.record.image_id.clone(),
        stop_signal: signal_of(container.record.stop_signal).into(),
        ..Default::default()
    };
    let phase = container.phase();
    status.set_state(phase.state());
    match phase {
        Phase::Created => {}
        Phase::Running(started) => status.started_at = started.started_at,
        Phase::Exited { started, exit } => {
            status.started_at = started.map_or(0, |started| started.started_at);
            status.finished_at = exit.finished_at;
            status.exit_code = exit.exit_code;
            status.reason = exit.reason;
            status.message = exit.message;
        }
    }
    status
}

/// Who the process runs as, once that is known.
pub(crate) fn container_user(process: &ProcessRecord) -> v1::ContainerUser {
    v1::ContainerUser {
        linux: Some(v1::LinuxContainerUser {
            uid: process.uid.into(),
            gid: process.gid.into(),
            supplemental_groups: process.groups.iter().map(|gid| i64::from(*gid)).collect(),
        }),
    }
}

/// The verbose part: what the process really got, in the words of the OCI specification.
pub(crate) fn container_info(
    container: &Container,
    launch: Option<&LaunchSpec>,
    process: Option<&ProcessRecord>,
) -> BTreeMap<String, String> {
    let pid = match container.phase() {
        Phase::Running(started) => started.pid,
        Phase::Created | Phase::Exited { .. } => 0,
    };
    let process_json = process.map(|process| {
        let environment: Vec<String> = process
            .environment
            .iter()
            .map(|variable| format!("{}={}", variable.name, variable.value))
            .collect();
        json!({
            "terminal": process.terminal,
            "user": { "uid": process.uid, "gid": process.gid, "additionalGids": process.groups },
            "args": process.args,
            "env": environment,
            "cwd": process.working_directory,
            "capabilities": {
                "bounding": names_of(process.capabilities.bounding),
                "effective": names_of(process.capabilities.effective),
                "permitted": names_of(process.capabilities.effective),
                "inheritable": names_of(process.capabilities.ambient),
                "ambient": names_of(process.capabilities.ambient),
            },
            "noNewPrivileges": process.no_new_privileges,
            "oomScoreAdj": process.oom_score_adj,
        })
    });
    let info = json!({
        "sandboxID": container.record.sandbox,
        "pid": pid,
        "runtimeSpec": {
            "process": process_json,
            "root": { "readonly": launch.is_some_and(|launch| launch.root.read_only) },
            "linux": {
                "cgroupsPath": container.record.cgroup,
                "maskedPaths": launch.map(|launch| launch.masked_paths.clone()),
                "readonlyPaths": launch.map(|launch| launch.read_only_paths.clone()),
                "seccomp": process.map(|process| process.filters.len()),
            },
        },
    });
    BTreeMap::from([("info".to_owned(), info.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_wanted_labels_must_match() {
        let labels = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let have = labels(&[("a", "1"), ("b", "2")]);
        assert!(labels_match(&have, &labels(&[])));
        assert!(labels_match(&have, &labels(&[("a", "1")])));
        assert!(!labels_match(&have, &labels(&[("a", "1"), ("b", "3")])));
        assert!(!labels_match(&have, &labels(&[("c", "")])));
    }
}
