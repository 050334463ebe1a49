//! Ends pods that take more of the node's disk than they may: `sizeLimit` of an emptyDir on disk, and the limits of
//! `ephemeral-storage`, as Kubernetes' local storage eviction does.
//!
//! One task looks at one pod after the other; a pod whose files take long to count is looked at less often.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use cri::v1;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource;
use quantity::Quantity;
use tokio::time::Instant;

use crate::agent::SharedAgent;
use crate::disk_usage::{self, DiskUsage};
use crate::labels;
use crate::pods::{PodsHandle, PodsMessage};

/// Counting takes at most this part of the time: one in twenty.
const PAUSE_FACTOR: u32 = 20;

/// The resource that limits the disk.
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// What a pod takes of the disk.
#[derive(Clone, Debug, Default, PartialEq)]
struct PodUsage {
    /// By volume: the emptyDirs on disk.
    volumes: BTreeMap<String, DiskUsage>,
    /// By container: its writable layer and its logs.
    containers: BTreeMap<String, u64>,
}

/// Looks at all pods with limits, for ever.
pub(crate) async fn watch_usage(agent: SharedAgent, pods: PodsHandle) {
    let mut due: HashMap<String, Instant> = HashMap::new();
    loop {
        tokio::time::sleep(agent.config.usage_interval).await;
        let present = pods.list().await;
        let limited: Vec<Arc<Pod>> = present.into_iter().filter(|pod| is_limited(pod)).collect();
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        due.retain(|known, _| limited.iter().any(|pod| uid(pod) == *known));
        for pod in limited {
            let uid = uid(&pod);
            let began = Instant::now();
            if due.get(&uid).is_some_and(|due| *due > began) {
                continue;
            }
            let Some(usage) = measure(&agent, &pod).await else { continue };
            due.insert(uid.clone(), Instant::now() + began.elapsed() * PAUSE_FACTOR);
            if let Some(message) = excess(&pod, &usage) {
                pods.tell(PodsMessage::Evict { uid, message });
            }
        }
    }
}

/// Whether anything of the pod is limited, and it has not ended.
fn is_limited(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
        && (disk_volumes(pod).any(|(_, limit)| limit.is_some()) || limits(pod).next().is_some())
}

/// The emptyDirs on disk, with their limits as written.
fn disk_volumes(pod: &Pod) -> impl Iterator<Item = (&str, Option<&resource::Quantity>)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| {
        let source = volume.empty_dir.as_ref()?;
        let on_disk = source.medium.as_deref().unwrap_or_default().is_empty();
        let limit = source.size_limit.as_ref().filter(|limit| bytes(limit).is_some_and(|bytes| bytes > 0));
        on_disk.then_some((volume.name.as_str(), limit))
    })
}

/// The limits of containers.
fn limits(pod: &Pod) -> impl Iterator<Item = (&str, Quantity)> {
    lifecycle::pod_containers(pod).filter_map(|container| {
        let limits = container.spec.resources.as_ref()?.limits.as_ref()?;
        Some((container.spec.name.as_str(), Quantity::parse(&limits.get(EPHEMERAL_STORAGE)?.0).ok()?))
    })
}

fn bytes(limit: &resource::Quantity) -> Option<i128> {
    Quantity::parse(&limit.0).ok().map(|limit| limit.units())
}

async fn measure(agent: &SharedAgent, pod: &Pod) -> Option<PodUsage> {
    let metadata = &pod.metadata;
    let uid = metadata.uid.clone()?;
    let dirs = agent.config.pod_dirs(&uid);
    let volumes: Vec<_> = disk_volumes(pod).map(|(name, _)| (name.to_owned(), dirs.volume(name))).collect();
    let logs = agent.config.log_dir(metadata.namespace.as_deref()?, metadata.name.as_deref()?, &uid);
    let with_limits = limits(pod).next().is_some();
    let containers: Vec<_> = lifecycle::pod_containers(pod)
        .filter(|_| with_limits)
        .map(|container| (container.name().to_owned(), logs.join(container.name())))
        .collect();
    let layers = if with_limits { writable_layers(agent, &uid).await? } else { BTreeMap::new() };
    let measured = tokio::task::spawn_blocking(move || {
        let mut usage = PodUsage::default();
        for (name, directory) in volumes {
            usage.volumes.insert(name, disk_usage::measure(&directory)?);
        }
        for (name, directory) in containers {
            let layer = layers.get(&name).copied().unwrap_or(0);
            usage.containers.insert(name, layer.saturating_add(disk_usage::measure(&directory)?.bytes));
        }
        Ok::<_, std::io::Error>(usage)
    });
    match measured.await {
        Ok(Ok(usage)) => Some(usage),
        Ok(Err(error)) => {
            tracing::warn!(pod = metadata.name, %error, "what the pod takes of the disk cannot be measured");
            None
        }
        Err(_) => None,
    }
}

