//! One object of the input as its kind describes it: the typed value, what makes it unreadable, and what Kubernetes
//! would drop or refuse although it can be read; each with the place in the file.

use environment::Severity;
use manifest::{Document, Node, Notice, PathStep, Span};
use schema::{FieldProblem, Inspection, Mismatch, Step, Suggestion, Type};
use serde_json::Value;

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

/// Something that can be read and was hardly meant.
#[derive(Debug, PartialEq)]
pub(super) struct DocumentNote {
    /// The stable code of its finding.
    pub(super) code: &'static str,
    /// How serious it is.
    pub(super) severity: Severity,
    /// The field.
    pub(super) path: String,
    /// What is the case.
    pub(super) message: String,
    /// What to do.
    pub(super) hint: String,
    /// The key that it is about.
    pub(super) key_span: Span,
}

/// What [`survey`] found.
pub(super) struct Survey {
    /// The object; values of the wrong type are left out of it.
    pub(super) value: Value,
    /// What makes it unreadable.
    pub(super) mistakes: Vec<DecodeMistake>,
    /// What it may be told about.
    pub(super) notes: Vec<DocumentNote>,
}

/// Looks at a whole object. A kind that the table does not know is taken as it is.
pub(super) fn survey(object: &InputObject) -> Survey {
    let json = object.document.root.to_json();
    if object.api_version.is_empty() {
        return Survey { value: json, mistakes: vec![no_api_version(object)], notes: Vec::new() };
    }
    let mut notes: Vec<DocumentNote> = unknown_kind(object).into_iter().collect();
    let (value, mistakes) = match type_of(object) {
        None => (json, Vec::new()),
        Some(ty) => {
            let Inspection { value, mismatches, problems } = schema::inspect(ty, &json);
            notes.extend(problems.iter().map(|problem| note_of(&object.document, problem)));
            (value, mismatches.into_iter().map(|mismatch| mistake_of(object, mismatch)).collect())
        }
    };
    notes.extend(object.document.notices.iter().map(|notice| {
        let Notice::DuplicateKey { again, .. } = notice;
        duplicate(notice, path_of_key(&object.document, *again).unwrap_or_default())
    }));
    Survey { value, mistakes, notes }
}

fn no_api_version(object: &InputObject) -> DecodeMistake {
    let known = schema::resources().iter().find(|entry| entry.kind == object.kind);
    let hint = match known {
        Some(entry) => format!("write apiVersion: {} above it", entry.group_version),
        None => "write apiVersion above it".to_owned(),
    };
    DecodeMistake {
        message: format!("{} has no apiVersion", object.kind),
        hint,
        span: kind_span(&object.document.root),
        label: "",
        wants_quotes: false,
    }
}

/// The note of a key that stands twice at `path`.
pub(super) fn duplicate(notice: &Notice, path: String) -> DocumentNote {
    let Notice::DuplicateKey { key, first, again } = notice;
    DocumentNote {
        code: "duplicate-key",
        severity: Severity::Warning,
        path,
        message: format!("key {key} was written before at line {}; the last one wins", first.start.line),
        hint: "remove one of them".to_owned(),
        key_span: *again,
    }
}

/// The type of an object of a built-in kind.
fn type_of(object: &InputObject) -> Option<Type> {
    let of = |api_version: &str| {
        let is_kind =
            |entry: &&schema::Resource| entry.kind == object.kind && entry.group_version == api_version;
        let is_list = object.kind == "List" && api_version == "v1";
        let is_known = is_list || schema::resources().iter().any(|entry| is_kind(&entry));
        is_known.then(|| schema::builtin().type_for(api_version, &object.kind)).flatten()
    };
    of(&object.api_version).or_else(|| {
        // Removed versions, and versions that belong to another kind, had the same pod template.
        if !is_built_in_group(&object.api_version) {
            return None;
        }
        match object.kind.as_str() {
            "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => of("apps/v1"),
            "Job" | "CronJob" => of("batch/v1"),
            "Pod" | "ReplicationController" | "PodTemplate" => of("v1"),
            _ => None,
        }
    })
}

/// Whether a group is one that Kubernetes has, or once had.
fn is_built_in_group(api_version: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    group == "extensions" || schema::groups().iter().any(|each| each.name == group)
}

/// A kind that no cluster has in this version, although another version may have it.
fn unknown_kind(object: &InputObject) -> Option<DocumentNote> {
    let kinds = || schema::resources().iter().filter(|entry| entry.kind == object.kind);
    let is_known = object.kind == "List"
        || kinds().any(|entry| entry.group_version == object.api_version)
        || !is_built_in_group(&object.api_version);
    if is_known {
        return None;
    }
    let hint = match kinds().next() {
        Some(entry) => format!("write apiVersion: {}", entry.group_version),
        None => match nearest_kind(&object.kind) {
            Some(kind) => format!("did you mean {kind}?"),
            None => "check the spelling of kind and apiVersion".to_owned(),
        },
    };
    let root = &object.document.root;
    let field = if kinds().next().is_some() { "apiVersion" } else { "kind" };
    let span = root.entry(field).map_or(root.span, |entry| entry.value.span);
    Some(DocumentNote {
        code: "unknown-kind",
        severity: Severity::Warning,
        path: field.to_owned(),
        message: format!("no matches for kind \"{}\" in version \"{}\"", object.kind, object.api_version),
        hint,
        key_span: span,
    })
}

