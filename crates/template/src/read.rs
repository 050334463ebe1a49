//! From a document to a [`Template`]: fields and their types, limits, names.

use std::collections::HashMap;

use manifest::{Node, NodeValue, Span};

use crate::expression::Expression;
use crate::finding::Findings;
use crate::limits::{MAX_DEPTH, MAX_NAME_BYTES, MAX_OBJECTS, MAX_PARAMETERS};
use crate::model::WrittenLabel;
use crate::problem::Problems;
use crate::reference::is_parameter_name;
use crate::{
    API_VERSION, Dialect, FindingKind, OPENSHIFT_API_VERSION, Parameter, ParameterType, Place, ProblemKind,
    Refusal, Template, dialect,
};

impl<'d> Template<'d> {
    /// Whether a document is a template at all: kind `Template` of one of the three groups and versions.
    pub fn is_one(root: &Node) -> bool {
        let text = |key: &str| root.get(key).and_then(Node::as_str).unwrap_or_default();
        text("kind") == "Template" && [API_VERSION, OPENSHIFT_API_VERSION, "v1"].contains(&text("apiVersion"))
    }

    /// Reads a template. `dialect` overrides what its group and version say.
    ///
    /// # Errors
    ///
    /// What keeps it from being understood: it is no template, has too many parameters or objects, or has references of
    /// both dialects. Everything else that is wrong comes out of [`crate::check`] and [`crate::process()`], all at once.
    pub fn read(root: &'d Node, dialect: Option<Dialect>) -> Result<Self, Refusal> {
        let mut reader = Reader { problems: Problems::default(), findings: Findings::default() };
        if !Self::is_one(root) {
            reader.problems.add(ProblemKind::NotATemplate, || Place::new("", root.span));
            reader.problems.clone().refuse(&[])?;
        }
        // Before any other look: whoever sends far too much of something gets a short answer for it.
        reader.counts(root);
        reader.problems.clone().refuse(&[])?;
        let objects = reader.objects(root);
        let parameters = reader.parameters(root);
        let labels_field = if root.get("labels").is_none() && root.get("objectLabels").is_some() {
            "objectLabels"
        } else {
            "labels"
        };
        if let (Some(_), Some(second)) = (root.get("labels"), root.entry("objectLabels")) {
            reader.problems.add(ProblemKind::LabelsTwice, || Place::new("objectLabels", second.key_span));
        }
        let labels = reader.labels(root, labels_field);
        let message = reader.text(root, "message", "");
        let metadata = |key: &str| root.get("metadata")?.get(key)?.as_str();
        let mut template = Self {
            name: metadata("name").unwrap_or_default(),
            namespace: metadata("namespace").filter(|namespace| !namespace.is_empty()),
            api_version: root.get("apiVersion").and_then(Node::as_str).unwrap_or_default(),
            dialect: Dialect::Proposal,
            parameters,
            objects,
            message,
            root,
            message_span: root.get("message").map_or(Span::NOWHERE, |node| node.span),
            labels,
            labels_field,
            problems: Vec::new(),
            findings: Vec::new(),
        };
        template.dialect = match dialect {
            Some(dialect) => dialect,
            None => match dialect::of(&template, root, &mut reader.findings) {
                Ok(dialect) => dialect,
                Err(mixed) => {
                    reader.problems.add(mixed, || Place::new("", first_span(root)));
                    reader.problems.clone().refuse(&[])?;
                    Dialect::Proposal
                }
            },
        };
        reader.repetitions(&template);
        reader.generators(&template);
        template.problems = match reader.problems.refuse(&[]) {
            Ok(()) => Vec::new(),
            Err(refusal) => refusal.problems,
        };
        template.findings = reader.findings.finish();
        Ok(template)
    }
}

struct Reader {
    problems: Problems,
    findings: Findings,
}

impl Reader {
    fn wrong_type(&mut self, expected: &'static str, node: &Node, field: &str) {
        let found = node.value.kind();
        self.problems.add(ProblemKind::WrongType { expected, found }, || Place::new(field, node.span));
    }