/// Bytes of the writable layers, by container; `None` when the runtime does not say.
async fn writable_layers(agent: &SharedAgent, uid: &str) -> Option<BTreeMap<String, u64>> {
    let filter = v1::ContainerStatsFilter {
        label_selector: BTreeMap::from([(labels::POD_UID.to_owned(), uid.to_owned())]),
        ..v1::ContainerStatsFilter::default()
    };
    let request = v1::ListContainerStatsRequest { filter: Some(filter) };
    let answer = agent.runtime.list_container_stats(request).await.ok()?.into_inner();
    let mut layers = BTreeMap::new();
    for stats in answer.stats {
        let Some(name) = stats.attributes.and_then(|attributes| Some(attributes.metadata?.name)) else {
            continue;
        };
        let used = stats.writable_layer.and_then(|layer| layer.used_bytes).map_or(0, |bytes| bytes.value);
        // An instance that has ended takes room as well.
        *layers.entry(name).or_default() += used;
    }
    Some(layers)
}

/// What a pod takes too much of, in Kubernetes' words. Pure.
fn excess(pod: &Pod, usage: &PodUsage) -> Option<String> {
    let over = |used: u64, limit: i128| i128::from(used) > limit;
    for (name, limit) in disk_volumes(pod) {
        let (Some(limit), Some(used)) = (limit, usage.volumes.get(name)) else { continue };
        let Some(most) = bytes(limit) else { continue };
        if over(used.bytes, most) {
            return Some(format!("Usage of EmptyDir volume {name:?} exceeds the limit {:?}. ", limit.0));
        }
        if let Some(unmeasured) = used.unmeasured {
            let why = unmeasured.sentence();
            return Some(format!(
                "Usage of EmptyDir volume {name:?} cannot be held against the limit {:?}: {why}. ",
                limit.0
            ));
        }
    }
    let total =
        limits(pod).map(|(_, limit)| limit).reduce(|sum, limit| sum.checked_add(&limit).unwrap_or(sum));
    if let Some(total) = total {
        let volumes = usage.volumes.values().map(|volume| volume.bytes);
        let used = usage.containers.values().copied().chain(volumes).fold(0, u64::saturating_add);
        if over(used, total.units()) {
            return Some(format!(
                "Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
            ));
        }
    }
    limits(pod).find_map(|(name, limit)| {
        let used = usage.containers.get(name).copied().unwrap_or(0);
        over(used, limit.units())
            .then(|| format!("Container {name} exceeded its local ephemeral storage limit \"{limit}\". "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::disk_usage::Unmeasured;

    fn usage(volumes: &[(&str, u64)], containers: &[(&str, u64)]) -> PodUsage {
        let volume =
            |(name, bytes): &(&str, u64)| ((*name).to_owned(), DiskUsage { bytes: *bytes, unmeasured: None });
        PodUsage {
            volumes: volumes.iter().map(volume).collect(),
            containers: containers.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect(),
        }
    }

    #[test]
    fn what_a_pod_takes_too_much_of_is_said_in_the_words_of_kubernetes() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "volumes": [
                {"name": "v", "emptyDir": {"sizeLimit": "10Mi"}}, {"name": "free", "emptyDir": {}},
                {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                {"name": "zero", "emptyDir": {"sizeLimit": "0"}},
            ],
            "containers": [
                {"name": "a", "resources": {"limits": {"ephemeral-storage": "20Mi"}}},
                {"name": "b", "resources": {"limits": {"ephemeral-storage": "20Mi"}}},
                {"name": "c"},
            ],
        }}))
        .expect("a pod");
        let mi = 1 << 20;
        for (volumes, containers, expected) in [
            (&[("v", 10 * mi)][..], &[("a", 20 * mi)][..], None),
            (&[("memory", 2 * mi), ("zero", mi)], &[], None),
            (&[("v", 10 * mi + 1)], &[], Some("Usage of EmptyDir volume \"v\" exceeds the limit \"10Mi\". ")),
            (
                &[("v", mi), ("free", 30 * mi)],
                &[("a", 9 * mi), ("c", mi)],
                Some("Pod ephemeral local storage usage exceeds the total limit of containers 40Mi. "),
            ),
            (
                &[],
                &[("b", 21 * mi)],
                Some("Container b exceeded its local ephemeral storage limit \"20Mi\". "),
            ),
            (&[], &[("c", 30 * mi)], None),
        ] {
            assert_eq!(excess(&pod, &usage(volumes, containers)).as_deref(), expected);
        }
        let mut deep = usage(&[("v", 1)], &[]);
        deep.volumes.get_mut("v").expect("there").unmeasured = Some(Unmeasured::TooDeep);
        assert!(excess(&pod, &deep).is_some_and(|message| message.contains("nested deeper than 128")));
    }

    #[test]
    fn only_pods_with_limits_that_have_not_ended_are_measured() {
        let pod = |spec: serde_json::Value, phase: &str| -> Pod {
            serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).expect("a pod")
        };
        let limited = json!({"containers": [], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]});
        assert!(is_limited(&pod(limited.clone(), "Running")));
        assert!(!is_limited(&pod(limited, "Failed")));
        assert!(!is_limited(&pod(
            json!({"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}),
            "Running"
        )));
    }
}
