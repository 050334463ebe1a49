//! The order of merged lists: items of the patch in the patch's order, the others in the live object's, interleaved
//! as upstream does; and the directive `$setElementOrder`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{MergeError, SET_ORDER, identity, item_type, merge_list, without_directives};
use crate::table::Type;

/// Merges the lists that have a `$setElementOrder` and removes both from the patch.
pub(super) fn apply(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    ty: Option<Type>,
) -> Result<(), MergeError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(wanted)) = patch.remove(&directive) else {
            return Err(MergeError::SetElementOrder);
        };
        let name = directive
            .strip_prefix(SET_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or(MergeError::SetElementOrder)?
            .to_owned();
        let field = ty.and_then(|ty| ty.field(&name));
        let key = field.and_then(crate::table::Field::merge_key).filter(|_| item_type(field).is_some());
        let live = match original.get(&name) {
            Some(Value::Array(items)) => Some(items.clone()),
            Some(_) => return Err(MergeError::SetElementOrder),
            None => None,
        };
        let change = match patch.remove(&name) {
            Some(Value::Array(items)) => Some(items),
            // A null deletes the list; it is left for the ordinary way.
            Some(other) => {
                patch.insert(name, other);
                continue;
            }
            None => None,
        };
        check_order(change.as_deref().unwrap_or_default(), &wanted, key)?;
        let merged = match (live.clone(), change) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(change)) => match without_directives(Value::Array(change)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(live), Some(change)) => merge_list(live, change, field, &name)?,
        };
        let ordered = interleave(merged, &wanted, &live.unwrap_or_default(), key);
        original.insert(name, Value::Array(ordered));
    }
    Ok(())
}

/// Items and their places in a list, so that long lists are not searched again and again.
struct Places {
    places: BTreeMap<String, usize>,
    key: Option<&'static str>,
}

impl Places {
    fn of(list: &[Value], key: Option<&'static str>) -> Self {
        let mut places = BTreeMap::new();
        for (place, item) in list.iter().enumerate() {
            if let Some(identity) = name(item, key) {
                places.entry(identity).or_insert(place);
            }
        }
        Self { places, key }
    }

    fn get(&self, item: &Value) -> Option<usize> {
        self.places.get(&name(item, self.key)?).copied()
    }
}

/// What identifies an item: its key field, or all of it.
fn name(item: &Value, key: Option<&'static str>) -> Option<String> {
    match key {
        Some(key) => identity(item, key),
        None => Some(item.to_string()),
    }
}

/// The items of the patch must stand in the wanted order.
fn check_order(change: &[Value], wanted: &[Value], key: Option<&'static str>) -> Result<(), MergeError> {
    let wanted = Places::of(wanted, key);
    let mut from = 0;
    for item in change.iter().filter(|item| item.get(super::PATCH).is_none()) {
        match wanted.get(item) {
            Some(place) if place >= from => from = place + 1,
            _ => return Err(MergeError::SetElementOrder),
        }
    }
    Ok(())
}

/// Sorts `merged`: items named by `wanted` in that order, the others as in `live`; where the two meet, `live` decides
/// if it knows both, otherwise the wanted one comes first.
pub(super) fn interleave(
    merged: Vec<Value>,
    wanted: &[Value],
    live: &[Value],
    key: Option<&'static str>,
) -> Vec<Value> {
    let (wanted, live) = (Places::of(wanted, key), Places::of(live, key));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| wanted.get(item).is_some());
    named.sort_by_cached_key(|item| wanted.get(item));
    others.sort_by_cached_key(|item| live.get(item).unwrap_or(usize::MAX));
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (Some(other), Some(item)) => match (live.get(other), live.get(item)) {
                (Some(left), Some(right)) => left < right,
                _ => false,
            },
            (Some(_), None) => true,
            (None, _) => false,
        };
        let next = if other_first { others.next() } else { named.next() };
        match next {
            Some(item) => sorted.push(item),
            None => return sorted,
        }
    }
}
