//! Instances: generated values that stay the same from one `apply` to the next.
//!
//! Nothing here reads a cluster. The caller fetches the Secret [`secret_name`] and those that [`fillers`] names, hands
//! what [`kept_in_secret`] and [`kept_in_live`] find in them to [`crate::Request::kept`], and afterwards stores
//! [`parameters_secret`].

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use environment::SecretText;
use manifest::Node;
use names::DnsSubdomain;

use crate::kinds::{at, group_of, text};
use crate::problem::Problems;
use crate::reference::{Style, Token};
use crate::substitution::Substitution;
use crate::{Place, ProblemKind, Processed, Refusal, Request, Template, ValueOrigin, values};

/// The label that every object of an instance has; its value is the instance's name.
pub const INSTANCE_LABEL: &str = "template.coracle.dev/instance";

/// What follows the name of an instance in that of its Secret.
const SECRET_SUFFIX: &str = "-parameters";

/// The name of the Secret that keeps the generated values of an instance.
pub fn secret_name(instance: &str) -> String {
    format!("{instance}{SECRET_SUFFIX}")
}

/// Checks the name of an instance: a label's value, and with `-parameters` behind it the name of a Secret.
///
/// # Errors
///
/// It cannot be one.
pub fn check_instance_name(instance: &str) -> Result<(), Refusal> {
    let label = names::LabelValue::parse(instance).map(|_| ());
    let checked = label.and_then(|()| DnsSubdomain::parse(&secret_name(instance)).map(|_| ()));
    let checked = checked.and_then(|()| DnsSubdomain::parse(instance).map(|_| ()));
    let mut problems = Problems::default();
    if let Err(cause) = checked {
        let kind = ProblemKind::InstanceName { cause };
        problems.add(kind, || Place::new("metadata.name", manifest::Span::NOWHERE));
    }
    problems.refuse(&[])
}

/// A key of a Secret that a generated parameter fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filler {
    /// The parameter.
    pub parameter: String,
    /// The Secret's namespace, when it is written.
    pub namespace: Option<String>,
    /// The Secret's name.
    pub name: String,
    /// Its key.
    pub key: String,
    /// Whether the parameter itself is base64: it fills `data` and not `stringData`.
    pub is_encoded: bool,
}

/// The keys of Secrets that generated parameters fill, each as a whole. Names are processed with what is given and with
/// defaults; where a name depends on a generated value, there is nothing to find.
pub fn fillers(template: &Template<'_>, request: &Request<'_>) -> Vec<Filler> {
    let mut unsaid = (Problems::default(), crate::finding::Findings::default());
    let values = values::resolve(template, request, None, &mut unsaid.0, &mut unsaid.1);
    let substitution = Substitution::new(template, values.texts.iter().map(SecretText::expose).collect());
    let is_open = |text: &str| {
        substitution
            .tokens(text)
            .any(|token| matches!(token, Token::Parameter { parameter, .. } if values.is_open[parameter]))
    };
    let fixed = |node: Option<&Node>| {
        let text = node.and_then(Node::as_str).filter(|text| !is_open(text))?;
        substitution.name(text).map(std::borrow::Cow::into_owned)
    };
    let mut found = Vec::new();
    for object in template.objects {
        if text(object, "kind") != "Secret" || !group_of(text(object, "apiVersion")).is_empty() {
            continue;
        }
        let Some(name) = fixed(at(object, &["metadata", "name"])) else { continue };
        let namespace = fixed(at(object, &["metadata", "namespace"]));
        for (field, is_encoded) in [("data", true), ("stringData", false)] {
            for entry in object.get(field).map(Node::entries).unwrap_or_default() {
                let whole = entry.value.as_str().and_then(|text| {
                    let mut tokens = substitution.tokens(text);
                    match (tokens.next(), tokens.next()) {
                        (Some(Token::Parameter { parameter, style: Style::Quoted, .. }), None) => {
                            Some(parameter)
                        }
                        _ => None,
                    }
                });
                let generated = whole
                    .map(|parameter| &template.parameters[parameter])
                    .filter(|each| each.generate.is_some());
                if let (Some(parameter), false) = (generated, is_open(&entry.key)) {
                    found.push(Filler {
                        parameter: parameter.name.to_owned(),
                        namespace: namespace.clone(),
                        name: name.clone(),
                        key: substitution.text(&entry.key).into_owned(),
                        is_encoded,
                    });
                }
            }
        }
    }
    found
}

/// The values that a live Secret [`secret_name`] keeps.
pub fn kept_in_secret(secret: &serde_json::Value) -> BTreeMap<String, SecretText> {
    let data = secret.get("data").and_then(serde_json::Value::as_object);
    let decoded = |value: &serde_json::Value| decode(value.as_str()?);
    data.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), decoded(value)?))).collect()
}

/// The value that a live Secret has where a parameter fills it.
pub fn kept_in_live(filler: &Filler, secret: &serde_json::Value) -> Option<SecretText> {
    let encoded = secret.get("data")?.get(&filler.key)?.as_str()?;
    if filler.is_encoded { Some(SecretText::new(encoded)) } else { decode(encoded) }
}

fn decode(encoded: &str) -> Option<SecretText> {
    let bytes = STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(SecretText::new)
}

/// The Secret that keeps the generated values of an instance; `None` when nothing was generated, now or before.
pub fn parameters_secret(processed: &Processed, instance: &str, namespace: Option<&str>) -> Option<Node> {
    let is_kept = |origin: ValueOrigin| matches!(origin, ValueOrigin::Generated | ValueOrigin::Kept);
    let generated = processed.parameters.iter().filter(|parameter| is_kept(parameter.origin));
    let data: BTreeMap<&str, String> = generated
        .map(|parameter| (parameter.name.as_str(), STANDARD.encode(parameter.value.expose())))
        .collect();
    if data.is_empty() {
        return None;
    }
    let labels = Node::from_iter([(INSTANCE_LABEL, instance.into())]);
    let mut metadata = vec![("name", Node::from(secret_name(instance)))];
    metadata.extend(namespace.map(|namespace| ("namespace", namespace.into())));
    metadata.push(("labels", labels));
    Some(Node::from_iter([
        ("apiVersion", "v1".into()),
        ("kind", "Secret".into()),
        ("metadata", metadata.into_iter().collect()),
        ("type", "Opaque".into()),
        ("data", data.into_iter().map(|(name, value)| (name, Node::from(value))).collect()),
    ]))
}
