//! ConfigMaps: keys, size, immutability.

use names::ConfigKey;
use serde_json::Value;

use crate::data_values::{MAX_BYTES, decoded_size};
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::messages;
use crate::tree::{entries, is_set, text};

/// Checks keys and size.
pub(crate) fn validate(errors: &mut FieldErrors, object: &Value) {
    let mut total = 0;
    for (key, value) in entries(&object["data"]) {
        let at = Path::root("data").key(key);
        errors.invalid_each(&at, key, messages(ConfigKey::parse(key)));
        if is_set(&object["binaryData"][key.as_str()]) {
            errors.invalid(&at, key.as_str(), "duplicate of key present in binaryData");
        }
        total += text(value).len();
    }
    for (key, value) in entries(&object["binaryData"]) {
        errors.invalid_each(&Path::root("binaryData").key(key), key, messages(ConfigKey::parse(key)));
        total += decoded_size(text(value));
    }
    if total > MAX_BYTES {
        errors.too_long(&Path::root(""), MAX_BYTES);
    }
}

/// What `immutable: true` fixes.
pub(crate) fn validate_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    if old["immutable"] != true {
        return;
    }
    for name in ["immutable", "data", "binaryData"] {
        if old[name] != new[name] {
            errors.forbidden(&Path::root(name), "field is immutable when `immutable` is set");
        }
    }
}
