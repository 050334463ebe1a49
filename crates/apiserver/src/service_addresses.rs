//! Cluster addresses and node ports. What is taken follows from the stored services; nothing else is kept.

mod numbers;

use std::net::Ipv4Addr;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use admission::{BadValue, FieldError, FieldErrorKind, FieldErrors};
use serde_json::{Value, json};

use crate::object::{at, list, map_mut, text};
use numbers::Numbers;

/// The addresses of services, such as `10.43.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    first: u32,
    prefix: u8,
}

/// Text that is no range for services.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no range of service addresses: write an IPv4 network with a prefix of 12 to 28, such as 10.43.0.0/16"
)]
pub struct ServiceRangeError {
    text: String,
}

impl FromStr for ServiceRange {
    type Err = ServiceRangeError;

    fn from_str(text: &str) -> Result<ServiceRange, ServiceRangeError> {
        let error = || ServiceRangeError { text: text.to_owned() };
        let (address, prefix) = text.split_once('/').ok_or_else(error)?;
        let prefix: u8 = prefix.parse().ok().filter(|prefix| (12..=28).contains(prefix)).ok_or_else(error)?;
        let address: Ipv4Addr = address.parse().map_err(|_| error())?;
        let mask = u32::MAX << (32 - prefix);
        Ok(ServiceRange { first: u32::from(address) & mask, prefix })
    }
}

impl Default for ServiceRange {
    fn default() -> Self {
        ServiceRange { first: u32::from(Ipv4Addr::new(10, 43, 0, 0)), prefix: 16 }
    }
}

impl std::fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.first), self.prefix)
    }
}

impl ServiceRange {
    fn size(self) -> u32 {
        1 << (32 - self.prefix)
    }

    /// The address of the service `default/kubernetes`: the first of the range.
    pub fn kubernetes(self) -> Ipv4Addr {
        Ipv4Addr::from(self.first + 1)
    }

    /// The usual address of the cluster's DNS: the tenth of the range.
    pub fn dns(self) -> Ipv4Addr {
        Ipv4Addr::from(self.first + 10)
    }

    /// How many of the lowest addresses are left to those who ask for one by name, as long as there are others
    /// (<https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/>).
    fn asked_by_name(self) -> u32 {
        (self.size() / 16).clamp(16, 256).min(self.size() - 3)
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.first);
        offset > 0 && offset < self.size() - 1
    }
}

const NODE_PORTS: Range<u32> = 30_000..32_768;
/// The first port that is given to those who ask for none, as long as there are others: those below are for who asks by
/// number (<https://kubernetes.io/docs/concepts/services-networking/service/#avoid-nodeport-collisions>).
const FIRST_GIVEN: u32 = NODE_PORTS.start + 86;

/// What is taken.
#[derive(Debug)]
pub(crate) struct ServiceAddresses {
    range: ServiceRange,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    range: ServiceRange,
    /// By their place in the range.
    addresses: Numbers,
    ports: Numbers,
}

impl Taken {
    /// The place of an address in the range; beyond every place for an address of another range.
    fn place(&self, address: Ipv4Addr) -> u32 {
        u32::from(address).wrapping_sub(self.range.first)
    }

    fn give_back(&mut self, address: Option<Ipv4Addr>, ports: impl IntoIterator<Item = u16>) {
        if let Some(address) = address {
            self.addresses.give_back(self.place(address));
        }
        for port in ports {
            self.ports.give_back(port.into());
        }
    }
}

/// What one service was given in addition to what it had; given back when dropped, unless the service was stored.
#[derive(Debug)]
pub(crate) struct Allocation<'s> {
    owner: &'s ServiceAddresses,
    address: Option<Ipv4Addr>,
    ports: Vec<u16>,
}

impl Allocation<'_> {
    /// The service holds it from now on.
    pub(crate) fn keep(mut self) {
        self.address = None;
        self.ports.clear();
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        if self.address.is_none() && self.ports.is_empty() {
            return;
        }
        self.owner.taken().give_back(self.address, std::mem::take(&mut self.ports));
    }
}

