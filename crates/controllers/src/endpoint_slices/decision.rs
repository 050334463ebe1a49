//! What the slices of a service are to hold. Pure.
//!
//! Names of labels, annotations and the rules are those of Kubernetes 1.36
//! (<https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/>).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::packing::{EndpointKey, Plan, PortsKey, Wanted, pack};
use crate::backends::{self, Family, HEADLESS, TRIGGER_TIME};
use crate::selector::Labels;

/// Names the service on its slices.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Names who keeps a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// What stands in [`MANAGED_BY`] on slices of services with a selector.
pub(crate) const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Longest name of an object.
const NAME_BYTES: usize = 253;

/// What is known of a node by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeFact {
    /// There is no such node.
    Missing,
    /// There is one, and its zone if it says one.
    Present { zone: Option<String> },
}

/// Everything that the decision looks at.
pub(crate) struct View<'v> {
    pub(crate) service: &'v Service,
    /// The pods that its selector chooses.
    pub(crate) pods: &'v [Arc<Pod>],
    /// The slices of this controller that name the service, without those that are going.
    pub(crate) slices: &'v [Arc<EndpointSlice>],
    pub(crate) node: &'v dyn Fn(&str) -> NodeFact,
    /// Since when it should be as it is now, if that is known.
    pub(crate) trigger: Option<Timestamp>,
    /// Most endpoints of a slice.
    pub(crate) capacity: usize,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decision {
    pub(crate) plan: Plan,
    /// Pods that are left out because their node is not there.
    pub(crate) without_node: Vec<String>,
}

/// Decides about all slices of a service with a selector.
pub(crate) fn decide(view: &View<'_>) -> Decision {
    let mut decision = Decision::default();
    let families = backends::families(view.service);
    let is_of = |slice: &EndpointSlice, family: Family| slice.address_type == family.name();
    let unwanted = view.slices.iter().filter(|slice| !families.iter().any(|family| is_of(slice, *family)));
    decision.plan.delete.extend(unwanted.cloned());
    for (place, family) in families.iter().enumerate() {
        let slices: Vec<_> = view.slices.iter().filter(|slice| is_of(slice, *family)).cloned().collect();
        let without_node = plan_family(view, *family, &slices, &mut decision.plan);
        if place == 0 {
            decision.without_node = without_node;
        }
    }
    let plan = &mut decision.plan;
    plan.reuse(|slice| is_owned_by(slice, view.service.metadata.uid.as_deref()));
    if view.service.metadata.deletion_timestamp.is_some() {
        plan.create.clear();
    }
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        set_trigger(&mut slice.metadata, view.trigger);
    }
    decision
}

/// Whether a slice belongs to this very service, and not to one of the same name that was before it.
fn is_owned_by(slice: &EndpointSlice, uid: Option<&str>) -> bool {
    let owners = slice.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid)
}

/// Plans the slices of one family; answers the pods whose node is not there.
fn plan_family(
    view: &View<'_>,
    family: Family,
    slices: &[Arc<EndpointSlice>],
    plan: &mut Plan,
) -> Vec<String> {
    let mut own = Plan::default();
    let mut without_node = Vec::new();
    let mut wanted: BTreeMap<PortsKey, (Vec<EndpointPort>, Wanted)> = BTreeMap::new();
    for pod in view.pods.iter().filter(|pod| backends::may_serve(pod, true)) {
        let zone = match backends::node_name(pod).map(view.node) {
            Some(NodeFact::Missing) if !backends::publishes_not_ready(view.service) => {
                without_node.push(pod.metadata.name.clone().unwrap_or_default());
                continue;
            }
            Some(NodeFact::Missing) | None => None,
            Some(NodeFact::Present { zone }) => zone,
        };
        let Some(endpoint) = endpoint(view.service, pod, family, zone) else { continue };
        let ports = endpoint_ports(view.service, pod);
        let (_, endpoints) = wanted.entry(PortsKey::of(&ports)).or_insert_with(|| (ports, Wanted::new()));
        endpoints.insert(EndpointKey::of(&endpoint), endpoint);
    }
    let mut existing: BTreeMap<PortsKey, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in slices {
        if is_owned_by(slice, view.service.metadata.uid.as_deref()) {
            let key = PortsKey::of(slice.ports.as_deref().unwrap_or_default());
            existing.entry(key).or_default().push(Arc::clone(slice));
        } else {
            own.delete.push(Arc::clone(slice));
        }
    }
    for (key, (ports, wanted)) in wanted {
        let old = existing.remove(&key).unwrap_or_default();
        let empty = empty_slice(view.service, family, ports);
        pack(&old, wanted, &empty, view.capacity, |slice| has_other_labels(slice, &empty), &mut own);
    }
    own.delete.extend(existing.into_values().flatten());
    // A service always has a slice, so that who reads slices knows it.
    if own.delete.len() == slices.len() && own.create.is_empty() && own.update.is_empty() {
        let placeholder = empty_slice(view.service, family, Vec::new());
        let is_there = matches!(own.delete.as_slice(), [one] if is_same(one, &placeholder, view.service));
        if is_there {
            own.delete.clear();
        } else {
            own.create.push(placeholder);
        }
    }
    plan.create.extend(own.create);
    plan.update.extend(own.update);
    plan.delete.extend(own.delete);
    without_node
}

