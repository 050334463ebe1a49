//! From a template and values to objects, or to everything that is wrong.

use std::collections::{HashMap, HashSet};

use environment::SecretText;
use manifest::{Entry, Node, NodeValue};

use crate::ambient::Ambient;
use crate::finding::Findings;
use crate::kinds::{at, group_of, text};
use crate::labels::{self, Label};
use crate::limits::MAX_OUTPUT_BYTES;
use crate::place::{Path, beginning};
use crate::problem::Problems;
use crate::reference::{Token, may_refer};
use crate::substitution::Substitution;
use crate::survey::Survey;
use crate::values::{self, Values};
use crate::{
    Dialect, Finding, FindingKind, Place, ProblemKind, Processed, Randomness, Refusal, Request,
    ResolvedParameter, Template, ValueOrigin, openshift, scalar,
};

/// What stands for a secret value wherever it may be seen.
pub(crate) const MASK: &str = "****";

/// Processes a template: the same template, request and random bytes give the same result.
///
/// # Errors
///
/// Everything that is wrong with the template and the request, at once.
pub fn process(
    template: &Template<'_>,
    request: &Request<'_>,
    random: &mut dyn Randomness,
) -> Result<Processed, Refusal> {
    run(template, request, Some(random))
}

/// Looks at a template without values besides its defaults: what could never be processed is refused, and what is
/// worth knowing is found. Nothing is generated, and no required value is missed.
///
/// # Errors
///
/// Everything that is wrong with the template, at once.
pub fn check(template: &Template<'_>, request: &Request<'_>) -> Result<Vec<Finding>, Refusal> {
    run(template, request, None).map(|processed| processed.findings)
}

fn run(
    template: &Template<'_>,
    request: &Request<'_>,
    random: Option<&mut dyn Randomness>,
) -> Result<Processed, Refusal> {
    let mut problems = Problems::default();
    problems.extend(&template.problems);
    let mut findings = Findings::of(&template.findings);
    let values = values::resolve(template, request, random, &mut problems, &mut findings);
    let substitution = Substitution::new(template, values.texts.iter().map(SecretText::expose).collect());
    let masked = Substitution::new(template, masked(template, &values));

    let ambient = match template.dialect {
        Dialect::Proposal => Ambient::of(template.objects, &substitution),
        Dialect::OpenShift => Ambient::default(),
    };
    let mut survey =
        Survey::new(template, &substitution, &ambient, &values.is_open, &mut problems, &mut findings);
    survey.look();
    let (used_at, size) = (survey.used_at, survey.size);
    check_use(template, &values, &used_at, &mut problems, &mut findings);

    let is_complete = !values.is_open.contains(&true);
    let labels = labels::resolve(template, request, &substitution, &masked, is_complete, &mut problems);
    let label_size = labels::size(labels.as_deref().unwrap_or_default(), template.objects, &substitution);
    // The answer lists the values too.
    let value_size = (0..substitution.count()).map(|place| substitution.escaped_size(place)).sum();
    let size = size.saturating_add(label_size).saturating_add(value_size);
    let mut objects = Vec::new();
    if size > MAX_OUTPUT_BYTES {
        let kind = ProblemKind::OutputTooLarge { size, limit: MAX_OUTPUT_BYTES };
        problems.add(kind, || Place::new("objects", crate::read::first_span(template.root)));
    } else {
        objects = build(template, &substitution, &values, &mut problems, &mut findings);
        // What empty values make of names and selectors says nothing.
        let mut unsaid = Findings::default();
        let heard = if is_complete { &mut findings } else { &mut unsaid };
        if let Some(labels) = &labels {
            labels::apply(&mut objects, labels, &mut problems, heard);
        }
        find_duplicates(&objects, heard);
    }

    let findings = findings.finish();
    problems.refuse(&findings)?;
    Ok(Processed {
        objects,
        message: template.message.map(|message| masked.text(message).into_owned()),
        labels: labels.map(|labels| labels.into_iter().map(|label: Label| label.shown).collect()),
        parameters: resolved(template, values),
        findings,
    })
}

/// The values as they may be seen.
fn masked<'v>(template: &Template<'v>, values: &'v Values) -> Vec<&'v str> {
    let shown = |(parameter, text): (&crate::Parameter<'_>, &'v SecretText)| match parameter.secret {
        true => MASK,
        false => text.expose(),
    };
    template.parameters.iter().zip(&values.texts).map(shown).collect()
}

/// Values against declared types, and parameters that nothing refers to.
fn check_use(
    template: &Template<'_>,
    values: &Values,
    used_at: &[Option<String>],
    problems: &mut Problems,
    findings: &mut Findings,
) {
    // A value that is used under a name only because a later one of the same name counts is no use of the first.
    let mut used_names = HashSet::new();
    for (parameter, _) in template.parameters.iter().zip(used_at).filter(|(_, used)| used.is_some()) {
        used_names.insert(parameter.name);
    }
    for (place, parameter) in template.parameters.iter().enumerate() {
        let (text, origin) = match values.origins[place] {
            // Of a parameter that is declared twice, the first is looked at too.
            ValueOrigin::Empty => (parameter.value.unwrap_or_default(), ValueOrigin::Default),
            origin => (values.texts[place].expose(), origin),
        };
        if let Some(kind) = parameter.kind
            && !text.is_empty()
            && !scalar::fits(text, kind)
        {
            let kind = ProblemKind::ValueType {
                parameter: parameter.name.to_owned(),
                kind,
                is_empty: false,
                used_at: used_at[place].clone(),
            };
            problems.add(kind, || match origin {
                ValueOrigin::Default => parameter.field("value"),
                ValueOrigin::Given | ValueOrigin::Generated | ValueOrigin::Kept | ValueOrigin::Empty => {
                    parameter.place.clone()
                }
            });
        }
        if !parameter.name.is_empty() && !used_names.contains(parameter.name) {
            let kind = FindingKind::ParameterUnused { parameter: parameter.name.to_owned() };
            findings.add(kind, || parameter.place.clone());
        }
    }
}

