//! Resource requests and limits as the runtime gets them, for containers and for the pod as a whole, and the class of service
//! that follows from them. Pure.

use std::collections::BTreeMap;

use cri::v1;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource;
use lifecycle::{ContainerRole, PodContainer};
use quantity::Quantity;

/// Microseconds of a scheduling period.
const PERIOD: i128 = 100_000;

/// How a pod is treated when the node runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QosClass {
    /// Limits equal requests for CPU and memory in every container.
    Guaranteed,
    /// Some request or limit.
    Burstable,
    /// None.
    BestEffort,
}

impl QosClass {
    /// The word of the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// A resource that is counted in the unit that decisions are made in: thousandths of a processor, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Cpu,
    Memory,
}

impl Resource {
    const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    fn amount(self, set: Option<&BTreeMap<String, resource::Quantity>>) -> Option<i128> {
        let amount = Quantity::parse(&set?.get(self.name())?.0).ok()?;
        Some(match self {
            Self::Cpu => amount.millis(),
            Self::Memory => amount.units(),
        })
    }

    fn request(self, resources: Option<&ResourceRequirements>) -> Option<i128> {
        let resources = resources?;
        self.amount(resources.requests.as_ref()).or_else(|| self.amount(resources.limits.as_ref()))
    }

    /// A limit of zero is none.
    fn limit(self, resources: Option<&ResourceRequirements>) -> Option<i128> {
        self.amount(resources?.limits.as_ref()).filter(|limit| *limit > 0)
    }
}

/// What the pod says for its containers together.
fn of_pod(pod: &Pod) -> Option<&ResourceRequirements> {
    let resources = pod.spec.as_ref()?.resources.as_ref()?;
    let says = |set: &Option<BTreeMap<String, resource::Quantity>>| {
        set.as_ref().is_some_and(|set| Resource::ALL.iter().any(|kind| set.contains_key(kind.name())))
    };
    (says(&resources.limits) || says(&resources.requests)).then_some(resources)
}

/// The containers that the pod was made with; ephemeral ones come later and have no resources.
fn planned_containers(pod: &Pod) -> impl Iterator<Item = PodContainer<'_>> {
    lifecycle::pod_containers(pod).filter(|container| container.role != ContainerRole::Ephemeral)
}

