//! Walker 1: JSON to a tree that has exactly the fields of a type, in upstream's words: unknown and duplicate fields,
//! values of the wrong type, and the zero values that Go writes for what was left out.

mod inspect;
mod scalar;
mod suggest;
mod zero;

pub use inspect::{FieldProblem, Inspection, Mismatch, ProblemKind, Step, inspect};
pub use suggest::{Suggestion, is_near};

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::json::Json;
use crate::table::{Field, Shape, Special, Type};
use zero::is_empty;
pub(crate) use zero::zero;

/// Most unknown and duplicate fields that are told.
const PROBLEM_LIMIT: usize = 100;

/// What happens to fields that the type does not have and to duplicate fields: the query parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped, each with a warning.
    Warn,
    /// They are an error.
    Strict,
}

/// A decoded object.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object as Go would write it: known fields only, empty optional fields left out, zero values of the
    /// others filled in.
    pub value: Value,
    /// Texts for `Warning` headers, in order.
    pub warnings: Vec<String>,
}

/// Why bytes are not an object of the type. `Display` gives upstream's sentence without the prefix
/// `KIND in version "VERSION" cannot be handled as a KIND: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON.
    #[error("{message}")]
    Syntax {
        /// What the parser expected.
        message: String,
    },
    /// A value of the wrong type or form.
    #[error("{message}")]
    Mismatch {
        /// Upstream's sentence.
        message: String,
    },
    /// Unknown or duplicate fields under [`FieldValidation::Strict`].
    #[error("strict decoding error: {}", problems.join(", "))]
    Strict {
        /// `unknown field "spec.foo"`, `duplicate field "spec.bar"`.
        problems: Vec<String>,
    },
}

/// What an object says about its own type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apiVersion`, empty when absent.
    pub api_version: String,
    /// `kind`, empty when absent.
    pub kind: String,
}

/// Reads `apiVersion` and `kind` of a JSON object without looking at its other fields.
///
/// # Errors
///
/// Bytes that are not a JSON object, or the two fields with another type than string.
pub fn peek_type_meta(bytes: &[u8]) -> Result<TypeMeta, DecodeError> {
    let prefix = "couldn't get version/kind; json parse error:";
    let mismatch = |given: &str, place: &str| DecodeError::Mismatch {
        message: format!("{prefix} json: cannot unmarshal {given} into Go {place}"),
    };
    let tree = Json::parse(bytes)
        .map_err(|message| DecodeError::Syntax { message: format!("{prefix} {message}") })?;
    let fields = match tree {
        Json::Object(fields) => fields,
        Json::Null => Vec::new(),
        other => {
            let go_type = r#"value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
            return Err(mismatch(described(&other), go_type));
        }
    };
    let mut meta = TypeMeta::default();
    for (key, value) in fields {
        let slot = match key.as_ref() {
            "apiVersion" => &mut meta.api_version,
            "kind" => &mut meta.kind,
            _ => continue,
        };
        match value {
            Json::String(text) => *slot = text.into_owned(),
            Json::Null => {}
            other => {
                return Err(mismatch(described(&other), &format!("struct field .{key} of type string")));
            }
        }
    }
    Ok(meta)
}

/// Decodes the JSON of one object.
///
/// # Errors
///
/// Bytes that are not JSON (invalid UTF-8, deeper than 120 levels and numbers that no float holds included), the
/// first value of the wrong type, and under [`FieldValidation::Strict`] all unknown and duplicate fields.
pub fn decode(ty: Type, bytes: &[u8], validation: FieldValidation) -> Result<Decoded, DecodeError> {
    let tree = Json::parse(bytes).map_err(|message| DecodeError::Syntax { message })?;
    walk(ty, &tree, validation, Words::Json)
}

/// Decodes one object from a tree, such as one that was read from YAML.
///
/// # Errors
///
/// As [`decode`].
pub fn decode_value(ty: Type, value: &Value, validation: FieldValidation) -> Result<Decoded, DecodeError> {
    let tree = Json::from_value(value).map_err(|message| DecodeError::Syntax { message })?;
    walk(ty, &tree, validation, Words::Json)
}

