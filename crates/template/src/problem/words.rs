//! Each problem in words: one sentence for what is wrong, one for what to do. No sentence ever holds a value.

use std::fmt;

use super::{Problem, ProblemKind};
use crate::ParameterType;
use crate::place::quoted;

impl fmt::Display for Problem {
    /// The sentence, with the field path where it needs one.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match &self.kind {
            ProblemKind::NotATemplate => formatter.write_str(
                "this is no template: kind Template of template.coracle.dev/v1, template.openshift.io/v1 or v1 is",
            ),
            ProblemKind::WrongType { expected, found } => {
                write!(formatter, "{place}: expected {expected}, found {found}")
            }
            ProblemKind::TooMany { what, limit } => write!(formatter, "more than {limit} {what}"),
            ProblemKind::TooDeep { limit } => {
                write!(formatter, "{place}: lists and maps are nested deeper than {limit} levels")
            }
            ProblemKind::MixedDialects { proposal, openshift } => write!(
                formatter,
                "references of both dialects: $({proposal}) is the proposal's, ${{{openshift}}} is OpenShift's"
            ),
            ProblemKind::NameMissing => write!(formatter, "{place}: a parameter needs a name"),
            ProblemKind::NameInvalid => {
                write!(formatter, "{place}: the name of a parameter does not match ^[a-zA-Z0-9_]+$")
            }
            ProblemKind::DuplicateParameter { name, first } => {
                write!(formatter, "{place}: parameter {name} is declared before, at {first}")
            }
            ProblemKind::UnknownType => write!(formatter, "{place}: there is no such type"),
            ProblemKind::LabelsTwice => {
                formatter.write_str("labels and objectLabels are two names of the same field")
            }
            ProblemKind::UnknownGenerator { parameter, generator } => {
                write!(
                    formatter,
                    "Unknown generator name '{}' for parameter {parameter}",
                    generator.escape_debug()
                )
            }
            ProblemKind::Expression { parameter, cause } => {
                write!(formatter, "parameter {parameter} cannot be generated: {cause}")
            }
            ProblemKind::WeakSecret { parameter, bits } => write!(
                formatter,
                "parameter {parameter} is secret, and its expression holds {bits} bits of chance only"
            ),
            ProblemKind::NoRandomness { parameter } => {
                write!(
                    formatter,
                    "parameter {parameter} cannot be generated: the source of randomness failed"
                )
            }
            ProblemKind::Required { parameter } => {
                write!(formatter, "parameter {parameter} is required and must be specified")
            }
            ProblemKind::ValueType { parameter, kind, is_empty: true, .. } => {
                write!(
                    formatter,
                    "{place}: parameter {parameter} is of type {} and has no value",
                    kind.as_str()
                )
            }
            ProblemKind::ValueType { parameter, kind, is_empty: false, used_at } => {
                write!(formatter, "{place}: the value of parameter {parameter} is not {}", description(*kind))?;
                match used_at {
                    Some(field) => write!(formatter, "; {field} uses it"),
                    None => Ok(()),
                }
            }
            ProblemKind::ValueTooLarge { parameter, limit } => {
                write!(formatter, "the value of parameter {parameter} is larger than {limit} bytes")
            }
            ProblemKind::UnknownParameter { name, .. } => {
                write!(formatter, "unknown parameter name {}", quoted(name))
            }
            ProblemKind::GivenTwice { name } => {
                write!(formatter, "The following parameters were provided more than once: {name}")
            }
            ProblemKind::NotGenerated { name, .. } => {
                write!(formatter, "no generated parameter has the name {}", quoted(name))
            }
            ProblemKind::NearMiss { reference, .. } => {
                write!(formatter, "{place}: {reference} names no parameter, but almost does")
            }
            ProblemKind::UnknownWhole { reference, .. } => {
                write!(formatter, "{place}: {reference} names no parameter")
            }
            ProblemKind::Ambiguous { parameter, declared, variable } => write!(
                formatter,
                "{place}: $({parameter}) resolves both to a parameter and to an environment variable: {declared} and \
                 {variable}"
            ),
            ProblemKind::FixedField => {
                write!(formatter, "{place}: a template of this dialect fixes apiVersion and kind")
            }
            ProblemKind::FieldMissing { field } => write!(formatter, "{place}: the object has no {field}"),
            ProblemKind::DuplicateKey { key, first, again } => {
                write!(formatter, "the key {} stands twice in one map, at {first} and at {again}", quoted(key))
            }
            ProblemKind::CollidingKeys { first, second } => {
                write!(formatter, "{place}: the keys {} and {} become the same", quoted(first), quoted(second))
            }
            ProblemKind::LabelKey { cause } => {
                write!(formatter, "{place}: the key of the label is not valid: {cause}")
            }
            ProblemKind::LabelValue { cause } => {
                write!(formatter, "{place}: the value of the label is not valid: {cause}")
            }
            ProblemKind::InstanceName { cause } => {
                write!(formatter, "the name of the instance is not valid: {cause}")
            }
            ProblemKind::SecretDefault { parameter } => {
                write!(
                    formatter,
                    "{place}: parameter {parameter} is secret, and a stored template must not hold its value"
                )
            }
            ProblemKind::OutputTooLarge { size, limit } => {
                write!(formatter, "the result would have {size} bytes, the limit is {limit}")
            }
        }
    }
}

