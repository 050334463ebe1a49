//! Why a template cannot be processed: data; `words.rs` has the sentences.

mod words;

use std::fmt;

use environment::Severity;

use crate::expression::ExpressionError;
use crate::limits::MAX_REPORTED;
use crate::{Finding, ParameterType, Place};

/// One reason why a template cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// Where.
    pub place: Place,
}

/// Everything that is wrong with a template and what it was given. Never without a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the template cannot be processed: {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Refusal {
    /// The problems, as they stand in the file; at most [`MAX_REPORTED`].
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub left_out: usize,
    /// What is worth knowing besides.
    pub findings: Vec<Finding>,
}

/// Who would resolve a reference if no parameter did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// An entry of the container's `env`.
    Env {
        /// Its place in the list.
        index: usize,
    },
    /// A key of a ConfigMap or Secret that `envFrom` takes.
    EnvFrom {
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Its place among the template's objects.
        object: usize,
    },
    /// A variable of a Service.
    Service {
        /// Its place among the template's objects; `None` for the service `kubernetes`, which is always there.
        object: Option<usize>,
    },
}

impl fmt::Display for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env { index } => write!(formatter, "env[{index}] of the container"),
            Self::EnvFrom { kind, object } => {
                write!(formatter, "a key of the {kind} objects[{object}], which envFrom takes")
            }
            Self::Service { object: Some(object) } => {
                write!(formatter, "a service variable of objects[{object}]")
            }
            Self::Service { object: None } => formatter.write_str("a variable of the service kubernetes"),
        }
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The document is no template of a known group and version.
    NotATemplate,
    /// A field has a value of another type.
    WrongType {
        /// What belongs there.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// More parameters, objects or labels than are taken.
    TooMany {
        /// `parameters` or `objects`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// An object is nested too deep.
    TooDeep {
        /// The limit in levels.
        limit: usize,
    },
    /// References of both dialects, and nothing that says which is meant.
    MixedDialects {
        /// A parameter that is referenced as `$(P)` or `$((P))`.
        proposal: String,
        /// A parameter that is referenced as `${P}` or `${{P}}`.
        openshift: String,
    },
    /// A parameter without a name.
    NameMissing,
    /// A parameter with a name that no reference can have.
    NameInvalid,
    /// A parameter that is declared twice.
    DuplicateParameter {
        /// Its name.
        name: String,
        /// Where it is declared first.
        first: String,
    },
    /// A parameter of a type that does not exist.
    UnknownType,
    /// `labels` and `objectLabels` together.
    LabelsTwice,
    /// A generator that does not exist.
    UnknownGenerator {
        /// The parameter.
        parameter: String,
        /// The generator.
        generator: String,
    },
    /// The expression of a generator cannot be used.
    Expression {
        /// The parameter.
        parameter: String,
        /// Why.
        cause: ExpressionError,
    },
    /// A generated secret that could be guessed.
    WeakSecret {
        /// The parameter.
        parameter: String,
        /// How much chance the expression holds, in bits.
        bits: u32,
    },
    /// The source of randomness failed.
    NoRandomness {
        /// The parameter.
        parameter: String,
    },
    /// A required parameter without a value.
    Required {
        /// The parameter.
        parameter: String,
    },
    /// A value that does not fit the declared type.
    ValueType {
        /// The parameter.
        parameter: String,
        /// Its type.
        kind: ParameterType,
        /// Whether there is no value at all.
        is_empty: bool,
        /// The field that refers to it first.
        used_at: Option<String>,
    },
    /// A value that is too large.
    ValueTooLarge {
        /// The parameter.
        parameter: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A value for a parameter that the template does not have.
    UnknownParameter {
        /// The name.
        name: String,
        /// A parameter with almost this name.
        nearest: Option<String>,
    },
    /// Several values for one parameter.
    GivenTwice {
        /// The parameter.
        name: String,
    },
    /// A parameter that is to be generated again, but is not generated at all.
    NotGenerated {
        /// The name.
        name: String,
        /// A generated parameter with almost this name.
        nearest: Option<String>,
    },
    /// A reference that almost names a parameter.
    NearMiss {
        /// The reference as it is written.
        reference: String,
        /// The parameter that is probably meant.
        nearest: String,
    },
    /// A whole value that is a reference to no parameter and that nobody else would replace.
    UnknownWhole {
        /// The reference as it is written.
        reference: String,
        /// A parameter with almost this name.
        nearest: Option<String>,
    },
    /// A reference that both the template and Kubernetes would resolve.
    Ambiguous {
        /// The parameter.
        parameter: String,
        /// Where the parameter is declared.
        declared: String,
        /// What else has this name.
        variable: Resolver,
    },
    /// A reference where the proposal's dialect takes none.
    FixedField,
    /// An object without `kind` or `apiVersion`.
    FieldMissing {
        /// The field.
        field: &'static str,
    },
    /// A key stands twice in one map.
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it stands first.
        first: manifest::Mark,
        /// Where it stands again.
        again: manifest::Mark,
    },
    /// Two keys of a map become the same.
    CollidingKeys {
        /// The one that stands first, as it is written.
        first: String,
        /// The other one, as it is written.
        second: String,
    },
    /// The key of a label cannot be one.
    LabelKey {
        /// Why.
        cause: names::NameError,
    },
    /// The value of a label cannot be one.
    LabelValue {
        /// Why.
        cause: names::NameError,
    },
    /// The name of an instance cannot be one.
    InstanceName {
        /// Why.
        cause: names::NameError,
    },
    /// A secret parameter with a default value, in a template that is to be stored.
    SecretDefault {
        /// The parameter.
        parameter: String,
    },
    /// The result would be too large.
    OutputTooLarge {
        /// Bytes of the result.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, place: Place) -> Self {
        Self { kind, place }
    }

    /// The stable code; `docs/findings.md` explains each.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Always an error.
    pub fn severity(&self) -> Severity {
        Severity::Error
    }

    /// The parameter that it is about, if it is about one.
    pub fn parameter(&self) -> Option<&str> {
        match &self.kind {
            ProblemKind::UnknownGenerator { parameter, .. }
            | ProblemKind::Expression { parameter, .. }
            | ProblemKind::WeakSecret { parameter, .. }
            | ProblemKind::NoRandomness { parameter }
            | ProblemKind::Required { parameter }
            | ProblemKind::ValueType { parameter, .. }
            | ProblemKind::ValueTooLarge { parameter, .. }
            | ProblemKind::SecretDefault { parameter }
            | ProblemKind::Ambiguous { parameter, .. } => Some(parameter),
            ProblemKind::DuplicateParameter { name, .. }
            | ProblemKind::UnknownParameter { name, .. }
            | ProblemKind::GivenTwice { name }
            | ProblemKind::NotGenerated { name, .. } => Some(name),
            ProblemKind::NearMiss { nearest, .. } => Some(nearest),
            ProblemKind::UnknownWhole { nearest, .. } => nearest.as_deref(),
            ProblemKind::NotATemplate
            | ProblemKind::WrongType { .. }
            | ProblemKind::TooMany { .. }
            | ProblemKind::TooDeep { .. }
            | ProblemKind::MixedDialects { .. }
            | ProblemKind::NameMissing
            | ProblemKind::NameInvalid
            | ProblemKind::UnknownType
            | ProblemKind::LabelsTwice
            | ProblemKind::FixedField
            | ProblemKind::FieldMissing { .. }
            | ProblemKind::DuplicateKey { .. }
            | ProblemKind::CollidingKeys { .. }
            | ProblemKind::LabelKey { .. }
            | ProblemKind::LabelValue { .. }
            | ProblemKind::InstanceName { .. }
            | ProblemKind::OutputTooLarge { .. } => None,
        }
    }

    /// Whether it is about a value that must be there, as the API's answers tell these apart.
    pub fn is_required(&self) -> bool {
        match &self.kind {
            ProblemKind::Required { .. } | ProblemKind::NameMissing | ProblemKind::FieldMissing { .. } => {
                true
            }
            ProblemKind::ValueType { is_empty, .. } => *is_empty,
            ProblemKind::NotATemplate
            | ProblemKind::WrongType { .. }
            | ProblemKind::TooMany { .. }
            | ProblemKind::TooDeep { .. }
            | ProblemKind::MixedDialects { .. }
            | ProblemKind::NameInvalid
            | ProblemKind::DuplicateParameter { .. }
            | ProblemKind::UnknownType
            | ProblemKind::LabelsTwice
            | ProblemKind::UnknownGenerator { .. }
            | ProblemKind::Expression { .. }
            | ProblemKind::WeakSecret { .. }
            | ProblemKind::NoRandomness { .. }
            | ProblemKind::ValueTooLarge { .. }
            | ProblemKind::UnknownParameter { .. }
            | ProblemKind::GivenTwice { .. }
            | ProblemKind::NotGenerated { .. }
            | ProblemKind::NearMiss { .. }
            | ProblemKind::UnknownWhole { .. }
            | ProblemKind::Ambiguous { .. }
            | ProblemKind::FixedField
            | ProblemKind::DuplicateKey { .. }
            | ProblemKind::CollidingKeys { .. }
            | ProblemKind::LabelKey { .. }
            | ProblemKind::LabelValue { .. }
            | ProblemKind::InstanceName { .. }
            | ProblemKind::SecretDefault { .. }
            | ProblemKind::OutputTooLarge { .. } => false,
        }
    }
}

impl ProblemKind {
    fn code(&self) -> &'static str {
        match self {
            Self::NotATemplate => "template-unknown-kind",
            Self::WrongType { .. } => "template-wrong-type",
            Self::TooMany { .. } => "template-too-many",
            Self::TooDeep { .. } => "template-too-deep",
            Self::MixedDialects { .. } => "template-mixed-dialects",
            Self::NameMissing | Self::NameInvalid => "template-parameter-name",
            Self::DuplicateParameter { .. } => "template-parameter-duplicate",
            Self::UnknownType => "template-parameter-type",
            Self::LabelsTwice => "template-labels-twice",
            Self::UnknownGenerator { .. } | Self::Expression { .. } => "template-generator",
            Self::WeakSecret { .. } => "template-secret-weak",
            Self::NoRandomness { .. } => "template-no-randomness",
            Self::Required { .. } => "template-parameter-required",
            Self::ValueType { .. } => "template-value-type",
            Self::ValueTooLarge { .. } => "template-value-too-large",
            Self::UnknownParameter { .. } => "template-parameter-unknown",
            Self::GivenTwice { .. } => "template-parameter-given-twice",
            Self::NotGenerated { .. } => "template-parameter-not-generated",
            Self::NearMiss { .. } => "template-reference-near",
            Self::UnknownWhole { .. } => "template-reference-whole",
            Self::Ambiguous { .. } => "template-reference-ambiguous",
            Self::FixedField => "template-reference-in-kind",
            Self::FieldMissing { .. } => "template-object-incomplete",
            Self::DuplicateKey { .. } => "duplicate-key",
            Self::CollidingKeys { .. } => "template-keys-collide",
            Self::LabelKey { .. } | Self::LabelValue { .. } => "template-label-invalid",
            Self::InstanceName { .. } => "template-instance-name",
            Self::SecretDefault { .. } => "template-secret-default",
            Self::OutputTooLarge { .. } => "template-too-large",
        }
    }
}

/// Problems on their way: at most [`MAX_REPORTED`], the rest counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    left_out: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, kind: ProblemKind, place: impl FnOnce() -> Place) {
        if self.list.len() < MAX_REPORTED {
            self.list.push(Problem::new(kind, place()));
        } else {
            self.left_out += 1;
        }
    }

    pub(crate) fn extend(&mut self, problems: &[Problem]) {
        for problem in problems {
            self.add(problem.kind.clone(), || problem.place.clone());
        }
    }

    /// A refusal, unless there is no problem.
    pub(crate) fn refuse(mut self, findings: &[Finding]) -> Result<(), Refusal> {
        if self.list.is_empty() {
            return Ok(());
        }
        self.list.sort_by_key(|problem| problem.place.order());
        Err(Refusal { problems: self.list, left_out: self.left_out, findings: findings.to_vec() })
    }
}
