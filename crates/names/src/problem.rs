//! The rules that a name can break, each with Kubernetes' sentence.

use std::fmt;

/// A rule that a text breaks. `Display` is the sentence of Kubernetes 1.36.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameProblem {
    /// An environment variable name outside of the strict grammar.
    StrictEnvName,
    /// An environment variable name outside of the relaxed grammar.
    RelaxedEnvName,
    /// An empty environment variable name.
    EmptyEnvName,
    /// A key of a ConfigMap or Secret outside of its grammar.
    ConfigKey,
    /// The text is `.`.
    Dot,
    /// The text is `..`.
    DotDot,
    /// The text begins with `..`.
    StartsWithDotDot,
    /// The text has more than so many bytes.
    TooLong(usize),
    /// The text is empty.
    Empty,
    /// An RFC 1123 label outside of its grammar.
    DnsLabel,
    /// An RFC 1123 label with dots that would be a fine subdomain.
    ContainsDots,
    /// An RFC 1123 subdomain outside of its grammar.
    DnsSubdomain,
    /// An RFC 1035 label outside of its grammar.
    ServiceName,
    /// The value of a label outside of its grammar.
    LabelValue,
    /// A name, such as that of a label, outside of its grammar.
    QualifiedPart,
    /// A qualified name with more than one slash.
    QualifiedName,
    /// A problem of one part of a qualified name.
    InPart(NamePart, Box<NameProblem>),
    /// A port name with a character that it must not have.
    PortNameCharacters,
    /// A port name without any letter.
    PortNameNeedsLetter,
    /// A port name with two hyphens in a row.
    PortNameDoubleHyphen,
    /// A port name that begins or ends with a hyphen.
    PortNameOuterHyphen,
}

/// One of the two parts of a qualified name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePart {
    /// Before the slash.
    Prefix,
    /// After the slash, or all of it.
    Name,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
             with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
             validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let text = match self {
            Self::StrictEnvName => {
                "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', \
                 and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex \
                 used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')"
            }
            Self::RelaxedEnvName => {
                "a valid environment variable name must consist only of printable ASCII characters other than '='"
            }
            Self::EmptyEnvName => "environment variable name must be non-empty",
            Self::ConfigKey => {
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            }
            Self::Dot => "must not be '.'",
            Self::DotDot => "must not be '..'",
            Self::StartsWithDotDot => "must not start with '..'",
            Self::TooLong(maximum) => return write!(formatter, "must be no more than {maximum} characters"),
            Self::Empty => "must be non-empty",
            Self::DnsLabel => {
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                 start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            }
            Self::ContainsDots => "must not contain dots",
            Self::DnsSubdomain => {
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
                 is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            }
            Self::ServiceName => {
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                 alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                 regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            }
            Self::LabelValue => {
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                 regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            }
            Self::QualifiedPart => QUALIFIED,
            Self::QualifiedName => {
                return write!(
                    formatter,
                    "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. \
                     'example.com/MyName')"
                );
            }
            Self::InPart(part, problem) => {
                let part = match part {
                    NamePart::Prefix => "prefix part",
                    NamePart::Name => "name part",
                };
                return write!(formatter, "{part} {problem}");
            }
            Self::PortNameCharacters => {
                "must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)"
            }
            Self::PortNameNeedsLetter => "must contain at least one letter (a-z)",
            Self::PortNameDoubleHyphen => "must not contain consecutive hyphens",
            Self::PortNameOuterHyphen => "must not begin or end with a hyphen",
        };
        formatter.write_str(text)
    }
}

/// Why a text is not of a grammar: every rule that it breaks, in Kubernetes' order. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct NameError {
    problems: Vec<NameProblem>,
}

/// Why a text is not an environment variable name.
pub type EnvNameError = NameError;

impl NameError {
    /// An error, unless there is nothing to report.
    pub(crate) fn unless_empty(problems: Vec<NameProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }

    /// The broken rules.
    pub fn problems(&self) -> &[NameProblem] {
        &self.problems
    }

    /// Kubernetes' sentences, one a broken rule.
    pub fn messages(&self) -> Vec<String> {
        self.problems.iter().map(ToString::to_string).collect()
    }
}
