//! Where something stands: the field path in the template, and line and column where there is a file.

use std::fmt;
use std::ops::Range;

use manifest::Span;

/// A place in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The field, from the template's root: `objects[2].spec.replicas`. Empty for the template itself.
    pub field: String,
    /// Where the value is written; `None` when it came without a file, over the API.
    pub span: Option<Span>,
    /// Bytes inside the value's text, where only a part of it is meant. `manifest::Node::span_of` finds their place.
    pub part: Option<Range<usize>>,
}

impl Place {
    /// A field that stands at `span`.
    pub(crate) fn new(field: impl Into<String>, span: Span) -> Self {
        Self { field: field.into(), span: span.is_somewhere().then_some(span), part: None }
    }

    /// A part of the text of this value.
    pub(crate) fn part(mut self, part: Range<usize>) -> Self {
        self.part = Some(part);
        self
    }

    /// What places are sorted by: what stands first in the file, and where there is none all are equal.
    pub(crate) fn order(&self) -> u32 {
        self.span.map_or(0, |span| span.start.offset)
    }
}

impl fmt::Display for Place {
    /// `objects[2].spec.replicas`, or `template` for all of it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.field.is_empty() { "template" } else { &self.field })
    }
}

/// The field path while a tree is walked.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn of(root: impl Into<String>) -> Self {
        Self(root.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Goes to the value of a key; gives what to go back to.
    pub(crate) fn enter_key(&mut self, key: &str) -> usize {
        let back = self.0.len();
        push_key(&mut self.0, key);
        back
    }

    /// Goes to an item of a list; gives what to go back to.
    pub(crate) fn enter_item(&mut self, index: usize) -> usize {
        let back = self.0.len();
        self.0.push('[');
        push_number(&mut self.0, index);
        self.0.push(']');
        back
    }

    pub(crate) fn back(&mut self, to: usize) {
        self.0.truncate(to);
    }
}

/// Keys that are longer than this are cut: a path is copied for each problem.
const LONGEST_KEY: usize = 128;

fn push_key(path: &mut String, key: &str) {
    let is_simple = !key.is_empty()
        && key.len() <= LONGEST_KEY
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_simple {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        return;
    }
    // What others wrote is shown escaped, and not at any length.
    path.push_str("['");
    if key.len() <= LONGEST_KEY && !key.contains(|each: char| each.is_control()) {
        path.push_str(key);
    } else {
        path.extend(key.escape_debug().take(LONGEST_KEY));
        path.push('…');
    }
    path.push_str("']");
}

fn push_number(path: &mut String, number: usize) {
    use fmt::Write;
    let _ = write!(path, "{number}");
}

/// Text of a template as it may be shown: escaped, in double quotes, and not at any length.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown = String::from("\"");
    let mut characters = text.chars();
    for each in characters.by_ref().take(LONGEST) {
        match each {
            '"' => shown.push_str("\\\""),
            each if each.is_control() => shown.extend(each.escape_default()),
            each => shown.push(each),
        }
    }
    shown.push_str(if characters.next().is_some() { "…\"" } else { "\"" });
    shown
}

/// The beginning of a text of a template, to be kept in a problem.
pub(crate) fn beginning(text: &str) -> String {
    text.chars().take(LONGEST_KEY).collect()
}
