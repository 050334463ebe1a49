//! Values that may be partly secret or partly unknown, and how they are shown.

use std::borrow::Cow;

use crate::{SecretText, Text};

/// How much of a value is known and may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// All of it is known and open.
    Known,
    /// All of it is known, and some of it comes from a Secret.
    Masked,
    /// Some of it is known only when the pod runs.
    UnknownUntilRun,
    /// The source of some of it is not in the input, or could not be used.
    Missing,
}

/// Whether to show what comes from a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reveal {
    /// Print `****` in its place.
    Nothing,
    /// Print it: only for who may read the Secret, and for the process itself.
    Secrets,
}

/// A piece of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Known and open text.
    Plain(String),
    /// Text that comes from a Secret.
    Secret(SecretText),
    /// Known only when the pod runs; shown as `<LABEL>`.
    UnknownUntilRun {
        /// What it is, such as the name of the variable that was referenced.
        label: String,
    },
    /// Its source is not in the input; shown as `<LABEL>`.
    Missing {
        /// What it is.
        label: String,
    },
    /// Its source was there and could not be used, which an error says; shown as `<!LABEL>`.
    Refused {
        /// What it is.
        label: String,
    },
}

/// The value of a variable or of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Known and open text.
    Plain(Text),
    /// Anything else, in order.
    Composed(Vec<Part>),
}

impl Value {
    /// The empty value.
    pub const EMPTY: Self = Self::Plain(Text::constant(""));

    /// Known and open text.
    pub fn plain(text: impl Into<Text>) -> Self {
        Self::Plain(text.into())
    }

    /// The state: the worst of its parts, `missing` before `unknownUntilRun` before `masked`.
    pub fn state(&self) -> State {
        let Self::Composed(parts) = self else { return State::Known };
        let mut state = State::Known;
        for part in parts {
            match part {
                Part::Plain(_) => {}
                Part::Missing { .. } | Part::Refused { .. } => return State::Missing,
                Part::UnknownUntilRun { .. } => state = State::UnknownUntilRun,
                Part::Secret(_) if state == State::Known => state = State::Masked,
                Part::Secret(_) => {}
            }
        }
        state
    }

    /// Whether some of it could not be used, which an error says.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Composed(parts) => parts.iter().any(|part| matches!(part, Part::Refused { .. })),
        }
    }

    /// The value as the process gets it, Secrets included; `None` while some of it is not known.
    pub fn exposed(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Plain(text) => Some(Cow::Borrowed(text)),
            Self::Composed(parts) => {
                let mut whole = String::new();
                for part in parts {
                    match part {
                        Part::Plain(text) => whole.push_str(text),
                        Part::Secret(text) => whole.push_str(text.expose()),
                        Part::UnknownUntilRun { .. } | Part::Missing { .. } | Part::Refused { .. } => {
                            return None;
                        }
                    }
                }
                Some(Cow::Owned(whole))
            }
        }
    }

    /// The value for a record: `None` unless all of it is known and may be shown.
    pub fn shown(&self, reveal: Reveal) -> Option<Cow<'_, str>> {
        match (self.state(), reveal) {
            (State::Known, _) | (State::Masked, Reveal::Secrets) => self.exposed(),
            (State::Masked, Reveal::Nothing) | (State::UnknownUntilRun | State::Missing, _) => None,
        }
    }

    /// The form for people: what is known, around `****` and `<LABEL>` for what is secret or not known.
    pub fn display(&self, reveal: Reveal) -> Cow<'_, str> {
        match self {
            Self::Plain(text) => Cow::Borrowed(text),
            Self::Composed(parts) => {
                let mut shown = String::new();
                for part in parts {
                    match (part, reveal) {
                        (Part::Plain(text), _) => shown.push_str(text),
                        (Part::Secret(text), Reveal::Secrets) => shown.push_str(text.expose()),
                        (Part::Secret(_), Reveal::Nothing) => shown.push_str("****"),
                        (Part::UnknownUntilRun { label } | Part::Missing { label }, _) => {
                            shown.push('<');
                            shown.push_str(label);
                            shown.push('>');
                        }
                        (Part::Refused { label }, _) => {
                            shown.push_str("<!");
                            shown.push_str(label);
                            shown.push('>');
                        }
                    }
                }
                Cow::Owned(shown)
            }
        }
    }
}
