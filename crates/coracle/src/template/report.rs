//! Problems and findings of a template on standard error, each with the line that it is about.

use std::collections::BTreeSet;

use ::template::{Finding, Place, Problem, Refusal};
use environment::Severity;
use manifest::{Node, NodeValue, Span};

use crate::cluster::Cause;
use crate::excerpt;
use crate::failure::{Failure, INPUT};
use crate::input::{Input, InputObject};
use crate::terminal_text::paragraph;

/// Shows what is said about one document of the input.
pub(super) struct Reporter<'i> {
    file: &'i str,
    source: &'i str,
    object: &'i InputObject,
    /// Lines that hold the value of a secret parameter; they are not shown.
    secret_lines: BTreeSet<u32>,
    colour: bool,
}

impl<'i> Reporter<'i> {
    /// A reporter for an object of the input.
    pub(super) fn new(input: &'i Input, object: &'i InputObject) -> Self {
        let file = &input.files[object.file];
        let source = std::str::from_utf8(&file.text).unwrap_or_default();
        Self {
            file: &file.name,
            source,
            object,
            secret_lines: secret_lines(&object.document.root, source),
            colour: anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never,
        }
    }

    /// Shows everything that keeps the template from being processed; answers how the command ends.
    pub(super) fn refusal(&self, refusal: &Refusal) -> Failure {
        for problem in &refusal.problems {
            self.problem(problem);
        }
        if refusal.left_out > 0 {
            anstream::eprintln!("{} more problems are not shown", refusal.left_out);
        }
        Failure::quiet(INPUT)
    }

    /// Shows a problem.
    pub(super) fn problem(&self, problem: &Problem) {
        self.show(
            Severity::Error,
            Some(problem.code()),
            &problem.to_string(),
            &problem.hint(),
            &problem.place,
        );
    }

    /// Shows the findings from a severity on; answers how many there were.
    pub(super) fn findings(&self, findings: &[Finding], from: Severity) -> usize {
        let shown = findings.iter().filter(|finding| finding.severity() >= from);
        shown
            .map(|finding| {
                let text = finding.to_string();
                self.show(finding.severity(), Some(finding.code()), &text, &finding.hint(), &finding.place);
            })
            .count()
    }

    /// Shows what an API server says about fields of the template.
    pub(super) fn causes(&self, causes: &[Cause]) {
        for cause in causes {
            let place = Place {
                field: cause.field.clone(),
                span: Some(self.object.document.locate(&cause.field).span()),
                part: None,
            };
            let text = format!("{}: {}", place, cause.message);
            self.show(Severity::Error, None, &text, "", &place);
        }
    }

    fn show(&self, severity: Severity, code: Option<&str>, text: &str, hint: &str, place: &Place) {
        let shown = place.span.map(|span| self.place(place, span));
        let message = excerpt::Message {
            severity,
            code,
            text: &paragraph(text),
            label: "",
            hint: &paragraph(hint),
            place: shown.as_ref(),
            field: &place.field,
        };
        anstream::eprintln!("{}", message.render(self.colour));
    }

    fn place(&self, place: &Place, span: Span) -> excerpt::Place {
        let node = self.object.document.find(&place.field);
        let span = match (&place.part, node) {
            (Some(part), Some(node)) => node.span_of(self.source, part.clone()),
            _ => span,
        };
        let found = excerpt::Place::of(self.file, self.source, span);
        if self.secret_lines.contains(&found.line) { found.without_text() } else { found }
    }
}

/// The lines on which values of secret parameters stand.
fn secret_lines(root: &Node, source: &str) -> BTreeSet<u32> {
    let parameters = root.get("parameters").map(Node::items).unwrap_or_default();
    let is_secret = |parameter: &&Node| {
        parameter.get("secret").is_some_and(|secret| secret.value == NodeValue::Bool(true))
    };
    let values = parameters.iter().filter(is_secret).filter_map(|parameter| parameter.get("value"));
    values
        .flat_map(|value| {
            let lines = value.span.slice(source).matches('\n').count();
            let first = value.span.start.line;
            first..=first.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX))
        })
        .collect()
}
