//! What processing gives, and the forms in which it is handed out.

use std::fmt;

use environment::SecretText;
use manifest::{Node, NodeValue};

use crate::process::MASK;
use crate::{Finding, Template, ValueOrigin};

/// A processed template. Its `Debug` prints no object, because those hold the values of secret parameters.
#[derive(Clone)]
pub struct Processed {
    /// The objects, in the template's order; keys in the order of their maps; each value with the place where the
    /// template has it. These, and only these, hold the values of secret parameters.
    pub objects: Vec<Node>,
    /// What to tell people; values of secret parameters are masked.
    pub message: Option<String>,
    /// The labels that were put on the objects; masked. `None` when there are none to speak of.
    pub labels: Option<Vec<(String, String)>>,
    /// The parameters with their values, in the template's order.
    pub parameters: Vec<ResolvedParameter>,
    /// What is worth knowing.
    pub findings: Vec<Finding>,
}

impl fmt::Debug for Processed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Processed")
            .field("objects", &self.objects.len())
            .field("message", &self.message)
            .field("labels", &self.labels)
            .field("parameters", &self.parameters)
            .field("findings", &self.findings)
            .finish()
    }
}

/// A parameter with its value.
#[derive(Clone, Debug)]
pub struct ResolvedParameter {
    /// Its name.
    pub name: String,
    /// Its value. See [`ResolvedParameter::shown`] for what may be shown.
    pub value: SecretText,
    /// Where the value comes from.
    pub origin: ValueOrigin,
    /// Whether the value must not be shown.
    pub secret: bool,
}

impl ResolvedParameter {
    /// The value as it may be shown: masked, if the parameter is secret and has one.
    pub fn shown(&self) -> &str {
        let value = self.value.expose();
        if self.secret && !value.is_empty() { MASK } else { value }
    }
}

impl Processed {
    /// The objects as a `v1` `List`, which is what `oc process` prints.
    pub fn to_list(&self) -> Node {
        let items = self.objects.iter().cloned().collect();
        Node::from_iter([("apiVersion", "v1".into()), ("kind", "List".into()), ("items", items)])
    }

    /// The template with what it became: objects, labels and message processed, parameters with their final values.
    /// Secret parameters have no value here.
    pub fn to_template(&self, template: &Template<'_>) -> Node {
        let mut root = template.root.clone();
        let parameters = root.get_mut("parameters").map(Node::items_mut).unwrap_or_default();
        for (parameter, resolved) in parameters.iter_mut().zip(&self.parameters) {
            let Some(entries) = parameter.entries_mut() else { continue };
            let value = resolved.value.expose();
            if resolved.secret {
                entries.retain(|entry| entry.key != "value");
            } else if let Some(entry) = entries.iter_mut().find(|entry| entry.key == "value") {
                entry.value.value = NodeValue::String(value.to_owned());
            } else if !value.is_empty() {
                entries.push(manifest::Entry::unplaced("value", value.into()));
            }
        }
        let labels = self.labels.as_ref().map(|labels| {
            labels.iter().map(|(key, value)| (key.clone(), Node::from(value.as_str()))).collect::<Node>()
        });
        set(&mut root, "objects", Some(self.objects.iter().cloned().collect()));
        set(&mut root, "message", self.message.as_deref().map(Node::from));
        set(&mut root, template.labels_field, labels);
        root
    }

    /// `text` with every value of a secret parameter masked, for callers who have it from somewhere else: an answer
    /// of an API server, a line of a log.
    pub fn redact(&self, text: &str) -> String {
        // What is shorter would hide half of any text.
        const SHORTEST: usize = 3;
        let mut secrets: Vec<&str> =
            self.parameters.iter().filter(|each| each.secret).map(|each| each.value.expose()).collect();
        secrets.retain(|secret| secret.len() >= SHORTEST);
        // The longest first, so that no part of one is left.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }
}

/// Sets a key of the template, at its place or at the end.
fn set(root: &mut Node, key: &str, value: Option<Node>) {
    let (Some(value), Some(entries)) = (value, root.entries_mut()) else { return };
    match entries.iter_mut().find(|entry| entry.key == key) {
        Some(entry) => entry.value = value,
        None => entries.push(manifest::Entry::unplaced(key, value)),
    }
}

/// A template as it may be stored or shown: secret parameters without their values.
pub fn without_secret_values(root: &Node) -> Node {
    let mut root = root.clone();
    for parameter in root.get_mut("parameters").map(Node::items_mut).unwrap_or_default() {
        let is_secret = parameter.get("secret").is_some_and(|secret| secret.value == NodeValue::Bool(true));
        if let Some(entries) = parameter.entries_mut().filter(|_| is_secret) {
            entries.retain(|entry| entry.key != "value");
        }
    }
    root
}
