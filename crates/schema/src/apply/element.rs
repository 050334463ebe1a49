//! Path elements as `fieldsV1` spells them: `f:NAME`, `k:{KEYS}`, `v:VALUE`, `i:INDEX`; and as messages show them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::place::{Identity, key_default};
use crate::gotext::go_quote;
use crate::table::{Field, Type};

/// Why a key of `fieldsV1` is no path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadElement {
    /// Shorter than a letter and a colon.
    #[error("key must be 2 characters long")]
    TooShort,
    /// No colon behind the first letter.
    #[error("missing colon: {key}")]
    NoColon {
        /// The key.
        key: String,
    },
    /// What follows the colon is not what the letter promises.
    #[error("parsing key as path element: {key}")]
    Content {
        /// The key.
        key: String,
    },
}

/// Why an item of a list cannot be identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoIdentity {
    #[error("associative list with keys may not have a null element")]
    NullWithKeys,
    #[error("associative list with keys may not have non-map elements")]
    NotAMap,
    #[error(
        "associative list with keys has an element that omits key field \"{key}\" (and doesn't have default value)"
    )]
    KeyMissing { key: &'static str },
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
}

/// The element of a field.
pub(super) fn field(name: &str) -> String {
    let mut element = String::with_capacity(name.len() + 2);
    element.push_str("f:");
    element.push_str(name);
    element
}

/// The name in the element of a field.
pub(super) fn field_name(element: &str) -> Option<&str> {
    element.strip_prefix("f:")
}

/// The element of an item of a list.
pub(super) fn item(identity: Identity, item_type: Option<Type>, item: &Value) -> Result<String, NoIdentity> {
    match identity {
        Identity::Set => match item {
            Value::Object(_) => Err(NoIdentity::MapInSet),
            Value::Array(_) => Err(NoIdentity::ListInSet),
            Value::Null => Err(NoIdentity::NullInSet),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(format!("v:{item}")),
        },
        Identity::Keys(list) => keyed(list, item_type, item),
    }
}

fn keyed(list: Field, item_type: Option<Type>, item: &Value) -> Result<String, NoIdentity> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err(NoIdentity::NullWithKeys),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(NoIdentity::NotAMap);
        }
    };
    let mut names = list.list_keys();
    let (first, second) = (names.next(), names.next());
    // Nearly every list has one key.
    if let (Some(key), None) = (first, second)
        && let Some(value) = fields.get(key)
    {
        return Ok(format!("k:{{\"{key}\":{value}}}"));
    }
    let mut keys: BTreeMap<&str, Value> = BTreeMap::new();
    for key in first.into_iter().chain(second).chain(names) {
        let value = fields.get(key).cloned().or_else(|| key_default(item_type, key));
        keys.insert(key, value.ok_or(NoIdentity::KeyMissing { key })?);
    }
    Ok(with_keys(keys.iter().map(|(key, value)| (*key, value))))
}

fn with_keys<'k>(keys: impl Iterator<Item = (&'k str, &'k Value)>) -> String {
    let mut element = String::from("k:{");
    for (index, (key, value)) in keys.enumerate() {
        if index > 0 {
            element.push(',');
        }
        element.push_str(&Value::from(key).to_string());
        element.push(':');
        element.push_str(&value.to_string());
    }
    element.push('}');
    element
}

/// The one spelling of an element that somebody else wrote; `None`: of a kind that is not known.
pub(super) fn canonical(key: &str) -> Result<Option<String>, BadElement> {
    let mut characters = key.char_indices();
    let letter = characters.next();
    let (Some((_, letter)), Some((at, colon))) = (letter, characters.next()) else {
        return Err(BadElement::TooShort);
    };
    if colon != ':' {
        return Err(BadElement::NoColon { key: key.to_owned() });
    }
    let content = &key[at + 1..];
    let bad = || BadElement::Content { key: key.to_owned() };
    match letter {
        'f' => Ok(Some(key.to_owned())),
        'v' => {
            let value: Value = serde_json::from_str(content).map_err(|_| bad())?;
            Ok(Some(format!("v:{value}")))
        }
        'k' => {
            let keys: BTreeMap<String, Value> = serde_json::from_str(content).map_err(|_| bad())?;
            Ok(Some(with_keys(keys.iter().map(|(key, value)| (key.as_str(), value)))))
        }
        'i' => {
            let index: i64 = content.parse().map_err(|_| bad())?;
            Ok(Some(format!("i:{index}")))
        }
        _ => Ok(None),
    }
}

/// A path as messages show it: `.spec.containers[name="c"].env`.
#[must_use]
pub fn display_path(path: &[&str]) -> String {
    path.iter().map(|element| display(element)).collect()
}

/// One element as messages show it.
pub(super) fn display(element: &str) -> String {
    let (letter, content) = element.split_at_checked(2).unwrap_or((element, ""));
    match letter {
        "f:" => format!(".{content}"),
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(content).unwrap_or_default();
            let mut shown: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key}={}", display_value(value))).collect();
            shown.sort();
            format!("[{}]", shown.join(","))
        }
        "v:" => {
            let value: Value = serde_json::from_str(content).unwrap_or_default();
            format!("[={}]", display_value(&value))
        }
        _ => format!("[{content}]"),
    }
}

fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
