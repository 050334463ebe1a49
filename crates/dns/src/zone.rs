//! The names of the cluster: what services, slices of endpoints and pods are called, and what a question finds. Pure.
//!
//! A change of an object changes what that object stands for and nothing else.
//!
//! Source: <https://github.com/kubernetes/dns/blob/master/docs/specification.md>, schema 1.1.0; what that leaves open (names of
//! endpoints without a host name, weights of SRV records, SOA and NS) is as CoreDNS answers.

mod facts;
mod records;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use hickory_proto::rr::{Name, Record, RecordType};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use network::AddressRange;

use facts::{Endpoint, Place, ServiceFacts, SliceFacts, Target};

/// How long an answer about the cluster may be kept, in seconds.
pub const TTL: u32 = 5;

/// What a question finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The name is not one of the cluster's: somebody else knows.
    Elsewhere,
    /// It would be known if the cluster were: ask again.
    NotYet,
    /// The name does not exist. With the start of authority.
    NoName(Box<Record>),
    /// The name exists and has nothing of that type. With the start of authority.
    NoData(Box<Record>),
    /// These records; and further ones that whoever asked will want next.
    Records(Vec<Record>, Vec<Record>),
    /// Another name (CNAME): this record, and the name to look up.
    Alias(Box<Record>, Name),
}

/// The domain of the cluster cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a domain: write DNS labels with dots between them, such as cluster.local")]
pub struct DomainError(String);

/// What is known of one service.
#[derive(Debug, Default)]
struct Entry {
    service: Option<ServiceFacts>,
    /// By the slice's own name.
    slices: BTreeMap<Box<str>, Slice>,
    /// What the reverse map holds because of it.
    pointers: Vec<(IpAddr, Name)>,
}

#[derive(Debug, Default)]
struct Slice {
    facts: SliceFacts,
    pointers: Vec<(IpAddr, Name)>,
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }

    /// Whether an endpoint is told.
    fn shows(&self, endpoint: &Endpoint) -> bool {
        endpoint.ready || self.service.as_ref().is_some_and(|service| service.publishes_not_ready)
    }

    fn is_headless(&self) -> bool {
        self.service.as_ref().is_some_and(|service| service.target == Target::Endpoints)
    }

    fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.slices.values().flat_map(|slice| &slice.facts.endpoints).filter(|each| self.shows(each))
    }
}

/// All names of a cluster.
#[derive(Debug)]
pub struct Zone {
    domain: Name,
    /// The labels of the domain, in small letters.
    domain_labels: Vec<String>,
    server: IpAddr,
    ranges: Vec<AddressRange>,
    namespaces: HashMap<Box<str>, HashMap<Box<str>, Entry>>,
    reverse: HashMap<IpAddr, Vec<Name>>,
    /// How many pods of a namespace have an address: several share that of the node.
    pods: HashMap<Box<str>, HashMap<IpAddr, u32>>,
    is_complete: bool,
    serial: u32,
}

impl Zone {
    /// A zone without names. `server` is the address under which it is asked; of `ranges` (services, pods) nobody else knows
    /// the names.
    ///
    /// # Errors
    ///
    /// When the domain is none.
    pub fn new(domain: &str, server: IpAddr, ranges: Vec<AddressRange>) -> Result<Zone, DomainError> {
        let error = || DomainError(domain.to_owned());
        let mut name = Name::from_ascii(domain.trim_end_matches('.')).map_err(|_| error())?.to_lowercase();
        name.set_fqdn(true);
        let label = |label: &[u8]| String::from_utf8(label.to_vec()).map_err(|_| error());
        let domain_labels = name.iter().map(label).collect::<Result<Vec<_>, _>>()?;
        // Service, namespace and host have to fit in front of it.
        if domain_labels.is_empty() || domain.len() > 100 {
            return Err(error());
        }
        Ok(Zone {
            domain: name,
            domain_labels,
            server,
            ranges,
            namespaces: HashMap::new(),
            reverse: HashMap::new(),
            pods: HashMap::new(),
            is_complete: false,
            serial: 1,
        })
    }

