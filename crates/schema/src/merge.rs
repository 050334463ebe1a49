//! Walker 2: strategic merge patch by the table's merge keys and strategies, with all directives.

mod order;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::gotext::go_print;
use crate::table::{Field, Shape, Type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList";

/// Why a strategic merge patch cannot be applied. `Display` gives upstream's sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// A `$patch` directive that does not exist.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective {
        /// The directive.
        directive: String,
        /// The map that holds it, as Go prints it.
        map: String,
    },
    /// `$patch: merge` among the items of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    /// An item without the field that identifies it.
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item, as Go prints it.
        map: String,
        /// The field.
        key: &'static str,
    },
    /// Objects in a list that has no merge key.
    #[error("cannot merge lists without merge key for {list}")]
    ListWithoutMergeKey {
        /// The list's field.
        list: String,
    },
    /// A list inside a list.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// A list whose items are of several types.
    #[error("expected a {expected}, but received a {received}")]
    ItemType {
        /// What the list's first item is.
        expected: &'static str,
        /// What another one is.
        received: &'static str,
    },
    /// A `$retainKeys` that is no list, or that misses a key of the patch.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// A `$setElementOrder` that is no list or does not fit the list of the patch.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrder,
    /// A `$deleteFromPrimitiveList` that is no list.
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// The patch or the object is no JSON object.
    #[error("invalid JSON document")]
    NotAnObject,
}

impl MergeError {
    /// The HTTP status that upstream answers: 400, 422 or 500.
    #[must_use]
    pub fn status_code(&self) -> u16 {
        match self {
            Self::RetainKeys | Self::SetElementOrder | Self::PrimitiveList | Self::NotAnObject => 400,
            Self::ListOfLists => 422,
            Self::UnknownDirective { .. }
            | Self::MergeDirectiveInList
            | Self::NoMergeKey { .. }
            | Self::ListWithoutMergeKey { .. }
            | Self::ItemType { .. } => 500,
        }
    }
}

/// Applies `patch` to `live`, an object of type `ty`, and returns the patched tree. The result still has to go
/// through [`crate::convert_unstructured`].
///
/// # Errors
///
/// Malformed directives and lists whose items lack their merge key.
pub fn strategic_merge(ty: Type, live: &Value, patch: &Value) -> Result<Value, MergeError> {
    let (Some(live), Some(patch)) = (live.as_object(), patch.as_object()) else {
        return Err(MergeError::NotAnObject);
    };
    merge_map(live.clone(), patch.clone(), Some(ty)).map(Value::Object)
}

/// The struct that a field's objects, or the items of its list, are of.
fn item_type(field: Option<Field>) -> Option<Type> {
    let shape = field?.shape().resolved();
    let item = match shape {
        Shape::List(inner) => inner.shape(),
        Shape::Map { value, .. } => value.shape(),
        other => other,
    };
    item.named().filter(|ty| ty.special().is_none())
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    ty: Option<Type>,
) -> Result<Map<String, Value>, MergeError> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::apply(&mut original, &mut patch, ty)?;
    for (key, value) in patch {
        let (name, deletes) = match key.strip_prefix(DELETE_PRIMITIVES) {
            Some(rest) => (rest.strip_prefix('/').ok_or(MergeError::PrimitiveList)?.to_owned(), true),
            None => (key, false),
        };
        let field = ty.and_then(|ty| ty.field(&name));
        if deletes {
            let Value::Array(gone) = value else { return Err(MergeError::PrimitiveList) };
            if let Some(Value::Array(items)) = original.get_mut(&name) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let merged = match (original.remove(&name), value) {
            (Some(Value::Object(live)), Value::Object(change)) => {
                if field.is_some_and(Field::replaces) {
                    Some(Value::Object(change))
                } else {
                    Some(Value::Object(merge_map(live, change, item_type(field))?))
                }
            }
            (Some(Value::Array(live)), Value::Array(change)) => {
                Some(Value::Array(merge_list(live, change, field, &name)?))
            }
            // What the object does not have, or has as something else, is taken as it is.
            (_, change) => without_directives(change),
        };
        if let Some(merged) = merged {
            original.insert(name, merged);
        }
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> MergeError {
    MergeError::UnknownDirective {
        directive: go_print(directive),
        map: go_print(&Value::Object(map.clone())),
    }
}

/// Drops from `original` what `$retainKeys` does not name.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), MergeError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = directive else { return Err(MergeError::RetainKeys) };
    let is_retained = |key: &str| retained.iter().any(|entry| entry.as_str() == Some(key));
    let is_directive = |key: &str| key.starts_with(DELETE_PRIMITIVES) || key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !is_retained(key)) {
        return Err(MergeError::RetainKeys);
    }
    original.retain(|key, _| is_retained(key));
    Ok(())
}

