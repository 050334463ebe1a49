//! What changes between what was applied before and what is applied now, as a patch. Pure.
//!
//! Kinds of our table get a strategic merge patch: lists with a merge key are merged item by item, what is gone is
//! deleted, and the order is the new one. Other kinds get a JSON merge patch, in which a list is replaced as a whole.

use schema::{Field, Shape, Type};
use serde_json::{Map, Value, json};

/// The patch; `last` is what was applied before, or null.
pub(super) fn patch(ty: Option<Type>, last: &Value, new: &Value) -> Value {
    match new.as_object() {
        Some(new) => Value::Object(map(ty, last, new)),
        None => new.clone(),
    }
}

fn map(ty: Option<Type>, last: &Value, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, value) in new {
        let field = ty.and_then(|ty| ty.field(key));
        let before = last.get(key).unwrap_or(&Value::Null);
        let merge_key = field.filter(|field| field.merges()).and_then(Field::merge_key);
        match (value, merge_key) {
            (Value::Object(inner), _) if !field.is_some_and(Field::replaces) => {
                patch.insert(key.clone(), Value::Object(map(struct_of(field), before, inner)));
            }
            (Value::Array(items), Some(merge_key)) => {
                list(&mut patch, key, merge_key, struct_of(field), before, items);
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for (key, _) in last.as_object().into_iter().flatten().filter(|(key, _)| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

/// A list whose items are merged by a key.
fn list(
    patch: &mut Map<String, Value>,
    field: &str,
    merge_key: &str,
    ty: Option<Type>,
    last: &Value,
    new: &[Value],
) {
    let keys: Vec<&Value> = new.iter().filter_map(|item| item.get(merge_key)).collect();
    let is_unique =
        keys.len() == new.len() && keys.iter().enumerate().all(|(place, key)| !keys[..place].contains(key));
    if !is_unique {
        // Items that cannot be told apart, such as ports 53 of UDP and TCP: the list as a whole.
        let mut replaced = vec![json!({"$patch": "replace"})];
        replaced.extend(new.iter().cloned());
        patch.insert(field.to_owned(), Value::Array(replaced));
        return;
    }
    let before = last.as_array().map(Vec::as_slice).unwrap_or_default();
    let same = |key: &Value| before.iter().find(|item| item.get(merge_key) == Some(key));
    let mut merged: Vec<Value> = new
        .iter()
        .zip(&keys)
        .map(|(item, key)| self::patch(ty, same(key).unwrap_or(&Value::Null), item))
        .collect();
    let gone = before.iter().filter_map(|item| item.get(merge_key)).filter(|key| !keys.contains(key));
    merged.extend(gone.map(|key| json!({"$patch": "delete", merge_key: key})));
    let order = keys.iter().map(|key| json!({merge_key: key})).collect();
    patch.insert(format!("$setElementOrder/{field}"), order);
    patch.insert(field.to_owned(), Value::Array(merged));
}

/// The struct behind a field, whatever pointers and lists are around it.
fn struct_of(field: Option<Field>) -> Option<Type> {
    let mut shape = field?.shape();
    loop {
        shape = match shape {
            Shape::Named(ty) => return Some(ty),
            Shape::Pointer(inner) | Shape::List(inner) => inner.shape(),
            Shape::Map { .. }
            | Shape::String
            | Shape::Bool
            | Shape::Int32
            | Shape::Int64
            | Shape::Float64
            | Shape::Bytes
            | Shape::Any => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod_patch(last: &Value, new: &Value) -> Value {
        patch(schema::builtin().type_for("v1", "Pod"), last, new)
    }

    /// What a live object becomes.
    fn applied(live: &Value, last: &Value, new: &Value) -> Value {
        let ty = schema::builtin().type_for("v1", "Pod").expect("built in");
        schema::strategic_merge(ty, live, &pod_patch(last, new)).expect("a patch")
    }

    fn pod(env: Value) -> Value {
        json!({"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}})
    }

    #[test]
    fn what_is_gone_is_deleted_and_what_others_added_stays() {
        let last = pod(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]));
        let mut live = last.clone();
        live["metadata"]["labels"]["other"] = json!("x");
        live["spec"]["nodeName"] = json!("n");
        let mut new = pod(json!([{"name": "C", "value": "3"}, {"name": "B", "valueFrom": {"x": 1}}]));
        new["metadata"]["labels"] = json!({"b": "2"});
        let result = applied(&live, &last, &new);
        assert_eq!(result["metadata"]["labels"], json!({"b": "2", "other": "x"}));
        assert_eq!(result["spec"]["nodeName"], "n");
        assert_eq!(
            result["spec"]["containers"][0]["env"],
            json!([{"name": "C", "value": "3"}, {"name": "B", "valueFrom": {"x": 1}}]),
            "the order is the new one"
        );
    }

    #[test]
    fn items_that_cannot_be_told_apart_are_replaced_together() {
        let new = pod(json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]));
        let result = applied(&pod(json!([{"name": "Z", "value": "0"}])), &Value::Null, &new);
        assert_eq!(result["spec"]["containers"][0]["env"], new["spec"]["containers"][0]["env"]);
    }

    #[test]
    fn kinds_without_a_type_get_a_merge_patch() {
        let last = json!({"spec": {"a": 1, "gone": {"x": 1}, "list": [1]}});
        let new = json!({"spec": {"a": 2, "list": [2, 3]}});
        assert_eq!(patch(None, &last, &new), json!({"spec": {"a": 2, "gone": null, "list": [2, 3]}}));
    }
}