impl ServiceAddresses {
    pub(crate) fn new(range: ServiceRange) -> ServiceAddresses {
        let (addresses, ports) = (Numbers::below(range.size()), Numbers::below(NODE_PORTS.end));
        ServiceAddresses { range, taken: Mutex::new(Taken { range, addresses, ports }) }
    }

    pub(crate) fn range(&self) -> ServiceRange {
        self.range
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a stored service holds.
    pub(crate) fn note(&self, service: &Value) {
        let mut taken = self.taken();
        if let Some(address) = cluster_address(service) {
            let place = taken.place(address);
            taken.addresses.take(place);
        }
        for port in node_ports(service) {
            taken.ports.take(port.into());
        }
    }

    /// Gives back what a deleted service held.
    pub(crate) fn release_service(&self, service: &Value) {
        self.taken().give_back(cluster_address(service), node_ports(service));
    }

    /// Gives back what the old version of a stored service held and the new one does not.
    pub(crate) fn replace(&self, old: &Value, new: &Value) {
        let address = cluster_address(old).filter(|address| cluster_address(new) != Some(*address));
        let kept: Vec<u16> = node_ports(new).collect();
        self.taken().give_back(address, node_ports(old).filter(|port| !kept.contains(port)));
    }

    /// Fills the cluster address and the node ports of a service, as far as its type wants them; `old` is what it replaces.
    pub(crate) fn allocate(
        &self,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Allocation<'_>, FieldErrors> {
        let mut allocation = Allocation { owner: self, address: None, ports: Vec::new() };
        let mut taken = self.taken();
        let outcome = self
            .allocate_address(&mut taken, service, old, &mut allocation)
            .and_then(|()| allocate_ports(&mut taken, service, old, &mut allocation));
        // Dropping a failed allocation needs the lock again.
        drop(taken);
        outcome.map(|()| allocation).map_err(|error| FieldErrors(vec![error]))
    }

    fn allocate_address(
        &self,
        taken: &mut Taken,
        service: &mut Value,
        old: Option<&Value>,
        allocation: &mut Allocation<'_>,
    ) -> Result<(), FieldError> {
        if text(service, &["spec", "type"]) == "ExternalName" {
            return Ok(());
        }
        let wanted = text(service, &["spec", "clusterIP"]).to_owned();
        if wanted == "None" {
            let spec = map_mut(service, "spec");
            spec.insert("clusterIPs".to_owned(), json!(["None"]));
            return Ok(());
        }
        let kept = old.and_then(cluster_address);
        let address = if wanted.is_empty() {
            match kept {
                Some(address) => address,
                None => self.free_address(taken).ok_or_else(|| FieldError {
                    kind: FieldErrorKind::Invalid,
                    field: "spec.clusterIPs".to_owned(),
                    bad_value: BadValue::Json(json!([""])),
                    detail: format!(
                        "failed to allocate IP: range {} is full; delete a service, or make one headless (clusterIP: None)",
                        self.range
                    ),
                })?,
            }
        } else {
            let invalid = |detail: String| FieldError {
                kind: FieldErrorKind::Invalid,
                field: "spec.clusterIPs".to_owned(),
                bad_value: BadValue::Json(json!([wanted])),
                detail,
            };
            // What is no IPv4 address at all was refused by validation; IPv6 is not handed out.
            let address: Ipv4Addr = wanted.parse().map_err(|_| {
                invalid(format!("failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {}", self.range))
            })?;
            if kept != Some(address) {
                if !self.range.contains(address) {
                    return Err(invalid(format!(
                        "failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of valid IPs is {}",
                        self.range
                    )));
                }
                if taken.addresses.has(taken.place(address)) {
                    return Err(invalid(format!(
                        "failed to allocate IP {address}: provided IP is already allocated"
                    )));
                }
            }
            address
        };
        if kept != Some(address) {
            let place = taken.place(address);
            taken.addresses.take(place);
            allocation.address = Some(address);
        }
        let spec = map_mut(service, "spec");
        spec.insert("clusterIP".to_owned(), json!(address.to_string()));
        spec.insert("clusterIPs".to_owned(), json!([address.to_string()]));
        Ok(())
    }

    fn free_address(&self, taken: &Taken) -> Option<Ipv4Addr> {
        // The first is reserved for `kubernetes`; network and broadcast address are nobody's.
        let (first, end) = (2, self.range.size() - 1);
        let low = first + self.range.asked_by_name();
        let free = |places| taken.addresses.some_free(places);
        free(low..end).or_else(|| free(first..low)).map(|place| Ipv4Addr::from(self.range.first + place))
    }
}

fn allocate_ports(
    taken: &mut Taken,
    service: &mut Value,
    old: Option<&Value>,
    allocation: &mut Allocation<'_>,
) -> Result<(), FieldError> {
    let wants_ports = match text(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => {
            at(service, &["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true)
        }
        _ => false,
    };
    let kept: Vec<u16> = old.map(|old| node_ports(old).collect()).unwrap_or_default();
    let Some(ports) = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut) else { return Ok(()) };
    for (index, port) in ports.iter_mut().enumerate() {
        let wanted = port.get("nodePort").and_then(Value::as_u64).unwrap_or(0);
        let invalid = |detail: String| FieldError {
            kind: FieldErrorKind::Invalid,
            field: format!("spec.ports[{index}].nodePort"),
            bad_value: BadValue::Json(json!(wanted)),
            detail,
        };
        if wanted == 0 && !wants_ports {
            continue;
        }
        let number = if wanted == 0 {
            free_port(taken)
                .ok_or_else(|| invalid(format!("failed to allocate a nodePort: {}", ports_are_full())))?
        } else {
            let is_own = |number| kept.contains(&number) || allocation.ports.contains(&number);
            // The same number may serve TCP and UDP of one service.
            wanted_port(taken, wanted, is_own).map_err(invalid)?
        };
        if !kept.contains(&number) && taken.ports.take(number.into()) {
            allocation.ports.push(number);
        }
        port["nodePort"] = json!(number);
    }
    allocate_health_check(taken, service, old, allocation)
}

/// A balancer that keeps to nodes with endpoints asks each node for them at a port.
fn allocate_health_check(
    taken: &mut Taken,
    service: &mut Value,
    old: Option<&Value>,
    allocation: &mut Allocation<'_>,
) -> Result<(), FieldError> {
    let spec = &service["spec"];
    if spec["type"] != "LoadBalancer" || spec["externalTrafficPolicy"] != "Local" {
        return Ok(());
    }
    let wanted = spec["healthCheckNodePort"].as_u64().unwrap_or(0);
    let kept = old.and_then(|old| old["spec"]["healthCheckNodePort"].as_u64()).unwrap_or(0);
    if wanted != 0 && wanted == kept {
        return Ok(());
    }
    let invalid = |detail: String| FieldError {
        kind: FieldErrorKind::Invalid,
        field: "spec.healthCheckNodePort".to_owned(),
        bad_value: BadValue::Json(json!(wanted)),
        detail,
    };
    let number = if wanted == 0 {
        free_port(taken).ok_or_else(|| {
            invalid(format!("failed to allocate a health check nodePort: {}", ports_are_full()))
        })?
    } else {
        wanted_port(taken, wanted, |_| false).map_err(invalid)?
    };
    taken.ports.take(number.into());
    allocation.ports.push(number);
    service["spec"]["healthCheckNodePort"] = json!(number);
    Ok(())
}

fn free_port(taken: &Taken) -> Option<u16> {
    let free = taken.ports.some_free(FIRST_GIVEN..NODE_PORTS.end);
    free.or_else(|| taken.ports.some_free(NODE_PORTS.start..FIRST_GIVEN))
        .and_then(|port| u16::try_from(port).ok())
}

/// The port that a client wants, unless another service has it.
fn wanted_port(taken: &Taken, wanted: u64, is_own: impl Fn(u16) -> bool) -> Result<u16, String> {
    let last = NODE_PORTS.end - 1;
    let number = u16::try_from(wanted).ok().filter(|number| NODE_PORTS.contains(&(*number).into()));
    let number = number.ok_or_else(|| {
        let first = NODE_PORTS.start;
        format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
    })?;
    if taken.ports.has(number.into()) && !is_own(number) {
        return Err("provided port is already allocated".to_owned());
    }
    Ok(number)
}

fn ports_are_full() -> String {
    format!(
        "range {}-{} is full; delete a service of type NodePort or LoadBalancer, or set allocateLoadBalancerNodePorts: \
         false",
        NODE_PORTS.start,
        NODE_PORTS.end - 1
    )
}

fn cluster_address(service: &Value) -> Option<Ipv4Addr> {
    text(service, &["spec", "clusterIP"]).parse().ok()
}

/// The ports that a service holds on nodes, with the one for health checks.
fn node_ports(service: &Value) -> impl Iterator<Item = u16> + '_ {
    let health_check = at(service, &["spec", "healthCheckNodePort"]).and_then(Value::as_u64);
    list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| port.get("nodePort").and_then(Value::as_u64))
        .chain(health_check)
        .filter_map(|port| u16::try_from(port).ok())
        .filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ServiceAddresses;

