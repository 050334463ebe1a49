//! Cluster addresses and node ports. What is taken follows from the stored services; nothing else is kept.

mod numbers;
mod ports;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use admission::{BadValue, FieldError, FieldErrorKind, FieldErrors, IpFamily};
use serde_json::{Value, json};

use crate::object::{list, map_mut, text};
use crate::service_ranges::{ServiceRange, ServiceRanges};
use numbers::Numbers;
use ports::{NODE_PORTS, allocate_ports, node_ports};

/// What is taken.
#[derive(Debug)]
pub(crate) struct ServiceAddresses {
    ranges: ServiceRanges,
    taken: Mutex<Taken>,
}

/// What is taken of one range.
#[derive(Debug)]
struct Pool {
    range: ServiceRange,
    /// By their place in the range.
    places: Numbers,
}

impl Pool {
    /// Takes an address; false if somebody has it, or it is none of the range.
    fn take(&mut self, address: IpAddr) -> bool {
        self.range.place(address).is_some_and(|place| self.places.take(place))
    }

    fn free(&self) -> Option<IpAddr> {
        // The first is reserved for `kubernetes`; network and broadcast address are nobody's.
        let (first, end) = (2, self.range.end());
        let low = first + self.range.asked_by_name();
        let free = |places| self.places.some_free(places);
        free(low..end).or_else(|| free(first..low)).map(|place| self.range.at(place))
    }
}

#[derive(Debug)]
struct Taken {
    /// One for each range.
    pools: Vec<Pool>,
    ports: Numbers,
}

impl Taken {
    fn pool(&mut self, family: IpFamily) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.range.family() == family)
    }

    fn give_back(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
        ports: impl IntoIterator<Item = u16>,
    ) {
        for address in addresses {
            // One of no range was never taken.
            if let Some(pool) = self.pool(IpFamily::of(address))
                && let Some(place) = pool.range.place(address)
            {
                pool.places.give_back(place);
            }
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
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
}

impl Allocation<'_> {
    /// The service holds it from now on.
    pub(crate) fn keep(mut self) {
        self.addresses.clear();
        self.ports.clear();
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        if self.addresses.is_empty() && self.ports.is_empty() {
            return;
        }
        self.owner.taken().give_back(std::mem::take(&mut self.addresses), std::mem::take(&mut self.ports));
    }
}

impl ServiceAddresses {
    pub(crate) fn new(ranges: ServiceRanges) -> ServiceAddresses {
        let pools = ranges.all().map(|range| Pool { range, places: Numbers::below(range.size()) }).collect();
        ServiceAddresses { ranges, taken: Mutex::new(Taken { pools, ports: Numbers::below(NODE_PORTS.end) }) }
    }

