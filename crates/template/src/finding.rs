//! What a person should know about a template although it can be processed.

use std::fmt;

use environment::Severity;

use crate::Place;
use crate::limits::MAX_REPORTED;
use crate::place::quoted;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it says.
    pub kind: FindingKind,
    /// Where.
    pub place: Place,
}

/// What a finding says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// A reference names no parameter and stays as it is, where no container can expand it.
    ReferenceUnknown {
        /// The reference as it is written.
        reference: String,
        /// Whether a shell may be what it is meant for.
        may_be_script: bool,
    },
    /// A reference almost names a parameter, in a dialect where that is allowed.
    ReferenceNear {
        /// The reference as it is written.
        reference: String,
        /// The parameter that is probably meant.
        nearest: String,
    },
    /// A reference of the other dialect to a declared parameter; it stays as it is.
    ReferenceOtherDialect {
        /// The reference as it is written.
        reference: String,
    },
    /// A template of `v1` is read as OpenShift's.
    ReadAsOpenShift,
    /// A parameter that nothing refers to.
    ParameterUnused {
        /// The parameter.
        parameter: String,
    },
    /// A value for a parameter that the template does not have was ignored, as asked.
    ParameterIgnored {
        /// The name.
        name: String,
    },
    /// A parameter is declared twice; the last one counts.
    ParameterDuplicate {
        /// The parameter.
        parameter: String,
    },
    /// A generated value that looks like a secret could be guessed.
    GeneratedWeak {
        /// The parameter.
        parameter: String,
        /// How much chance its expression holds, in bits.
        bits: u32,
    },
    /// A generator has no expression, so that the value is empty.
    GeneratesNothing {
        /// The parameter.
        parameter: String,
    },
    /// A label of the template replaces one that the object has.
    LabelOverwritten {
        /// The label's key.
        key: String,
    },
    /// A selector selects nothing of the template, so that it does not get the template's labels.
    SelectorOutside,
    /// A namespace that is written out was removed, as OpenShift does.
    NamespaceRemoved,
    /// Two objects of the same kind get the same name.
    ObjectDuplicate {
        /// The place of the first one.
        first: String,
    },
    /// There are more findings than are shown.
    Truncated {
        /// How many.
        left_out: usize,
    },
}

impl Finding {
    /// The stable code; `docs/findings.md` explains each.
    pub fn code(&self) -> &'static str {
        match &self.kind {
            FindingKind::ReferenceUnknown { .. } => "template-reference-unknown",
            FindingKind::ReferenceNear { .. } => "template-reference-near",
            FindingKind::ReferenceOtherDialect { .. } => "template-reference-other-dialect",
            FindingKind::ReadAsOpenShift => "template-read-as-openshift",
            FindingKind::ParameterUnused { .. } => "template-parameter-unused",
            FindingKind::ParameterIgnored { .. } => "template-parameter-unknown",
            FindingKind::ParameterDuplicate { .. } => "template-parameter-duplicate",
            FindingKind::GeneratedWeak { .. } => "template-secret-weak",
            FindingKind::GeneratesNothing { .. } => "template-generates-nothing",
            FindingKind::LabelOverwritten { .. } => "template-label-overwritten",
            FindingKind::SelectorOutside => "template-selector-outside",
            FindingKind::NamespaceRemoved => "template-namespace-removed",
            FindingKind::ObjectDuplicate { .. } => "template-object-duplicate",
            FindingKind::Truncated { .. } => "findings-truncated",
        }
    }

    /// How serious it is.
    pub fn severity(&self) -> Severity {
        match &self.kind {
            FindingKind::ReferenceUnknown { may_be_script: true, .. }
            | FindingKind::ReferenceOtherDialect { .. }
            | FindingKind::ReadAsOpenShift
            | FindingKind::ParameterIgnored { .. }
            | FindingKind::GeneratedWeak { .. }
            | FindingKind::SelectorOutside
            | FindingKind::NamespaceRemoved
            | FindingKind::Truncated { .. } => Severity::Info,
            FindingKind::ReferenceUnknown { may_be_script: false, .. }
            | FindingKind::ReferenceNear { .. }
            | FindingKind::ParameterUnused { .. }
            | FindingKind::ParameterDuplicate { .. }
            | FindingKind::GeneratesNothing { .. }
            | FindingKind::LabelOverwritten { .. }
            | FindingKind::ObjectDuplicate { .. } => Severity::Warning,
        }
    }

    /// The parameter that it is about, if it is about one.
    pub fn parameter(&self) -> Option<&str> {
        match &self.kind {
            FindingKind::ReferenceNear { nearest: parameter, .. }
            | FindingKind::ParameterUnused { parameter }
            | FindingKind::ParameterIgnored { name: parameter }
            | FindingKind::ParameterDuplicate { parameter }
            | FindingKind::GeneratesNothing { parameter }
            | FindingKind::GeneratedWeak { parameter, .. } => Some(parameter),
            FindingKind::ReferenceUnknown { .. }
            | FindingKind::ReferenceOtherDialect { .. }
            | FindingKind::ReadAsOpenShift
            | FindingKind::LabelOverwritten { .. }
            | FindingKind::SelectorOutside
            | FindingKind::NamespaceRemoved
            | FindingKind::ObjectDuplicate { .. }
            | FindingKind::Truncated { .. } => None,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match &self.kind {
            FindingKind::ReferenceUnknown { may_be_script: true, .. } => {
                "nothing, if a shell is to read it; otherwise declare the parameter".to_owned()
            }
            FindingKind::ReferenceUnknown { may_be_script: false, .. } => "declare the parameter".to_owned(),
            FindingKind::ReferenceNear { nearest, .. } => format!("did you mean {nearest}?"),
            FindingKind::ReferenceOtherDialect { .. } => {
                "nothing, if a shell or the container is to read it; otherwise use the template's own references"
                    .to_owned()
            }
            FindingKind::ReadAsOpenShift => {
                "write apiVersion: template.openshift.io/v1, or give --dialect proposal".to_owned()
            }
            FindingKind::ParameterUnused { .. } => "remove it, or check the references".to_owned(),
            FindingKind::ParameterIgnored { .. } => "remove the value".to_owned(),
            FindingKind::ParameterDuplicate { .. } => "remove one of them".to_owned(),
            FindingKind::GeneratedWeak { .. } => "11 characters of [a-zA-Z0-9] hold 65 bits".to_owned(),
            FindingKind::GeneratesNothing { .. } => "say what to generate: from: '[a-zA-Z0-9]{16}'".to_owned(),
            FindingKind::LabelOverwritten { .. } => {
                "rename one of the two labels, if the object's own is needed".to_owned()
            }
            FindingKind::SelectorOutside => {
                "nothing, if it is to select pods that are not of this template".to_owned()
            }
            FindingKind::NamespaceRemoved => "use a parameter for it, to keep it".to_owned(),
            FindingKind::ObjectDuplicate { .. } => {
                "give them different names; otherwise the last one wins".to_owned()
            }
            FindingKind::Truncated { .. } => "mend those that are shown".to_owned(),
        }
    }
}

