//! Objects as JSON trees: reading their metadata, and turning them into what the store keeps.

use std::collections::HashSet;

use manifest::Node;
use serde_json::{Map, Value};
use store::{Draft, Object};

/// The text at a path of keys; empty when absent or not text.
pub(crate) fn text<'v>(object: &'v Value, path: &[&str]) -> &'v str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a path of keys.
pub(crate) fn at<'v>(object: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The list at a path of keys; empty when absent.
pub(crate) fn list<'v>(object: &'v Value, path: &[&str]) -> &'v [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// `metadata`, made when absent. `object` becomes a map if it is none.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(object, "metadata")
}

/// The map under `key`, made when absent or of another type.
pub(crate) fn map_mut<'v>(object: &'v mut Value, key: &str) -> &'v mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(map) = object else { unreachable!("made a map above") };
    let entry = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    match entry {
        Value::Object(map) => map,
        _ => unreachable!("made a map above"),
    }
}

/// Sets or, with `None`, removes a field of the metadata.
pub(crate) fn set_metadata(object: &mut Value, key: &str, value: Option<Value>) {
    let metadata = metadata_mut(object);
    match value {
        Some(value) => metadata.insert(key.to_owned(), value),
        None => metadata.remove(key),
    };
}

/// The tree of a stored object.
pub(crate) fn tree(object: &Object) -> Value {
    // Only this program writes the store, and each row has a checksum: what is there is JSON.
    serde_json::from_slice(object.value()).unwrap_or(Value::Null)
}

/// The bytes to be stored: type, then metadata with the place for the resource version first, then the rest.
pub(crate) fn encode(object: &Value) -> Draft {
    encode_in_order(object, None)
}

/// The same, with keys in the order that they have in `order`; others follow sorted.
pub(crate) fn encode_in_order(object: &Value, order: Option<&Node>) -> Draft {
    let empty = Map::new();
    let root = object.as_object().unwrap_or(&empty);
    let metadata = root.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let metadata_order = order.and_then(|order| order.get("metadata"));
    let mut bytes = Vec::with_capacity(1024);
    bytes.push(b'{');
    for key in ["kind", "apiVersion"] {
        if let Some(value) = root.get(key) {
            write_field(&mut bytes, key, value, None);
            bytes.push(b',');
        }
    }
    bytes.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
    let revision_at = bytes.len();
    bytes.push(b'"');
    for (key, value, order) in
        fields(metadata, metadata_order).into_iter().filter(|(key, ..)| *key != "resourceVersion")
    {
        bytes.push(b',');
        write_field(&mut bytes, key, value, order);
    }
    bytes.push(b'}');
    for (key, value, order) in fields(root, order)
        .into_iter()
        .filter(|(key, ..)| !matches!(*key, "kind" | "apiVersion" | "metadata"))
    {
        bytes.push(b',');
        write_field(&mut bytes, key, value, order);
    }
    bytes.push(b'}');
    Draft::new(bytes, revision_at).expect("the place was taken while writing")
}

/// A field with what its value is ordered by.
type OrderedField<'v, 'o> = (&'v str, &'v Value, Option<&'o Node>);

fn fields<'v, 'o>(map: &'v Map<String, Value>, order: Option<&'o Node>) -> Vec<OrderedField<'v, 'o>> {
    let written = order.map(Node::entries).unwrap_or_default();
    let mut seen = HashSet::new();
    let mut found: Vec<OrderedField<'v, 'o>> = written
        .iter()
        .filter_map(|entry| map.get_key_value(&entry.key).map(|(key, value)| (key, value, &entry.value)))
        .filter(|(key, ..)| seen.insert(*key))
        .map(|(key, value, order)| (key.as_str(), value, Some(order)))
        .collect();
    found.extend(
        map.iter().filter(|(key, _)| !seen.contains(key)).map(|(key, value)| (key.as_str(), value, None)),
    );
    found
}

fn write_field(bytes: &mut Vec<u8>, key: &str, value: &Value, order: Option<&Node>) {
    serde_json::to_writer(&mut *bytes, key).expect("text is always JSON");
    bytes.push(b':');
    write_value(bytes, value, order);
}

fn write_value(bytes: &mut Vec<u8>, value: &Value, order: Option<&Node>) {
    match (value, order) {
        (Value::Object(map), Some(_)) => {
            bytes.push(b'{');
            for (index, (key, value, order)) in fields(map, order).into_iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                write_field(bytes, key, value, order);
            }
            bytes.push(b'}');
        }
        (Value::Array(items), Some(order)) => {
            bytes.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                write_value(bytes, item, order.items().get(index));
            }
            bytes.push(b']');
        }
        (value, _) => serde_json::to_writer(&mut *bytes, value).expect("a tree is always JSON"),
    }
}

