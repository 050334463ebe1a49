//! Which dialect a template is written in, where its group and version do not say so.

use std::collections::HashSet;

use manifest::{Node, NodeValue, Span};
use memchr::memchr_iter;

use crate::finding::Findings;
use crate::reference::form;
use crate::{Dialect, FindingKind, OPENSHIFT_API_VERSION, Place, ProblemKind, Template};

/// The dialect by group and version; for `v1`, by what the template uses.
pub(crate) fn of(
    template: &Template<'_>,
    root: &Node,
    findings: &mut Findings,
) -> Result<Dialect, ProblemKind> {
    if template.api_version == OPENSHIFT_API_VERSION {
        return Ok(Dialect::OpenShift);
    }
    if template.api_version != "v1" {
        return Ok(Dialect::Proposal);
    }
    let mut used = Used::new(template);
    template.objects.iter().for_each(|object| used.look_at(object));
    used.look_at_text(template.message.unwrap_or_default());
    for label in template.labels.iter().flatten() {
        used.look_at_text(label.key);
        used.look_at_text(label.value);
    }
    let has_generators = template.parameters.iter().any(|parameter| parameter.generate.is_some());
    match (used.proposal, used.openshift) {
        (Some(proposal), Some(openshift)) => {
            Err(ProblemKind::MixedDialects { proposal: proposal.to_owned(), openshift: openshift.to_owned() })
        }
        (Some(_), None) => Ok(Dialect::Proposal),
        (None, None) if !has_generators => Ok(Dialect::Proposal),
        (None, Some(_) | None) => {
            let span = root.get("apiVersion").map_or(Span::NOWHERE, |node| node.span);
            findings.add(FindingKind::ReadAsOpenShift, || Place::new("apiVersion", span));
            Ok(Dialect::OpenShift)
        }
    }
}

/// The first reference of each dialect to a declared parameter.
struct Used<'d> {
    declared: HashSet<&'d str>,
    proposal: Option<&'d str>,
    openshift: Option<&'d str>,
}

impl<'d> Used<'d> {
    fn new(template: &Template<'d>) -> Self {
        let declared = template.parameters.iter().map(|parameter| parameter.name).collect();
        Self { declared, proposal: None, openshift: None }
    }

    fn look_at(&mut self, node: &Node) {
        match &node.value {
            NodeValue::String(text) => self.look_at_text(text),
            NodeValue::List(items) => items.iter().for_each(|item| self.look_at(item)),
            NodeValue::Map(entries) => {
                for entry in entries {
                    self.look_at_text(&entry.key);
                    self.look_at(&entry.value);
                }
            }
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_) => {}
        }
    }

    fn look_at_text(&mut self, text: &str) {
        if self.proposal.is_some() && self.openshift.is_some() {
            return;
        }
        for sign in memchr_iter(b'$', text.as_bytes()) {
            let named =
                |dialect| form(text, sign, dialect).and_then(|form| self.declared.get(form.name).copied());
            let (proposal, openshift) = (named(Dialect::Proposal), named(Dialect::OpenShift));
            self.proposal = self.proposal.or(proposal);
            self.openshift = self.openshift.or(openshift);
        }
    }
}
