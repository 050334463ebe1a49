//! Secrets: keys, size, what the known types require, immutability. No message shows a value.

use base64::Engine;
use names::ConfigKey;
use serde_json::Value;

use crate::data_values::{MAX_BYTES, decoded_size};
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::messages;
use crate::tree::{entries, is_set, object_field, remove, text};

/// Moves `stringData` into `data`.
pub(crate) fn merge_text(object: &mut Value) {
    let Some(Value::Object(texts)) = remove(object, "stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let stored = object_field(object, "data");
    for (key, value) in texts {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text(&value));
        stored.insert(key, encoded.into());
    }
}

/// Checks keys, size and type.
pub(crate) fn validate(errors: &mut FieldErrors, object: &Value) {
    let data = Path::root("data");
    let mut total = 0;
    for (key, value) in entries(&object["data"]) {
        errors.invalid_each(&data.key(key), key, messages(ConfigKey::parse(key)));
        total += decoded_size(text(value));
    }
    if total > MAX_BYTES {
        errors.too_long(&data, MAX_BYTES);
    }
    let has = |key: &str| is_set(&object["data"][key]);
    match text(&object["type"]) {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if text(&object["metadata"]["annotations"][name]).is_empty() {
                errors.required(&Path::root("metadata").child("annotations").key(name), "");
            }
        }
        "kubernetes.io/dockercfg" => json_key(errors, object, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json_key(errors, object, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            errors.required(&data.key("username"), "");
            errors.required(&data.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if decoded_size(text(&object["data"]["ssh-privatekey"])) == 0 => {
            errors.required(&data.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)) {
                errors.required(&data.key(key), "");
            }
        }
        _ => {}
    }
}

fn json_key(errors: &mut FieldErrors, object: &Value, key: &str) {
    let at = Path::root("data").key(key);
    let value = &object["data"][key];
    if !is_set(value) {
        return errors.required(&at, "");
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(text(value)).unwrap_or_default();
    if serde_json::from_slice::<serde_json::Map<String, Value>>(&decoded).is_err() {
        // The parser's own message could quote the secret.
        errors.invalid(&at, "<secret contents redacted>", "must be a JSON object");
    }
}

/// The type stays; `immutable: true` fixes the values.
pub(crate) fn validate_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    if old["type"] != new["type"] {
        errors.invalid(&Path::root("type"), text(&new["type"]), "field is immutable");
    }
    if old["immutable"] != true {
        return;
    }
    for name in ["immutable", "data"] {
        if old[name] != new[name] {
            errors.forbidden(&Path::root(name), "field is immutable when `immutable` is set");
        }
    }
}
