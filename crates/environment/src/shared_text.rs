//! Text of values: owned, or shared by several values that are the same.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The text of a value. The thousands of variables that services give repeat their addresses and ports;
/// those share one allocation.
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    Owned(String),
    Shared(Arc<str>),
    Constant(&'static str),
}

impl Text {
    /// A text that costs nothing.
    pub const fn constant(text: &'static str) -> Self {
        Self(Form::Constant(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Owned(text) => text,
            Form::Shared(text) => text,
            Form::Constant(text) => text,
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Form::Owned(text))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Form::Owned(text.to_owned()))
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self(Form::Shared(text))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(formatter)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}
