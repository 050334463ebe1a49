//! Whether a configuration has the form of its type, in upstream's words.

use serde_json::Value;

use super::compare::named_place;
use super::element;
use super::place::{Atom, Identity, Place, Scalar};
use crate::gotext::{go_print, go_quote};
use crate::table::Type;

/// Most problems that are told.
const SHOWN: usize = 100;

/// One field that does not have the form of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct TypeProblem {
    /// `.spec.containers[name="c"]`; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// Every field of a configuration that does not have the form of its type; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeProblems(pub Vec<TypeProblem>);

impl std::error::Error for TypeProblems {}

impl std::fmt::Display for TypeProblems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_slice() {
            [problem] => problem.fmt(f),
            problems => {
                f.write_str("errors:")?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

/// Checks that `config` is an object of type `ty`, as far as it says anything.
///
/// # Errors
///
/// Unknown fields, values of other types, list items that cannot be told apart.
pub fn check(ty: Type, config: &Value) -> Result<(), TypeProblems> {
    let mut checker = Checker { path: Vec::new(), problems: Vec::new() };
    checker.value(Place::root(ty), config);
    if checker.problems.is_empty() { Ok(()) } else { Err(TypeProblems(checker.problems)) }
}

struct Checker {
    /// The elements that lead to the value, as messages show them.
    path: Vec<String>,
    problems: Vec<TypeProblem>,
}

impl Checker {
    fn problem(&mut self, message: String) {
        if self.problems.len() < SHOWN {
            self.problems.push(TypeProblem { path: self.path.concat(), message });
        }
    }

    fn value(&mut self, place: Place, value: &Value) {
        if value.is_null() {
            return;
        }
        let atom = place.atom_for(value);
        match (atom, value) {
            (Atom::Deduced, _) => {}
            (Atom::Scalar(scalar), value) => self.scalar(scalar, value),
            (Atom::List { item, identity }, Value::Array(items)) => self.items(item, identity, items),
            (Atom::List { .. }, other) => self.problem(format!("expected list, got {}", printed(other))),
            (Atom::Struct { .. } | Atom::Map { .. }, Value::Object(fields)) => {
                for (name, field) in fields {
                    self.path.push(format!(".{name}"));
                    let is_declared = match atom {
                        Atom::Struct { ty, .. } => ty.field(name).is_some(),
                        Atom::Map { .. } | Atom::Scalar(_) | Atom::List { .. } | Atom::Deduced => true,
                    };
                    if is_declared {
                        self.value(named_place(atom, name), field);
                    } else {
                        self.problem("field not declared in schema".to_owned());
                    }
                    self.path.pop();
                }
            }
            (Atom::Struct { .. } | Atom::Map { .. }, other) => {
                self.problem(format!("expected map, got {}", printed(other)));
            }
        }
    }

    fn items(&mut self, place: Place, identity: Option<Identity>, items: &[Value]) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let shown = match identity.map(|identity| element::item(identity, place.ty(), item)) {
                None => format!("[{index}]"),
                Some(Ok(element)) => {
                    let shown = element::display(&element);
                    if !seen.insert(element) {
                        self.problem(format!("duplicate entries for key {shown}"));
                    }
                    shown
                }
                Some(Err(error)) => return self.problem(format!("element {index}: {error}")),
            };
            self.path.push(shown);
            self.value(place, item);
            self.path.pop();
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let message = match (scalar, value) {
            (Scalar::Numeric, Value::Number(_))
            | (Scalar::Text, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => return,
            (Scalar::Numeric, other) => {
                format!("expected numeric (int or float), got {}", go_type(other))
            }
            (Scalar::Text, other) => {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other))
            }
            (Scalar::Boolean, other) => format!("expected boolean, got {}", printed(other)),
            (Scalar::Untyped, other) => format!("expected any scalar, got {}", printed(other)),
        };
        self.problem(message);
    }
}

/// How Go's `%v` prints what holds the value.
fn printed(value: &Value) -> String {
    format!("&{{{}}}", go_print(value))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// How Go's `%#v` prints the value.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let mut fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{}:{}", go_quote(key), go_syntax(value))).collect();
            fields.sort();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}