fn nearest_kind(kind: &str) -> Option<&'static str> {
    let is_near = |entry: &&schema::Resource| schema::is_near(kind, entry.kind);
    schema::resources().iter().find(is_near).map(|entry| entry.kind)
}

fn steps(path: &[Step]) -> impl Iterator<Item = PathStep<'_>> {
    path.iter().map(|step| match step {
        Step::Key(key) => PathStep::Key(key),
        Step::Index(index) => PathStep::Index(*index),
    })
}

fn text_of(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn note_of(document: &Document, problem: &FieldProblem) -> DocumentNote {
    let owner = document.follow(steps(&problem.path)).node;
    let key_span = owner.entry(&problem.field).map_or(owner.span, |entry| entry.key_span);
    let hint = match &problem.suggestion {
        Some(Suggestion::Spelling(field)) => format!("did you mean \"{field}\"?"),
        Some(Suggestion::Outside(place)) if place.is_empty() => {
            "it is a field of the object itself: indent it less".to_owned()
        }
        Some(Suggestion::Outside(place)) => format!("it is a field of {place}: indent it less"),
        Some(Suggestion::Inside(place)) => format!("it is a field of {place}: move it there"),
        None => "remove it, or check its spelling and indentation".to_owned(),
    };
    let path = [problem.path.as_slice(), &[Step::Key(problem.field.clone())]].concat();
    DocumentNote {
        code: "unknown-field",
        severity: Severity::Warning,
        path: text_of(&path),
        message: problem.to_string(),
        hint: format!("{hint} (Kubernetes drops it, kubectl refuses it)"),
        key_span,
    }
}

/// Kubernetes' sentence about a wrong type names the field; one about a wrong form does not.
fn mistake_of(object: &InputObject, mismatch: Mismatch) -> DecodeMistake {
    let document = &object.document;
    let located = document.follow(steps(&mismatch.path));
    let span = if mismatch.path.is_empty() { kind_span(&document.root) } else { located.node.span };
    let path = text_of(&mismatch.path);
    let message = match mismatch.message.contains("Go struct field") || path.is_empty() {
        true => mismatch.message,
        false => format!("{path}: {}", mismatch.message),
    };
    if message.contains("illegal base64 data") {
        let hint = match object.kind.as_str() {
            "Secret" => "write the text under stringData, or encode it with base64",
            "ConfigMap" => "write the text under data, or encode it with base64",
            _ => "encode it with base64",
        };
        let label = "this is no base64";
        return DecodeMistake { message, hint: hint.to_owned(), span, label, wants_quotes: false };
    }
    let Some((given, wanted)) = given_and_wanted(&message) else {
        let hint = "write a value of the form that the field has".to_owned();
        return DecodeMistake { message, hint, span, label: "", wants_quotes: false };
    };
    let wants_quotes = wanted == "string" && matches!(given, "bool" | "number");
    let hint = match (wants_quotes, wanted) {
        (true, _) => "put the value in quotes: YAML reads it as something other than text".to_owned(),
        (false, "[]uint8") if given == "bool" || given == "number" => {
            "write the text under stringData in quotes, or encode it with base64".to_owned()
        }
        (false, wanted) => format!("give it {}", in_words(wanted)),
    };
    DecodeMistake { label: label_of(given), hint, message, span, wants_quotes }
}

/// A Go type as people say it.
fn in_words(wanted: &str) -> String {
    match wanted {
        "string" => "a text".to_owned(),
        "bool" => "true or false, without quotes".to_owned(),
        "int32" | "int64" => "a whole number, without quotes".to_owned(),
        list if list.starts_with("[]") => format!("a list (type {list}): begin each entry with `- `"),
        map if map.starts_with("map[") => format!("a map (type {map}): KEY: VALUE"),
        other => format!("a value of type {other}"),
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

/// The kind given and the type wanted.
fn given_and_wanted(message: &str) -> Option<(&str, &str)> {
    let rest = message.split_once("cannot unmarshal ")?.1;
    let (given, rest) = rest.split_once(" into Go ")?;
    let (_, wanted) = rest.rsplit_once(" of type ")?;
    // `number 1.5` says which number.
    Some((given.split(' ').next().unwrap_or(given), wanted))
}

/// The field path of the key that is written at a span.
fn path_of_key(document: &Document, span: Span) -> Option<String> {
    let mut open = vec![(String::new(), &document.root)];
    while let Some((path, node)) = open.pop() {
        for entry in node.entries() {
            let key_path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
            if entry.key_span == span {
                return Some(key_path);
            }
            open.push((key_path, &entry.value));
        }
        for (index, item) in node.items().iter().enumerate() {
            open.push((format!("{path}[{index}]"), item));
        }
    }
    None
}
