//! What a manager applied before and does not apply any more goes, unless somebody else wants it.

use serde_json::{Map, Value};

use super::compare::{fields_of, named_place};
use super::element;
use super::place::{Atom, Place};
use super::set::{FieldSet, below, is_member};
use crate::table::Type;

/// Takes out of `merged` what `last` names and neither `managed` nor anything that stays does.
pub(super) fn prune(ty: Type, merged: Value, last: &FieldSet, managed: &FieldSet) -> Value {
    if last.is_empty() {
        return merged;
    }
    let root = Place::root(ty);
    let (last, managed) = (last.with_named_fields(root), managed.with_named_fields(root));
    let all = fields_of(ty, &merged, &[]).with_named_fields(root);
    // What others own comes back, ...
    let pruned = without(root, &merged, last.root());
    let mut kept = fields_of(ty, &pruned, &[]).with_named_fields(root);
    kept.unite(&managed);
    let mut gone = all.clone();
    gone.subtract(&kept);
    let pruned = without(root, &merged, gone.root());
    // ... and so does what the manager never owned.
    let mut gone = all;
    gone.subtract(&fields_of(ty, &pruned, &[]).with_named_fields(root));
    without(root, &merged, gone.intersection(&last).root())
}

/// A value without the members of a set. What becomes empty is null.
fn without(place: Place, value: &Value, set: &Map<String, Value>) -> Value {
    if set.is_empty() {
        return value.clone();
    }
    let atom = place.atom_for(value);
    let left = match (atom, value) {
        (Atom::List { item, identity: Some(identity) }, Value::Array(items)) => {
            let left: Vec<Value> = items
                .iter()
                .filter_map(|each| match element::item(identity, item.ty(), each) {
                    Ok(element) => remaining(item, each, below(set, &element)),
                    Err(_) => Some(each.clone()),
                })
                .collect();
            (!left.is_empty()).then_some(Value::Array(left))
        }
        (
            Atom::Struct { is_atomic: false, .. } | Atom::Map { is_atomic: false, .. },
            Value::Object(fields),
        ) => {
            let left: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, each)| {
                    let node = below(set, &element::field(name));
                    Some((name.clone(), remaining(named_place(atom, name), each, node)?))
                })
                .collect();
            (!left.is_empty()).then_some(Value::Object(left))
        }
        (Atom::Scalar(_) | Atom::Deduced, value) => Some(value.clone()),
        // Lists and maps that are replaced as a whole have no members of their own.
        (Atom::List { .. } | Atom::Struct { .. } | Atom::Map { .. }, _) => None,
    };
    left.unwrap_or(Value::Null)
}

fn remaining(place: Place, value: &Value, node: Option<&Map<String, Value>>) -> Option<Value> {
    match node {
        None => Some(value.clone()),
        Some(node) if is_member(node) => None,
        Some(node) => Some(without(place, value, node)),
    }
}