/// Whether two trees say the same apart from their resource versions.
pub(crate) fn same_content(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old == new };
    let same_rest = |left: &Map<String, Value>, right: &Map<String, Value>, except: &str| {
        let count = |map: &Map<String, Value>| map.keys().filter(|key| *key != except).count();
        count(left) == count(right)
            && left.iter().filter(|(key, _)| *key != except).all(|(key, value)| right.get(key) == Some(value))
    };
    let same_metadata = match (old.get("metadata"), new.get("metadata")) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => same_rest(left, right, "resourceVersion"),
        (left, right) => left == right,
    };
    same_metadata && same_rest(old, new, "metadata")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{encode, encode_in_order, same_content};

    #[test]
    fn the_resource_version_is_put_where_clients_look_for_it() {
        let object = json!({"spec": {"a": [1, "\u{1}\n"]}, "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "p", "resourceVersion": "9", "labels": {"a": "b"}}});
        let bytes = encode(&object).preview("42");
        let back: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(back["metadata"]["resourceVersion"], "42");
        assert!(same_content(&object, &back));
        let bytes = encode(&json!({})).preview("1");
        assert_eq!(bytes, br#"{"metadata":{"resourceVersion":"1"}}"#);
    }

    #[test]
    fn keys_keep_the_order_in_which_they_were_written_and_nothing_else_changes() {
        let object = json!({"kind": "Template", "apiVersion": "v1", "metadata": {"uid": "u", "name": "t"},
            "objects": [{"kind": "ConfigMap", "data": {"a": "1", "z": "2", "new": "3"}}, {"b": 1, "a": 2}], "message": "m"});
        let written = manifest::Node::from_json(&json!(null));
        assert_eq!(encode_in_order(&object, Some(&written)).preview("1"), encode(&object).preview("1"));
        let text = r#"{"objects": [{"data": {"z": "2", "gone": "x", "a": "1"}, "kind": "ConfigMap"}], "message": "m"}"#;
        let order = manifest::parse_stream(text.as_bytes(), &manifest::Limits::default())
            .expect("JSON")
            .remove(0)
            .root;
        let bytes = encode_in_order(&object, Some(&order)).preview("1");
        assert_eq!(serde_json::from_slice::<Value>(&bytes).expect("JSON")["objects"], object["objects"]);
        let text = String::from_utf8(bytes).expect("text");
        assert!(text.contains(r#""objects":[{"data":{"z":"2","a":"1","new":"3"},"kind":"ConfigMap"},{"a":2,"b":1}],"message":"m""#), "{text}");
    }

    #[test]
    fn contents_differ_by_any_field_but_the_resource_version() {
        let one = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"k": "v"}});
        let mut two = one.clone();
        two["metadata"]["resourceVersion"] = json!("2");
        assert!(same_content(&one, &two));
        two["metadata"]["labels"] = json!({});
        assert!(!same_content(&one, &two));
        let mut three = one.clone();
        three["data"]["k"] = json!("w");
        assert!(!same_content(&one, &three));
    }
}