/// Decodes the result of a patch. Wrong types are told in other words than in [`decode`]: `unrecognized type: int32`.
///
/// # Errors
///
/// As [`decode`].
pub fn convert_unstructured(
    ty: Type,
    value: &Value,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let tree = Json::from_value(value).map_err(|message| DecodeError::Syntax { message })?;
    walk(ty, &tree, validation, Words::Unstructured)
}

fn walk(
    ty: Type,
    tree: &Json<'_>,
    validation: FieldValidation,
    words: Words,
) -> Result<Decoded, DecodeError> {
    let mut walker = Walker::new(words, validation != FieldValidation::Ignore);
    let value = walker.value(Shape::Named(ty), tree).map_err(|message| DecodeError::Mismatch { message })?;
    let problems: Vec<String> = walker.problems.iter().map(FieldProblem::to_string).collect();
    if validation == FieldValidation::Strict && !problems.is_empty() {
        return Err(DecodeError::Strict { problems });
    }
    Ok(Decoded { value, warnings: problems })
}

/// Whose sentences tell about wrong types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Go's JSON decoder.
    Json,
    /// The conversion of generic trees.
    Unstructured,
}

struct Walker<'j> {
    words: Words,
    strict: bool,
    /// Whether a value of the wrong type is noted and taken as absent instead of ending the walk.
    goes_on: bool,
    problems: Vec<FieldProblem>,
    mismatches: Vec<Mismatch>,
    seen: HashSet<String>,
    /// The way from the root to the value that is being decoded.
    steps: Vec<Way<'j>>,
    /// The structs around that value, each with the number of steps that lead to it.
    types: Vec<(Type, usize)>,
    /// The path without indices, for wrong types.
    fields: Vec<&'static str>,
    /// The struct whose field is being decoded.
    enclosing: Option<&'static str>,
}

/// [`Step`], borrowed.
#[derive(Clone, Copy)]
enum Way<'j> {
    Key(&'j str),
    Index(usize),
}

impl Way<'_> {
    fn owned(self) -> Step {
        match self {
            Self::Key(key) => Step::Key(key.to_owned()),
            Self::Index(index) => Step::Index(index),
        }
    }
}

impl<'j> Walker<'j> {
    fn new(words: Words, strict: bool) -> Self {
        Self {
            words,
            strict,
            goes_on: false,
            problems: Vec::new(),
            mismatches: Vec::new(),
            seen: HashSet::new(),
            steps: Vec::new(),
            types: Vec::new(),
            fields: Vec::new(),
            enclosing: None,
        }
    }

    fn problem(&mut self, kind: ProblemKind, key: &str) {
        if !self.strict || self.problems.len() >= PROBLEM_LIMIT {
            return;
        }
        let path = self.steps.iter().map(|step| step.owned()).collect();
        let mut problem = FieldProblem { kind, path, field: key.to_owned(), suggestion: None };
        if self.seen.insert(problem.to_string()) {
            // Only who looks at a manifest is told what may have been meant.
            if self.goes_on && kind == ProblemKind::Unknown {
                problem.suggestion = suggest::suggest(&self.types, &problem.path, key);
            }
            self.problems.push(problem);
        }
    }

    /// Takes a value of the wrong type as absent, where the walk goes on behind it; `depth` steps lead to it.
    fn accept(&mut self, decoded: Result<Value, String>, depth: usize) -> Result<Value, String> {
        match decoded {
            Err(message) if self.goes_on => {
                if self.mismatches.len() < PROBLEM_LIMIT {
                    let path = self.steps.iter().map(|step| step.owned()).collect();
                    self.mismatches.push(Mismatch { message, path });
                }
                self.steps.truncate(depth);
                Ok(Value::Null)
            }
            other => other,
        }
    }

