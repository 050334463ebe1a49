//! An OpenAPI document of version 2 in the protobuf that clients before 1.27 read: the message `openapi.v2.Document`, with those of
//! its fields that our documents have. Numbers are those of that message's public definition.

use serde_json::Value;

use crate::protobuf::wire::{begin_nested, end_nested, put_bytes, put_number};

/// The document as protobuf.
#[must_use]
pub fn document_to_protobuf(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, 1, document, "swagger");
    nested(&mut out, 2, |out| {
        put_text(out, 1, &document["info"], "title");
        put_text(out, 2, &document["info"], "version");
    });
    nested(&mut out, 8, |out| {
        for (path, item) in entries(&document["paths"]) {
            named(out, 2, path, |out| path_item(out, item));
        }
    });
    nested(&mut out, 9, |out| schemas(out, &document["definitions"]));
    out
}

fn nested(out: &mut Vec<u8>, number: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let start = begin_nested(out, number);
    write(out);
    end_nested(out, start);
}

/// An entry of a map: name and value.
fn named(out: &mut Vec<u8>, number: u16, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    nested(out, number, |out| {
        put_bytes(out, 1, name.as_bytes());
        nested(out, 2, write);
    });
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn put_text(out: &mut Vec<u8>, number: u16, value: &Value, key: &str) {
    if let Some(text) = value[key].as_str().filter(|text| !text.is_empty()) {
        put_bytes(out, number, text.as_bytes());
    }
}

fn put_texts(out: &mut Vec<u8>, number: u16, value: &Value, key: &str) {
    for text in list(value, key).filter_map(Value::as_str) {
        put_bytes(out, number, text.as_bytes());
    }
}

fn put_flag(out: &mut Vec<u8>, number: u16, value: &Value, key: &str) {
    if value[key] == true {
        put_number(out, number, 1);
    }
}

/// Any value: its YAML, which its JSON is.
fn any(out: &mut Vec<u8>, value: &Value) {
    put_bytes(out, 2, value.to_string().as_bytes());
}

fn extensions(out: &mut Vec<u8>, number: u16, value: &Value) {
    for (name, value) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
        named(out, number, name, |out| any(out, value));
    }
}

fn schemas(out: &mut Vec<u8>, value: &Value) {
    for (name, value) in entries(value) {
        named(out, 1, name, |out| schema(out, value));
    }
}

fn schema(out: &mut Vec<u8>, value: &Value) {
    put_text(out, 1, value, "$ref");
    put_text(out, 2, value, "format");
    put_text(out, 4, value, "description");
    if let Some(default) = value.get("default") {
        nested(out, 5, |out| any(out, default));
    }
    put_texts(out, 19, value, "required");
    if let Some(inner) = value.get("additionalProperties") {
        nested(out, 21, |out| nested(out, 1, |out| schema(out, inner)));
    }
    if value.get("type").is_some() {
        nested(out, 22, |out| put_text(out, 1, value, "type"));
    }
    if let Some(inner) = value.get("items") {
        nested(out, 23, |out| nested(out, 1, |out| schema(out, inner)));
    }
    if let Some(properties) = value.get("properties") {
        nested(out, 25, |out| schemas(out, properties));
    }
    extensions(out, 31, value);
}

fn path_item(out: &mut Vec<u8>, item: &Value) {
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(value) = item.get(method) {
            nested(out, number, |out| operation(out, value));
        }
    }
    parameters(out, 9, item);
}

fn operation(out: &mut Vec<u8>, value: &Value) {
    put_texts(out, 1, value, "tags");
    put_text(out, 3, value, "description");
    put_text(out, 5, value, "operationId");
    put_texts(out, 6, value, "produces");
    put_texts(out, 7, value, "consumes");
    parameters(out, 8, value);
    nested(out, 9, |out| {
        for (code, response) in entries(&value["responses"]) {
            named(out, 1, code, |out| {
                nested(out, 1, |out| {
                    put_text(out, 1, response, "description");
                    if let Some(inner) = response.get("schema") {
                        nested(out, 2, |out| nested(out, 1, |out| schema(out, inner)));
                    }
                });
            });
        }
    });
    extensions(out, 13, value);
}

fn parameters(out: &mut Vec<u8>, number: u16, value: &Value) {
    for parameter in list(value, "parameters") {
        nested(out, number, |out| nested(out, 1, |out| one_parameter(out, parameter)));
    }
}

fn one_parameter(out: &mut Vec<u8>, value: &Value) {
    // The same fields have other numbers in each of the three messages.
    let simple = |out: &mut Vec<u8>, kind: u16, unique: u16| {
        put_flag(out, 1, value, "required");
        put_text(out, 2, value, "in");
        put_text(out, 3, value, "description");
        put_text(out, 4, value, "name");
        put_text(out, kind, value, "type");
        put_flag(out, unique, value, "uniqueItems");
    };
    match value["in"].as_str() {
        Some("body") => nested(out, 1, |out| {
            put_text(out, 1, value, "description");
            put_text(out, 2, value, "name");
            put_text(out, 3, value, "in");
            put_flag(out, 4, value, "required");
            nested(out, 5, |out| schema(out, &value["schema"]));
        }),
        Some("path") => nested(out, 2, |out| nested(out, 4, |out| simple(out, 5, 19))),
        _ => nested(out, 2, |out| nested(out, 3, |out| simple(out, 6, 20))),
    }
}
