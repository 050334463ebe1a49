//! Names of ports (RFC 6335 service names).

use crate::problem::{NameError, NameProblem};

crate::name_type! {
    /// A name of a port: at most 15 characters of `a-z`, `0-9` and single inner hyphens, with at least one letter.
    PortName
}

impl PortName {
    /// The longest name in bytes.
    pub const MAX_BYTES: usize = 15;

    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let mut problems = Vec::new();
        if text.len() > Self::MAX_BYTES {
            problems.push(NameProblem::TooLong(Self::MAX_BYTES));
        }
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if text.is_empty() || !text.bytes().all(allowed) {
            problems.push(NameProblem::PortNameCharacters);
        }
        if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
            problems.push(NameProblem::PortNameNeedsLetter);
        }
        if text.contains("--") {
            problems.push(NameProblem::PortNameDoubleHyphen);
        }
        if text.starts_with('-') || text.ends_with('-') {
            problems.push(NameProblem::PortNameOuterHyphen);
        }
        NameError::unless_empty(problems)?;
        Ok(Self(text.to_owned()))
    }
}
