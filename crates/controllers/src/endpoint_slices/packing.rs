//! Which endpoints stand in which slice: as few writes as possible, and no slice beyond its capacity.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What makes an endpoint the same one: its addresses, and the pod behind them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointKey {
    addresses: Vec<String>,
    target: Option<[String; 3]>,
}

impl EndpointKey {
    pub(crate) fn of(endpoint: &Endpoint) -> EndpointKey {
        let mut addresses = endpoint.addresses.clone();
        addresses.sort();
        let target = endpoint.target_ref.as_ref().map(|target| {
            [&target.namespace, &target.name, &target.uid].map(|part| part.clone().unwrap_or_default())
        });
        EndpointKey { addresses, target }
    }
}

/// What makes the ports of slices the same, in whatever order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortsKey(Vec<(String, String, Option<i32>, String)>);

impl PortsKey {
    pub(crate) fn of(ports: &[EndpointPort]) -> PortsKey {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mut key: Vec<_> = ports
            .iter()
            .map(|port| {
                let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
                (text(&port.name), protocol, port.port, text(&port.app_protocol))
            })
            .collect();
        key.sort();
        PortsKey(key)
    }
}

/// Endpoints by what makes them the same.
pub(crate) type Wanted = BTreeMap<EndpointKey, Endpoint>;

/// What is to be written.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// New slices.
    pub(crate) create: Vec<EndpointSlice>,
    /// New versions of slices.
    pub(crate) update: Vec<EndpointSlice>,
    /// Slices that go.
    pub(crate) delete: Vec<Arc<EndpointSlice>>,
}

impl Plan {
    /// A slice that would go takes the place of one that would be made: one write instead of two.
    pub(crate) fn reuse(&mut self, is_own: impl Fn(&EndpointSlice) -> bool) {
        let mut kept = Vec::new();
        for old in std::mem::take(&mut self.delete) {
            match self.create.iter().rposition(|new| new.address_type == old.address_type && is_own(&old)) {
                Some(place) => {
                    let new = self.create.remove(place);
                    self.update.push(in_place_of(&old, new));
                }
                None => kept.push(old),
            }
        }
        self.delete = kept;
    }
}

/// A slice with the content of `new` and the identity of `old`.
fn in_place_of(old: &EndpointSlice, new: EndpointSlice) -> EndpointSlice {
    let metadata = ObjectMeta {
        labels: new.metadata.labels,
        annotations: new.metadata.annotations,
        owner_references: new.metadata.owner_references,
        ..old.metadata.clone()
    };
    EndpointSlice { metadata, ..new }
}

/// Puts what is wanted behind one list of ports into slices. `existing` are those of the same ports, `empty` is what a new one begins
/// as; `differs` says whether the metadata of a slice is to be written anew as that of `empty`.
pub(crate) fn pack(
    existing: &[Arc<EndpointSlice>],
    mut wanted: Wanted,
    empty: &EndpointSlice,
    capacity: usize,
    differs: impl Fn(&EndpointSlice) -> bool,
    plan: &mut Plan,
) {
    let with = |old: &EndpointSlice, endpoints: Vec<Endpoint>| {
        let content = EndpointSlice { endpoints: Some(endpoints), ..empty.clone() };
        // The order of ports says nothing.
        in_place_of(old, EndpointSlice { ports: old.ports.clone(), ..content })
    };
    let mut changed: Vec<EndpointSlice> = Vec::new();
    let mut unchanged: Vec<&Arc<EndpointSlice>> = Vec::new();
    for slice in existing {
        let had = slice.endpoints.as_deref().unwrap_or_default();
        // An endpoint that stands twice is wanted once.
        let kept: Vec<Endpoint> =
            had.iter().filter_map(|endpoint| wanted.remove(&EndpointKey::of(endpoint))).collect();
        if kept.as_slice() == had && !differs(slice) {
            unchanged.push(slice);
        } else if kept.is_empty() && !had.is_empty() {
            plan.delete.push(Arc::clone(slice));
        } else {
            changed.push(with(slice, kept));
        }
    }
    // What is written anyway takes new endpoints first, the fullest one first.
    changed.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.as_ref().map_or(0, Vec::len)));
    for slice in &mut changed {
        fill(slice, &mut wanted, capacity);
    }
    while !wanted.is_empty() {
        // Then one more slice that takes all of the rest, the fullest that does; or else a new one.
        let length = |slice: &EndpointSlice| slice.endpoints.as_ref().map_or(0, Vec::len);
        let place = unchanged
            .iter()
            .enumerate()
            .filter(|(_, slice)| length(slice) + wanted.len() <= capacity)
            .max_by_key(|(_, slice)| length(slice))
            .map(|(place, _)| place);
        match place {
            Some(place) => {
                let old = unchanged.remove(place);
                let mut slice = with(old, old.endpoints.clone().unwrap_or_default());
                fill(&mut slice, &mut wanted, capacity);
                changed.push(slice);
            }
            None => {
                let mut slice = empty.clone();
                fill(&mut slice, &mut wanted, capacity.max(1));
                plan.create.push(slice);
            }
        }
    }
    plan.update.extend(changed);
}

fn fill(slice: &mut EndpointSlice, wanted: &mut Wanted, capacity: usize) {
    let endpoints = slice.endpoints.get_or_insert_default();
    while endpoints.len() < capacity
        && let Some((_, endpoint)) = wanted.pop_first()
    {
        endpoints.push(endpoint);
    }
}
