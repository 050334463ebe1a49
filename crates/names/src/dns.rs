//! DNS names: RFC 1123 labels and subdomains, and the RFC 1035 label that services of old had to be.

use std::borrow::Cow;

use crate::problem::{NameError, NameProblem};

crate::name_type! {
    /// An RFC 1123 label, such as a container's name: `[a-z0-9]([-a-z0-9]*[a-z0-9])?`, at most 63 characters.
    DnsLabel
}

crate::name_type! {
    /// An RFC 1123 subdomain, such as a pod's name: labels joined with dots, at most 253 characters.
    DnsSubdomain
}

crate::name_type! {
    /// An RFC 1035 label, such as a service's name: `[a-z]([-a-z0-9]*[a-z0-9])?`, at most 63 characters.
    ServiceName
}

impl DnsLabel {
    /// The longest label in bytes.
    pub const MAX_BYTES: usize = 63;

    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let mut problems = Vec::new();
        if text.len() > Self::MAX_BYTES {
            problems.push(NameProblem::TooLong(Self::MAX_BYTES));
        }
        if !is_label(text) {
            let dotted = is_subdomain(text);
            problems.push(if dotted { NameProblem::ContainsDots } else { NameProblem::DnsLabel });
        }
        NameError::unless_empty(problems)?;
        Ok(Self(text.to_owned()))
    }
}

impl DnsSubdomain {
    /// The longest subdomain in bytes.
    pub const MAX_BYTES: usize = 253;

    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        NameError::unless_empty(subdomain_problems(text))?;
        Ok(Self(text.to_owned()))
    }
}

impl ServiceName {
    /// The longest label in bytes.
    pub const MAX_BYTES: usize = 63;

    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let mut problems = Vec::new();
        if text.len() > Self::MAX_BYTES {
            problems.push(NameProblem::TooLong(Self::MAX_BYTES));
        }
        if !is_label(text) || text.as_bytes().first().is_some_and(u8::is_ascii_digit) {
            problems.push(NameProblem::ServiceName);
        }
        NameError::unless_empty(problems)?;
        Ok(Self(text.to_owned()))
    }
}

pub(crate) fn subdomain_problems(text: &str) -> Vec<NameProblem> {
    let mut problems = Vec::new();
    if text.len() > DnsSubdomain::MAX_BYTES {
        problems.push(NameProblem::TooLong(DnsSubdomain::MAX_BYTES));
    }
    if !is_subdomain(text) {
        problems.push(NameProblem::DnsSubdomain);
    }
    problems
}

fn is_label(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match text.as_bytes() {
        [] => false,
        [first, .., last] if !alphanumeric(*first) || !alphanumeric(*last) => false,
        [only] => alphanumeric(*only),
        bytes => bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-'),
    }
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// A `generateName` is checked as if its final `-` were followed by the suffix that it will get.
///
/// Kubernetes replaces the last two characters by one letter (`maskTrailingDash`), and so do we,
/// because the same texts must be accepted.
pub fn mask_trailing_dash(prefix: &str) -> Cow<'_, str> {
    let last_two = prefix.char_indices().nth_back(1);
    match last_two {
        Some((start, _)) if prefix.ends_with('-') => Cow::Owned(format!("{}a", &prefix[..start])),
        _ => Cow::Borrowed(prefix),
    }
}
