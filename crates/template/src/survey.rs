//! One look at everything in a template: who refers to what, what is meant by whom, and how large the result will be.

use manifest::{Node, NodeValue, Span};
use memchr::memchr_iter;

use crate::ambient::{Ambient, PodScope, Scope};
use crate::finding::Findings;
use crate::kinds::text;
use crate::nearest::Neighbours;
use crate::place::Path;
use crate::problem::Problems;
use crate::reference::{Style, Token, form, is_parameter_name, may_refer};
use crate::site::Site;
use crate::substitution::{Substitution, escaped_size};
use crate::{Dialect, FindingKind, ParameterType, Place, ProblemKind, Template};

/// Bytes of the longest number, as it is written: all digits of a large one, or sign, 17 digits and an exponent.
const LONGEST_NUMBER: usize = 25;

/// What was seen.
pub(crate) struct Survey<'s, 'd> {
    template: &'s Template<'d>,
    substitution: &'s Substitution<'s>,
    ambient: &'s Ambient,
    /// Parameters whose value is not known.
    is_open: &'s [bool],
    neighbours: Neighbours<'d>,
    pub(crate) problems: &'s mut Problems,
    pub(crate) findings: &'s mut Findings,
    /// Where each parameter is used first; nothing where it is not used.
    pub(crate) used_at: Vec<Option<String>>,
    /// Bytes of everything as compact JSON, once the values are in it.
    pub(crate) size: usize,
    path: Path,
    pod: Option<PodScope>,
    scopes: Vec<Scope<'d>>,
}

/// A text and where it stands.
#[derive(Clone, Copy)]
struct Seen<'t> {
    text: &'t str,
    span: Span,
    site: Site,
    is_key: bool,
}

impl<'s, 'd> Survey<'s, 'd> {
    pub(crate) fn new(
        template: &'s Template<'d>,
        substitution: &'s Substitution<'s>,
        ambient: &'s Ambient,
        is_open: &'s [bool],
        problems: &'s mut Problems,
        findings: &'s mut Findings,
    ) -> Self {
        let names = template.parameters.iter().map(|parameter| parameter.name);
        Self {
            template,
            substitution,
            ambient,
            is_open,
            neighbours: Neighbours::new(names.filter(|name| !name.is_empty())),
            problems,
            findings,
            used_at: vec![None; template.parameters.len()],
            size: 0,
            path: Path::default(),
            pod: None,
            scopes: Vec::new(),
        }
    }

    /// Looks at the whole template.
    pub(crate) fn look(&mut self) {
        for (index, object) in self.template.objects.iter().enumerate() {
            self.object(index, object);
        }
        if let Some(message) = self.template.message {
            self.path = Path::of("message");
            let span = self.template.message_span;
            self.text(Seen { text: message, span, site: Site::Script, is_key: false });
        }
        for label in self.template.labels.iter().flatten() {
            self.path = Path::of(self.template.labels_field);
            self.path.enter_key(label.key);
            let site = Site::Plain;
            self.text(Seen { text: label.key, span: label.key_span, site, is_key: true });
            self.text(Seen { text: label.value, span: label.value_span, site, is_key: false });
        }
    }

    fn object(&mut self, index: usize, object: &'d Node) {
        self.path = Path::of(format!("objects[{index}]"));
        if !matches!(object.value, NodeValue::Map(_)) {
            // That has been said.
            return;
        }
        for field in ["apiVersion", "kind"] {
            match object.entry(field).map(|entry| (entry, entry.value.as_str())) {
                Some((entry, Some(written))) if !written.is_empty() => {
                    let is_reference = |token| matches!(token, Token::Parameter { .. });
                    if self.template.dialect == Dialect::Proposal
                        && self.substitution.tokens(written).any(is_reference)
                    {
                        let field = format!("{}.{field}", self.path.as_str());
                        self.problems.add(ProblemKind::FixedField, || Place::new(field, entry.value.span));
                    }
                }
                _ => {
                    let place = Place::new(self.path.as_str(), crate::read::first_span(object));
                    self.problems.add(ProblemKind::FieldMissing { field }, || place);
                }
            }
        }
        let named = |key| self.substitution.name(text(object, key)).unwrap_or_default();
        let site = Site::of_object(&named("apiVersion"), &named("kind"));
        self.scopes.clear();
        self.node(object, object, site);
    }

    fn node(&mut self, object: &'d Node, node: &'d Node, site: Site) {
        if site == Site::PodSpec {
            self.pod = Some(PodScope::of(object, node, self.substitution));
        }
        match &node.value {
            NodeValue::Null => self.size += 4,
            NodeValue::Bool(_) => self.size += 5,
            NodeValue::Int(_) => self.size += 20,
            NodeValue::Float(_) => self.size += LONGEST_NUMBER,
            NodeValue::String(text) => {
                self.text(Seen { text, span: node.span, site, is_key: false });
            }
            NodeValue::List(items) => {
                self.size += 2 + items.len();
                for (index, item) in items.iter().enumerate() {
                    let back = self.path.enter_item(index);
                    let site = match (site, &self.pod) {
                        (Site::Containers, Some(pod)) => {
                            self.scopes.push(Scope::of(pod, item, self.ambient, self.substitution));
                            Site::Container(self.scopes.len() - 1)
                        }
                        (site, _) => site.item(index),
                    };
                    self.node(object, item, site);
                    self.path.back(back);
                }
            }
            NodeValue::Map(entries) => {
                self.size += 2 + 2 * entries.len();
                for entry in entries {
                    let back = self.path.enter_key(&entry.key);
                    let key_site = if site.may_be_script() { site } else { Site::Plain };
                    self.text(Seen { text: &entry.key, span: entry.key_span, site: key_site, is_key: true });
                    self.node(object, &entry.value, site.key(&entry.key));
                    self.path.back(back);
                }
            }
        }
    }

