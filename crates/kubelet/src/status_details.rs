//! What a pod's status tells beyond states: class of service, stop signals, resources, mounts; and how long the last words of
//! its containers may be together. Pure.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStatus, Pod, PodStatus, VolumeMount, VolumeMountStatus,
};

use crate::resources::qos_class;

/// Most bytes of termination messages of all containers of a pod together.
const MESSAGES: usize = 12 * 1024;

/// Adds the details to a status.
pub(crate) fn add_details(status: &mut PodStatus, pod: &Pod) {
    status.qos_class = Some(qos_class(pod).as_str().to_owned());
    let containers: Vec<&Container> =
        lifecycle::pod_containers(pod).map(|container| container.spec).collect();
    let limit = MESSAGES / containers.len().max(1);
    let lists = [
        &mut status.init_container_statuses,
        &mut status.container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    for status in lists.into_iter().flat_map(|list| list.iter_mut().flatten()) {
        for state in [&mut status.state, &mut status.last_state] {
            shorten(state.as_mut(), limit);
        }
        if let Some(container) = containers.iter().find(|container| container.name == status.name) {
            describe(status, container);
        }
    }
}

fn shorten(state: Option<&mut ContainerState>, limit: usize) {
    let terminated = state.and_then(|state| state.terminated.as_mut());
    if let Some(message) = terminated.and_then(|terminated| terminated.message.as_mut()) {
        cut(message, limit);
    }
}

/// Cuts a text down to so many bytes, between two characters.
pub(crate) fn cut(text: &mut String, limit: usize) {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

fn describe(status: &mut ContainerStatus, container: &Container) {
    status.stop_signal = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone());
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    status.volume_mounts = (!mounts.is_empty()).then(|| mounts.iter().map(mount_status).collect());
    let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
    if let Some(resources) = container.resources.as_ref().filter(|_| runs) {
        status.allocated_resources.clone_from(&resources.requests);
        status.resources = Some(resources.clone());
    }
}

fn mount_status(mount: &VolumeMount) -> VolumeMountStatus {
    let recursive = match (mount.read_only, mount.recursive_read_only.as_deref()) {
        (Some(true), Some("Enabled" | "IfPossible")) => Some("Enabled".to_owned()),
        (Some(true), _) => Some("Disabled".to_owned()),
        (Some(false) | None, _) => None,
    };
    VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only.filter(|read_only| *read_only),
        recursive_read_only: recursive,
        ..VolumeMountStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGES, add_details};
    use k8s_openapi::api::core::v1::{Pod, PodStatus};
    use serde_json::{Value, json};

    fn statuses(pod: Value, status: Value) -> PodStatus {
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let mut status: PodStatus = serde_json::from_value(status).expect("a status");
        add_details(&mut status, &pod);
        status
    }

    #[test]
    fn last_words_of_all_containers_share_twelve_kibibytes() {
        let names = ["a", "b", "c", "d"];
        let ended = |name: &str| {
            json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "message": "ä".repeat(2048)}},
            "lastState": {"terminated": {"exitCode": 1, "message": "short"}}})
        };
        let status = statuses(
            json!({"spec": {"containers": names.map(|name| json!({"name": name}))}}),
            json!({"containerStatuses": names.map(ended)}),
        );
        let lengths: Vec<usize> = status
            .container_statuses
            .iter()
            .flatten()
            .filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.message.as_ref())
            .map(String::len)
            .collect();
        assert_eq!(lengths, [3072; 4]);
        assert_eq!(lengths.iter().sum::<usize>(), MESSAGES);
    }

    #[test]
    fn a_status_tells_signal_mounts_and_resources() {
        let status = statuses(
            json!({"spec": {"containers": [{"name": "a", "lifecycle": {"stopSignal": "SIGUSR1"},
                "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": "IfPossible"},
                    {"name": "v", "mountPath": "/w"}]}]}}),
            json!({"containerStatuses": [{"name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {}}}]}),
        );
        let status = serde_json::to_value(status).expect("JSON");
        assert_eq!(status["qosClass"], "Burstable");
        let container = &status["containerStatuses"][0];
        assert_eq!(container["stopSignal"], "SIGUSR1");
        assert_eq!(container["allocatedResources"], json!({"cpu": "1"}));
        assert_eq!(container["resources"]["limits"], json!({"cpu": "2"}));
        assert_eq!(
            container["volumeMounts"],
            json!([{"name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": "Enabled"},
                {"name": "v", "mountPath": "/w"}])
        );
    }
}
