//! How Endpoints that somebody made by hand look as slices. Pure.
//!
//! Names and rules are those of Kubernetes 1.36
//! (<https://kubernetes.io/docs/concepts/services-networking/service/#endpoints>, "mirroring").

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::backends::{Family, TRIGGER_TIME};
use crate::endpoint_slices::decision::{name_beginning, own_labels};
use crate::endpoint_slices::packing::{EndpointKey, Plan, PortsKey, Wanted, pack};

/// Keeps Endpoints from being mirrored when it is `true`.
pub(crate) const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// What stands in `endpointslice.kubernetes.io/managed-by` on mirrored slices.
pub(crate) const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Says that Endpoints are no endpoints but the lock of an election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// What `kubectl apply` notes.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Most addresses of a subset that are mirrored, and most endpoints of a slice.
pub(crate) const CAPACITY: usize = 1000;

/// What is to be done, and what is left out.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decision {
    pub(crate) plan: Plan,
    /// Addresses that are none.
    pub(crate) invalid: usize,
    /// Addresses beyond the limit of their subset.
    pub(crate) beyond: usize,
}

/// Whether these Endpoints want to be mirrored, as far as they say themselves.
pub(crate) fn wants_mirror(endpoints: &Endpoints) -> bool {
    let is_set = |set: &Option<BTreeMap<String, String>>, key: &str| {
        set.as_ref().and_then(|set| set.get(key)).cloned()
    };
    is_set(&endpoints.metadata.labels, SKIP).as_deref() != Some("true")
        && is_set(&endpoints.metadata.annotations, LEADER).is_none()
        && endpoints.metadata.deletion_timestamp.is_none()
}

/// Decides about the mirrored slices of a name; `slices` are those that there are.
pub(crate) fn decide(
    endpoints: Option<&Endpoints>,
    service: Option<&Service>,
    slices: &[Arc<EndpointSlice>],
) -> Decision {
    let mut decision = Decision::default();
    let has_selector = |service: &Service| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|selector| !selector.is_empty())
    };
    let mirrored = endpoints.filter(|endpoints| wants_mirror(endpoints));
    let (Some(endpoints), Some(_)) = (mirrored, service.filter(|service| !has_selector(service))) else {
        decision.plan.delete.extend(slices.iter().cloned());
        return decision;
    };
    let mut wanted: BTreeMap<(Family, PortsKey), (Vec<SlicePort>, Wanted)> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports: Vec<SlicePort> = subset.ports.iter().flatten().map(slice_port).collect();
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let others = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        let mut mirrored = 0;
        for (address, is_ready) in ready.chain(others) {
            let Some(family) = Family::of(&address.ip) else {
                decision.invalid += 1;
                continue;
            };
            if mirrored == CAPACITY {
                decision.beyond += 1;
                continue;
            }
            mirrored += 1;
            let endpoint = endpoint(address, is_ready);
            let key = (family, PortsKey::of(&ports));
            let (_, endpoints) = wanted.entry(key).or_insert_with(|| (ports.clone(), Wanted::new()));
            endpoints.insert(EndpointKey::of(&endpoint), endpoint);
        }
    }
    let mut existing: BTreeMap<(Option<Family>, PortsKey), Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in slices {
        let family = [Family::V4, Family::V6].into_iter().find(|family| family.name() == slice.address_type);
        let key = (family, PortsKey::of(slice.ports.as_deref().unwrap_or_default()));
        existing.entry(key).or_default().push(Arc::clone(slice));
    }
    for ((family, key), (ports, wanted)) in wanted {
        let old = existing.remove(&(Some(family), key)).unwrap_or_default();
        let empty = empty_slice(endpoints, family, ports);
        let differs = |slice: &EndpointSlice| {
            let (is, shall) = (&slice.metadata, &empty.metadata);
            let some = |set: &Option<BTreeMap<String, String>>| set.clone().unwrap_or_default();
            is.labels != shall.labels
                || some(&is.annotations) != some(&shall.annotations)
                || is.owner_references != shall.owner_references
        };
        pack(&old, wanted, &empty, CAPACITY, differs, &mut decision.plan);
    }
    decision.plan.delete.extend(existing.into_values().flatten());
    decision.plan.reuse(|_| true);
    decision
}

fn slice_port(port: &EndpointPort) -> SlicePort {
    SlicePort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(address: &EndpointAddress, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(is_ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn empty_slice(endpoints: &Endpoints, family: Family, ports: Vec<SlicePort>) -> EndpointSlice {
    let meta = &endpoints.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let mut annotations = meta.annotations.clone().unwrap_or_default();
    for own in [LAST_APPLIED, TRIGGER_TIME] {
        annotations.remove(own);
    }
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Endpoints".to_owned(),
        name: name.to_owned(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(name_beginning(name)),
            namespace: meta.namespace.clone(),
            labels: Some(own_labels(meta.labels.as_ref(), name, MANAGER)),
            annotations: Some(annotations),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        address_type: family.name().to_owned(),
        endpoints: Some(Vec::new()),
        ports: Some(ports),
    }
}
