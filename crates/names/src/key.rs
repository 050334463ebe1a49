//! Keys of ConfigMaps and Secrets.

use crate::problem::{NameError, NameProblem};

crate::name_type! {
    /// A key of `data` or `binaryData` of a ConfigMap, of a Secret, or of a reference to one:
    /// `[-._a-zA-Z0-9]+`, at most 253 characters, not `.`, not beginning with `..`.
    ConfigKey
}

impl ConfigKey {
    /// The longest key in bytes.
    pub const MAX_BYTES: usize = 253;

    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let mut problems = Vec::new();
        if text.len() > Self::MAX_BYTES {
            problems.push(NameProblem::TooLong(Self::MAX_BYTES));
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if text.is_empty() || !text.bytes().all(allowed) {
            problems.push(NameProblem::ConfigKey);
        }
        problems.extend(path_element_problem(text));
        NameError::unless_empty(problems)?;
        Ok(Self(text.to_owned()))
    }
}

/// A key becomes a file name in a volume: it must not lead out of its directory nor hide the volume's own links.
pub(crate) fn path_element_problem(text: &str) -> Option<NameProblem> {
    match text {
        "." => Some(NameProblem::Dot),
        ".." => Some(NameProblem::DotDot),
        _ if text.starts_with("..") => Some(NameProblem::StartsWithDotDot),
        _ => None,
    }
}