    fn service(cluster_ip: &str, kind: &str) -> Value {
        json!({"spec": {"type": kind, "clusterIP": cluster_ip, "ports": [{"port": 80}]}})
    }

    #[test]
    fn addresses_come_from_the_range_and_each_once() {
        let addresses = ServiceAddresses::new("10.9.0.7/28".parse().expect("a range"));
        assert_eq!(addresses.range().kubernetes().to_string(), "10.9.0.1");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..13 {
            let mut one = service("", "ClusterIP");
            addresses.allocate(&mut one, None).expect("there is room").keep();
            assert!(seen.insert(one["spec"]["clusterIP"].as_str().expect("text").to_owned()));
            assert_eq!(one["spec"]["clusterIPs"], json!([one["spec"]["clusterIP"]]));
        }
        assert!(!seen.contains("10.9.0.1"), "reserved");
        let error = addresses.allocate(&mut service("", "ClusterIP"), None).expect_err("full");
        assert!(error.to_string().contains("range 10.9.0.0/28 is full"), "{error}");
        let back = seen.first().expect("some");
        addresses.release_service(&service(back, "ClusterIP"));
        addresses.allocate(&mut service(back, "ClusterIP"), None).expect("free again");
    }

    #[test]
    fn the_lowest_addresses_are_left_to_those_who_ask_for_them_until_there_are_no_others() {
        let addresses = ServiceAddresses::new("10.9.0.0/26".parse().expect("a range"));
        assert_eq!(addresses.range().dns().to_string(), "10.9.0.10");
        let mut given = Vec::new();
        for _ in 0..61 {
            let mut one = service("", "ClusterIP");
            addresses.allocate(&mut one, None).expect("there is room").keep();
            let address: std::net::Ipv4Addr =
                one["spec"]["clusterIP"].as_str().and_then(|text| text.parse().ok()).expect("an address");
            given.push(address.octets()[3]);
        }
        let low = |last: &u8| *last < 18;
        assert!(!given[..45].iter().any(low), "{given:?}");
        assert!(given[45..].iter().all(low), "{given:?}");
    }

