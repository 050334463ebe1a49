//! Which values of exported objects become parameters, what these are called, and texts that only look like references.

use std::collections::{HashMap, HashSet};

use environment::SecretText;
use manifest::{Node, NodeValue};

use crate::Dialect;
use crate::kinds::{at, at_mut, text};
use crate::limits::MAX_PARAMETERS;
use crate::nearest::Neighbours;
use crate::reference::{Style, form, is_parameter_name, may_refer};

/// Words in the name of a variable whose value is a password.
const PASSWORD_WORDS: [&str; 5] = ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "APIKEY"];

/// Values that are longer than this are content, and no parameters.
const LONGEST_VALUE: usize = 64 * 1024;

/// Fields `name` below these keys name another object.
const REFERENCES: [&str; 8] = [
    "configMap",
    "configMapKeyRef",
    "configMapRef",
    "scaleTargetRef",
    "secretKeyRef",
    "secretRef",
    "service",
    "imagePullSecrets",
];

/// Fields that name another object.
const NAMING: [&str; 4] = ["claimName", "secretName", "serviceName", "serviceAccountName"];

/// Objects with more different references than this get no parameters: each of them could be mistaken for one.
const MOST_OCCUPIED: usize = 2_000;

/// A parameter of the new template.
struct Made {
    name: String,
    description: String,
    value: String,
    kind: Option<&'static str>,
    is_secret: bool,
}

/// Makes parameters.
pub(super) struct Maker {
    made: Vec<Made>,
    /// Names that no parameter may have, or almost have: variables, and what is written between signs of references.
    occupied: HashSet<String>,
    /// Names that a container might resolve.
    variables: HashSet<String>,
    /// Parameters by what they stand for.
    by_value: HashMap<(&'static str, String), usize>,
}

impl Maker {
    pub(super) fn new(objects: &[Node]) -> Self {
        let mut maker = Self {
            made: Vec::new(),
            occupied: HashSet::new(),
            variables: HashSet::new(),
            by_value: HashMap::new(),
        };
        objects.iter().for_each(|object| maker.occupy(object));
        maker
    }

    fn occupy(&mut self, node: &Node) {
        match &node.value {
            NodeValue::String(text) => self.occupy_text(text),
            NodeValue::List(items) => items.iter().for_each(|item| self.occupy(item)),
            NodeValue::Map(entries) => {
                for entry in entries {
                    self.occupy_text(&entry.key);
                    self.variables.insert(entry.key.clone());
                    if let (NodeValue::String(name), "name") = (&entry.value.value, entry.key.as_str()) {
                        self.variables.insert(name.clone());
                    }
                    self.occupy(&entry.value);
                }
            }
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_) => {}
        }
    }

    fn occupy_text(&mut self, text: &str) {
        if may_refer(text) {
            let signs = memchr::memchr_iter(b'$', text.as_bytes());
            let names = signs.flat_map(|sign| {
                [Dialect::Proposal, Dialect::OpenShift].map(|dialect| form(text, sign, dialect))
            });
            self.occupied.extend(names.flatten().map(|form| form.name.to_owned()));
        }
    }

    pub(super) fn has_parameters(&self) -> bool {
        !self.made.is_empty()
    }

    /// The parameter for a value of some meaning; `None` when there are too many already.
    fn parameter(
        &mut self,
        meaning: &'static str,
        identity: &str,
        wanted: &str,
        make: impl FnOnce(String) -> Made,
    ) -> Option<String> {
        if identity.len() > LONGEST_VALUE {
            return None;
        }
        let identity = (meaning, identity.to_owned());
        if let Some(place) = self.by_value.get(&identity) {
            return Some(self.made[*place].name.clone());
        }
        if self.made.len() >= MAX_PARAMETERS / 2 && meaning != "text" || self.made.len() >= MAX_PARAMETERS {
            return None;
        }
        let name = self.free_name(wanted)?;
        self.by_value.insert(identity, self.made.len());
        self.made.push(make(name.clone()));
        Some(name)
    }

    /// A name that nothing in the objects has or almost has.
    fn free_name(&self, wanted: &str) -> Option<String> {
        let upper: String = wanted
            .chars()
            .map(|each| if each.is_ascii_alphanumeric() { each.to_ascii_uppercase() } else { '_' })
            .take(120)
            .collect();
        let upper = upper.trim_matches('_');
        let base = if upper.is_empty() { "VALUE" } else { upper };
        let candidates = std::iter::once(base.to_owned())
            .chain((2..=self.made.len() + 2).map(|number| format!("{base}_{number}")))
            .chain((1..).take(20).map(|times| format!("{base}{}", "_PARAMETER".repeat(times))));
        let is_free = |candidate: &String| {
            let is_new = !self.made.iter().any(|made| made.name == *candidate);
            // References are compared with parameters, so this asks from their side.
            let mut neighbours = Neighbours::new([candidate.as_str()]);
            is_new
                && self.occupied.iter().all(|other| {
                    other != candidate
                        && (other.len() > 64 || neighbours_of(&mut neighbours, other).is_none())
                })
        };
        candidates.into_iter().find(is_free)
    }

