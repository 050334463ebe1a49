//! Keys and values of labels and annotations.

use crate::dns::subdomain_problems;
use crate::problem::{NameError, NamePart, NameProblem};

crate::name_type! {
    /// The key of a label, annotation or finalizer: a name of at most 63 characters, optionally below a DNS
    /// subdomain and a slash. Annotation keys are lower-cased before the check.
    QualifiedName
}

crate::name_type! {
    /// The value of a label: empty, or as the name of a qualified name; at most 63 characters.
    LabelValue
}

impl QualifiedName {
    /// The longest name part in bytes.
    pub const MAX_NAME_BYTES: usize = 63;

    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        NameError::unless_empty(qualified_name_problems(text))?;
        Ok(Self(text.to_owned()))
    }
}

impl LabelValue {
    /// The longest value in bytes.
    pub const MAX_BYTES: usize = 63;

    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let mut problems = Vec::new();
        if text.len() > Self::MAX_BYTES {
            problems.push(NameProblem::TooLong(Self::MAX_BYTES));
        }
        if !text.is_empty() && !is_qualified_part(text) {
            problems.push(NameProblem::LabelValue);
        }
        NameError::unless_empty(problems)?;
        Ok(Self(text.to_owned()))
    }
}

fn qualified_name_problems(text: &str) -> Vec<NameProblem> {
    let in_part = |part, problem| NameProblem::InPart(part, Box::new(problem));
    let mut problems = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(""), Some(name), None) => {
            problems.push(in_part(NamePart::Prefix, NameProblem::Empty));
            name
        }
        (Some(prefix), Some(name), None) => {
            let of_prefix = subdomain_problems(prefix);
            problems.extend(of_prefix.into_iter().map(|problem| in_part(NamePart::Prefix, problem)));
            name
        }
        _ => return vec![NameProblem::QualifiedName],
    };
    if name.is_empty() {
        problems.push(in_part(NamePart::Name, NameProblem::Empty));
    } else if name.len() > QualifiedName::MAX_NAME_BYTES {
        problems.push(in_part(NamePart::Name, NameProblem::TooLong(QualifiedName::MAX_NAME_BYTES)));
    }
    if !is_qualified_part(name) {
        problems.push(in_part(NamePart::Name, NameProblem::QualifiedPart));
    }
    problems
}

fn is_qualified_part(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(inner)
}