impl fmt::Display for Finding {
    /// The sentence.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match &self.kind {
            FindingKind::ReferenceUnknown { reference, .. } => {
                write!(formatter, "{place}: {reference} stays as it is: it names no parameter")
            }
            FindingKind::ReferenceNear { reference, .. } => {
                write!(formatter, "{place}: {reference} stays as it is: it only almost names a parameter")
            }
            FindingKind::ReferenceOtherDialect { reference } => {
                write!(
                    formatter,
                    "{place}: {reference} stays as it is: it is a reference of the other dialect"
                )
            }
            FindingKind::ReadAsOpenShift => {
                formatter.write_str("this template of v1 is read as OpenShift's, because of its references")
            }
            FindingKind::ParameterUnused { parameter } => {
                write!(formatter, "nothing refers to parameter {parameter}")
            }
            FindingKind::ParameterIgnored { name } => {
                write!(formatter, "unknown parameter name {}, ignored", quoted(name))
            }
            FindingKind::ParameterDuplicate { parameter } => {
                write!(formatter, "parameter {parameter} is declared twice; the last one counts")
            }
            FindingKind::GeneratedWeak { parameter, bits } => {
                write!(
                    formatter,
                    "parameter {parameter} looks like a secret, and holds {bits} bits of chance only"
                )
            }
            FindingKind::GeneratesNothing { parameter } => {
                write!(formatter, "parameter {parameter} generates nothing: it has no from")
            }
            FindingKind::LabelOverwritten { key } => {
                write!(formatter, "{place}: the template's label {} replaces the object's", quoted(key))
            }
            FindingKind::SelectorOutside => {
                write!(
                    formatter,
                    "{place}: the selector selects no pod of the template, and does not get its labels"
                )
            }
            FindingKind::NamespaceRemoved => write!(formatter, "{place}: the namespace was removed"),
            FindingKind::ObjectDuplicate { first } => {
                write!(formatter, "{place}: the object has the kind and the name of {first}")
            }
            FindingKind::Truncated { left_out } => {
                write!(formatter, "{left_out} more findings are not shown")
            }
        }
    }
}

/// Findings on their way: at most [`MAX_REPORTED`], the rest counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    left_out: usize,
}

impl Findings {
    pub(crate) fn of(list: &[Finding]) -> Self {
        Self { list: list.to_vec(), left_out: 0 }
    }

    pub(crate) fn add(&mut self, kind: FindingKind, place: impl FnOnce() -> Place) {
        if self.list.len() < MAX_REPORTED {
            self.list.push(Finding { kind, place: place() });
        } else {
            self.left_out += 1;
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Finding> {
        self.list.sort_by_key(|finding| finding.place.order());
        if self.left_out > 0 {
            let kind = FindingKind::Truncated { left_out: self.left_out };
            self.list.push(Finding { kind, place: Place::new("", manifest::Span::NOWHERE) });
        }
        self.list
    }
}