fn description(kind: ParameterType) -> &'static str {
    match kind {
        ParameterType::String => "text",
        ParameterType::Int => "a whole number of 64 bits",
        ParameterType::Bool => "true or false",
        ParameterType::Base64 => "base64 of at most 1 MiB",
    }
}

impl Problem {
    /// What to do about it.
    pub fn hint(&self) -> String {
        let meant = |nearest: &Option<String>, otherwise: &str| match nearest {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => otherwise.to_owned(),
        };
        match &self.kind {
            ProblemKind::NotATemplate => "check apiVersion and kind".to_owned(),
            ProblemKind::WrongType { expected, .. } if *expected == "a string" => {
                "put the value in quotes".to_owned()
            }
            ProblemKind::WrongType { .. } => "mend the value, or its indentation".to_owned(),
            ProblemKind::TooMany { .. } | ProblemKind::OutputTooLarge { .. } => {
                "make several templates of it".to_owned()
            }
            ProblemKind::TooDeep { .. } => "check the indentation of the object".to_owned(),
            ProblemKind::MixedDialects { .. } => {
                "use one kind of reference, or say which is meant with --dialect proposal or --dialect openshift"
                    .to_owned()
            }
            ProblemKind::NameMissing | ProblemKind::NameInvalid => {
                "use letters, digits and underscores, such as DATABASE_NAME".to_owned()
            }
            ProblemKind::DuplicateParameter { .. } | ProblemKind::DuplicateKey { .. } => "remove one of them".to_owned(),
            ProblemKind::UnknownType => "the types are string, int, bool and base64".to_owned(),
            ProblemKind::LabelsTwice => "write all of them under labels".to_owned(),
            ProblemKind::UnknownGenerator { .. } => "the only generator is expression".to_owned(),
            ProblemKind::Expression { cause, .. } => cause.hint().to_owned(),
            ProblemKind::WeakSecret { .. } => "11 characters of [a-zA-Z0-9] are enough".to_owned(),
            ProblemKind::NoRandomness { parameter } => format!("give the value with -p {parameter}=..."),
            ProblemKind::Required { parameter } => format!("give it with -p {parameter}=..."),
            ProblemKind::ValueType { parameter, is_empty: true, .. } => {
                format!("give it with -p {parameter}=..., or a default in the template")
            }
            ProblemKind::ValueType { kind, is_empty: false, .. } => match kind {
                ParameterType::String => "give text".to_owned(),
                ParameterType::Int => "write digits only, such as 8080 or -1".to_owned(),
                ParameterType::Bool => "write true or false".to_owned(),
                ParameterType::Base64 => "encode it with base64 -w0".to_owned(),
            },
            ProblemKind::ValueTooLarge { .. } => "put large content into a ConfigMap of its own".to_owned(),
            ProblemKind::UnknownParameter { nearest, .. } => {
                meant(nearest, "see `coracle template parameters`, or use --ignore-unknown-parameters")
            }
            ProblemKind::GivenTwice { .. } => "give each parameter once".to_owned(),
            ProblemKind::NotGenerated { nearest, .. } => meant(nearest, "see `coracle template parameters`"),
            ProblemKind::NearMiss { nearest, .. } => {
                format!("did you mean {nearest}? in a shell script, blanks inside the brackets make it another text")
            }
            ProblemKind::UnknownWhole { nearest, .. } => meant(nearest, "declare the parameter"),
            ProblemKind::Ambiguous { parameter, .. } => format!(
                "rename the parameter, or write $$({parameter}) where the container's variable is meant"
            ),
            ProblemKind::FixedField => "write it out".to_owned(),
            ProblemKind::FieldMissing { field } => format!("add {field}"),
            ProblemKind::CollidingKeys { .. } => {
                "give other values, or make the keys differ by more than the parameters".to_owned()
            }
            ProblemKind::LabelKey { .. } | ProblemKind::LabelValue { .. } => "mend the label".to_owned(),
            ProblemKind::InstanceName { .. } => "use a name like that of a pod: web-1".to_owned(),
            ProblemKind::SecretDefault { .. } => {
                "remove the value; it is given when the template is processed".to_owned()
            }
        }
    }
}
