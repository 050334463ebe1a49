//! Field errors: what is wrong, where, in upstream's words.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::path::Path;

/// Most problems of one object that are told, so that a hostile one does not make an answer of many megabytes.
const SHOWN: usize = 1000;

/// What kind of wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A reference to something that does not exist.
    NotFound,
    /// A required value is missing or empty.
    Required,
    /// A value that must be unique occurs twice.
    Duplicate,
    /// A malformed value.
    Invalid,
    /// A value outside an enumeration.
    NotSupported,
    /// A value that may not be given here.
    Forbidden,
    /// A value that is too long.
    TooLong,
    /// A list that has too many items.
    TooMany,
}

/// The value that an error shows.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// None is shown.
    Omitted,
    /// Text, shown quoted as Go quotes it; anything else as JSON.
    Json(Value),
    /// Already as it is shown: fields in an order that a tree does not keep.
    Shown(String),
}

/// One problem of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What kind of wrong.
    pub kind: FieldErrorKind,
    /// Path from the object's root: `spec.containers[0].name`. Empty for the object as a whole.
    pub field: String,
    /// The value.
    pub bad_value: BadValue,
    /// The rest of the sentence; may be empty.
    pub detail: String,
}

/// Every problem of an object, in order; never empty where it is an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors(pub Vec<FieldError>);

/// An entry of `Status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, ...
    pub reason: &'static str,
    /// The error without its path.
    pub message: String,
    /// The path.
    pub field: String,
}

impl FieldErrorKind {
    /// The words of messages: `Invalid value`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }

    /// The reason of causes: `FieldValueInvalid`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }
}

impl FieldError {
    /// The message without the path: `Invalid value: "A=B": ...`.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        let shows_value = match self.kind {
            FieldErrorKind::Required | FieldErrorKind::Forbidden | FieldErrorKind::TooLong => false,
            FieldErrorKind::NotFound
            | FieldErrorKind::Duplicate
            | FieldErrorKind::Invalid
            | FieldErrorKind::NotSupported
            | FieldErrorKind::TooMany => true,
        };
        match &self.bad_value {
            BadValue::Json(value) if shows_value => {
                text.push_str(": ");
                match value {
                    Value::String(string) => text.push_str(&schema::go_quote(string)),
                    other => text.push_str(&other.to_string()),
                }
            }
            BadValue::Shown(value) if shows_value => {
                text.push_str(": ");
                text.push_str(value);
            }
            BadValue::Json(_) | BadValue::Shown(_) | BadValue::Omitted => {}
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.body())
    }
}

impl FieldErrors {
    /// The entries of `Status.details.causes`, in order.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        self.0
            .iter()
            .map(|error| Cause {
                reason: error.kind.reason(),
                message: error.body(),
                field: error.field.clone(),
            })
            .collect()
    }
}

impl fmt::Display for FieldErrors {
    /// One error: its text; several: `[a, b]`, each text once.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = BTreeSet::new();
        let texts: Vec<String> =
            self.0.iter().map(ToString::to_string).filter(|text| seen.insert(text.clone())).collect();
        match texts.as_slice() {
            [single] => formatter.write_str(single),
            several => write!(formatter, "[{}]", several.join(", ")),
        }
    }
}

impl std::error::Error for FieldErrors {}

/// Collects problems in order, in upstream's words.
impl FieldErrors {
    fn push(&mut self, kind: FieldErrorKind, path: &Path, bad_value: BadValue, detail: impl Into<String>) {
        if self.0.len() > SHOWN {
            return;
        }
        if self.0.len() == SHOWN {
            let detail = format!("more than {SHOWN} problems: the others are not shown");
            let bad_value = BadValue::Omitted;
            return self.0.push(FieldError {
                kind: FieldErrorKind::TooMany,
                field: String::new(),
                bad_value,
                detail,
            });
        }
        self.0.push(FieldError { kind, field: path.to_string(), bad_value, detail: detail.into() });
    }

    pub(crate) fn required(&mut self, path: &Path, detail: impl Into<String>) {
        self.push(FieldErrorKind::Required, path, BadValue::Omitted, detail);
    }

    pub(crate) fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Invalid, path, BadValue::Json(value.into()), detail);
    }

    /// One error for each sentence.
    pub(crate) fn invalid_each(&mut self, path: &Path, value: &str, details: Vec<String>) {
        for detail in details {
            self.invalid(path, value, detail);
        }
    }

    /// An error that must not show the value.
    pub(crate) fn invalid_unseen(&mut self, path: &Path, detail: impl Into<String>) {
        self.push(FieldErrorKind::Invalid, path, BadValue::Omitted, detail);
    }

    pub(crate) fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.push(FieldErrorKind::Forbidden, path, BadValue::Omitted, detail);
    }

    pub(crate) fn duplicate(&mut self, path: &Path, value: impl Into<Value>) {
        self.push(FieldErrorKind::Duplicate, path, BadValue::Json(value.into()), "");
    }

    pub(crate) fn not_found(&mut self, path: &Path, value: &str) {
        self.push(FieldErrorKind::NotFound, path, BadValue::Json(value.into()), "");
    }

    pub(crate) fn too_long(&mut self, path: &Path, limit: usize) {
        self.push(
            FieldErrorKind::TooLong,
            path,
            BadValue::Omitted,
            format!("may not be more than {limit} bytes"),
        );
    }

    pub(crate) fn too_many(&mut self, path: &Path, count: usize, limit: usize) {
        let detail = format!("must have at most {limit} items");
        self.push(FieldErrorKind::TooMany, path, BadValue::Json(count.into()), detail);
    }

    /// A value outside of an enumeration; the supported ones are named in the given order.
    pub(crate) fn not_supported(&mut self, path: &Path, value: &str, supported: &[&str]) {
        self.not_supported_value(path, BadValue::Json(value.into()), supported);
    }

    /// The same for a value that is no text.
    pub(crate) fn not_supported_value(&mut self, path: &Path, value: BadValue, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(|value| schema::go_quote(value)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.push(FieldErrorKind::NotSupported, path, value, detail);
    }

    /// An error with a value that is already as it is shown.
    pub(crate) fn invalid_shown(&mut self, path: &Path, value: String, detail: impl Into<String>) {
        self.push(FieldErrorKind::Invalid, path, BadValue::Shown(value), detail);
    }

    /// The errors as a result.
    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}