fn build(
    template: &Template<'_>,
    substitution: &Substitution<'_>,
    values: &Values,
    problems: &mut Problems,
    findings: &mut Findings,
) -> Vec<Node> {
    let mut builder = Builder { substitution, is_open: &values.is_open, problems, path: Path::default() };
    let mut objects = Vec::with_capacity(template.objects.len());
    for (index, written) in template.objects.iter().enumerate() {
        builder.path = Path::of(format!("objects[{index}]"));
        let mut object = builder.node(written);
        if template.dialect == Dialect::OpenShift {
            openshift::remove_namespace(index, written, &mut object, findings);
            openshift::correct_group(&mut object);
        }
        objects.push(object);
    }
    objects
}

struct Builder<'b> {
    substitution: &'b Substitution<'b>,
    is_open: &'b [bool],
    problems: &'b mut Problems,
    path: Path,
}

impl Builder<'_> {
    fn node(&mut self, node: &Node) -> Node {
        let value = match &node.value {
            NodeValue::String(text) => self.substitution.node(text),
            NodeValue::List(items) => {
                let mut built = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let back = self.path.enter_item(index);
                    built.push(self.node(item));
                    self.path.back(back);
                }
                NodeValue::List(built)
            }
            NodeValue::Map(entries) => NodeValue::Map(self.entries(entries)),
            same @ (NodeValue::Null | NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_)) => {
                same.clone()
            }
        };
        Node { value, span: node.span }
    }

    fn entries(&mut self, entries: &[Entry]) -> Vec<Entry> {
        let mut has_references = false;
        let mut built = Vec::with_capacity(entries.len());
        for entry in entries {
            has_references |= may_refer(&entry.key);
            let back = self.path.enter_key(&entry.key);
            let key = self.substitution.text(&entry.key).into_owned();
            built.push(Entry { key, key_span: entry.key_span, value: self.node(&entry.value) });
            self.path.back(back);
        }
        if has_references {
            self.refuse_collisions(entries, &built);
        }
        built
    }

    fn refuse_collisions(&mut self, written: &[Entry], built: &[Entry]) {
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (place, entry) in built.iter().enumerate() {
            let Some(before) = first.get(entry.key.as_str()).copied() else {
                first.insert(&entry.key, place);
                continue;
            };
            if self.is_open(&written[before].key) || self.is_open(&written[place].key) {
                continue;
            }
            let kind = ProblemKind::CollidingKeys {
                first: beginning(&written[before].key),
                second: beginning(&written[place].key),
            };
            let mut path = Path::of(self.path.as_str());
            path.enter_key(&written[place].key);
            self.problems.add(kind, || Place::new(path.as_str(), entry.key_span));
        }
    }

    /// Whether a text depends on a value that is not known.
    fn is_open(&self, text: &str) -> bool {
        self.substitution
            .tokens(text)
            .any(|token| matches!(token, Token::Parameter { parameter, .. } if self.is_open[parameter]))
    }
}

/// Objects of one kind that get one name.
fn find_duplicates(objects: &[Node], findings: &mut Findings) {
    let mut seen: HashMap<(&str, &str, &str, &str), usize> = HashMap::new();
    for (index, object) in objects.iter().enumerate() {
        let metadata = |key| at(object, &["metadata", key]).and_then(Node::as_str).unwrap_or_default();
        let name = metadata("name");
        if name.is_empty() {
            continue;
        }
        let identity =
            (group_of(text(object, "apiVersion")), text(object, "kind"), metadata("namespace"), name);
        match seen.get(&identity) {
            None => {
                seen.insert(identity, index);
            }
            Some(first) => {
                let kind = FindingKind::ObjectDuplicate { first: format!("objects[{first}]") };
                let span = at(object, &["metadata", "name"]).map_or(object.span, |name| name.span);
                findings.add(kind, || Place::new(format!("objects[{index}].metadata.name"), span));
            }
        }
    }
}

fn resolved(template: &Template<'_>, values: Values) -> Vec<ResolvedParameter> {
    let with_values = template.parameters.iter().zip(values.texts).zip(values.origins);
    with_values
        .map(|((parameter, value), origin)| ResolvedParameter {
            name: parameter.name.to_owned(),
            value,
            origin,
            secret: parameter.secret,
        })
        .collect()
}

/// Bytes of the objects and the rest, as they are computed before anything is built.
#[cfg(test)]
pub(crate) fn size_of(template: &Template<'_>, request: &Request<'_>) -> usize {
    let (mut problems, mut findings) = (Problems::default(), Findings::default());
    let values = values::resolve(template, request, None, &mut problems, &mut findings);
    let substitution = Substitution::new(template, values.texts.iter().map(SecretText::expose).collect());
    let ambient = Ambient::default();
    let mut survey =
        Survey::new(template, &substitution, &ambient, &values.is_open, &mut problems, &mut findings);
    survey.look();
    survey.size
}
