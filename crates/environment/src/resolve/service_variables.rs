//! The variables that services give, in docker-link form.

use std::sync::Arc;

use crate::text::short_label;
use crate::{ClusterAddress, Part, ServiceSource, Value};

/// Which services give variables to a pod of `namespace`, by name: with `links`, those of its own namespace; and
/// `kubernetes` of namespace `default`, unless one of that name was already chosen.
pub(super) fn chosen_services<'s>(
    services: &'s [Arc<ServiceSource>],
    namespace: &str,
    links: bool,
) -> Vec<&'s ServiceSource> {
    let gives = |service: &&ServiceSource| service.cluster_address != ClusterAddress::None;
    let own = |service: &&ServiceSource| links && &*service.namespace == namespace;
    let mut chosen: Vec<&ServiceSource> =
        services.iter().map(|service| &**service).filter(own).filter(gives).collect();
    let is_master = |service: &&ServiceSource| &*service.name == "kubernetes";
    if !chosen.iter().any(is_master) {
        let of_default = |service: &&ServiceSource| is_master(service) && &*service.namespace == "default";
        chosen.extend(services.iter().map(|service| &**service).filter(of_default).find(gives));
    }
    chosen.sort_by(|one, other| one.name.cmp(&other.name));
    chosen
}

/// A name as its variables begin with it: upper case, `-` becomes `_`.
pub(super) fn variable_prefix(service: &str) -> String {
    upper_case(service)
}

fn upper_case(name: &str) -> String {
    // Service and port names are ASCII; an unchecked manifest may say otherwise, and keeps its letters then.
    let mut upper = name.to_ascii_uppercase();
    if upper.contains('-') {
        upper = upper.replace('-', "_");
    }
    upper
}

/// How many variables a service gives, at most.
pub(super) fn count_of(service: &ServiceSource) -> usize {
    3 + service.ports.len() * 5
}

/// Gives each variable of `service` to `emit`, in the order that Kubernetes has inside one service.
pub(super) fn emit_variables(service: &ServiceSource, mut emit: impl FnMut(String, Value)) {
    let prefix = upper_case(&service.name);
    let host = Host::of(service, &prefix);
    emit(joined(&[&prefix, "_SERVICE_HOST"]), host.alone());
    let Some(first) = service.ports.first() else { return };
    emit(joined(&[&prefix, "_SERVICE_PORT"]), Value::Plain(first.port.to_string()));
    for port in service.ports.iter().filter(|port| !port.name.is_empty()) {
        let name = upper_case(&port.name);
        emit(joined(&[&prefix, "_SERVICE_PORT_", &name]), Value::Plain(port.port.to_string()));
    }
    for (place, port) in service.ports.iter().enumerate() {
        let number = port.port.to_string();
        let protocol = port.protocol.to_ascii_lowercase();
        if place == 0 {
            emit(joined(&[&prefix, "_PORT"]), host.url(&protocol, &number));
        }
        let base = joined(&[&prefix, "_PORT_", &number, "_", &port.protocol]);
        let (of_protocol, of_port) = (joined(&[&base, "_PROTO"]), joined(&[&base, "_PORT"]));
        let of_address = joined(&[&base, "_ADDR"]);
        emit(base, host.url(&protocol, &number));
        emit(of_protocol, Value::Plain(protocol));
        emit(of_port, Value::Plain(number));
        emit(of_address, host.alone());
    }
}

/// The address of a service, or what stands for it before it is known.
enum Host<'s> {
    Known { address: &'s str, in_url: String },
    Unknown { alone: String, in_url: String },
}

impl<'s> Host<'s> {
    fn of(service: &'s ServiceSource, prefix: &str) -> Self {
        match &service.cluster_address {
            ClusterAddress::Known(address) => {
                let in_url =
                    if address.contains(':') { joined(&["[", address, "]"]) } else { address.to_string() };
                Self::Known { address, in_url }
            }
            ClusterAddress::NotYetAllocated | ClusterAddress::None => Self::Unknown {
                alone: short_label(&joined(&["cluster address of service ", &service.name])),
                in_url: short_label(&joined(&[prefix, "_SERVICE_HOST"])),
            },
        }
    }

    fn alone(&self) -> Value {
        match self {
            Self::Known { address, .. } => Value::Plain((*address).to_owned()),
            Self::Unknown { alone, .. } => {
                Value::Composed(vec![Part::UnknownUntilRun { label: alone.clone() }])
            }
        }
    }

    fn url(&self, protocol: &str, port: &str) -> Value {
        match self {
            Self::Known { in_url, .. } => Value::Plain(joined(&[protocol, "://", in_url, ":", port])),
            Self::Unknown { in_url, .. } => Value::Composed(vec![
                Part::Plain(joined(&[protocol, "://"])),
                Part::UnknownUntilRun { label: in_url.clone() },
                Part::Plain(joined(&[":", port])),
            ]),
        }
    }
}

fn joined(pieces: &[&str]) -> String {
    pieces.concat()
}
