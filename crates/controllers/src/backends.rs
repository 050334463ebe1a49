//! What a pod is to a service: whether it stands behind it, with which addresses, ports and name.
//!
//! Source: <https://kubernetes.io/docs/concepts/services-networking/service/>,
//! <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/> and the behaviour of Kubernetes 1.36.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use informer::{Change, Informer, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Node, ObjectReference, Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::Informers;
use crate::queue::Queue;
use crate::selector::{Labels, pairs_choose};

/// Says on slices and Endpoints that their service has no cluster address.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
/// Says on slices and Endpoints since when what they show should have been so.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Says on a node in which zone it is.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// The name in services (`ipFamilies`) and slices (`addressType`).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    /// The family of an address; none for text that is no address.
    pub(crate) fn of(address: &str) -> Option<Family> {
        match address.parse().ok()? {
            IpAddr::V4(_) => Some(Family::V4),
            IpAddr::V6(_) => Some(Family::V6),
        }
    }
}

/// The families of a service, its first one first.
pub(crate) fn families(service: &Service) -> Vec<Family> {
    let spec = service.spec.as_ref();
    let told = spec.and_then(|spec| spec.ip_families.as_deref()).unwrap_or_default();
    let families: Vec<Family> = told
        .iter()
        .filter_map(|family| [Family::V4, Family::V6].into_iter().find(|own| own.name() == family))
        .collect();
    if !families.is_empty() {
        return families;
    }
    let address = spec.and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
    vec![Family::of(address).unwrap_or(Family::V4)]
}

/// Whether a controller keeps the endpoints of a service: it has a selector, and addresses of its own make sense for it.
pub(crate) fn is_kept(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    spec.type_.as_deref() != Some("ExternalName")
        && spec.selector.as_ref().is_some_and(|selector| !selector.is_empty())
}

/// Whether a service was made without a cluster address (`clusterIP: None`).
pub(crate) fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some("None")
}

/// Whether a service has an address of the cluster.
pub(crate) fn has_cluster_address(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    !matches!(address, None | Some("" | "None"))
}

/// Whether the service wants its pods to be shown as ready whatever they are.
pub(crate) fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false)
}

/// The ports of a service.
pub(crate) fn ports(service: &Service) -> &[ServicePort] {
    service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default()
}

/// Whether a pod says that it is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|(status, _)| status == "True")
}

/// The status of the condition `Ready`, and since when it is so.
fn ready_condition(pod: &Pod) -> Option<(&str, Option<Timestamp>)> {
    let conditions = pod.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((&ready.status, ready.last_transition_time.as_ref().map(|time| time.0)))
}

/// Whether a pod's containers have all ended for good.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The addresses of a pod, in all families.
pub(crate) fn pod_addresses(pod: &Pod) -> Vec<&str> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all: Vec<&str> =
        status.pod_ips.iter().flatten().map(|one| one.ip.as_str()).filter(|ip| !ip.is_empty()).collect();
    if all.is_empty() {
        return status.pod_ip.iter().map(String::as_str).filter(|ip| !ip.is_empty()).collect();
    }
    all
}

/// Whether a pod may stand behind services at all.
pub(crate) fn may_serve(pod: &Pod, even_terminating: bool) -> bool {
    !has_ended(pod)
        && !pod_addresses(pod).is_empty()
        && (even_terminating || pod.metadata.deletion_timestamp.is_none())
}

/// The name by which a headless service shows a pod.
pub(crate) fn hostname<'p>(pod: &'p Pod, service: &Service) -> Option<&'p str> {
    let spec = pod.spec.as_ref()?;
    let hostname = spec.hostname.as_deref().filter(|name| !name.is_empty())?;
    let is_in_subdomain = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    (is_in_subdomain && pod.metadata.namespace == service.metadata.namespace).then_some(hostname)
}

/// The port of a pod to which a port of a service leads; none if the pod has no port of that name.
pub(crate) fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => named_port(pod, name, port.protocol.as_deref().unwrap_or("TCP")),
    }
}

fn named_port(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
    let mut ports =
        spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    ports
        .find(|port| {
            port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
        })
        .map(|port| port.container_port)
}

/// How endpoints name a pod.
pub(crate) fn pod_reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The node of a pod, if it has one.
pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty())
}

