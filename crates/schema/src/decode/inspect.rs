//! Everything that is wrong with an object at once, for who wrote it: each problem with the way to its place.

use std::fmt;

use serde_json::Value;

use super::suggest::Suggestion;
use super::{Walker, Words};
use crate::json::Json;
use crate::table::{Shape, Type};

/// One step from a value to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the value of a field or key.
    Key(String),
    /// To an item of a list.
    Index(usize),
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The type has no such field.
    Unknown,
    /// The object has it twice.
    Duplicate,
}

/// A field that strict decoding refuses. `Display` is upstream's `unknown field "spec.foo"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// The way to the object that has the field.
    pub path: Vec<Step>,
    /// The field.
    pub field: String,
    /// What was meant, perhaps; only [`inspect`] looks for it.
    pub suggestion: Option<Suggestion>,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            ProblemKind::Unknown => "unknown field \"",
            ProblemKind::Duplicate => "duplicate field \"",
        })?;
        write_path(formatter, &self.path)?;
        let dot = if self.path.is_empty() { "" } else { "." };
        write!(formatter, "{dot}{}\"", self.field)
    }
}

/// Writes steps as upstream does: `spec.containers[0]`.
pub(super) fn write_path(formatter: &mut impl fmt::Write, path: &[Step]) -> fmt::Result {
    for (place, step) in path.iter().enumerate() {
        match step {
            Step::Key(key) if place == 0 => formatter.write_str(key)?,
            Step::Key(key) => write!(formatter, ".{key}")?,
            Step::Index(index) => write!(formatter, "[{index}]")?,
        }
    }
    Ok(())
}

/// A value of the wrong type or form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Upstream's sentence. It may hold a number or text of the object where upstream's does.
    pub message: String,
    /// The way to the value.
    pub path: Vec<Step>,
}

/// What [`inspect`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// The object as Go would write it; a value of the wrong type counts as absent.
    pub value: Value,
    /// Values of the wrong type, in the order of the object; at most a hundred.
    pub mismatches: Vec<Mismatch>,
    /// Unknown fields, in the order of the object; at most a hundred.
    pub problems: Vec<FieldProblem>,
}

/// Looks at a whole object. Unlike [`super::decode_value`] it does not stop at the first value of the wrong type.
#[must_use]
pub fn inspect(ty: Type, value: &Value) -> Inspection {
    let nothing = |message| Inspection {
        value: Value::Null,
        mismatches: vec![Mismatch { message, path: Vec::new() }],
        problems: Vec::new(),
    };
    let tree = match Json::from_value(value) {
        Ok(tree) => tree,
        Err(message) => return nothing(message),
    };
    let mut walker = Walker::new(Words::Json, true);
    walker.goes_on = true;
    match walker.value(Shape::Named(ty), &tree) {
        Ok(value) => Inspection { value, mismatches: walker.mismatches, problems: walker.problems },
        Err(message) => nothing(message),
    }
}
