//! Reading and filling object trees: absent and null are the same here, as they are in Go.

use serde_json::{Map, Value};

/// The text at a place; empty when absent.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items of a list; none when absent.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The entries of a map, sorted by key.
pub(crate) fn entries(value: &Value) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
    entries.sort_by(|left, right| left.0.cmp(right.0));
    entries
}

/// Whether something is there.
pub(crate) fn is_set(value: &Value) -> bool {
    !value.is_null()
}

/// The field of an object as a place to write to, when it is there.
pub(crate) fn field<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    value.get_mut(name).filter(|field| !field.is_null())
}

/// The items of a list in a field as places to write to.
pub(crate) fn items_mut<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field of an object that is absent, null or an empty text.
pub(crate) fn default_field(value: &mut Value, name: &str, default: impl Into<Value>) {
    if value.is_object() && (value[name].is_null() || value[name] == "") {
        value[name] = default.into();
    }
}

/// Sets a field of an object that is absent or null.
pub(crate) fn default_pointer(value: &mut Value, name: &str, default: impl Into<Value>) {
    if value.is_object() && value[name].is_null() {
        value[name] = default.into();
    }
}

/// The object in a field, made when it is absent.
pub(crate) fn object_field<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    static PLACE: &str = "a field that was just made an object";
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if !value[name].is_object() {
        value[name] = Value::Object(Map::new());
    }
    value[name].as_object_mut().expect(PLACE)
}

/// Removes a field.
pub(crate) fn remove(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut().and_then(|fields| fields.remove(name)).filter(|field| !field.is_null())
}
