//! The order of merged lists: items of the patch in the patch's order, the others in the live object's, interleaved
//! as upstream does; and the directive `$setElementOrder`.

use serde_json::{Map, Value};

use super::{MergeError, SET_ORDER, item_type, merge_list, without_directives};
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

/// The items of the patch must stand in the wanted order.
fn check_order(change: &[Value], wanted: &[Value], key: Option<&'static str>) -> Result<(), MergeError> {
    let mut from = 0;
    for item in change.iter().filter(|item| item.get(super::PATCH).is_none()) {
        match wanted[from..].iter().position(|entry| same(entry, item, key)) {
            Some(position) => from += position + 1,
            None => return Err(MergeError::SetElementOrder),
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
    let place = |order: &[Value], item: &Value| order.iter().position(|entry| same(entry, item, key));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(wanted, item).is_some());
    named.sort_by_key(|item| place(wanted, item));
    others.sort_by_key(|item| place(live, item).unwrap_or(usize::MAX));
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (Some(other), Some(item)) => match (place(live, other), place(live, item)) {
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

fn same(left: &Value, right: &Value, key: Option<&'static str>) -> bool {
    match key {
        Some(key) => left.get(key).is_some() && left.get(key) == right.get(key),
        None => left == right,
    }
}
