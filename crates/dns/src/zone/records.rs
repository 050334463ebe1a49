//! The records of a name: addresses, services by port, pointers back, and the starts of authority of what is not there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::facts::{Port, Target};
use super::{Entry, Found, TTL, Zone};

/// The version of the specification that is kept.
const SCHEMA: &str = "1.1.0";
/// All SRV records have the same priority, and share this weight.
const WEIGHT: usize = 100;

fn address_record(name: &Name, address: IpAddr) -> Record {
    let data = match address {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    };
    Record::from_rdata(name.clone(), TTL, data)
}

fn wants(kind: RecordType, address: IpAddr) -> bool {
    match kind {
        RecordType::ANY => true,
        RecordType::A => address.is_ipv4(),
        RecordType::AAAA => address.is_ipv6(),
        _ => false,
    }
}

impl Zone {
    fn authority(&self, at: &Name) -> Box<Record> {
        let name = |labels: &[&str]| self.name_of(labels).unwrap_or_else(|| self.domain.clone());
        let minimum = TTL;
        let soa =
            SOA::new(name(&["ns", "dns"]), name(&["hostmaster"]), self.serial, 7200, 1800, 86_400, minimum);
        Box::new(Record::from_rdata(at.clone(), TTL, RData::SOA(soa)))
    }

    pub(super) fn no_name(&self) -> Found {
        Found::NoName(self.authority(&self.domain))
    }

    pub(super) fn no_data(&self) -> Found {
        Found::NoData(self.authority(&self.domain))
    }

    fn records(&self, records: Vec<Record>) -> Found {
        if records.is_empty() { self.no_data() } else { Found::Records(records, Vec::new()) }
    }

    pub(super) fn apex(&self, name: &Name, kind: RecordType) -> Found {
        let mut records = Vec::new();
        if matches!(kind, RecordType::SOA | RecordType::ANY) {
            let mut start = *self.authority(&self.domain);
            start.name = name.clone();
            records.push(start);
        }
        if matches!(kind, RecordType::NS | RecordType::ANY)
            && let Some(server) = self.name_of(&["ns", "dns"])
        {
            records.push(Record::from_rdata(name.clone(), TTL, RData::NS(NS(server))));
        }
        self.records(records)
    }

    pub(super) fn version(&self, name: &Name, kind: RecordType) -> Found {
        let has = matches!(kind, RecordType::TXT | RecordType::ANY);
        let text = || RData::TXT(TXT::new(vec![SCHEMA.to_owned()]));
        self.records(has.then(|| Record::from_rdata(name.clone(), TTL, text())).into_iter().collect())
    }

    pub(super) fn addresses(&self, name: &Name, kind: RecordType, addresses: &[IpAddr]) -> Found {
        let wanted = addresses.iter().filter(|address| wants(kind, **address));
        self.records(wanted.map(|address| address_record(name, *address)).collect())
    }

    /// A service by its own name.
    pub(super) fn service(
        &self,
        entry: &Entry,
        [service, namespace]: [&str; 2],
        name: &Name,
        kind: RecordType,
    ) -> Found {
        let Some(facts) = &entry.service else { return self.no_name() };
        match &facts.target {
            Target::External(None) => self.no_data(),
            Target::External(Some(target)) => {
                let record = Record::from_rdata(name.clone(), TTL, RData::CNAME(CNAME(target.clone())));
                Found::Alias(Box::new(record), target.clone())
            }
            _ if kind == RecordType::SRV => self.ports(entry, [service, namespace], name, |_| true),
            Target::Cluster(addresses) => self.addresses(name, kind, addresses),
            Target::Endpoints => {
                let mut addresses: Vec<IpAddr> = entry.endpoints().map(|endpoint| endpoint.address).collect();
                if addresses.is_empty() {
                    return self.no_name();
                }
                addresses.sort_unstable();
                addresses.dedup();
                self.addresses(name, kind, &addresses)
            }
        }
    }