    #[test]
    fn wanted_addresses_are_given_or_refused_by_name() {
        let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
        addresses.allocate(&mut service("10.9.0.9", "ClusterIP"), None).expect("free").keep();
        let error = addresses.allocate(&mut service("10.9.0.9", "ClusterIP"), None).expect_err("taken");
        assert!(error.to_string().contains("already allocated"), "{error}");
        let error = addresses.allocate(&mut service("10.8.0.9", "ClusterIP"), None).expect_err("outside");
        assert!(error.to_string().contains("not in the valid range"), "{error}");
        for (wanted, kind) in [("None", "ClusterIP"), ("", "ExternalName")] {
            let mut one = service(wanted, kind);
            addresses.allocate(&mut one, None).expect("needs none");
            assert_eq!(one["spec"]["clusterIP"], wanted);
        }
    }

    #[test]
    fn node_ports_are_given_kept_and_returned() {
        let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
        let mut one = service("", "NodePort");
        let allocation = addresses.allocate(&mut one, None).expect("room");
        let port = one["spec"]["ports"][0]["nodePort"].as_u64().expect("a port");
        assert!((30_000..=32_767).contains(&port));
        let mut again = one.clone();
        addresses.allocate(&mut again, Some(&one)).expect("keeps its own");
        assert_eq!(again, one);
        let mut other = service("", "NodePort");
        other["spec"]["ports"][0]["nodePort"] = json!(port);
        assert!(addresses.allocate(&mut other, None).is_err());
        drop(allocation);
        addresses.allocate(&mut other, None).expect("returned");
    }

