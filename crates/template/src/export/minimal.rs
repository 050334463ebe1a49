//! Defaults, without a table of them: a field is one if the object without it gets it again.

use serde_json::Value;

use super::Defaulting;
use super::clean::clean;

/// How many fields of one object are tried. An object with more keeps what is left.
const MOST_TRIED: usize = 2_000;

/// Fields that say something even where they have their default.
const TELLING: [&str; 2] = ["replicas", "image"];

/// Removes every field that the API server would fill in again.
pub(super) fn remove_defaults(object: &mut Value, defaulting: Defaulting<'_>) {
    // What a cluster adds by itself, such as volumes with random names, is no default.
    let completed = |object: &Value| {
        let mut complete = defaulting(object)?;
        clean(&mut complete);
        Some(complete)
    };
    let Some(complete) = completed(object) else { return };
    let mut paths = Vec::new();
    collect(object, &mut String::new(), &mut paths);
    for (parent, key) in paths.into_iter().take(MOST_TRIED) {
        let Some(map) = object.pointer_mut(&parent).and_then(Value::as_object_mut) else { continue };
        let Some(removed) = map.remove(&key) else { continue };
        if completed(object).as_ref() != Some(&complete)
            && let Some(map) = object.pointer_mut(&parent).and_then(Value::as_object_mut)
        {
            map.insert(key, removed);
        }
    }
}

/// The fields of an object, inner ones before outer ones: the parent's pointer and the key.
fn collect(value: &Value, pointer: &mut String, paths: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let is_identity =
                    pointer.is_empty() && ["apiVersion", "kind", "metadata"].contains(&key.as_str());
                if is_identity {
                    continue;
                }
                let back = pointer.len();
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                collect(value, pointer, paths);
                pointer.truncate(back);
                if !TELLING.contains(&key.as_str()) {
                    paths.push((pointer.clone(), key.clone()));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let back = pointer.len();
                pointer.push_str(&format!("/{index}"));
                collect(item, pointer, paths);
                pointer.truncate(back);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