    /// The zone holds all that the cluster has.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// A service is as given.
    pub fn set_service(&mut self, service: &Service) {
        self.change(&Place::of(&service.metadata), |entry| entry.service = Some(facts::service(service)));
        self.point_at(&Place::of(&service.metadata));
    }

    /// A service is gone.
    pub fn remove_service(&mut self, service: &Service) {
        self.change(&Place::of(&service.metadata), |entry| entry.service = None);
        self.point_at(&Place::of(&service.metadata));
    }

    /// A slice is as given; `before` is how it was, if it was known.
    pub fn set_slice(&mut self, slice: &EndpointSlice, before: Option<&EndpointSlice>) {
        let service = facts::service_of(slice);
        if let Some(before) = before.filter(|before| facts::service_of(before) != service) {
            self.remove_slice(before);
        }
        let Some(service) = service else { return };
        let own_name = Place::of(&slice.metadata).name;
        self.change(&service, |entry| {
            entry.slices.entry(own_name.clone()).or_default().facts = facts::slice(slice);
        });
        self.point_at_slice(&service, &own_name);
    }

    /// A slice is gone.
    pub fn remove_slice(&mut self, slice: &EndpointSlice) {
        let Some(service) = facts::service_of(slice) else { return };
        let own_name = Place::of(&slice.metadata).name;
        let mut pointers = Vec::new();
        self.change(&service, |entry| {
            pointers = entry.slices.remove(&own_name).unwrap_or_default().pointers;
        });
        self.forget(pointers);
    }

    /// A pod is as given; `before` is how it was, if it was known.
    pub fn set_pod(&mut self, pod: &Pod, before: Option<&Pod>) {
        let (now, then) = (facts::pod_addresses(pod), before.map(facts::pod_addresses).unwrap_or_default());
        if now == then {
            return;
        }
        let namespace = Place::of(&pod.metadata).namespace;
        let addresses = self.pods.entry(namespace.clone()).or_default();
        for address in now {
            *addresses.entry(address).or_default() += 1;
        }
        self.drop_addresses(&namespace, &then);
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, pod: &Pod) {
        self.drop_addresses(&Place::of(&pod.metadata).namespace, &facts::pod_addresses(pod));
    }

    fn drop_addresses(&mut self, namespace: &str, gone: &[IpAddr]) {
        let Some(addresses) = self.pods.get_mut(namespace) else { return };
        for address in gone {
            if let Some(count) = addresses.get_mut(address) {
                *count -= 1;
                if *count == 0 {
                    addresses.remove(address);
                }
            }
        }
        if addresses.is_empty() {
            self.pods.remove(namespace);
        }
    }

    fn change(&mut self, place: &Place, make: impl FnOnce(&mut Entry)) {
        self.serial = self.serial.wrapping_add(1);
        let services = self.namespaces.entry(place.namespace.clone()).or_default();
        let entry = services.entry(place.name.clone()).or_default();
        make(entry);
        if entry.is_empty() {
            let pointers = services.remove(&place.name).unwrap_or_default().pointers;
            if services.is_empty() {
                self.namespaces.remove(&place.namespace);
            }
            self.forget(pointers);
        }
    }

    fn entry(&self, namespace: &str, name: &str) -> Option<&Entry> {
        self.namespaces.get(namespace)?.get(name)
    }

    fn entry_mut(&mut self, place: &Place) -> Option<&mut Entry> {
        self.namespaces.get_mut(&place.namespace)?.get_mut(&place.name)
    }

    /// Lets the addresses of a service, and those of all its endpoints, point back at its names.
    fn point_at(&mut self, place: &Place) {
        let name = self.name_of(&[&place.name, &place.namespace, "svc"]);
        let Some(entry) = self.entry_mut(place) else { return };
        let old = std::mem::take(&mut entry.pointers);
        let addresses = match entry.service.as_ref().map(|service| &service.target) {
            Some(Target::Cluster(addresses)) => addresses.clone(),
            Some(Target::Endpoints | Target::External(_)) | None => Vec::new(),
        };
        let new: Vec<_> =
            addresses.into_iter().filter_map(|address| Some((address, name.clone()?))).collect();
        entry.pointers.clone_from(&new);
        let slices: Vec<Box<str>> = entry.slices.keys().cloned().collect();
        self.forget(old);
        self.note(new);
        for slice in slices {
            self.point_at_slice(place, &slice);
        }
    }

