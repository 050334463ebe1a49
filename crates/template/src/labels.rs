//! The template's labels: on every object, in pod templates, and in the selectors of what the template itself selects,
//! so that two instances in one namespace do not know of each other.

use std::collections::HashMap;

use manifest::{Entry, Node, NodeValue};
use names::{LabelValue, QualifiedName};

use crate::finding::Findings;
use crate::kinds::{Kind, SelectorForm, at, at_mut, text};
use crate::place::beginning;
use crate::problem::Problems;
use crate::selection::{Pods, has, has_any};
use crate::substitution::{Substitution, escaped_size};
use crate::{Dialect, FindingKind, INSTANCE_LABEL, Place, ProblemKind, Request, Template};

/// A label, ready to be put on objects.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) key: String,
    pub(crate) value: String,
    /// Key and value as they may be shown: without what secret parameters hold.
    pub(crate) shown: (String, String),
}

/// The labels of the template, of the request and of the instance, in this order; of equal keys the later wins.
/// `None` when there is nothing to put on objects, not even an empty map.
pub(crate) fn resolve(
    template: &Template<'_>,
    request: &Request<'_>,
    substitution: &Substitution<'_>,
    shown: &Substitution<'_>,
    is_complete: bool,
    problems: &mut Problems,
) -> Option<Vec<Label>> {
    let is_written = template.labels.is_some() && template.dialect == Dialect::OpenShift;
    let mut labels: Vec<Label> = Vec::new();
    let mut places: HashMap<String, (usize, &str)> = HashMap::new();
    for written in template.labels.iter().flatten() {
        let key_place = || Place::new(template.labels_field, written.key_span);
        let value_place = || Place::new(template.labels_field, written.value_span);
        let (key, value) = (substitution.name(written.key), substitution.name(written.value));
        // What a missing value makes of a label says nothing.
        let is_certain = |text: &str| is_complete || !crate::reference::may_refer(text);
        let key_cause = checked(key.as_deref(), QualifiedName::parse).filter(|_| is_certain(written.key));
        let value_cause = checked(value.as_deref(), LabelValue::parse).filter(|_| is_certain(written.value));
        let is_wrong = key_cause.is_some() || value_cause.is_some();
        key_cause.into_iter().for_each(|cause| problems.add(ProblemKind::LabelKey { cause }, key_place));
        value_cause
            .into_iter()
            .for_each(|cause| problems.add(ProblemKind::LabelValue { cause }, value_place));
        let (false, Some(key), Some(value)) = (is_wrong, key, value) else { continue };
        if let Some((_, first)) = places.get(&*key) {
            let kind = ProblemKind::CollidingKeys { first: beginning(first), second: beginning(written.key) };
            if is_certain(written.key) {
                problems.add(kind, key_place);
            }
            continue;
        }
        places.insert(key.clone().into_owned(), (labels.len(), written.key));
        let shown = (shown.text(written.key).into_owned(), shown.text(written.value).into_owned());
        labels.push(Label { key: key.into_owned(), value: value.into_owned(), shown });
    }
    let instance = request.instance.map(|instance| (INSTANCE_LABEL.to_owned(), instance.to_owned()));
    for (key, value) in request.labels.iter().cloned().chain(instance) {
        let place = || Place::new(template.labels_field, manifest::Span::NOWHERE);
        if let Err(cause) = QualifiedName::parse(&key) {
            problems.add(ProblemKind::LabelKey { cause }, place);
        } else if let Err(cause) = LabelValue::parse(&value) {
            problems.add(ProblemKind::LabelValue { cause }, place);
        } else {
            let label = Label { shown: (key.clone(), value.clone()), key, value };
            match places.get(&label.key) {
                Some((place, _)) => labels[*place] = label,
                None => {
                    places.insert(label.key.clone(), (labels.len(), ""));
                    labels.push(label);
                }
            }
        }
    }
    (is_written || !labels.is_empty()).then_some(labels)
}

/// Why a text is not of a grammar. A text that is too long to be made is too long for the grammar.
fn checked<T>(
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, names::NameError>,
) -> Option<names::NameError> {
    match text {
        Some(text) => parse(text).err(),
        None => parse(&"x".repeat(400)).err(),
    }
}

/// Bytes that the labels add to the result, at most.
pub(crate) fn size(labels: &[Label], objects: &[Node], substitution: &Substitution<'_>) -> usize {
    let one: usize =
        labels.iter().map(|label| escaped_size(&label.key) + escaped_size(&label.value) + 6).sum();
    let named = |object: &Node, key: &str| {
        substitution.name(text(object, key)).map(std::borrow::Cow::into_owned).unwrap_or_default()
    };
    let places = |object: &Node| {
        let kind = Kind::of(&named(object, "apiVersion"), &named(object, "kind"));
        1 + kind.map_or(0, |kind| {
            usize::from(kind.template.is_some_and(|path| !path.is_empty()))
                + kind.made.len()
                + usize::from(kind.selector.is_some())
        })
    };
    let all: usize = objects.iter().map(places).sum();
    // Metadata that an object lacks is made.
    one.saturating_mul(all).saturating_add(all * 40)
}