/// Whether endpoints may look different after this change of a pod.
pub(crate) fn changes_endpoints(before: &Pod, now: &Pod) -> bool {
    let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    before.metadata.uid != now.metadata.uid
        || before.metadata.labels != now.metadata.labels
        || is_going(before) != is_going(now)
        || has_ended(before) != has_ended(now)
        || is_ready(before) != is_ready(now)
        || pod_addresses(before) != pod_addresses(now)
        || node_name(before) != node_name(now)
}

/// The services with endpoints that choose a pod of this namespace with these labels.
pub(crate) fn services_of(
    services: &Informer<Service>,
    namespace: &str,
    labels: Option<&Labels>,
) -> Vec<ObjectKey> {
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else { return Vec::new() };
    let chooses = |service: &Arc<Service>| {
        is_kept(service)
            && pairs_choose(service.spec.as_ref().and_then(|spec| spec.selector.as_ref()), Some(labels))
    };
    services
        .in_namespace(namespace)
        .iter()
        .filter(|service| chooses(service))
        .map(|service| ObjectKey::of(&**service))
        .collect()
}

/// Asks `queues` for a look at each service whose endpoints may have changed: the service itself, or a pod behind it.
pub(crate) fn follow(informers: &Informers, queues: Vec<Arc<Queue>>) {
    let ask = Arc::new(move |keys: Vec<ObjectKey>| {
        for key in keys {
            for queue in &queues {
                queue.add(key.clone());
            }
        }
    });
    let asked = Arc::clone(&ask);
    informers.services.on_change(move |change| asked(vec![ObjectKey::of(&**change.object())]));
    let services = informers.services.clone();
    let asked = Arc::clone(&ask);
    informers.pods.on_change(move |change| {
        let behind = |pod: &Pod| {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            services_of(&services, namespace, pod.metadata.labels.as_ref())
        };
        match change {
            Change::Changed { before, now } if changes_endpoints(before, now) => {
                asked(behind(now));
                if before.metadata.labels != now.metadata.labels {
                    asked(behind(before));
                }
            }
            Change::Changed { .. } => {}
            Change::Added(pod) | Change::Removed(pod) => {
                // One that is not placed yet has no address.
                if !pod_addresses(pod).is_empty() {
                    asked(behind(pod));
                }
            }
        }
    });
    let (services, pods) = (informers.services.clone(), informers.pods.clone());
    informers.nodes.on_change(move |change| {
        let zone = |node: &Node| node.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE)).cloned();
        if let Change::Changed { before, now } = change
            && zone(before) == zone(now)
        {
            return;
        }
        let name = change.object().metadata.name.as_deref();
        for pod in pods.all().iter().filter(|pod| name.is_some() && node_name(pod) == name) {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            ask(services_of(&services, namespace, pod.metadata.labels.as_ref()));
        }
    });
}

/// The pods that a service chooses.
pub(crate) fn pods_of(pods: &Informer<Pod>, service: &Service) -> Vec<Arc<Pod>> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let mut all = pods.in_namespace(service.metadata.namespace.as_deref().unwrap_or_default());
    all.retain(|pod| pairs_choose(selector, pod.metadata.labels.as_ref()));
    all
}

/// What the last look at each service saw: from it follows since when endpoints should have been as they are now.
#[derive(Debug, Default)]
pub(crate) struct Triggers(BTreeMap<ObjectKey, Seen>);

#[derive(Debug, Default)]
struct Seen {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

impl Triggers {
    /// The earliest of the times that are new since the last look: the creation of the service, and when each pod became ready or
    /// ceased to be.
    pub(crate) fn look(&mut self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let seen = self.0.entry(ObjectKey::of(service)).or_default();
        let mut earliest = None;
        let mut note = |new: Option<Timestamp>, known: Option<Timestamp>| {
            if new > known {
                earliest = [earliest, new].into_iter().flatten().min();
            }
        };
        let mut now = BTreeMap::new();
        for pod in pods {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let since = ready_condition(pod).and_then(|(_, since)| since);
            note(since, seen.pods.get(&name).copied());
            now.extend(since.map(|since| (name, since)));
        }
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        note(created, seen.service);
        *seen = Seen { service: created, pods: now };
        earliest
    }

    /// The service is gone.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests;