    /// The sentence for a value of the wrong type.
    fn mismatch(&self, given: &Json<'_>, shape: Shape) -> String {
        match self.words {
            Words::Json => self.json_mismatch(described(given), &shape.go_name()),
            Words::Unstructured => match shape.resolved() {
                Shape::Map { .. } => format!("cannot restore map from {}", kind_of(given)),
                Shape::List(_) | Shape::Bytes => format!("cannot restore slice from {}", kind_of(given)),
                Shape::Named(_) => format!("cannot restore struct from: {}", kind_of(given)),
                scalar => format!("unrecognized type: {}", scalar.go_name()),
            },
        }
    }

    fn json_mismatch(&self, given: &str, go_type: &str) -> String {
        match self.enclosing {
            Some(enclosing) => format!(
                "json: cannot unmarshal {given} into Go struct field {enclosing}.{} of type {go_type}",
                self.fields.join(".")
            ),
            None => format!("json: cannot unmarshal {given} into Go value of type {go_type}"),
        }
    }

    /// Decodes a value of a shape; absent values never come here.
    fn value(&mut self, shape: Shape, given: &'j Json<'_>) -> Result<Value, String> {
        match shape {
            Shape::Pointer(inner) => {
                if *given == Json::Null {
                    Ok(Value::Null)
                } else {
                    self.value(inner.shape(), given)
                }
            }
            Shape::Named(ty) => self.named(ty, given),
            other => self.unnamed(other, other, given),
        }
    }

    fn named(&mut self, ty: Type, given: &'j Json<'_>) -> Result<Value, String> {
        match (ty.special(), ty.underlying()) {
            (Some(special), _) => self.special(ty, special, given),
            (None, Some(underlying)) => match underlying {
                Shape::Named(behind) => self.named(behind, given),
                behind => self.unnamed(behind, Shape::Named(ty), given),
            },
            (None, None) => self.structure(ty, given),
        }
    }

    /// Decodes a list, map or scalar; `declared` is the shape that messages name.
    fn unnamed(&mut self, shape: Shape, declared: Shape, given: &'j Json<'_>) -> Result<Value, String> {
        match (shape, given) {
            (Shape::Any, given) => self.any(given),
            (Shape::Map { .. } | Shape::List(_) | Shape::Bytes, Json::Null) => Ok(Value::Null),
            (Shape::List(inner), Json::Array(items)) => self.list(inner.shape(), items),
            (Shape::Map { value, .. }, Json::Object(entries)) => self.map(value.shape(), entries),
            (scalar, given) => self.scalar(scalar, declared, given),
        }
    }

