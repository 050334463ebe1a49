//! The variables that services give, in docker-link form.

use std::borrow::Cow;
use std::sync::Arc;

use crate::text::short_label;
use crate::{ClusterAddress, Part, ServiceSource, Text, Value};

/// Which services give variables to a pod of `namespace`, by name: with `links`, those of its own namespace; and
/// `kubernetes` of namespace `default`, unless one of that name was already chosen.
pub(super) fn chosen_services<'s>(
    services: &'s [Arc<ServiceSource>],
    namespace: &str,
    links: bool,
) -> Vec<&'s Arc<ServiceSource>> {
    let gives = |service: &&Arc<ServiceSource>| service.cluster_address != ClusterAddress::None;
    let own = |service: &&Arc<ServiceSource>| links && &*service.namespace == namespace;
    let mut chosen: Vec<&Arc<ServiceSource>> = services.iter().filter(own).filter(gives).collect();
    let is_master = |service: &&Arc<ServiceSource>| &*service.name == "kubernetes";
    if !chosen.iter().any(is_master) {
        let of_default =
            |service: &&Arc<ServiceSource>| is_master(service) && &*service.namespace == "default";
        chosen.extend(services.iter().filter(of_default).find(gives));
    }
    // The names stand beside the pointers: sorting looks at each a dozen times.
    let mut named: Vec<(&str, &Arc<ServiceSource>)> =
        chosen.into_iter().map(|service| (&*service.name, service)).collect();
    named.sort_by_key(|(name, _)| *name);
    named.into_iter().map(|(_, service)| service).collect()
}

/// A name as its variables begin with it: upper case, `-` becomes `_`.
pub(super) fn variable_prefix(service: &str) -> String {
    upper_case(service)
}

fn upper_case(name: &str) -> String {
    // Service and port names are ASCII; an unchecked manifest may say otherwise, and keeps its letters then.
    let letter = |letter: char| if letter == '-' { '_' } else { letter.to_ascii_uppercase() };
    let mut upper = String::with_capacity(name.len());
    upper.extend(name.chars().map(letter));
    upper
}

/// How many variables a service gives, at most.
pub(super) fn count_of(service: &ServiceSource) -> usize {
    3 + service.ports.len() * 5
}

/// The names of the variables that a service gives, in the order that Kubernetes has inside one service.
pub fn service_variable_names(service: &ServiceSource) -> Vec<String> {
    let mut names = Vec::with_capacity(count_of(service));
    emit_variables(service, |name, _| names.push(name));
    names
}

/// Gives each variable of `service` to `emit`, in the order that Kubernetes has inside one service.
pub(super) fn emit_variables(service: &ServiceSource, mut emit: impl FnMut(String, Value)) {
    let prefix = upper_case(&service.name);
    let host = Host::of(service, &prefix);
    emit(joined(&[&prefix, "_SERVICE_HOST"]), host.alone.clone());
    let Some(first) = service.ports.first() else { return };
    emit(joined(&[&prefix, "_SERVICE_PORT"]), Value::Plain(Text::number(first.port)));
    for port in service.ports.iter().filter(|port| !port.name.is_empty()) {
        let name = upper_case(&port.name);
        emit(joined(&[&prefix, "_SERVICE_PORT_", &name]), Value::Plain(Text::number(port.port)));
    }
    for (place, port) in service.ports.iter().enumerate() {
        let number = Text::number(port.port);
        let protocol = lower_case(&port.protocol);
        let url = host.url(&protocol, &number);
        let base = joined(&[&prefix, "_PORT_", &number, "_", &port.protocol]);
        let (of_protocol, of_port) = (joined(&[&base, "_PROTO"]), joined(&[&base, "_PORT"]));
        let of_address = joined(&[&base, "_ADDR"]);
        if place == 0 {
            emit(joined(&[&prefix, "_PORT"]), url.clone());
        }
        emit(base, url);
        emit(of_protocol, Value::Plain(protocol));
        emit(of_port, Value::Plain(number));
        emit(of_address, host.alone.clone());
    }
}

fn lower_case(protocol: &str) -> Text {
    match protocol {
        "TCP" => Text::constant("tcp"),
        "UDP" => Text::constant("udp"),
        "SCTP" => Text::constant("sctp"),
        other => Text::from(other.to_ascii_lowercase()),
    }
}

/// The address of a service, or what stands for it before it is known.
struct Host<'s> {
    /// The address as a value of its own.
    alone: Value,
    /// The address as it stands in a URL: the text, or the label of what is not known.
    in_url: Result<Cow<'s, str>, String>,
}

impl<'s> Host<'s> {
    fn of(service: &'s ServiceSource, prefix: &str) -> Self {
        match &service.cluster_address {
            ClusterAddress::Known(address) => {
                let is_v6 = address.contains(':');
                let in_url =
                    if is_v6 { Cow::Owned(joined(&["[", address, "]"])) } else { Cow::Borrowed(&**address) };
                Self { alone: Value::plain(&**address), in_url: Ok(in_url) }
            }
            ClusterAddress::NotYetAllocated | ClusterAddress::None => {
                let label = short_label(&joined(&["cluster address of service ", &service.name]));
                Self {
                    alone: Value::Composed(vec![Part::UnknownUntilRun { label }]),
                    in_url: Err(short_label(&joined(&[prefix, "_SERVICE_HOST"]))),
                }
            }
        }
    }

    fn url(&self, protocol: &str, port: &str) -> Value {
        match &self.in_url {
            // Shared: the first port's is the value of two variables.
            Ok(host) => Value::plain(Arc::<str>::from(joined(&[protocol, "://", host, ":", port]))),
            Err(label) => Value::Composed(vec![
                Part::Plain(joined(&[protocol, "://"])),
                Part::UnknownUntilRun { label: label.clone() },
                Part::Plain(joined(&[":", port])),
            ]),
        }
    }
}

fn joined(pieces: &[&str]) -> String {
    pieces.concat()
}
