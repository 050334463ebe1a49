//! The variables that services give, in docker-link form.

use std::borrow::Cow;
use std::sync::Arc;

use crate::text::short_label;
use crate::{ClusterAddress, Part, Reveal, ServiceSource, Text, Value};

/// Which services give variables to a pod of `namespace`, by name: with `links`, those of its own namespace; and
/// `kubernetes` of namespace `default`, unless one of that name was already chosen.
pub(super) fn chosen_services<'s>(
    services: &'s [Arc<ServiceSource>],
    namespace: &str,
    links: bool,
) -> Vec<&'s Arc<ServiceSource>> {
    let gives = |service: &&Arc<ServiceSource>| match &service.cluster_address {
        ClusterAddress::Known(address) => address.len() <= LONGEST,
        ClusterAddress::NotYetAllocated => true,
        ClusterAddress::None => false,
    };
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
    let mut prefix = String::with_capacity(service.len());
    push_upper_case(&mut prefix, service);
    prefix
}

fn push_upper_case(text: &mut String, name: &str) {
    // Service and port names are ASCII; an unchecked manifest may say otherwise, and keeps its letters then.
    let letter = |letter: char| if letter == '-' { '_' } else { letter.to_ascii_uppercase() };
    text.extend(name.chars().map(letter));
}

/// How many variables a service gives, at most.
pub(super) fn count_of(service: &ServiceSource) -> usize {
    3 + service.ports.len() * 5
}

/// The names of the variables that a service gives, in the order that Kubernetes has inside one service.
pub fn service_variable_names(service: &ServiceSource) -> Vec<String> {
    let mut names = Vec::with_capacity(count_of(service));
    emit_variables(service, &mut Vec::new(), |name, _| names.push(name.to_string()));
    names
}

/// A variable that a service gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceVariable<'s> {
    pub(crate) service: &'s Arc<ServiceSource>,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The variables that services give to a pod of `namespace`, as far as their values are known, service by service.
pub(crate) fn service_variables<'s>(
    services: &'s [Arc<ServiceSource>],
    namespace: &str,
    links: bool,
) -> Vec<ServiceVariable<'s>> {
    let mut ends = Vec::new();
    let mut variables = Vec::new();
    for service in chosen_services(services, namespace, links) {
        emit_variables(service, &mut ends, |name, value| {
            if let Some(value) = value.shown(Reveal::Nothing) {
                let (name, value) = (name.to_string(), value.into_owned());
                variables.push(ServiceVariable { service, name, value });
            }
        });
    }
    variables
}

/// Names, addresses and protocols of an unchecked manifest may be of any length; none that an API server takes is
/// longer.
const LONGEST: usize = 253;

