//! Objects to typed values in Kubernetes' words, and where in the file a refused value stands.

use manifest::{Document, Node, NodeValue, Span};
use schema::{Decoded, FieldValidation};

use crate::input::InputObject;

/// Why an object is not what its kind says.
#[derive(Debug, PartialEq)]
pub(super) struct DecodeMistake {
    /// Kubernetes' sentence.
    pub(super) message: String,
    /// What to do.
    pub(super) hint: String,
    /// Where the value stands.
    pub(super) span: Span,
    /// What is wrong with what stands there, in a few words.
    pub(super) label: &'static str,
    /// Whether what stands there can be written better by putting it in quotes.
    pub(super) wants_quotes: bool,
}

impl DecodeMistake {
    /// The object has no pod spec at all.
    pub(super) fn missing_spec(root: &Node, path: &str) -> Self {
        Self {
            message: format!("{path}: Required value"),
            hint: "give it a pod spec with containers".to_owned(),
            span: kind_span(root),
            label: "",
            wants_quotes: false,
        }
    }

    /// Something that the schema let through and the type does not.
    pub(super) fn unreadable(root: &Node, message: String) -> Self {
        let hint = "compare the object with its kind's reference".to_owned();
        Self { message, hint, span: kind_span(root), label: "", wants_quotes: false }
    }
}

fn kind_span(root: &Node) -> Span {
    root.get("kind").map_or(root.span, |kind| kind.span)
}

/// Decodes an object of a built-in kind; a kind that the table does not know is taken as it is.
pub(super) fn decode(object: &InputObject) -> Result<Decoded, DecodeMistake> {
    let json = object.document.root.to_json();
    let api_version = match (object.api_version.as_str(), object.kind.as_str()) {
        // Removed versions had the same template.
        (_, "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => "apps/v1",
        (_, "Job" | "CronJob") => "batch/v1",
        _ => "v1",
    };
    let Some(ty) = schema::builtin().type_for(api_version, &object.kind) else {
        return Ok(Decoded { value: json, warnings: Vec::new() });
    };
    schema::decode_value(ty, &json, FieldValidation::Warn)
        .map_err(|error| locate_mismatch(&object.document, error.to_string()))
}

/// Finds the value that a sentence such as `json: cannot unmarshal bool into Go struct field
/// EnvVar.spec.containers.env.value of type string` is about. The sentence has no indices; the decoder meets
/// values in the order of the document, so the first one of that kind at such a path is meant.
fn locate_mismatch(document: &Document, message: String) -> DecodeMistake {
    let Some((given, field, wanted)) = parse_sentence(&message) else {
        return DecodeMistake {
            span: kind_span(&document.root),
            hint: "compare the object with its kind's reference".to_owned(),
            message,
            label: "",
            wants_quotes: false,
        };
    };
    let steps: Vec<&str> = field.split('.').skip(1).collect();
    let node = first_of_kind(&document.root, &steps, given);
    let wants_quotes = wanted == "string" && matches!(given, "bool" | "number");
    let hint = if wants_quotes {
        "put the value in quotes: YAML reads it as something other than text".to_owned()
    } else {
        format!("give it a value of type {wanted}")
    };
    DecodeMistake {
        span: node.map_or_else(|| kind_span(&document.root), |node| node.span),
        label: label_of(given),
        hint,
        message,
        wants_quotes,
    }
}

fn label_of(given: &str) -> &'static str {
    match given {
        "bool" => "this is a boolean",
        "number" => "this is a number",
        "string" => "this is a string",
        "array" => "this is a list",
        "object" => "this is a map",
        _ => "",
    }
}

/// The kind given, the field with its struct, and the type wanted.
fn parse_sentence(message: &str) -> Option<(&str, &str, &str)> {
    let rest = message.split_once("cannot unmarshal ")?.1;
    let (given, rest) = rest.split_once(" into Go struct field ")?;
    let (field, wanted) = rest.split_once(" of type ")?;
    // `number 1.5` says which number.
    Some((given.split(' ').next().unwrap_or(given), field, wanted))
}

fn first_of_kind<'d>(node: &'d Node, steps: &[&str], kind: &str) -> Option<&'d Node> {
    match &node.value {
        NodeValue::List(items) if !(steps.is_empty() && kind == "array") => {
            items.iter().find_map(|item| first_of_kind(item, steps, kind))
        }
        NodeValue::Map(entries) => match steps {
            [first, rest @ ..] => entries
                .iter()
                .find(|entry| entry.key == *first)
                .and_then(|entry| first_of_kind(&entry.value, rest, kind)),
            [] if kind == "object" => Some(node),
            [] => entries.iter().map(|entry| &entry.value).find(|value| value.value.kind() == kind),
        },
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Int(_)
        | NodeValue::Float(_)
        | NodeValue::String(_)
        | NodeValue::List(_) => (steps.is_empty() && node.value.kind() == kind).then_some(node),
    }
}
