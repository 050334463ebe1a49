//! Findings: what a person should know about an environment, with a stable code, a place and a hint.

use std::ops::Range;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Probably not meant. Fatal under `--strict`.
    Warning,
    /// The container will not start.
    Error,
}

/// What a finding says. The text of [`FindingCode::as_str`] is stable and documented in `docs/findings.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FindingCode {
    /// A reference names nothing that exists.
    ReferenceUndefined,
}

impl FindingCode {
    /// The stable code, such as `reference-undefined`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReferenceUndefined => "reference-undefined",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it says.
    pub code: FindingCode,
    /// How serious it is.
    pub severity: Severity,
    /// The field, such as `spec.containers[0].env[2].value`.
    pub field_path: String,
    /// Bytes inside the (decoded) value of that field, where the finding is about a part of it.
    pub span: Option<Range<usize>>,
    /// The variable it is about: the one referenced for a reference, else the one defined.
    pub variable: Option<String>,
    /// What is the case. Lower case, one sentence, without any value that may be secret.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    /// Whether it belongs into a `Warning` header of a create or update: warning or above, and not an
    /// unresolved reference that a service created later could still satisfy.
    pub fn belongs_in_warning_header(&self) -> bool {
        let about_service = self.variable.as_deref().is_some_and(is_service_variable_name);
        self.severity >= Severity::Warning && !about_service
    }
}

/// Whether `name` looks like a service variable: `*_SERVICE_HOST`, `*_SERVICE_PORT*` or `*_PORT*`.
pub fn is_service_variable_name(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST") || name.contains("_PORT")
}