fn is_same(slice: &EndpointSlice, placeholder: &EndpointSlice, service: &Service) -> bool {
    slice.endpoints.as_deref().unwrap_or_default().is_empty()
        && slice.ports.as_deref().unwrap_or_default().is_empty()
        && !has_other_labels(slice, placeholder)
        && is_owned_by(slice, service.metadata.uid.as_deref())
}

fn has_other_labels(slice: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    slice.metadata.labels != wanted.metadata.labels
}

/// A pod as an endpoint of a service; none if it has no address of that family.
fn endpoint(service: &Service, pod: &Pod, family: Family, zone: Option<String>) -> Option<Endpoint> {
    let addresses: Vec<String> = backends::pod_addresses(pod)
        .into_iter()
        .filter(|address| Family::of(address) == Some(family))
        .map(str::to_owned)
        .collect();
    if addresses.is_empty() {
        return None;
    }
    let serving = backends::is_ready(pod);
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let ready = backends::publishes_not_ready(service) || (serving && !terminating);
    let node_name = backends::node_name(pod).map(str::to_owned);
    let hints = hints(service, zone.as_deref(), node_name.as_deref(), ready);
    Some(Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: backends::hostname(pod, service).map(str::to_owned),
        target_ref: Some(backends::pod_reference(pod)),
        zone,
        node_name,
        hints,
        deprecated_topology: None,
    })
}

/// For whom an endpoint is meant first, if the service prefers what is near.
fn hints(service: &Service, zone: Option<&str>, node: Option<&str>, ready: bool) -> Option<EndpointHints> {
    let wish = service.spec.as_ref().and_then(|spec| spec.traffic_distribution.as_deref())?;
    if !ready {
        return None;
    }
    let for_zones = zone.map(|zone| vec![ForZone { name: zone.to_owned() }]);
    let for_nodes = match wish {
        "PreferSameNode" => node.map(|node| vec![ForNode { name: node.to_owned() }]),
        _ => None,
    };
    (for_zones.is_some() || for_nodes.is_some()).then_some(EndpointHints { for_zones, for_nodes })
}

/// The ports of a service as they are on this pod: a named one may be another number on each, or none.
fn endpoint_ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = backends::ports(service).iter();
    ports
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(backends::target_port(pod, port)?),
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

fn empty_slice(service: &Service, family: Family, ports: Vec<EndpointPort>) -> EndpointSlice {
    let meta = &service.metadata;
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let name = meta.name.as_deref().unwrap_or_default();
    let mut labels = own_labels(meta.labels.as_ref(), name, MANAGER);
    if !backends::has_cluster_address(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(name_beginning(name)),
            namespace: meta.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        address_type: family.name().to_owned(),
        endpoints: Some(Vec::new()),
        ports: Some(ports),
    }
}

/// The labels of slices: those of what they stand for, and who keeps them.
pub(crate) fn own_labels(labels: Option<&Labels>, service: &str, manager: &str) -> Labels {
    let mut labels = labels.cloned().unwrap_or_default();
    labels.remove(HEADLESS);
    labels.insert(SERVICE_NAME.to_owned(), service.to_owned());
    labels.insert(MANAGED_BY.to_owned(), manager.to_owned());
    labels
}

/// How the names of slices begin.
pub(crate) fn name_beginning(service: &str) -> String {
    let beginning = format!("{service}-");
    if beginning.len() > NAME_BYTES { service.to_owned() } else { beginning }
}

/// Notes since when an object should be as it is, or that this is not known.
pub(crate) fn set_trigger(meta: &mut ObjectMeta, trigger: Option<Timestamp>) {
    match trigger {
        Some(trigger) => {
            meta.annotations.get_or_insert_default().insert(TRIGGER_TIME.to_owned(), trigger.to_string());
        }
        None => {
            if let Some(annotations) = &mut meta.annotations {
                annotations.remove(TRIGGER_TIME);
            }
        }
    }
}
