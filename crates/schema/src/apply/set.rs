//! Sets of fields, kept in the very form in which `fieldsV1` writes them, so that reading and writing cost nothing.
//!
//! A set is a JSON object. Its keys are path elements (`f:spec`, `k:{"name":"c"}`), its values the sets below them.
//! An empty object is a member; one that has children is a member too where it holds the key `.`.

use serde_json::{Map, Value};

use super::element::{self, BadElement};
use super::place::{Atom, Place};

/// The key by which an element that has children says that it is a member itself.
const SELF: &str = ".";

/// A set of fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(Map<String, Value>);

/// Why a `fieldsV1` is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFields {
    /// Something other than an object stands where a set should be.
    #[error("expect an object, but found something else")]
    NotAnObject,
    /// A key that is no path element.
    #[error(transparent)]
    Element(#[from] BadElement),
}

/// A set while it is being made, and whether the element above it is a member.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) is_member: bool,
    pub(super) children: Map<String, Value>,
}

impl Node {
    /// Adds what was found below one element.
    pub(super) fn add(&mut self, element: impl FnOnce() -> String, child: Node) {
        if let Some(value) = child.into_value() {
            self.children.insert(element(), value);
        }
    }

    fn into_value(self) -> Option<Value> {
        let Node { is_member, mut children } = self;
        settle(&mut children, is_member).then_some(Value::Object(children))
    }

    /// The set of an object's root, which itself is never a member.
    pub(super) fn into_set(self) -> FieldSet {
        FieldSet(self.children)
    }
}

impl FieldSet {
    /// Reads `fieldsV1`. Elements of kinds that are not known are left out, others are brought into the one form in
    /// which they can be compared.
    ///
    /// # Errors
    ///
    /// Anything that is no set.
    pub fn parse(fields: &Value) -> Result<FieldSet, BadFields> {
        match fields {
            Value::Object(fields) => parse(fields).map(FieldSet),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(BadFields::NotAnObject)
            }
        }
    }

    /// As `fieldsV1`.
    #[must_use]
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the members of `other`.
    pub fn unite(&mut self, other: &FieldSet) {
        unite(&mut self.0, &other.0);
    }

    /// Takes out the members of `other`; what is below them stays.
    pub fn subtract(&mut self, other: &FieldSet) {
        subtract(&mut self.0, &other.0);
    }

    /// Takes out the members of `other` and everything below them.
    pub fn subtract_with_children(&mut self, other: &FieldSet) {
        subtract_with_children(&mut self.0, &other.0);
    }

    /// The members that both sets have.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        FieldSet(intersection(&self.0, &other.0))
    }

    /// The members that have no members below them.
    #[must_use]
    pub fn leaves(&self) -> FieldSet {
        FieldSet(leaves(&self.0))
    }

    /// The paths of all members, each as its elements; those of one level before those below it.
    #[must_use]
    pub fn paths(&self) -> Vec<Vec<&str>> {
        let mut found = Vec::new();
        collect_paths(&self.0, &mut Vec::new(), &mut found);
        found
    }

    /// Whether the path of these elements is a member.
    #[must_use]
    pub fn contains(&self, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let Some(node) = below(&self.0, first) else { return false };
        rest.iter().try_fold(node, |node, element| below(node, element)).is_some_and(is_member)
    }

    /// The set of these field names.
    #[must_use]
    pub fn of_names(paths: super::Paths<'_>) -> FieldSet {
        let mut root = Map::new();
        for path in paths {
            let mut nested = Map::new();
            for (depth, name) in path.iter().enumerate().rev() {
                let inner = if depth + 1 == path.len() { Map::new() } else { nested };
                nested = Map::new();
                nested.insert(element::field(name), Value::Object(inner));
            }
            unite(&mut root, &nested);
        }
        FieldSet(root)
    }

    /// The set with each declared field as a member that has a member below it; entries of maps and items of lists
    /// stay as they are.
    pub(super) fn with_named_fields(&self, place: Place) -> FieldSet {
        FieldSet(with_named_fields(&self.0, place))
    }

    pub(super) fn root(&self) -> &Map<String, Value> {
        &self.0
    }
}

/// The node of a child.
fn node(value: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&EMPTY)
}

/// The set below an element; `None`: the element does not occur.
pub(super) fn below<'s>(set: &'s Map<String, Value>, element: &str) -> Option<&'s Map<String, Value>> {
    set.get(element).map(node)
}

/// Whether a node is a member itself.
pub(super) fn is_member(node: &Map<String, Value>) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