    /// Makes parameters of what people change most often.
    pub(super) fn parameterize(&mut self, objects: &mut [Node]) {
        if self.occupied.len() > MOST_OCCUPIED {
            return;
        }
        let names: HashSet<String> =
            objects.iter().map(|object| name_of(object).to_owned()).filter(|name| !name.is_empty()).collect();
        for object in objects.iter_mut() {
            self.passwords(object);
            self.images_and_counts(object);
            self.hosts(object);
        }
        for object in objects.iter_mut() {
            self.names(object, &names, "");
        }
    }

    fn names(&mut self, node: &mut Node, names: &HashSet<String>, parent: &str) {
        match &mut node.value {
            NodeValue::List(items) => items.iter_mut().for_each(|item| self.names(item, names, parent)),
            NodeValue::Map(entries) => {
                for entry in entries {
                    let key = entry.key.as_str();
                    let is_name = match key {
                        "name" => parent == "metadata" || REFERENCES.contains(&parent),
                        key => {
                            NAMING.contains(&key) || ["labels", "matchLabels", "selector"].contains(&parent)
                        }
                    };
                    match entry.value.as_str().filter(|text| is_name && names.contains(*text)) {
                        Some(name) => {
                            let made =
                                self.parameter("name", name, &format!("{name}_NAME"), |parameter| Made {
                                    name: parameter,
                                    description: format!("Name of {name}"),
                                    value: name.to_owned(),
                                    kind: None,
                                    is_secret: false,
                                });
                            if let Some(parameter) = made {
                                entry.value.value = NodeValue::String(format!("$({parameter})"));
                            }
                        }
                        None => {
                            let key = key.to_owned();
                            self.names(&mut entry.value, names, &key);
                        }
                    }
                }
            }
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_) => {}
        }
    }

    fn passwords(&mut self, object: &mut Node) {
        let name = name_of(object).to_owned();
        if text(object, "kind") == "Secret" && text(object, "apiVersion") == "v1" {
            for (field, kind) in [("data", Some("base64")), ("stringData", None)] {
                let entries = object.get_mut(field).and_then(Node::entries_mut);
                for entry in entries.into_iter().flatten() {
                    let is_value = |value: &&str| !value.is_empty() && value.len() <= LONGEST_VALUE;
                    let Some(value) = entry.value.as_str().filter(is_value) else { continue };
                    let kind = kind.filter(|_| crate::scalar::fits(value, crate::ParameterType::Base64));
                    let identity = format!("{name}/{field}/{}", entry.key);
                    let made = self.parameter(
                        "password",
                        &identity,
                        &format!("{name}_{}", entry.key),
                        |parameter| Made {
                            name: parameter,
                            description: format!("{} of the Secret {name}", entry.key),
                            value: value.to_owned(),
                            kind,
                            is_secret: true,
                        },
                    );
                    if let Some(parameter) = made {
                        entry.value.value = NodeValue::String(format!("$({parameter})"));
                    }
                }
            }
            return;
        }
        self.each_container(object, &mut |maker, container, container_name| {
            for entry in container.get_mut("env").map(Node::items_mut).unwrap_or_default() {
                let variable = text(entry, "name").to_owned();
                let upper = variable.to_ascii_uppercase();
                let Some(value) = entry.get_mut("value") else { continue };
                let Some(found) = value
                    .as_str()
                    .filter(|found| !found.is_empty() && found.len() <= LONGEST_VALUE && !may_refer(found))
                else {
                    continue;
                };
                if !PASSWORD_WORDS.iter().any(|word| upper.contains(word)) {
                    continue;
                }
                let identity = format!("{name}/{container_name}/{variable}");
                // Where the container could resolve the name itself, the reference would be ambiguous.
                let mut wanted =
                    format!("{name}_{variable}_VALUE").to_ascii_uppercase().replace(['-', '.'], "_");
                while maker.variables.contains(&wanted) {
                    wanted.push_str("_PARAMETER");
                }
                let made = maker.parameter("password", &identity, &wanted, |parameter| Made {
                    name: parameter,
                    description: format!("{variable} of {container_name} in {name}"),
                    value: found.to_owned(),
                    kind: None,
                    is_secret: true,
                });
                if let Some(parameter) = made {
                    value.value = NodeValue::String(format!("$({parameter})"));
                }
            }
        });
    }

    fn images_and_counts(&mut self, object: &mut Node) {
        self.each_container(object, &mut |maker, container, _| {
            let Some(image) = container.get_mut("image") else { return };
            let Some(written) = image.as_str().filter(|written| !written.contains(['@', '$'])) else {
                return;
            };
            let Some((repository, tag)) =
                written.rsplit_once(':').filter(|(_, tag)| !tag.is_empty() && !tag.contains('/'))
            else {
                return;
            };
            let short = repository.rsplit('/').next().unwrap_or(repository);
            let made = maker.parameter("tag", written, &format!("{short}_TAG"), |parameter| Made {
                name: parameter,
                description: format!("Tag of the image {repository}"),
                value: tag.to_owned(),
                kind: None,
                is_secret: false,
            });
            if let Some(parameter) = made {
                image.value = NodeValue::String(format!("{repository}:$({parameter})"));
            }
        });
        let name = name_of(object).to_owned();
        let Some(replicas) = at_mut(object, &["spec", "replicas"]) else { return };
        let NodeValue::Int(count) = replicas.value else { return };
        let made = self.parameter("replicas", &name, &format!("{name}_REPLICAS"), |parameter| Made {
            name: parameter,
            description: format!("Number of pods of {name}"),
            value: count.to_string(),
            kind: Some("int"),
            is_secret: false,
        });
        if let Some(parameter) = made {
            replicas.value = NodeValue::String(format!("$(({parameter}))"));
        }
    }

    fn hosts(&mut self, object: &mut Node) {
        if !["Ingress", "Route"].contains(&text(object, "kind")) {
            return;
        }
        let name = name_of(object).to_owned();
        let mut replace = |node: Option<&mut Node>| {
            let Some(node) = node else { return };
            let Some(host) = node.as_str().filter(|host| !host.is_empty() && !may_refer(host)) else {
                return;
            };
            let made = self.parameter("host", host, &format!("{name}_HOST"), |parameter| Made {
                name: parameter,
                description: format!("Host name of {name}"),
                value: host.to_owned(),
                kind: None,
                is_secret: false,
            });
            if let Some(parameter) = made {
                node.value = NodeValue::String(format!("$({parameter})"));
            }
        };
        replace(at_mut(object, &["spec", "host"]));
        for rule in at_mut(object, &["spec", "rules"]).map(Node::items_mut).unwrap_or_default() {
            replace(rule.get_mut("host"));
        }
        for tls in at_mut(object, &["spec", "tls"]).map(Node::items_mut).unwrap_or_default() {
            tls.get_mut("hosts")
                .map(Node::items_mut)
                .unwrap_or_default()
                .iter_mut()
                .for_each(|host| replace(Some(host)));
        }
    }

    fn each_container(&mut self, object: &mut Node, visit: &mut dyn FnMut(&mut Self, &mut Node, &str)) {
        let Some(path) = crate::kinds::Kind::of_object(object).and_then(|kind| kind.template) else { return };
        let Some(spec) = at_mut(object, path).and_then(|template| template.get_mut("spec")) else { return };
        for list in ["initContainers", "containers"] {
            for container in spec.get_mut(list).map(Node::items_mut).unwrap_or_default() {
                let name = text(container, "name").to_owned();
                visit(self, container, &name);
            }
        }
    }

    /// Puts texts that a template would refuse, although they are only texts, behind parameters of their own.
    pub(super) fn protect(&mut self, objects: &mut [Node]) {
        let references: HashSet<String> =
            self.made.iter().map(|made| format!("$(({}))", made.name)).collect();
        objects.iter_mut().for_each(|object| self.protect_below(object, &references));
    }

    fn protect_below(&mut self, node: &mut Node, references: &HashSet<String>) {
        match &mut node.value {
            NodeValue::String(text) => {
                let is_whole = form(text, 0, Dialect::Proposal).is_some_and(|form| {
                    form.style == Style::Unquoted
                        && form.span.len() == text.len()
                        && is_parameter_name(form.name)
                });
                if is_whole && !references.contains(text.as_str()) {
                    let made = self.parameter("text", text, "LITERAL_TEXT", |parameter| Made {
                        name: parameter,
                        description: "A text that looks like a reference and is none".to_owned(),
                        value: text.clone(),
                        kind: Some("string"),
                        is_secret: false,
                    });
                    if let Some(parameter) = made {
                        *text = format!("$({parameter})");
                    }
                }
            }
            NodeValue::List(items) => items.iter_mut().for_each(|item| self.protect_below(item, references)),
            NodeValue::Map(entries) => {
                entries.iter_mut().for_each(|entry| self.protect_below(&mut entry.value, references));
            }
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_) => {}
        }
    }

    /// The list `parameters`.
    pub(super) fn declarations(&self) -> Node {
        let declaration = |made: &Made| {
            let mut entries = vec![
                ("name", Node::from(made.name.as_str())),
                ("description", made.description.as_str().into()),
            ];
            if !made.is_secret {
                entries.push(("value", made.value.as_str().into()));
            }
            entries.extend(made.kind.map(|kind| ("type", Node::from(kind))));
            let yes = || Node::unplaced(NodeValue::Bool(true));
            if made.is_secret {
                entries.push(("secret", yes()));
            }
            entries.push(("required", yes()));
            entries.into_iter().collect::<Node>()
        };
        self.made.iter().map(declaration).collect()
    }

    /// The values that the template does not hold.
    pub(super) fn taken(&self) -> Vec<(String, SecretText)> {
        let secret = self.made.iter().filter(|made| made.is_secret);
        secret.map(|made| (made.name.clone(), SecretText::new(made.value.as_str()))).collect()
    }
}

fn neighbours_of<'n>(neighbours: &mut Neighbours<'n>, other: &str) -> Option<&'n str> {
    neighbours.refill();
    neighbours.nearest(other)
}

fn name_of(object: &Node) -> &str {
    at(object, &["metadata", "name"]).and_then(Node::as_str).unwrap_or_default()
}