    pub(crate) fn ranges(&self) -> ServiceRanges {
        self.ranges
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a stored service holds; tells which of its addresses are of no range.
    pub(crate) fn note(&self, service: &Value) -> Vec<IpAddr> {
        let mut taken = self.taken();
        for port in node_ports(service) {
            taken.ports.take(port.into());
        }
        let mut outside = cluster_addresses(service);
        outside.retain(|address| {
            let Some(pool) = taken.pool(IpFamily::of(*address)) else { return true };
            pool.take(*address);
            pool.range.place(*address).is_none()
        });
        outside
    }

    /// Gives back what a deleted service held.
    pub(crate) fn release_service(&self, service: &Value) {
        self.taken().give_back(cluster_addresses(service), node_ports(service));
    }

    /// Gives back what the old version of a stored service held and the new one does not.
    pub(crate) fn replace(&self, old: &Value, new: &Value) {
        let mut gone = cluster_addresses(old);
        let kept = cluster_addresses(new);
        gone.retain(|address| !kept.contains(address));
        let kept: Vec<u16> = node_ports(new).collect();
        self.taken().give_back(gone, node_ports(old).filter(|port| !kept.contains(port)));
    }

    /// Fills the cluster addresses and the node ports of a service, as far as its type and its families want them; `old` is what
    /// it replaces.
    pub(crate) fn allocate(
        &self,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Allocation<'_>, FieldErrors> {
        let mut allocation = Allocation { owner: self, addresses: Vec::new(), ports: Vec::new() };
        let mut taken = self.taken();
        let outcome = self
            .allocate_addresses(&mut taken, service, old, &mut allocation)
            .and_then(|()| allocate_ports(&mut taken, service, old, &mut allocation));
        // Dropping a failed allocation needs the lock again.
        drop(taken);
        outcome.map(|()| allocation).map_err(|error| FieldErrors(vec![error]))
    }

    fn allocate_addresses(
        &self,
        taken: &mut Taken,
        service: &mut Value,
        old: Option<&Value>,
        allocation: &mut Allocation<'_>,
    ) -> Result<(), FieldError> {
        if text(service, &["spec", "type"]) == "ExternalName"
            || text(service, &["spec", "clusterIP"]) == "None"
        {
            return Ok(());
        }
        let mut addresses: Vec<String> = list(service, &["spec", "clusterIPs"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let families: Vec<IpFamily> = list(service, &["spec", "ipFamilies"])
            .iter()
            .filter_map(|family| IpFamily::named(family.as_str()?))
            .collect();
        if addresses.is_empty() {
            addresses.push(text(service, &["spec", "clusterIP"]).to_owned());
        }
        let count = families.len().max(addresses.len());
        addresses.resize(count, String::new());
        let kept = old.map(cluster_addresses).unwrap_or_default();
        for place in 0..count {
            let refused = |detail: String| FieldError {
                kind: FieldErrorKind::Invalid,
                field: "spec.clusterIPs".to_owned(),
                bad_value: BadValue::Json(json!(addresses)),
                detail,
            };
            let wanted = addresses[place].as_str();
            let given = if wanted.is_empty() {
                let family = families.get(place).copied().unwrap_or(self.ranges.families().first);
                let given = free_address(taken, family).map_err(refused)?;
                addresses[place] = given.to_string();
                given
            } else {
                // What is no address at all was refused by validation.
                let address = wanted
                    .parse()
                    .map_err(|_| refused(format!("failed to allocate IP {wanted}: it is no address")))?;
                if kept.contains(&address) {
                    continue;
                }
                take_address(taken, address, self.ranges)
                    .map_err(|reason| refused(format!("failed to allocate IP {wanted}: {reason}")))?;
                address
            };
            allocation.addresses.push(given);
        }
        let spec = map_mut(service, "spec");
        spec.insert("clusterIP".to_owned(), json!(addresses[0]));
        spec.insert("clusterIPs".to_owned(), json!(addresses));
        Ok(())
    }
}

/// Takes any address of a family.
fn free_address(taken: &mut Taken, family: IpFamily) -> Result<IpAddr, String> {
    let Some(pool) = taken.pool(family) else {
        return Err(format!("failed to allocate IP: {} is not configured on this cluster", family.name()));
    };
    let Some(address) = pool.free() else {
        return Err(format!(
            "failed to allocate IP: range {} is full; delete a service, or make one headless (clusterIP: None)",
            pool.range
        ));
    };
    pool.take(address);
    Ok(address)
}

/// Takes an address that is wanted by name.
fn take_address(taken: &mut Taken, address: IpAddr, ranges: ServiceRanges) -> Result<(), String> {
    match taken.pool(IpFamily::of(address)) {
        Some(pool) if pool.range.place(address).is_some() => {
            if pool.take(address) {
                Ok(())
            } else {
                Err("provided IP is already allocated".to_owned())
            }
        }
        pool => {
            let valid = pool.map_or_else(|| ranges.to_string(), |pool| pool.range.to_string());
            Err(format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {valid}"
            ))
        }
    }
}

/// The addresses that a service holds.
fn cluster_addresses(service: &Value) -> Vec<IpAddr> {
    let all = list(service, &["spec", "clusterIPs"]);
    let texts = all.iter().filter_map(Value::as_str);
    if all.is_empty() {
        return text(service, &["spec", "clusterIP"]).parse().into_iter().collect();
    }
    texts.filter_map(|address| address.parse().ok()).collect()
}