fn children(node: &Map<String, Value>) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
    node.iter().filter(|(key, _)| *key != SELF).map(|(key, value)| (key, self::node(value)))
}

/// Gives a node its one form; whether anything is left of it.
fn settle(node: &mut Map<String, Value>, is_member: bool) -> bool {
    node.remove(SELF);
    if node.is_empty() {
        return is_member;
    }
    if is_member {
        node.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
    true
}

fn parse(fields: &Map<String, Value>) -> Result<Map<String, Value>, BadFields> {
    let mut parsed: Map<String, Value> = Map::new();
    for (key, value) in fields {
        let Value::Object(below) = value else { return Err(BadFields::NotAnObject) };
        if key == SELF {
            parsed.insert(key.clone(), Value::Object(Map::new()));
            continue;
        }
        let Some(element) = element::canonical(key)? else { continue };
        let mut below = parse(below)?;
        let member = is_member(&below);
        settle(&mut below, member);
        match parsed.get_mut(&element) {
            // Two spellings of one element.
            Some(Value::Object(known)) => unite_nodes(known, &below),
            _ => {
                parsed.insert(element, Value::Object(below));
            }
        }
    }
    Ok(parsed)
}

fn unite(set: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (key, theirs) in children(other) {
        match set.get_mut(key) {
            Some(Value::Object(own)) => unite_nodes(own, theirs),
            _ => {
                set.insert(key.clone(), Value::Object(theirs.clone()));
            }
        }
    }
}

fn unite_nodes(own: &mut Map<String, Value>, theirs: &Map<String, Value>) {
    let member = is_member(own) || is_member(theirs);
    unite(own, theirs);
    settle(own, member);
}

fn subtract(set: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (key, theirs) in children(other) {
        let Some(Value::Object(own)) = set.get_mut(key) else { continue };
        let member = is_member(own) && !is_member(theirs);
        subtract(own, theirs);
        if !settle(own, member) {
            set.remove(key);
        }
    }
}

fn subtract_with_children(set: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (key, theirs) in children(other) {
        if is_member(theirs) {
            set.remove(key);
            continue;
        }
        let Some(Value::Object(own)) = set.get_mut(key) else { continue };
        let member = is_member(own);
        subtract_with_children(own, theirs);
        if !settle(own, member) {
            set.remove(key);
        }
    }
}

fn intersection(one: &Map<String, Value>, other: &Map<String, Value>) -> Map<String, Value> {
    let mut both = Map::new();
    for (key, theirs) in children(other) {
        let Some(own) = below(one, key) else { continue };
        let mut inner = intersection(own, theirs);
        if settle(&mut inner, is_member(own) && is_member(theirs)) {
            both.insert(key.clone(), Value::Object(inner));
        }
    }
    both
}

fn leaves(set: &Map<String, Value>) -> Map<String, Value> {
    children(set).map(|(key, node)| (key.clone(), Value::Object(leaves(node)))).collect()
}

fn collect_paths<'s>(set: &'s Map<String, Value>, way: &mut Vec<&'s str>, found: &mut Vec<Vec<&'s str>>) {
    for (key, _) in children(set).filter(|(_, node)| is_member(node)) {
        found.push(way.iter().copied().chain([key.as_str()]).collect());
    }
    for (key, node) in children(set).filter(|(_, node)| !node.is_empty()) {
        way.push(key);
        collect_paths(node, way, found);
        way.pop();
    }
}

fn with_named_fields(set: &Map<String, Value>, place: Place) -> Map<String, Value> {
    let atom = place.atom();
    children(set)
        .map(|(key, node)| {
            if node.is_empty() {
                return (key.clone(), Value::Object(Map::new()));
            }
            let name = element::field_name(key);
            let (inner, is_named) = match (atom, name) {
                (Atom::Struct { ty, .. }, Some(name)) => match ty.field(name) {
                    Some(field) => (Place::of_field(field), true),
                    None => (Place::ANY, false),
                },
                (Atom::Map { value, .. }, Some(_)) => (value, false),
                (Atom::List { item, .. }, None) => (item, false),
                (
                    Atom::Scalar(_)
                    | Atom::Deduced
                    | Atom::Map { .. }
                    | Atom::Struct { .. }
                    | Atom::List { .. },
                    _,
                ) => (Place::ANY, false),
            };
            let member = is_named || is_member(node);
            let mut node = with_named_fields(node, inner);
            settle(&mut node, member);
            (key.clone(), Value::Object(node))
        })
        .collect()
}