/// The class of a pod: what it says for itself decides; else what its containers say.
pub(crate) fn qos_class(pod: &Pod) -> QosClass {
    let containers: Vec<Option<&ResourceRequirements>> = match of_pod(pod) {
        Some(resources) => vec![Some(resources)],
        None => planned_containers(pod).map(|container| container.spec.resources.as_ref()).collect(),
    };
    let mut any = false;
    let mut guaranteed = true;
    for resources in containers {
        for kind in Resource::ALL {
            let request = kind.request(resources).filter(|request| *request != 0);
            let limit = kind.limit(resources);
            any |= request.is_some() || limit.is_some();
            guaranteed &= request.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
        (false, _) => QosClass::BestEffort,
    }
}

fn oom_score(pod: &Pod, container: &Container, node_memory: i128) -> i64 {
    match qos_class(pod) {
        QosClass::Guaranteed => -997,
        QosClass::BestEffort => 1000,
        QosClass::Burstable => {
            let is_sidecar = lifecycle::pod_container(pod, &container.name)
                .is_some_and(|found| found.role == ContainerRole::Sidecar);
            let own = burstable_score(pod, container, node_memory);
            if !is_sidecar {
                return own;
            }
            // A sidecar must not die before those that it serves.
            let served = pod.spec.iter().flat_map(|spec| &spec.containers);
            served.map(|served| burstable_score(pod, served, node_memory)).fold(own, i64::min)
        }
    }
}

fn burstable_score(pod: &Pod, container: &Container, node_memory: i128) -> i64 {
    let memory = |container: &Container| Resource::Memory.request(container.resources.as_ref()).unwrap_or(0);
    // What the pod asks for beyond its containers' requests belongs to all of them alike.
    let rest =
        of_pod(pod).and_then(|resources| Resource::Memory.request(Some(resources))).map_or(0, |whole| {
            let containers: Vec<&Container> = planned_containers(pod).map(|one| one.spec).collect();
            let asked: i128 = containers.iter().map(|container| memory(container)).sum();
            (whole - asked).max(0) / i128::try_from(containers.len().max(1)).unwrap_or(1)
        });
    let share = if node_memory > 0 { 1000 * (memory(container) + rest) / node_memory } else { 0 };
    i64::try_from((1000 - share).clamp(3, 999)).unwrap_or(999)
}

fn to_i64(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn shares(millis: i128) -> i64 {
    to_i64((millis.saturating_mul(1024) / 1000).clamp(2, 262_144))
}

fn quota(millis: Option<i128>) -> i64 {
    match millis {
        None => 0,
        Some(millis) => to_i64((millis.saturating_mul(PERIOD) / 1000).max(1000)),
    }
}

/// The runtime's figures for a container. One without a limit of its own has that of its pod.
pub(crate) fn container_resources(
    pod: &Pod,
    container: &Container,
    node_memory: i128,
) -> v1::LinuxContainerResources {
    let own = container.resources.as_ref();
    let limit = |kind: Resource| kind.limit(own).or_else(|| kind.limit(of_pod(pod)));
    v1::LinuxContainerResources {
        cpu_shares: shares(Resource::Cpu.request(own).unwrap_or(0)),
        cpu_period: to_i64(PERIOD),
        cpu_quota: quota(limit(Resource::Cpu)),
        memory_limit_in_bytes: to_i64(limit(Resource::Memory).unwrap_or(0)),
        oom_score_adj: oom_score(pod, container, node_memory),
        ..v1::LinuxContainerResources::default()
    }
}

/// The runtime's figures for all containers of a pod together: what the pod says, else what its containers need at once. A
/// limit holds for the pod only if each of its containers has one.
pub(crate) fn pod_resources(pod: &Pod) -> v1::LinuxContainerResources {
    // What the pod requests, else what its containers do, else what limits it.
    let requested = |kind: Resource| {
        let of_containers =
            || needed_at_once(pod, |container| kind.request(container.resources.as_ref()).or(Some(0)));
        of_pod(pod)
            .and_then(|own| kind.amount(own.requests.as_ref()))
            .or_else(|| of_containers().filter(|sum| *sum > 0))
            .or_else(|| kind.limit(of_pod(pod)))
            .unwrap_or(0)
    };
    let limited = |kind: Resource| {
        kind.limit(of_pod(pod))
            .or_else(|| needed_at_once(pod, |container| kind.limit(container.resources.as_ref())))
    };
    v1::LinuxContainerResources {
        cpu_shares: shares(requested(Resource::Cpu)),
        cpu_period: to_i64(PERIOD),
        cpu_quota: quota(limited(Resource::Cpu)),
        memory_limit_in_bytes: to_i64(limited(Resource::Memory).unwrap_or(0)),
        ..v1::LinuxContainerResources::default()
    }
}

/// The most that containers which run at the same time have together: all containers with all sidecars, or one init container
/// with the sidecars before it. `None` if one of them says nothing.
fn needed_at_once(pod: &Pod, amount: impl Fn(&Container) -> Option<i128>) -> Option<i128> {
    let (mut sidecars, mut most, mut apps) = (0_i128, 0_i128, 0_i128);
    for PodContainer { spec, role } in planned_containers(pod) {
        let amount = amount(spec)?;
        match role {
            ContainerRole::Sidecar => {
                sidecars = sidecars.saturating_add(amount);
                most = most.max(sidecars);
            }
            ContainerRole::Init => most = most.max(sidecars.saturating_add(amount)),
            ContainerRole::App | ContainerRole::Ephemeral => apps = apps.saturating_add(amount),
        }
    }
    Some(most.max(sidecars.saturating_add(apps)))
}

#[cfg(test)]
mod tests {
    use super::{container_resources, pod_resources, qos_class};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn pod(resources: Value) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}))
            .expect("a pod")
    }

    #[test]
    fn classes_and_figures_follow_from_requests_and_limits() {
        let node = 4 << 30;
        let rows = [
            (json!({}), "BestEffort", (2, 0, 0, 1000)),
            (
                json!({"limits": {"cpu": "500m", "memory": "64Mi"}}),
                "Guaranteed",
                (512, 50_000, 64 << 20, -997),
            ),
            (json!({"requests": {"cpu": "2", "memory": "1Gi"}}), "Burstable", (2048, 0, 0, 750)),
            (json!({"limits": {"cpu": "1m"}}), "Burstable", (2, 1000, 0, 999)),
        ];
        for (resources, class, figures) in rows {
            let pod = pod(resources);
            assert_eq!(qos_class(&pod).as_str(), class);
            let container = &pod.spec.as_ref().expect("a spec").containers[0];
            let shown = container_resources(&pod, container, node);
            let shown = (shown.cpu_shares, shown.cpu_quota, shown.memory_limit_in_bytes, shown.oom_score_adj);
            assert_eq!(shown, figures);
        }
    }

    #[test]
    fn a_pod_may_speak_for_its_containers_together() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "resources": {"limits": {"cpu": "1", "memory": "128Mi"}, "requests": {"cpu": "500m", "memory": "64Mi"}},
            "containers": [{"name": "a", "resources": {"limits": {"memory": "32Mi"}}}, {"name": "b"}],
        }}))
        .expect("a pod");
        assert_eq!(qos_class(&pod).as_str(), "Burstable");
        let whole = pod_resources(&pod);
        assert_eq!(
            (whole.cpu_shares, whole.cpu_quota, whole.memory_limit_in_bytes),
            (512, 100_000, 128 << 20)
        );
        let containers = &pod.spec.as_ref().expect("a spec").containers;
        let memory =
            |index: usize| container_resources(&pod, &containers[index], 4 << 30).memory_limit_in_bytes;
        assert_eq!((memory(0), memory(1)), (32 << 20, 128 << 20), "its own limit, else the pod's");
        let equal = json!({"spec": {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "containers": [{"name": "a"}]}});
        let equal: Pod = serde_json::from_value(equal).expect("a pod");
        assert_eq!(qos_class(&equal).as_str(), "Guaranteed");
    }

    #[test]
    fn a_pod_that_says_nothing_gets_what_its_containers_need_at_once() {
        let limits = |cpu: &str, memory: &str| json!({"limits": {"cpu": cpu, "memory": memory}});
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": limits("100m", "10Mi")},
                {"name": "i", "resources": limits("1", "5Mi")}],
            "containers": [{"name": "a", "resources": limits("200m", "20Mi")}, {"name": "b", "resources": limits("300m", "30Mi")}],
        }}))
        .expect("a pod");
        let whole = pod_resources(&pod);
        assert_eq!(
            (whole.cpu_shares, whole.cpu_quota, whole.memory_limit_in_bytes),
            (1126, 110_000, 60 << 20)
        );
        let partly: Pod = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "a", "resources": limits("200m", "20Mi")}, {"name": "b"}]}}))
        .expect("a pod");
        let whole = pod_resources(&partly);
        assert_eq!((whole.cpu_quota, whole.memory_limit_in_bytes), (0, 0), "one of them has no limit");
    }

    #[test]
    fn a_sidecar_dies_no_sooner_than_what_it_serves() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "a", "resources": {"requests": {"memory": "2Gi"}}}],
        }}))
        .expect("a pod");
        let spec = pod.spec.as_ref().expect("a spec");
        let sidecar = &spec.init_containers.as_ref().expect("a list")[0];
        assert_eq!(container_resources(&pod, sidecar, 4 << 30).oom_score_adj, 500);
    }
}