    fn list(&mut self, inner: Shape, items: &'j [Json<'_>]) -> Result<Value, String> {
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.steps.push(Way::Index(index));
            let value = self.element(inner, item)?;
            self.steps.pop();
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn map(
        &mut self,
        inner: Shape,
        entries: &'j [(std::borrow::Cow<'_, str>, Json<'_>)],
    ) -> Result<Value, String> {
        let mut map = Map::new();
        for (key, item) in entries {
            if map.contains_key(key.as_ref()) {
                self.problem(ProblemKind::Duplicate, key);
            }
            self.steps.push(Way::Key(key));
            let value = self.element(inner, item)?;
            self.steps.pop();
            map.insert(key.clone().into_owned(), value);
        }
        Ok(Value::Object(map))
    }

    /// An item of a list or map: null means the zero value.
    fn element(&mut self, shape: Shape, given: &'j Json<'_>) -> Result<Value, String> {
        let depth = self.steps.len();
        let decoded = self.value(shape, given);
        let value = self.accept(decoded, depth)?;
        Ok(match (value, shape) {
            // Bytes have no nil once they were stored.
            (Value::Null, Shape::Bytes) => Value::String(String::new()),
            (Value::Null, _) => zero(shape),
            (value, _) => value,
        })
    }

    fn structure(&mut self, ty: Type, given: &'j Json<'_>) -> Result<Value, String> {
        let entries = match given {
            Json::Object(entries) => entries,
            Json::Null => return Ok(zero(Shape::Named(ty))),
            other => return Err(self.mismatch(other, Shape::Named(ty))),
        };
        let fields = ty.fields();
        let mut slots: Vec<Option<Value>> = vec![None; fields.len()];
        let mut filled = vec![false; fields.len()];
        let outer = self.enclosing;
        self.types.push((ty, self.steps.len()));
        // In the order of the document, so that the first problem of the text is the one that is told.
        for (key, item) in entries {
            let Some(position) = fields.iter().position(|field| field.json() == key.as_ref()) else {
                self.problem(ProblemKind::Unknown, key);
                continue;
            };
            if std::mem::replace(&mut filled[position], true) {
                self.problem(ProblemKind::Duplicate, key);
            }
            let field = fields[position];
            self.enclosing = Some(ty.name());
            self.fields.push(field.json());
            self.steps.push(Way::Key(key));
            let (depth, field_depth, type_depth) = (self.steps.len(), self.fields.len(), self.types.len());
            let decoded = self.value(field.shape(), item);
            let value = self.accept(decoded, depth)?;
            self.steps.pop();
            self.fields.truncate(field_depth - 1);
            self.types.truncate(type_depth);
            self.enclosing = outer;
            if *item != Json::Null || !keeps_earlier(field) {
                slots[position] = (!value.is_null()).then_some(value);
            }
        }
        self.types.pop();
        let mut object = Map::new();
        for (field, slot) in fields.into_iter().zip(slots) {
            if let Some(value) = written(field, slot) {
                object.insert(field.json().to_owned(), value);
            }
        }
        Ok(Value::Object(object))
    }

    fn special(&mut self, ty: Type, special: Special, given: &'j Json<'_>) -> Result<Value, String> {
        match special {
            Special::RawExtension
            | Special::FieldsV1
            | Special::SchemaJson
            | Special::SchemaOrArray
            | Special::SchemaOrBool
            | Special::SchemaOrStrings => self.schema_form(ty, special, given),
            scalar => scalar::special(scalar, given),
        }
    }

    /// Forms that hold any JSON, or a JSON schema in one of several shapes.
    fn schema_form(&mut self, ty: Type, special: Special, given: &'j Json<'_>) -> Result<Value, String> {
        let inner = ty.declared_fields().find(|field| matches!(field.go(), "Schema"));
        match (special, inner, given) {
            (
                Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings,
                Some(schema),
                Json::Object(_),
            ) => self.value(schema.shape(), given),
            (Special::SchemaOrArray, Some(schema), Json::Array(items)) => items
                .iter()
                .map(|item| self.value(schema.shape(), item))
                .collect::<Result<Vec<_>, _>>()
                .map(Value::Array),
            _ => self.any(given),
        }
    }

    fn any(&mut self, given: &Json<'_>) -> Result<Value, String> {
        given.to_value().map_err(|number| self.json_mismatch(&format!("number {number}"), "float64"))
    }
}

/// Null leaves a scalar field as an earlier duplicate set it; lists, maps and pointers become nil.
fn keeps_earlier(field: Field) -> bool {
    matches!(
        field.shape().resolved(),
        Shape::String | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float64
    ) && !matches!(field.shape(), Shape::Pointer(_))
}

/// What Go writes for a field; `None`: nothing.
fn written(field: Field, value: Option<Value>) -> Option<Value> {
    let shape = field.shape();
    let value = value.unwrap_or_else(|| zero(shape));
    if field.omits_zero() && value.is_null() {
        return None;
    }
    (!(field.omits_empty() && is_empty(shape, &value))).then_some(value)
}

/// How Go's decoder calls a value of a wrong type.
fn described(given: &Json<'_>) -> &'static str {
    match given {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// The Go kind that a generic tree holds the value in.
fn kind_of(given: &Json<'_>) -> &'static str {
    match given {
        Json::Null => "invalid",
        Json::Bool(_) => "bool",
        Json::Number(text) => {
            if text.parse::<i64>().is_ok() {
                "int64"
            } else {
                "float64"
            }
        }
        Json::String(_) => "string",
        Json::Array(_) => "slice",
        Json::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests;