    fn text(&mut self, seen: Seen<'_>) {
        self.size = self.size.saturating_add(2);
        if !may_refer(seen.text) {
            self.size = self.size.saturating_add(escaped_size(seen.text));
            return;
        }
        let substitution = self.substitution;
        for token in substitution.tokens(seen.text) {
            let size = match token {
                Token::Text(piece) | Token::Escaped { text: piece, .. } => escaped_size(piece),
                Token::Parameter { parameter, style, span } => {
                    self.parameter(seen, parameter, style, span);
                    let size = substitution.escaped_size(parameter);
                    // Without quotes it may become a number, which is written out: `1e10` is longer afterwards.
                    if style == Style::Unquoted { size.max(LONGEST_NUMBER) } else { size }
                }
                Token::Unknown { name, style, span } => {
                    let size = span.len();
                    self.unknown(seen, name, style, span);
                    size
                }
            };
            self.size = self.size.saturating_add(size);
        }
        self.other_dialect(seen);
    }

    fn place(&self, seen: Seen<'_>, part: std::ops::Range<usize>) -> Place {
        Place::new(self.path.as_str(), seen.span).part(part)
    }

    fn parameter(&mut self, seen: Seen<'_>, parameter: usize, style: Style, span: std::ops::Range<usize>) {
        if self.used_at[parameter].is_none() {
            self.used_at[parameter] = Some(self.path.as_str().to_owned());
        }
        let declared = &self.template.parameters[parameter];
        let needs_value = matches!(declared.kind, Some(ParameterType::Int | ParameterType::Bool));
        if style == Style::Unquoted
            && let Some(kind) = declared.kind.filter(|_| needs_value && !seen.is_key)
            && self.substitution.value(parameter).is_empty()
            && !self.is_open[parameter]
        {
            let kind = ProblemKind::ValueType {
                parameter: declared.name.to_owned(),
                kind,
                is_empty: true,
                used_at: Some(self.path.as_str().to_owned()),
            };
            let place = self.place(seen, span.clone());
            self.problems.add(kind, || place);
        }
        if self.template.dialect == Dialect::OpenShift || style == Style::Unquoted || seen.is_key {
            return;
        }
        let Some((scope, reach)) = seen.site.reach() else { return };
        if let Some(variable) = self.scopes[scope].resolver_of(self.ambient, parameter, declared.name, reach)
        {
            let kind = ProblemKind::Ambiguous {
                parameter: declared.name.to_owned(),
                declared: declared.place.field.clone(),
                variable,
            };
            let place = self.place(seen, span);
            self.problems.add(kind, || place);
        }
    }

    /// A reference that names no parameter.
    fn unknown(&mut self, seen: Seen<'_>, name: &str, style: Style, span: std::ops::Range<usize>) {
        let reference = || seen.text[span.clone()].chars().take(80).collect::<String>();
        let is_whole = style == Style::Unquoted
            && !seen.is_key
            && span.len() == seen.text.len()
            && is_parameter_name(name);
        let may_be_script = seen.site.may_be_script();
        if self.template.dialect == Dialect::OpenShift {
            let kind = match self.neighbours.nearest(name) {
                Some(nearest) => {
                    FindingKind::ReferenceNear { reference: reference(), nearest: nearest.to_owned() }
                }
                None if is_whole || !may_be_script && seen.site.reach().is_none() => {
                    FindingKind::ReferenceUnknown { reference: reference(), may_be_script }
                }
                None => return,
            };
            let place = self.place(seen, span.clone());
            self.findings.add(kind, || place);
            return;
        }
        if is_whole {
            let nearest = self.neighbours.nearest(name).map(str::to_owned);
            let place = self.place(seen, span.clone());
            self.problems.add(ProblemKind::UnknownWhole { reference: reference(), nearest }, || place);
            return;
        }
        let reach = seen.site.reach().filter(|_| style == Style::Quoted && !seen.is_key);
        if let Some((scope, reach)) = reach {
            // A variable that is declared further down is the container's business too.
            if self.scopes[scope].has(self.ambient, name, reach, self.substitution) {
                return;
            }
        }
        if let Some(nearest) = self.neighbours.nearest(name) {
            let kind = ProblemKind::NearMiss { reference: reference(), nearest: nearest.to_owned() };
            let place = self.place(seen, span.clone());
            self.problems.add(kind, || place);
        } else if seen.site.reach().is_none() {
            let place = self.place(seen, span.clone());
            let kind = FindingKind::ReferenceUnknown { reference: reference(), may_be_script };
            self.findings.add(kind, || place);
        }
    }

    /// References to declared parameters that the dialect does not have.
    fn other_dialect(&mut self, seen: Seen<'_>) {
        let other = match self.template.dialect {
            Dialect::Proposal => Dialect::OpenShift,
            Dialect::OpenShift => Dialect::Proposal,
        };
        let is_for_container = other == Dialect::Proposal && seen.site.reach().is_some();
        if seen.site.may_be_script() || is_for_container {
            return;
        }
        for sign in memchr_iter(b'$', seen.text.as_bytes()) {
            let Some(found) = form(seen.text, sign, other) else { continue };
            if self.substitution.place_of(found.name).is_some() {
                let reference = seen.text[found.span.clone()].to_owned();
                let place = self.place(seen, found.span);
                self.findings.add(FindingKind::ReferenceOtherDialect { reference }, || place);
            }
        }
    }
}
