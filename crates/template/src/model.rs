//! What a template says, read but not yet processed.

use std::fmt;

use manifest::{Node, Span};

use crate::problem::Problem;
use crate::{Finding, Place};

/// Our group and version.
pub const API_VERSION: &str = "template.coracle.dev/v1";
/// The group and version of OpenShift's templates.
pub const OPENSHIFT_API_VERSION: &str = "template.openshift.io/v1";

/// Which of the two languages a template is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `$(P)` and `$((P))`.
    Proposal,
    /// `${P}` and `${{P}}`.
    OpenShift,
}

impl Dialect {
    /// `proposal` or `openshift`, as the command line has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proposal => "proposal",
            Self::OpenShift => "openshift",
        }
    }

    /// The dialect of a word of the command line.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Proposal, Self::OpenShift].into_iter().find(|each| each.as_str() == text)
    }
}

/// The declared type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterType {
    /// Any text; stays text under `$((P))` too.
    String,
    /// A whole number of 64 bits.
    Int,
    /// `true` or `false`.
    Bool,
    /// Standard base64, of at most [`crate::limits::MAX_VALUE_BYTES`] decoded.
    Base64,
}

impl ParameterType {
    /// As templates write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int => "int",
            Self::Bool => "bool",
            Self::Base64 => "base64",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::String, Self::Int, Self::Bool, Self::Base64].into_iter().find(|each| each.as_str() == text)
    }
}

/// A parameter as the template declares it. Its `Debug` prints no default of a secret one.
#[derive(Clone)]
pub struct Parameter<'d> {
    /// Its name.
    pub name: &'d str,
    /// What a form calls it.
    pub display_name: Option<&'d str>,
    /// What it is for.
    pub description: Option<&'d str>,
    /// The default; an empty one counts as none.
    pub value: Option<&'d str>,
    /// Whether it must have a value that is not empty.
    pub required: bool,
    /// The declared type; `None` when the template declares none.
    pub kind: Option<ParameterType>,
    /// Whether its value must not be shown.
    pub secret: bool,
    /// The generator: `expression` is the only one.
    pub generate: Option<&'d str>,
    /// What the generator works from.
    pub from: Option<&'d str>,
    /// Where it stands: `parameters[2]`.
    pub place: Place,
    /// Where its value stands.
    pub(crate) value_span: Span,
}

impl fmt::Debug for Parameter<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Parameter")
            .field("name", &self.name)
            .field("value", &self.value.filter(|_| !self.secret))
            .field("required", &self.required)
            .field("kind", &self.kind)
            .field("secret", &self.secret)
            .field("generate", &self.generate)
            .field("from", &self.from)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Template<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Template")
            .field("name", &self.name)
            .field("dialect", &self.dialect)
            .field("parameters", &self.parameters)
            .field("objects", &self.objects.len())
            .field("problems", &self.problems)
            .field("findings", &self.findings)
            .finish_non_exhaustive()
    }
}

impl Parameter<'_> {
    /// The place of one of its fields.
    pub(crate) fn field(&self, name: &str) -> Place {
        let span = if name == "value" { self.value_span } else { self.place.span.unwrap_or(Span::NOWHERE) };
        Place::new(format!("{}.{name}", self.place.field), span)
    }
}

/// A label that the template, or the caller, gives to every object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenLabel<'d> {
    pub(crate) key: &'d str,
    pub(crate) key_span: Span,
    pub(crate) value: &'d str,
    pub(crate) value_span: Span,
}

/// A template, read. It borrows from the document. Its `Debug` prints neither the objects nor the document.
///
/// What is wrong with it but does not keep it from being understood (a parameter that is declared twice) is kept, and
/// comes out of [`crate::check`] and [`crate::process()`] together with everything else.
#[derive(Clone)]
pub struct Template<'d> {
    /// `metadata.name`, or nothing.
    pub name: &'d str,
    /// `metadata.namespace`.
    pub namespace: Option<&'d str>,
    /// `apiVersion`.
    pub api_version: &'d str,
    /// The language it is read as.
    pub dialect: Dialect,
    /// The parameters in their order.
    pub parameters: Vec<Parameter<'d>>,
    /// The objects in their order, references and all.
    pub objects: &'d [Node],
    /// What to tell people afterwards, references and all.
    pub message: Option<&'d str>,
    pub(crate) root: &'d Node,
    pub(crate) message_span: Span,
    /// `None` when the template has no `labels`: an empty map is something else in OpenShift's dialect.
    pub(crate) labels: Option<Vec<WrittenLabel<'d>>>,
    /// The name of the field that holds them: `labels` or `objectLabels`.
    pub(crate) labels_field: &'static str,
    pub(crate) problems: Vec<Problem>,
    pub(crate) findings: Vec<Finding>,
}

impl<'d> Template<'d> {
    /// The parameter of a name; the last one, where OpenShift's dialect has several.
    pub fn parameter(&self, name: &str) -> Option<&Parameter<'d>> {
        self.parameters.iter().rev().find(|parameter| parameter.name == name)
    }
}
