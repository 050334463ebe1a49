//! Resource requests and limits as the runtime gets them, and the class of service that follows from them. Pure.

use std::collections::BTreeMap;

use cri::v1;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource;
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

fn amount(set: Option<&BTreeMap<String, resource::Quantity>>, name: &str) -> Option<Quantity> {
    Quantity::parse(&set?.get(name)?.0).ok()
}

fn request(container: &Container, name: &str) -> Option<Quantity> {
    let resources = container.resources.as_ref()?;
    amount(resources.requests.as_ref(), name).or_else(|| amount(resources.limits.as_ref(), name))
}

fn limit(container: &Container, name: &str) -> Option<Quantity> {
    amount(container.resources.as_ref()?.limits.as_ref(), name)
}

/// The class of a pod.
pub(crate) fn qos_class(pod: &Pod) -> QosClass {
    let mut any = false;
    let mut guaranteed = true;
    for container in lifecycle::pod_containers(pod) {
        for name in ["cpu", "memory"] {
            let request = request(container.spec, name).filter(|request| !request.is_zero());
            let limit = limit(container.spec, name).filter(|limit| !limit.is_zero());
            any |= request.is_some() || limit.is_some();
            guaranteed &= match (request, limit) {
                (Some(request), Some(limit)) => request == limit,
                (None, _) | (_, None) => false,
            };
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
            let memory = request(container, "memory").map_or(0, |request| request.units());
            let share = if node_memory > 0 { 1000 * memory / node_memory } else { 0 };
            i64::try_from((1000 - share).clamp(3, 999)).unwrap_or(999)
        }
    }
}

fn to_i64(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The runtime's figures for a container.
pub(crate) fn container_resources(
    pod: &Pod,
    container: &Container,
    node_memory: i128,
) -> v1::LinuxContainerResources {
    let millis = request(container, "cpu").map_or(0, |cpu| cpu.millis());
    let quota = limit(container, "cpu").map_or(0, |cpu| cpu.millis()).saturating_mul(PERIOD) / 1000;
    let memory = limit(container, "memory").map_or(0, |memory| memory.units());
    v1::LinuxContainerResources {
        cpu_shares: to_i64((millis.saturating_mul(1024) / 1000).clamp(2, 262_144)),
        cpu_period: to_i64(PERIOD),
        cpu_quota: if quota == 0 { 0 } else { to_i64(quota.max(1000)) },
        memory_limit_in_bytes: to_i64(memory),
        oom_score_adj: oom_score(pod, container, node_memory),
        ..v1::LinuxContainerResources::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{container_resources, qos_class};
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
}
