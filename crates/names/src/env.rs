//! Names of environment variables, by the strict and by the relaxed grammar (KEP-4369).

use crate::key::path_element_problem;
use crate::problem::{EnvNameError, NameError, NameProblem};

/// Which names of environment variables are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EnvNameGrammar {
    /// `[-._a-zA-Z][-._a-zA-Z0-9]*`, not `.`, not beginning with `..`: before KEP-4369, and with its gate off.
    Strict,
    /// One or more characters of printable ASCII (0x20 to 0x7E) except `=`.
    #[default]
    Relaxed,
}

crate::name_type! {
    /// A name of an environment variable that the API accepts under some [`EnvNameGrammar`].
    EnvVarName
}

impl EnvVarName {
    /// Checks `text` against `grammar`.
    pub fn parse(text: &str, grammar: EnvNameGrammar) -> Result<Self, EnvNameError> {
        Self::check(text, grammar)?;
        Ok(Self(text.to_owned()))
    }

    /// The same check without a copy of the text, for parsers that meet a name on each line.
    pub fn check(text: &str, grammar: EnvNameGrammar) -> Result<(), EnvNameError> {
        let mut problems = Vec::new();
        match grammar {
            EnvNameGrammar::Strict => {
                let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
                let starts_well = text.as_bytes().first().is_some_and(|byte| !byte.is_ascii_digit());
                if !starts_well || !text.as_bytes().iter().all(inner) {
                    problems.push(NameProblem::StrictEnvName);
                }
                problems.extend(path_element_problem(text));
            }
            EnvNameGrammar::Relaxed if text.is_empty() => problems.push(NameProblem::EmptyEnvName),
            EnvNameGrammar::Relaxed => {
                if !text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') {
                    problems.push(NameProblem::RelaxedEnvName);
                }
            }
        }
        NameError::unless_empty(problems)
    }
}

/// Whether a POSIX shell can read a variable of this name: a letter or `_`, then letters, digits and `_`.
pub fn is_posix_shell_name(name: &str) -> bool {
    let starts_well = name.as_bytes().first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    starts_well && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
