//! A configuration merged onto a live object: what it names wins, and nothing goes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::named_place;
use super::element;
use super::place::{Atom, Identity, Place};
use crate::table::Type;

/// Merges `config` onto `live`, both objects of type `ty`. What the configuration leaves out stays as it is.
#[must_use]
pub fn merge_applied(ty: Type, live: &Value, config: &Value) -> Value {
    merge(Place::root(ty), live, config)
}

fn merge(place: Place, live: &Value, config: &Value) -> Value {
    let atom = place.atom_for(config);
    match atom {
        Atom::Scalar(_)
        | Atom::Deduced
        | Atom::List { identity: None, .. }
        | Atom::Struct { is_atomic: true, .. }
        | Atom::Map { is_atomic: true, .. } => config.clone(),
        Atom::List { item, identity: Some(identity) } => match (live, config) {
            (Value::Array(live), Value::Array(config)) if !live.is_empty() && !config.is_empty() => {
                Value::Array(merge_items(item, identity, live, config))
            }
            (Value::Array(items), _) if !items.is_empty() => live.clone(),
            (_, _) => config.clone(),
        },
        Atom::Struct { .. } | Atom::Map { .. } => match (live, config) {
            (Value::Object(live), Value::Object(config)) if !live.is_empty() && !config.is_empty() => {
                Value::Object(merge_fields(atom, live, config))
            }
            (Value::Object(fields), _) if !fields.is_empty() => live.clone(),
            (_, _) => config.clone(),
        },
    }
}

fn merge_fields(atom: Atom, live: &Map<String, Value>, config: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = live.clone();
    for (name, value) in config {
        let value = match live.get(name) {
            Some(live) => merge(named_place(atom, name), live, value),
            None => value.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

/// Merges lists whose items have identities. The configuration's items come in its order, the others where they
/// stood among them.
fn merge_items(place: Place, identity: Identity, live: &[Value], config: &[Value]) -> Vec<Value> {
    let identify = |items: &[Value]| -> Vec<String> {
        let ty = place.ty();
        // What nothing identifies is like nothing else.
        items.iter().map(|item| element::item(identity, ty, item).unwrap_or_default()).collect()
    };
    let (live_names, wanted) = (identify(live), identify(config));
    let mut known: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
    for (name, item) in live_names.iter().zip(live) {
        // Of several with one identity none is merged: the configuration's replaces them.
        known.entry(name).and_modify(|known| *known = None).or_insert(Some(item));
    }
    let is_wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let mut shared = wanted.iter().filter(|name| known.contains_key(name.as_str())).peekable();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    let (mut at, mut next) = (0, 0);
    while at < live.len() || next < config.len() {
        if let Some(name) = live_names.get(at) {
            let is_next = wanted.get(next) == Some(name);
            if !is_wanted.contains(name.as_str()) {
                merged.push(live[at].clone());
                at += 1;
                continue;
            }
            // The configuration has it at another place.
            if !is_next && shared.peek().is_some_and(|shared| *shared != name) && next < config.len() {
                at += 1;
                continue;
            }
            if is_next || done.contains(name.as_str()) {
                at += 1;
            }
        }
        let (Some(name), Some(item)) = (wanted.get(next), config.get(next)) else { continue };
        merged.push(match known.get(name.as_str()) {
            Some(Some(live)) => merge(place, live, item),
            Some(None) | None => item.clone(),
        });
        done.insert(name);
        next += 1;
        shared.next_if(|shared| *shared == name);
    }
    merged
}