/// Puts the labels on the objects.
pub(crate) fn apply(
    objects: &mut [Node],
    labels: &[Label],
    problems: &mut Problems,
    findings: &mut Findings,
) {
    let pods = Pods::of(objects);
    let plans: Vec<Option<Plan>> =
        objects.iter().enumerate().map(|(index, object)| plan(index, object, &pods)).collect();
    for (index, (object, plan)) in objects.iter_mut().zip(plans).enumerate() {
        let field = format!("objects[{index}]");
        let mut target = Target { labels, problems: &mut *problems, findings: &mut *findings };
        target.metadata(object, &field, true);
        let Some(kind) = Kind::of_object(object) else { continue };
        for path in kind.made {
            if let Some(made) = at_mut(object, path) {
                target.metadata(made, &format!("{field}.{}", path.join(".")), true);
            }
        }
        let template = kind.template.filter(|path| !path.is_empty());
        if let Some((path, template)) = template.and_then(|path| Some((path, at_mut(object, path)?))) {
            // What selects by labels and writes none is left to the API server's answer.
            let may_begin = !kind.selects_own || kind.name == "Job";
            target.metadata(template, &format!("{field}.{}", path.join(".")), may_begin);
        }
        match plan {
            Some(Plan::Extend(path)) => {
                if let Some(selector) = at_mut(object, &path) {
                    target.map(selector, &format!("{field}.{}", path.join(".")));
                }
            }
            Some(Plan::Outside(path)) => {
                let span = at(object, &path).map_or(object.span, crate::read::first_span);
                findings.add(FindingKind::SelectorOutside, || {
                    Place::new(format!("{field}.{}", path.join(".")), span)
                });
            }
            None => {}
        }
    }
}

/// What is done about the selector of an object.
enum Plan {
    /// It gets the labels, at this path.
    Extend(Vec<&'static str>),
    /// It selects nothing of the template.
    Outside(Vec<&'static str>),
}

fn plan(index: usize, object: &Node, pods: &Pods) -> Option<Plan> {
    let kind = Kind::of_object(object)?;
    let (path, form) = kind.selector?;
    let is_manual =
        at(object, &["spec", "manualSelector"]).is_some_and(|node| node.value == NodeValue::Bool(true));
    if kind.name == "Job" && !is_manual {
        return None;
    }
    let selector = at(object, path)?;
    let mut path = path.to_vec();
    let labels = match form {
        SelectorForm::Map => selector,
        SelectorForm::MatchLabels => {
            path.push("matchLabels");
            selector.get("matchLabels")?
        }
    };
    if labels.entries().is_empty() {
        return None;
    }
    let expressions = match form {
        SelectorForm::Map => &[],
        SelectorForm::MatchLabels => selector.get("matchExpressions").map(Node::items).unwrap_or_default(),
    };
    let selected = pods.selected(object, labels.entries(), expressions);
    let is_inside = if kind.selects_own { has(&selected, index) } else { has_any(&selected) };
    Some(if is_inside { Plan::Extend(path) } else { Plan::Outside(path) })
}

struct Target<'t> {
    labels: &'t [Label],
    problems: &'t mut Problems,
    findings: &'t mut Findings,
}

impl Target<'_> {
    /// Labels the metadata of something; `may_begin` says whether also where no label is written.
    fn metadata(&mut self, owner: &mut Node, field: &str, may_begin: bool) {
        let has_labels =
            !at(owner, &["metadata", "labels"]).map(Node::entries).unwrap_or_default().is_empty();
        if !has_labels && !may_begin {
            return;
        }
        let field = format!("{field}.metadata");
        let Some(metadata) = self.map_below(owner, "metadata", &field) else { return };
        let field = format!("{field}.labels");
        if let Some(labels) = self.map_below(metadata, "labels", &field) {
            self.map(labels, &field);
        }
    }

    /// The map of a key, made if there is none.
    fn map_below<'n>(&mut self, owner: &'n mut Node, key: &str, field: &str) -> Option<&'n mut Node> {
        let owner_span = owner.span;
        let entries = owner.entries_mut()?;
        let place = match entries.iter().position(|entry| entry.key == key) {
            Some(place) => place,
            None => {
                // Where people look for it: metadata behind kind, labels behind the name.
                let behind = entries
                    .iter()
                    .rposition(|entry| ["apiVersion", "kind", "name"].contains(&entry.key.as_str()));
                let place = behind.map_or(entries.len(), |place| place + 1);
                let value = Node { value: NodeValue::Map(Vec::new()), span: owner_span };
                entries.insert(place, Entry { key: key.to_owned(), key_span: owner_span, value });
                place
            }
        };
        let node = &mut entries[place].value;
        match node.value {
            NodeValue::Map(_) => Some(node),
            NodeValue::Null => {
                node.value = NodeValue::Map(Vec::new());
                Some(node)
            }
            NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_)
            | NodeValue::List(_) => {
                let kind = ProblemKind::WrongType { expected: "a map", found: node.value.kind() };
                self.problems.add(kind, || Place::new(field, node.span));
                None
            }
        }
    }

    fn map(&mut self, map: &mut Node, field: &str) {
        let span = map.span;
        let Some(entries) = map.entries_mut() else { return };
        let places: HashMap<String, usize> =
            entries.iter().enumerate().map(|(place, entry)| (entry.key.clone(), place)).collect();
        for label in self.labels {
            let Some(place) = places.get(&label.key) else {
                let value = Node { value: NodeValue::String(label.value.clone()), span };
                entries.push(Entry { key: label.key.clone(), key_span: span, value });
                continue;
            };
            let entry = &mut entries[*place];
            if entry.value.as_str() == Some(&label.value) {
                continue;
            }
            let kind = FindingKind::LabelOverwritten { key: label.shown.0.clone() };
            self.findings.add(kind, || Place::new(field, entry.key_span));
            entry.value.value = NodeValue::String(label.value.clone());
        }
    }
}
