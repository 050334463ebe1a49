//! Which variables Kubernetes could resolve in the containers of a template, as far as the template itself says so.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use environment::{ClusterAddress, PortSource, ServiceSource};
use manifest::{Node, NodeValue};

use crate::Resolver;
use crate::kinds::{at, group_of};
use crate::site::Reach;
use crate::substitution::Substitution;

/// Services, ConfigMaps and Secrets of the template, by what a container would find in them.
#[derive(Default)]
pub(crate) struct Ambient {
    /// Variables of services by namespace.
    services: HashMap<String, HashMap<String, usize>>,
    /// Variables of the service that is always there.
    master: HashSet<String>,
    /// ConfigMaps and Secrets by kind, namespace and name.
    sources: HashMap<(&'static str, String, String), usize>,
    /// The sources that have a key.
    by_key: HashMap<String, HashSet<usize>>,
    /// Kind of each source.
    kinds: HashMap<usize, &'static str>,
}

impl Ambient {
    pub(crate) fn of(objects: &[Node], substitution: &Substitution<'_>) -> Self {
        let kubernetes = ServiceSource::kubernetes_before_run();
        let mut ambient = Self {
            master: environment::service_variable_names(&kubernetes).into_iter().collect(),
            ..Self::default()
        };
        for (index, object) in objects.iter().enumerate() {
            let field = |key: &str| named(object.get(key), substitution);
            if !group_of(&field("apiVersion")).is_empty() {
                continue;
            }
            match &*field("kind") {
                "Service" => ambient.add_service(index, object, substitution),
                "ConfigMap" => ambient.add_source(index, "ConfigMap", &["data"], object, substitution),
                "Secret" => {
                    ambient.add_source(index, "Secret", &["data", "stringData"], object, substitution)
                }
                _ => {}
            }
        }
        ambient
    }

    fn add_service(&mut self, index: usize, object: &Node, substitution: &Substitution<'_>) {
        let spec = |key: &str| named(at(object, &["spec", key]), substitution);
        let cluster_address = match (&*spec("type"), &*spec("clusterIP")) {
            ("ExternalName", _) | (_, "None") => return,
            _ => ClusterAddress::NotYetAllocated,
        };
        let ports = at(object, &["spec", "ports"]).map(Node::items).unwrap_or_default();
        let port_of = |port: &Node| {
            let number = match port.get("port").map(|number| &number.value) {
                Some(NodeValue::Int(number)) => i32::try_from(*number).ok()?,
                Some(NodeValue::String(text)) => substitution.name(text)?.parse().ok()?,
                Some(
                    NodeValue::Null
                    | NodeValue::Bool(_)
                    | NodeValue::Float(_)
                    | NodeValue::List(_)
                    | NodeValue::Map(_),
                )
                | None => return None,
            };
            let protocol = named(port.get("protocol"), substitution).to_ascii_uppercase();
            Some(PortSource {
                name: named(port.get("name"), substitution).into_owned(),
                port: number,
                protocol: if protocol.is_empty() { "TCP".to_owned() } else { protocol },
            })
        };
        let name: Arc<str> = named(at(object, &["metadata", "name"]), substitution).into();
        let service = ServiceSource {
            namespace: Arc::from(""),
            name,
            cluster_address,
            ports: ports.iter().filter_map(port_of).collect(),
        };
        let variables = self.services.entry(namespace_of(object, substitution)).or_default();
        for variable in environment::service_variable_names(&service) {
            variables.entry(variable).or_insert(index);
        }
    }

    fn add_source(
        &mut self,
        index: usize,
        kind: &'static str,
        fields: &[&str],
        object: &Node,
        substitution: &Substitution<'_>,
    ) {
        let name = named(at(object, &["metadata", "name"]), substitution).into_owned();
        self.sources.insert((kind, namespace_of(object, substitution), name), index);
        self.kinds.insert(index, kind);
        let entries = fields.iter().filter_map(|field| object.get(field)).flat_map(Node::entries);
        for entry in entries {
            let Some(key) = substitution.name(&entry.key) else { continue };
            match self.by_key.get_mut(&*key) {
                Some(sources) => {
                    sources.insert(index);
                }
                None => {
                    self.by_key.insert(key.into_owned(), HashSet::from([index]));
                }
            }
        }
    }
}

fn named<'n>(node: Option<&'n Node>, substitution: &Substitution<'_>) -> Cow<'n, str> {
    node.and_then(Node::as_str).and_then(|text| substitution.name(text)).unwrap_or_default()
}

/// The names of a container's `env`, with their places.
fn names_of<'d>(
    container: &'d Node,
    substitution: &Substitution<'_>,
) -> impl Iterator<Item = (usize, Cow<'d, str>)> {
    let entries = container.get("env").map(Node::items).unwrap_or_default();
    entries.iter().map(|entry| named(entry.get("name"), substitution)).enumerate()
}

fn namespace_of(object: &Node, substitution: &Substitution<'_>) -> String {
    named(at(object, &["metadata", "namespace"]), substitution).into_owned()
}