    #[test]
    fn a_range_that_is_used_up_says_so_and_what_to_do() {
        let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
        let ports: Vec<Value> = (0..2768).map(|port| json!({"port": port + 1})).collect();
        let mut all = json!({"spec": {"type": "NodePort", "ports": ports}});
        addresses.allocate(&mut all, None).expect("there is room").keep();
        let error = addresses.allocate(&mut service("", "NodePort"), None).expect_err("full").to_string();
        assert!(
            error.contains("spec.ports[0].nodePort") && error.contains("range 30000-32767 is full"),
            "{error}"
        );
        let mut without = service("", "LoadBalancer");
        without["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
        addresses.allocate(&mut without, None).expect("it asks for none");
    }

    #[test]
    fn node_ports_come_from_the_upper_part_until_it_is_full() {
        let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
        let given = |count: usize| {
            let mut one = json!({"spec": {"type": "NodePort", "ports": vec![json!({"port": 80}); count]}});
            addresses.allocate(&mut one, None).expect("there is room").keep();
            let ports = one["spec"]["ports"].as_array().cloned().unwrap_or_default();
            ports
                .iter()
                .filter_map(|port| port["nodePort"].as_u64())
                .collect::<std::collections::BTreeSet<u64>>()
        };
        let upper = given(2768 - 86);
        assert_eq!((upper.len(), upper.first()), (2682, Some(&30_086)));
        assert_eq!(given(86).last(), Some(&30_085));
    }

    #[test]
    fn a_balancer_that_keeps_to_its_nodes_has_a_port_for_health_checks_which_it_gives_back() {
        let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
        let mut one = service("", "LoadBalancer");
        one["spec"]["externalTrafficPolicy"] = json!("Local");
        addresses.allocate(&mut one, None).expect("room").keep();
        let port = one["spec"]["healthCheckNodePort"].as_u64().expect("a port");
        assert_ne!(one["spec"]["ports"][0]["nodePort"], json!(port));
        let mut again = one.clone();
        addresses.allocate(&mut again, Some(&one)).expect("keeps its own");
        assert_eq!(again, one);
        let mut other = service("", "NodePort");
        other["spec"]["ports"][0]["nodePort"] = json!(port);
        let error = addresses.allocate(&mut other, None).expect_err("taken").to_string();
        assert!(error.contains("provided port is already allocated"), "{error}");
        let mut plain = one.clone();
        plain["spec"]["externalTrafficPolicy"] = json!("Cluster");
        plain["spec"].as_object_mut().expect("a map").remove("healthCheckNodePort");
        addresses.replace(&one, &plain);
        addresses.allocate(&mut other, None).expect("returned");
    }

    #[test]
    fn a_range_with_a_million_addresses_is_given_out_to_the_last_one() {
        let addresses = ServiceAddresses::new("10.0.0.0/12".parse().expect("a range"));
        let mut one = service("", "ClusterIP");
        for _ in 0..(1_u32 << 20) - 3 {
            // Without the object around it, which is no part of the search.
            let mut taken = addresses.taken();
            let address = addresses.free_address(&taken).expect("there is room");
            let place = taken.place(address);
            assert!(taken.addresses.take(place));
        }
        assert!(addresses.allocate(&mut one, None).is_err());
    }
}