/// A part of a patch that is taken as it is: nulls and directives go, and so does what is marked for deletion.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            if fields.get(PATCH).and_then(Value::as_str) == Some("delete") {
                return None;
            }
            let is_directive = |key: &str| {
                key == PATCH
                    || key == RETAIN_KEYS
                    || key.starts_with(SET_ORDER)
                    || key.starts_with(DELETE_PRIMITIVES)
            };
            let kept = fields
                .into_iter()
                .filter(|(key, field)| !is_directive(key) && !field.is_null())
                .filter_map(|(key, field)| Some((key, without_directives(field)?)))
                .collect();
            Some(Value::Object(kept))
        }
        Value::Array(items) => {
            let is_bare = |item: &Value| {
                item.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key(PATCH))
            };
            Some(Value::Array(
                items.into_iter().filter(|item| !is_bare(item)).filter_map(without_directives).collect(),
            ))
        }
        scalar => Some(scalar),
    }
}

/// Merges two lists as the field says; a list without merge strategy is replaced.
fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: Option<Field>,
    name: &str,
) -> Result<Vec<Value>, MergeError> {
    let Some(field) = field.filter(|field| field.merges()) else { return Ok(patch) };
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let key = field.merge_key();
    if !items_are_objects(original.iter().chain(&patch))? {
        let mut seen: BTreeSet<String> = original.iter().map(Value::to_string).collect();
        let mut merged = original.clone();
        merged.extend(patch.iter().filter(|item| seen.insert(item.to_string())).cloned());
        return Ok(order::interleave(merged, &patch, &original, None));
    }
    let key = key.ok_or_else(|| MergeError::ListWithoutMergeKey { list: name.to_owned() })?;
    let (original, patch) = apply_item_directives(original, patch, key)?;
    let mut merged = original.clone();
    let mut places = BTreeMap::new();
    for (place, item) in merged.iter().enumerate() {
        places.entry(identity(item, key)).or_insert(place);
    }
    for item in &patch {
        let fields = item.as_object().cloned().unwrap_or_default();
        if !fields.contains_key(key) {
            return Err(no_merge_key(item, key));
        }
        if let Some(place) = places.get(&identity(item, key)) {
            let known = merged[*place].as_object().cloned().unwrap_or_default();
            merged[*place] = Value::Object(merge_map(known, fields, item_type(Some(field)))?);
        } else if let Some(added) = without_directives(item.clone()) {
            places.insert(identity(item, key), merged.len());
            merged.push(added);
        }
    }
    Ok(order::interleave(merged, &patch, &original, Some(key)))
}

/// Carries out `$patch: delete` and `$patch: replace` items; returns the list and what is left of the patch.
fn apply_item_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &'static str,
) -> Result<(Vec<Value>, Vec<Value>), MergeError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replaces = false;
    for item in patch {
        let Some(directive) = item.get(PATCH) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let identity = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                original.retain(|known| known.get(key) != Some(identity));
            }
            Some("replace") => replaces = true,
            Some("merge") => return Err(MergeError::MergeDirectiveInList),
            _ => return Err(unknown_directive(directive, item.as_object().unwrap_or(&Map::new()))),
        }
    }
    Ok(if replaces { (plain, Vec::new()) } else { (original, plain) })
}

/// What two items must share to be the same one; `None`: the item lacks its key.
fn identity(item: &Value, key: &str) -> Option<String> {
    item.get(key).map(Value::to_string)
}

fn no_merge_key(item: &Value, key: &'static str) -> MergeError {
    MergeError::NoMergeKey { map: go_print(item), key }
}

/// Whether the items are objects; all of them must be alike.
fn items_are_objects<'a>(items: impl Iterator<Item = &'a Value>) -> Result<bool, MergeError> {
    let kind = |item: &Value| match item {
        Value::Object(_) => "map",
        Value::Array(_) => "slice",
        Value::String(_) => "string",
        Value::Number(_) => "int64",
        Value::Bool(_) => "bool",
        Value::Null => "nil",
    };
    let mut expected = None;
    for item in items {
        let received = kind(item);
        if received == "slice" {
            return Err(MergeError::ListOfLists);
        }
        let expected = *expected.get_or_insert(received);
        if expected != received {
            return Err(MergeError::ItemType { expected, received });
        }
    }
    Ok(expected == Some("map"))
}

#[cfg(test)]
mod tests;