    /// More parameters or objects than are taken.
    fn counts(&mut self, root: &Node) {
        for (name, limit) in [("parameters", MAX_PARAMETERS), ("objects", MAX_OBJECTS)] {
            let Some(entry) = root.entry(name).filter(|entry| entry.value.items().len() > limit) else {
                continue;
            };
            self.problems
                .add(ProblemKind::TooMany { what: name, limit }, || Place::new(name, entry.key_span));
        }
    }

    /// A list of the template; an absent one is empty.
    fn list<'d>(&mut self, root: &'d Node, name: &'static str) -> &'d [Node] {
        let Some(entry) = root.entry(name) else { return &[] };
        if !matches!(entry.value.value, NodeValue::List(_) | NodeValue::Null) {
            self.wrong_type("a list", &entry.value, name);
        }
        entry.value.items()
    }

    fn objects<'d>(&mut self, root: &'d Node) -> &'d [Node] {
        let objects = self.list(root, "objects");
        for (index, object) in objects.iter().enumerate() {
            let field = format!("objects[{index}]");
            if !matches!(object.value, NodeValue::Map(_)) {
                self.wrong_type("an object", object, &field);
            } else if is_deeper_than(object, MAX_DEPTH) {
                let kind = ProblemKind::TooDeep { limit: MAX_DEPTH };
                self.problems.add(kind, || Place::new(field, first_span(object)));
            }
        }
        objects
    }

    fn parameters<'d>(&mut self, root: &'d Node) -> Vec<Parameter<'d>> {
        let nodes = self.list(root, "parameters");
        nodes.iter().enumerate().filter_map(|(index, node)| self.parameter(index, node)).collect()
    }

    fn parameter<'d>(&mut self, index: usize, node: &'d Node) -> Option<Parameter<'d>> {
        let field = format!("parameters[{index}]");
        if !matches!(node.value, NodeValue::Map(_)) {
            self.wrong_type("an object", node, &field);
            return None;
        }
        let name_span = node.get("name").map_or(first_span(node), |name| name.span);
        let place = Place::new(field.as_str(), name_span);
        let name = self.text(node, "name", &field).unwrap_or_default();
        if name.is_empty() {
            let is_missing = node.get("name").is_none_or(|name| name.is_null() || name.as_str() == Some(""));
            if is_missing {
                self.problems
                    .add(ProblemKind::NameMissing, || Place::new(format!("{field}.name"), name_span));
            }
        } else if !is_parameter_name(name) || name.len() > MAX_NAME_BYTES {
            self.problems.add(ProblemKind::NameInvalid, || Place::new(format!("{field}.name"), name_span));
        }
        let kind = match node.get("type") {
            None => None,
            Some(kind) if kind.is_null() || kind.as_str() == Some("") => None,
            Some(kind) => {
                let known = kind.as_str().and_then(ParameterType::parse);
                if known.is_none() {
                    self.problems
                        .add(ProblemKind::UnknownType, || Place::new(format!("{field}.type"), kind.span));
                }
                known
            }
        };
        let present = |text: Option<&'d str>| text.filter(|text| !text.is_empty());
        Some(Parameter {
            name,
            display_name: present(self.text(node, "displayName", &field)),
            description: present(self.text(node, "description", &field)),
            value: present(self.text(node, "value", &field)),
            required: self.flag(node, "required", &field),
            kind,
            secret: self.flag(node, "secret", &field),
            generate: present(self.text(node, "generate", &field)),
            from: present(self.text(node, "from", &field)),
            value_span: node.get("value").map_or(name_span, |value| value.span),
            place,
        })
    }

    fn text<'d>(&mut self, node: &'d Node, key: &str, field: &str) -> Option<&'d str> {
        let value = node.get(key).filter(|value| !value.is_null())?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong_type("a string", value, &below(field, key));
        }
        text
    }

    fn flag(&mut self, node: &Node, key: &str, field: &str) -> bool {
        match node.get(key).map(|value| (&value.value, value)) {
            None | Some((NodeValue::Null, _)) => false,
            Some((NodeValue::Bool(value), _)) => *value,
            Some((
                NodeValue::Int(_)
                | NodeValue::Float(_)
                | NodeValue::String(_)
                | NodeValue::List(_)
                | NodeValue::Map(_),
                value,
            )) => {
                self.wrong_type("true or false", value, &below(field, key));
                false
            }
        }
    }

    fn labels<'d>(&mut self, root: &'d Node, field: &'static str) -> Option<Vec<WrittenLabel<'d>>> {
        let node = root.get(field).filter(|node| !node.is_null())?;
        if !matches!(node.value, NodeValue::Map(_)) {
            self.wrong_type("a map of strings", node, field);
            return None;
        }
        let mut labels = Vec::new();
        for entry in node.entries() {
            match entry.value.as_str() {
                Some(value) => labels.push(WrittenLabel {
                    key: &entry.key,
                    key_span: entry.key_span,
                    value,
                    value_span: entry.value.span,
                }),
                None => self.wrong_type("a string", &entry.value, &below(field, &entry.key)),
            }
        }
        Some(labels)
    }

    /// Parameters that are declared twice.
    fn repetitions(&mut self, template: &Template<'_>) {
        let mut first: HashMap<&str, &Parameter<'_>> = HashMap::new();
        for parameter in template.parameters.iter().filter(|parameter| !parameter.name.is_empty()) {
            let Some(before) = first.get(parameter.name) else {
                first.insert(parameter.name, parameter);
                continue;
            };
            let name = parameter.name.to_owned();
            let place = || parameter.place.clone();
            match template.dialect {
                Dialect::Proposal => {
                    let first = before.place.field.clone();
                    self.problems.add(ProblemKind::DuplicateParameter { name, first }, place);
                }
                Dialect::OpenShift => {
                    self.findings.add(FindingKind::ParameterDuplicate { parameter: name }, place);
                }
            }
        }
    }

    /// Generators and their patterns, whether or not they are needed.
    fn generators(&mut self, template: &Template<'_>) {
        for parameter in &template.parameters {
            let Some(generator) = parameter.generate else { continue };
            let name = parameter.name.to_owned();
            if generator != "expression" {
                // A value of its own makes the generator idle, as in OpenShift.
                if parameter.value.is_none() {
                    let kind =
                        ProblemKind::UnknownGenerator { parameter: name, generator: generator.to_owned() };
                    self.problems.add(kind, || parameter.place.clone());
                }
                continue;
            }
            match Expression::parse(parameter.from.unwrap_or_default()) {
                Err(_) if parameter.value.is_some() => {}
                Err(cause) => {
                    let kind = ProblemKind::Expression { parameter: name, cause };
                    self.problems.add(kind, || parameter.place.clone());
                }
                Ok(expression) => self.weakness(parameter, &expression),
            }
        }
    }

    fn weakness(&mut self, parameter: &Parameter<'_>, expression: &Expression) {
        let bits = expression.bits();
        if bits >= crate::limits::MIN_SECRET_BITS || parameter.value.is_some() {
            return;
        }
        let name = parameter.name.to_owned();
        let place = || parameter.place.clone();
        if parameter.from.is_none_or(str::is_empty) && !parameter.secret {
            self.findings.add(FindingKind::GeneratesNothing { parameter: name }, place);
            return;
        }
        let upper = parameter.name.to_ascii_uppercase();
        if parameter.secret {
            self.problems.add(ProblemKind::WeakSecret { parameter: name, bits }, place);
        } else if ["PASSWORD", "PASSWD", "SECRET", "TOKEN"].iter().any(|word| upper.contains(word)) {
            self.findings.add(FindingKind::GeneratedWeak { parameter: name, bits }, place);
        }
    }
}

fn below(field: &str, key: &str) -> String {
    let mut path = crate::place::Path::of(field);
    path.enter_key(key);
    path.as_str().to_owned()
}

/// Where to point at for a map or list: its first key, if it has one.
pub(crate) fn first_span(node: &Node) -> Span {
    node.entries().first().map_or(node.span, |entry| entry.key_span)
}

fn is_deeper_than(node: &Node, levels: usize) -> bool {
    match &node.value {
        NodeValue::List(items) => levels == 0 || items.iter().any(|item| is_deeper_than(item, levels - 1)),
        NodeValue::Map(entries) => {
            levels == 0 || entries.iter().any(|entry| is_deeper_than(&entry.value, levels - 1))
        }
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Int(_)
        | NodeValue::Float(_)
        | NodeValue::String(_) => false,
    }
}