/// What one pod spec has in common for its containers.
pub(crate) struct PodScope {
    namespace: String,
    links: bool,
}

impl PodScope {
    pub(crate) fn of(object: &Node, spec: &Node, substitution: &Substitution<'_>) -> Self {
        let links = match spec.get("enableServiceLinks").map(|node| &node.value) {
            Some(NodeValue::Bool(links)) => *links,
            Some(NodeValue::String(text)) => substitution.name(text).as_deref() != Some("false"),
            Some(
                NodeValue::Null
                | NodeValue::Int(_)
                | NodeValue::Float(_)
                | NodeValue::List(_)
                | NodeValue::Map(_),
            )
            | None => true,
        };
        Self { namespace: namespace_of(object, substitution), links }
    }
}

/// What one container could resolve.
pub(crate) struct Scope<'d> {
    namespace: String,
    links: bool,
    container: &'d Node,
    /// The first entry of `env` with the name of a parameter. Holds what the container has: there may be a million
    /// containers with nothing in them, and a thousand parameters.
    first: HashMap<usize, usize>,
    /// What was found outside of `env` for each parameter that was asked for.
    outside: HashMap<usize, Option<Resolver>>,
    /// The first entry of `env` with any name; made when it is asked for.
    entries: Option<HashMap<Cow<'d, str>, usize>>,
    /// Sources of `envFrom` by their prefix.
    from: HashMap<String, HashSet<usize>>,
}

impl<'d> Scope<'d> {
    pub(crate) fn of(
        pod: &PodScope,
        container: &'d Node,
        ambient: &Ambient,
        substitution: &Substitution<'_>,
    ) -> Self {
        let mut scope = Self {
            namespace: pod.namespace.clone(),
            links: pod.links,
            container,
            first: HashMap::new(),
            outside: HashMap::new(),
            entries: None,
            from: HashMap::new(),
        };
        for (index, name) in names_of(container, substitution) {
            if let Some(parameter) = substitution.place_of(&name) {
                scope.first.entry(parameter).or_insert(index);
            }
        }
        for source in container.get("envFrom").map(Node::items).unwrap_or_default() {
            let prefix = named(source.get("prefix"), substitution);
            for (field, kind) in [("configMapRef", "ConfigMap"), ("secretRef", "Secret")] {
                let name = named(at(source, &[field, "name"]), substitution);
                let id = (kind, pod.namespace.clone(), name.into_owned());
                if let Some(index) = ambient.sources.get(&id) {
                    scope.from.entry(prefix.clone().into_owned()).or_default().insert(*index);
                }
            }
        }
        scope
    }

    /// Who would resolve the name of a parameter, seen from a place with this reach.
    pub(crate) fn resolver_of(
        &mut self,
        ambient: &Ambient,
        parameter: usize,
        name: &str,
        reach: Reach,
    ) -> Option<Resolver> {
        let entry = self.first.get(&parameter).copied().filter(|entry| match reach {
            Reach::Above(index) => *entry < index,
            Reach::All | Reach::Entries => true,
        });
        if let Some(index) = entry {
            return Some(Resolver::Env { index });
        }
        if reach == Reach::Entries {
            return None;
        }
        if let Some(known) = self.outside.get(&parameter) {
            return known.clone();
        }
        let found = self.outside_of(ambient, name);
        self.outside.insert(parameter, found.clone());
        found
    }

    /// Whether the container has a variable of this name, wherever it is declared.
    pub(crate) fn has(
        &mut self,
        ambient: &Ambient,
        name: &str,
        reach: Reach,
        substitution: &Substitution<'_>,
    ) -> bool {
        let container = self.container;
        let entries = self.entries.get_or_insert_with(|| {
            names_of(container, substitution).map(|(index, name)| (name, index)).collect()
        });
        entries.contains_key(name) || reach != Reach::Entries && self.outside_of(ambient, name).is_some()
    }

    fn outside_of(&self, ambient: &Ambient, name: &str) -> Option<Resolver> {
        self.source_of(ambient, name).or_else(|| self.service_of(ambient, name))
    }

    fn source_of(&self, ambient: &Ambient, name: &str) -> Option<Resolver> {
        // Longer names cost the square of their length, and no environment has them.
        const LONGEST: usize = 512;
        if self.from.is_empty() || name.len() > LONGEST {
            return None;
        }
        // Each way to read the name as a prefix and a key.
        let source = (0..name.len()).find_map(|split| {
            let sources = self.from.get(name.get(..split)?)?;
            let holders = ambient.by_key.get(name.get(split..)?)?;
            sources.intersection(holders).min().copied()
        })?;
        Some(Resolver::EnvFrom {
            kind: ambient.kinds.get(&source).copied().unwrap_or_default(),
            object: source,
        })
    }

    fn service_of(&self, ambient: &Ambient, name: &str) -> Option<Resolver> {
        let own = || ambient.services.get(&self.namespace)?.get(name).copied();
        if let Some(object) = own().filter(|_| self.links) {
            return Some(Resolver::Service { object: Some(object) });
        }
        ambient.master.contains(name).then_some(Resolver::Service { object: None })
    }
}