    /// Lets the endpoints of one slice of a headless service point back at their names.
    fn point_at_slice(&mut self, place: &Place, slice: &str) {
        let mut new = Vec::new();
        if let Some(entry) = self.entry(&place.namespace, &place.name)
            && entry.is_headless()
            && let Some(slice) = entry.slices.get(slice)
        {
            for endpoint in slice.facts.endpoints.iter().filter(|each| entry.shows(each)) {
                let name = self.name_of(&[&endpoint.host, &place.name, &place.namespace, "svc"]);
                new.extend(name.map(|name| (endpoint.address, name)));
            }
        }
        let Some(slice) = self.entry_mut(place).and_then(|entry| entry.slices.get_mut(slice)) else { return };
        let old = std::mem::replace(&mut slice.pointers, new.clone());
        self.forget(old);
        self.note(new);
    }

    fn note(&mut self, pointers: Vec<(IpAddr, Name)>) {
        for (address, name) in pointers {
            self.reverse.entry(address).or_default().push(name);
        }
    }

    fn forget(&mut self, pointers: Vec<(IpAddr, Name)>) {
        for (address, name) in pointers {
            let Some(names) = self.reverse.get_mut(&address) else { continue };
            if let Some(index) = names.iter().position(|known| *known == name) {
                names.remove(index);
            }
            if names.is_empty() {
                self.reverse.remove(&address);
            }
        }
    }

    /// A name below the domain; none if it is too long for one.
    fn name_of(&self, labels: &[&str]) -> Option<Name> {
        Name::from_labels(labels.iter().map(|label| label.as_bytes())).ok()?.append_domain(&self.domain).ok()
    }

    /// What a question for records of a type at a name finds.
    pub fn look_up(&self, name: &Name, kind: RecordType) -> Found {
        let lower = name.to_lowercase();
        // A label that is no text is one that nothing is called.
        let labels: Vec<&str> =
            lower.iter().map(|label| std::str::from_utf8(label).unwrap_or("\0")).collect();
        let inside = labels.len().checked_sub(self.domain_labels.len());
        if let Some(inside) = inside
            && labels[inside..].iter().eq(self.domain_labels.iter())
        {
            return if self.is_complete { self.inside(&labels[..inside], name, kind) } else { Found::NotYet };
        }
        match labels.as_slice() {
            [rest @ .., "in-addr", "arpa"] => self.look_back(rest, name, kind),
            [rest @ .., "ip6", "arpa"] => self.look_back_v6(rest, name, kind),
            _ => Found::Elsewhere,
        }
    }

    fn inside(&self, labels: &[&str], name: &Name, kind: RecordType) -> Found {
        match labels {
            [] => self.apex(name, kind),
            ["dns-version"] => self.version(name, kind),
            ["ns", "dns"] => self.addresses(name, kind, &[self.server]),
            ["dns" | "svc" | "pod"] => self.no_data(),
            [namespace, "svc"] if self.namespaces.contains_key(*namespace) => self.no_data(),
            [service, namespace, "svc"] => match self.entry(namespace, service) {
                Some(entry) => self.service(entry, [service, namespace], name, kind),
                None => self.no_name(),
            },
            [port, protocol, service, namespace, "svc"] => match self.entry(namespace, service) {
                Some(entry) => self.port(entry, [port, protocol, service, namespace], name, kind),
                None => self.no_name(),
            },
            [host, service, namespace, "svc"] => match self.entry(namespace, service) {
                Some(entry) => self.endpoint(entry, host, name, kind),
                None => self.no_name(),
            },
            [namespace, "pod"] if self.pods.contains_key(*namespace) => self.no_data(),
            [address, namespace, "pod"] => match facts::undashed(address) {
                Some(address) if self.has_pod(namespace, address) => self.addresses(name, kind, &[address]),
                _ => self.no_name(),
            },
            _ => self.no_name(),
        }
    }

    fn has_pod(&self, namespace: &str, address: IpAddr) -> bool {
        self.pods.get(namespace).is_some_and(|addresses| addresses.contains_key(&address))
    }
}

#[cfg(test)]
pub(crate) mod tests;