/// Gives each variable of `service` to `emit`, in the order that Kubernetes has inside one service. `ends` is room that is
/// used again for each service.
///
/// All names and URLs of a service stand in one text, because a namespace may have thousands of services.
pub(super) fn emit_variables(
    service: &ServiceSource,
    ends: &mut Vec<u32>,
    mut emit: impl FnMut(Text, Value),
) {
    if service.name.len() > LONGEST {
        return;
    }
    let host = Host::of(service);
    let ports = || service.ports.iter().filter(|port| port.protocol.len() <= LONGEST);
    let named = || ports().filter(|port| !port.name.is_empty() && port.name.len() <= LONGEST);
    ends.clear();
    let mut texts = Texts { text: String::with_capacity(texts_size(service)), ends, prefix: 0 };
    push_upper_case(&mut texts.text, &service.name);
    texts.prefix = texts.text.len();
    texts.text.push_str("_SERVICE_HOST");
    texts.end();
    if ports().next().is_some() {
        texts.add(&["_SERVICE_PORT"]);
        for port in named() {
            texts.text.extend_from_within(..texts.prefix);
            texts.text.push_str("_SERVICE_PORT_");
            push_upper_case(&mut texts.text, &port.name);
            texts.end();
        }
        texts.add(&["_PORT"]);
    }
    for port in ports() {
        let number = Text::number(port.port);
        let base = texts.text.len();
        texts.add(&["_PORT_", &number, "_", &port.protocol]);
        let base = base..texts.text.len();
        for suffix in ["_PROTO", "_PORT", "_ADDR"] {
            texts.text.extend_from_within(base.clone());
            texts.text.push_str(suffix);
            texts.end();
        }
        host.push_url(&mut texts.text, &port.protocol, &number);
        texts.end();
    }
    let whole = Arc::new(texts.text);
    let mut start = 0;
    let mut ends = ends.iter();
    let mut next = || {
        let end = ends.next().copied().unwrap_or(start);
        Text::part(&whole, std::mem::replace(&mut start, end), end)
    };
    emit(next(), host.alone.clone());
    let Some(first) = ports().next() else { return };
    emit(next(), Value::Plain(Text::number(first.port)));
    for port in named() {
        emit(next(), Value::Plain(Text::number(port.port)));
    }
    let mut of_first = Some(next());
    for port in ports() {
        let (base, of_protocol, of_port, of_address) = (next(), next(), next(), next());
        let url = host.url(next(), &port.protocol, port.port);
        if let Some(of_first) = of_first.take() {
            emit(of_first, url.clone());
        }
        emit(base, url);
        emit(of_protocol, Value::Plain(lower_case(&port.protocol)));
        emit(of_port, Value::Plain(Text::number(port.port)));
        emit(of_address, host.alone.clone());
    }
}

/// Bytes that the texts of a service take, nearly.
fn texts_size(service: &ServiceSource) -> usize {
    let named: usize = service.ports.iter().map(|port| port.name.len().min(LONGEST)).sum();
    (service.name.len() + 16) * (3 + service.ports.len())
        + named
        + service.ports.len() * (4 * (service.name.len() + 24) + 32)
}

/// Texts one behind the other.
struct Texts<'e> {
    text: String,
    /// Where each ends.
    ends: &'e mut Vec<u32>,
    /// Bytes of the service's own name at the beginning.
    prefix: usize,
}

impl Texts<'_> {
    /// Adds a name that begins with the service's.
    fn add(&mut self, pieces: &[&str]) {
        self.text.extend_from_within(..self.prefix);
        for piece in pieces {
            self.text.push_str(piece);
        }
        self.end();
    }

    fn end(&mut self) {
        // The longest names of all the ports that fit into an input stay far below four gigabytes.
        self.ends.push(self.text.len() as u32);
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
    fn of(service: &'s ServiceSource) -> Self {
        match &service.cluster_address {
            ClusterAddress::Known(address) => {
                let is_v6 = address.contains(':');
                let in_url =
                    if is_v6 { Cow::Owned(["[", address, "]"].concat()) } else { Cow::Borrowed(&**address) };
                Self { alone: Value::plain(&**address), in_url: Ok(in_url) }
            }
            ClusterAddress::NotYetAllocated | ClusterAddress::None => {
                let label = short_label(&["cluster address of service ", &service.name].concat());
                let of_host = [&variable_prefix(&service.name), "_SERVICE_HOST"].concat();
                Self {
                    alone: Value::Composed(vec![Part::UnknownUntilRun { label }]),
                    in_url: Err(short_label(&of_host)),
                }
            }
        }
    }

    /// Writes the URL of a port, if it is known.
    fn push_url(&self, text: &mut String, protocol: &str, port: &str) {
        if let Ok(host) = &self.in_url {
            text.extend(protocol.chars().map(|letter| letter.to_ascii_lowercase()));
            for piece in ["://", host, ":", port] {
                text.push_str(piece);
            }
        }
    }

    /// The URL of a port; `known` is what [`Self::push_url`] wrote.
    fn url(&self, known: Text, protocol: &str, port: i32) -> Value {
        match &self.in_url {
            Ok(_) => Value::Plain(known),
            Err(label) => Value::Composed(vec![
                Part::Plain([&*lower_case(protocol), "://"].concat()),
                Part::UnknownUntilRun { label: label.clone() },
                Part::Plain(format!(":{port}")),
            ]),
        }
    }
}