    /// One endpoint of a service by its host name; or the place where the ports of a protocol are.
    pub(super) fn endpoint(&self, entry: &Entry, host: &str, name: &Name, kind: RecordType) -> Found {
        if let Some(protocol) = host.strip_prefix('_') {
            let has = self.all_ports(entry).any(|port| !port.name.is_empty() && *port.protocol == *protocol);
            return if has { self.no_data() } else { self.no_name() };
        }
        if entry.service.is_none() {
            return self.no_name();
        }
        let mut addresses: Vec<IpAddr> = entry
            .endpoints()
            .filter(|endpoint| *endpoint.host == *host)
            .map(|endpoint| endpoint.address)
            .collect();
        if addresses.is_empty() {
            return self.no_name();
        }
        addresses.sort_unstable();
        addresses.dedup();
        self.addresses(name, kind, &addresses)
    }

    fn all_ports<'z>(&'z self, entry: &'z Entry) -> Box<dyn Iterator<Item = &'z Port> + 'z> {
        match entry.service.as_ref().map(|service| (&service.target, &service.ports)) {
            Some((Target::Cluster(_), ports)) => Box::new(ports.iter()),
            Some((Target::Endpoints, _)) => Box::new(
                entry
                    .slices
                    .values()
                    .filter(|slice| slice.facts.endpoints.iter().any(|endpoint| entry.shows(endpoint)))
                    .flat_map(|slice| &slice.facts.ports),
            ),
            Some((Target::External(_), _)) | None => Box::new(std::iter::empty()),
        }
    }

    /// A named port of a service: `_PORT._PROTOCOL`.
    pub(super) fn port(
        &self,
        entry: &Entry,
        [port, protocol, service, namespace]: [&str; 4],
        name: &Name,
        kind: RecordType,
    ) -> Found {
        let (Some(port), Some(protocol)) = (port.strip_prefix('_'), protocol.strip_prefix('_')) else {
            return self.no_name();
        };
        let is_meant = |each: &Port| !port.is_empty() && *each.name == *port && *each.protocol == *protocol;
        if !self.all_ports(entry).any(is_meant) {
            return self.no_name();
        }
        match kind {
            RecordType::SRV | RecordType::ANY => self.ports(entry, [service, namespace], name, is_meant),
            _ => self.no_data(),
        }
    }

    /// SRV records of those ports, and the addresses that they lead to.
    fn ports(
        &self,
        entry: &Entry,
        [service, namespace]: [&str; 2],
        name: &Name,
        is_meant: impl Fn(&Port) -> bool,
    ) -> Found {
        let Some(facts) = &entry.service else { return self.no_name() };
        let mut targets: Vec<(u16, Name)> = Vec::new();
        let mut further: Vec<Record> = Vec::new();
        match &facts.target {
            Target::Cluster(addresses) => {
                let Some(target) = self.name_of(&[service, namespace, "svc"]) else { return self.no_data() };
                for port in facts.ports.iter().filter(|port| is_meant(port)) {
                    targets.push((port.number, target.clone()));
                }
                further.extend(addresses.iter().map(|address| address_record(&target, *address)));
            }
            Target::Endpoints => {
                let mut told = std::collections::HashSet::new();
                for slice in entry.slices.values() {
                    for endpoint in slice.facts.endpoints.iter().filter(|each| entry.shows(each)) {
                        let target = self.name_of(&[&endpoint.host, service, namespace, "svc"]);
                        let Some(target) = target else { continue };
                        for port in slice.facts.ports.iter().filter(|port| is_meant(port)) {
                            // A host with an address of each family is in two slices.
                            if told.insert((port.number, &endpoint.host)) {
                                targets.push((port.number, target.clone()));
                            }
                        }
                        further.push(address_record(&target, endpoint.address));
                    }
                }
            }
            Target::External(_) => {}
        }
        if targets.is_empty() {
            return self.no_data();
        }
        let weight = u16::try_from((WEIGHT / targets.len()).max(1)).unwrap_or(1);
        let records = targets.into_iter().map(|(port, target)| {
            Record::from_rdata(name.clone(), TTL, RData::SRV(SRV::new(0, weight, port, target)))
        });
        Found::Records(records.collect(), further)
    }

    /// A name under `in-addr.arpa`; `labels` are the octets, last first.
    pub(super) fn look_back(&self, labels: &[&str], name: &Name, kind: RecordType) -> Found {
        let octets: Option<Vec<u8>> = labels.iter().rev().map(|label| octet(label)).collect();
        let Some(octets) = octets.filter(|octets| octets.len() <= 4) else { return Found::Elsewhere };
        let mut padded = [0; 4];
        padded[..octets.len()].copy_from_slice(&octets);
        let asked = Reverse { address: Ipv4Addr::from(padded).into(), labels: octets.len(), bits: 8 };
        self.look_back_at(&asked, name, kind)
    }

    /// A name under `ip6.arpa`; `labels` are the hexadecimal digits, last first.
    pub(super) fn look_back_v6(&self, labels: &[&str], name: &Name, kind: RecordType) -> Found {
        if labels.len() > 32 {
            return Found::Elsewhere;
        }
        let mut bits: u128 = 0;
        for (place, label) in labels.iter().rev().enumerate() {
            let digit = u128::from_str_radix(label, 16).ok().filter(|_| label.len() == 1);
            let Some(digit) = digit else { return Found::Elsewhere };
            bits |= digit << (124 - 4 * place);
        }
        let asked = Reverse { address: Ipv6Addr::from(bits).into(), labels: labels.len(), bits: 4 };
        self.look_back_at(&asked, name, kind)
    }

    fn look_back_at(&self, asked: &Reverse, name: &Name, kind: RecordType) -> Found {
        let known = asked.labels * asked.bits;
        let is_whole = known == if asked.address.is_ipv4() { 32 } else { 128 };
        let range = self
            .ranges
            .iter()
            .find(|range| range.contains(asked.address) && usize::from(range.prefix_length()) <= known);
        if range.is_none() && !(is_whole && self.reverse.contains_key(&asked.address)) {
            return Found::Elsewhere;
        }
        if !self.is_complete {
            return Found::NotYet;
        }
        let authority = || {
            // The nearest boundary of a label: there is no name for others.
            let kept =
                range.map_or(asked.labels, |range| usize::from(range.prefix_length()).div_ceil(asked.bits));
            self.authority(&name.trim_to(kept + 2))
        };
        if !is_whole {
            return Found::NoData(authority());
        }
        self.pointers(asked.address, name, kind, authority)
    }

    fn pointers(
        &self,
        address: IpAddr,
        name: &Name,
        kind: RecordType,
        authority: impl Fn() -> Box<Record>,
    ) -> Found {
        let Some(names) = self.reverse.get(&address) else { return Found::NoName(authority()) };
        if !matches!(kind, RecordType::PTR | RecordType::ANY) {
            return Found::NoData(authority());
        }
        let mut told: Vec<&Name> = names.iter().collect();
        told.sort_unstable();
        told.dedup();
        let record = |target: &Name| Record::from_rdata(name.clone(), TTL, RData::PTR(PTR(target.clone())));
        Found::Records(told.into_iter().map(record).collect(), Vec::new())
    }
}

/// What a reverse name asks for.
struct Reverse {
    /// What is not named is zero.
    address: IpAddr,
    /// How many labels name it.
    labels: usize,
    /// How many bits one of them names.
    bits: usize,
}

/// A number as it stands in a reverse name: no sign, no leading zero.
fn octet(label: &str) -> Option<u8> {
    let number: u8 = label.parse().ok()?;
    (number.to_string() == label).then_some(number)
}
