//! Every kind that can be created, with every field set, is read from protobuf as it was written. What is written
//! follows from the Go types in the checked-in facts, not from the table that the decoder reads, nor from the labels
//! in Go's tags: Go's generator repeats a slice whatever its tag says.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::read_object as decode;
use super::tests::{field, number, object, tag, varint};

const META: &str = "apimachinery/pkg/apis/meta/v1";

/// A value with its bytes and their wire type.
struct Sample {
    json: Value,
    kind: u64,
    bytes: Vec<u8>,
}

fn sample(json: Value, kind: u64, bytes: Vec<u8>) -> Sample {
    Sample { json, kind, bytes }
}

struct Facts {
    types: Value,
    /// The structs that were written with every field; from then on they are written empty.
    known: BTreeSet<String>,
    /// How many fields were written.
    written: usize,
}

impl Facts {
    /// A package's type behind names for other types, as a Go type and the package that it is written in.
    fn resolved(&self, package: &str, text: &str) -> (String, String) {
        let text = text.trim_start_matches('*');
        if text.starts_with('[') || text.starts_with("map[") {
            return (package.to_owned(), text.to_owned());
        }
        let (home, name) = text.rsplit_once('.').unwrap_or((package, text));
        match self.types[home][name]["underlying"].as_str() {
            Some(underlying) if self.types[home][name]["kind"] == "alias" => self.resolved(home, underlying),
            _ => (home.to_owned(), name.to_owned()),
        }
    }

    /// One value.
    fn value(&mut self, package: &str, text: &str) -> Sample {
        let (package, text) = self.resolved(package, text);
        match (package.as_str(), text.as_str()) {
            (_, "string") | ("apimachinery/pkg/types", _) => sample(json!("text"), 2, b"text".to_vec()),
            (_, "bool") => sample(json!(true), 0, varint(1)),
            (_, "int32" | "int64" | "int" | "uint64") => {
                sample(json!(-7), 0, varint((-7i64).cast_unsigned()))
            }
            ("time", "Duration") => sample(json!(7), 0, varint(7)),
            (_, "float64") => sample(json!(1.5), 1, 1.5f64.to_le_bytes().to_vec()),
            (_, "[]byte") => sample(json!("AP8="), 2, vec![0, 255]),
            (_, "Quantity") => sample(json!("250m"), 2, field(1, b"250m")),
            (META, "Time") => sample(json!("1970-01-01T00:00:09Z"), 2, number(1, 9)),
            (META, "MicroTime") => {
                sample(json!("1970-01-01T00:00:09.000002Z"), 2, [number(1, 9), number(2, 2000)].concat())
            }
            (META, "Duration") => sample(json!("7ns"), 2, number(1, 7)),
            (_, "IntOrString") => sample(json!("http"), 2, [number(1, 1), field(3, b"http")].concat()),
            (_, "RawExtension" | "FieldsV1" | "JSON") => sample(json!({"a": 1}), 2, field(1, br#"{"a":1}"#)),
            (_, "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray") => {
                sample(json!({"type": "text"}), 2, field(1, &field(5, b"text")))
            }
            (_, "JSONSchemaPropsOrBool") => {
                sample(json!({"type": "text"}), 2, [number(1, 1), field(2, &field(5, b"text"))].concat())
            }
            // A named list that is a map's value is a message of its own.
            (_, list) if list.starts_with("[]") => {
                let item = self.value(&package, &list[2..]);
                sample(json!([item.json]), 2, field(1, &item.bytes))
            }
            _ => {
                let (json, bytes) = self.message(&package, &text);
                sample(Value::Object(json), 2, bytes)
            }
        }
    }

    /// A struct with every field set where it comes up first.
    fn message(&mut self, package: &str, name: &str) -> (Map<String, Value>, Vec<u8>) {
        let own = &self.types[package][name];
        assert!(own.is_object(), "{package}.{name} is unknown");
        let fields = own.get("fields").cloned();
        let (mut json, mut bytes) = (Map::new(), Vec::new());
        if !self.known.insert(format!("{package}.{name}")) {
            return (json, bytes);
        }
        for own in fields.iter().flat_map(|fields| fields.as_array()).flatten() {
            let go_type = own["type"].as_str().expect("a field has a type");
            let Some(number) = own["protoNum"].as_u64() else {
                assert!(go_type.ends_with("TypeMeta"), "{package}.{name}: {own}");
                continue;
            };
            self.written += 1;
            let (home, text) = self.resolved(package, go_type);
            let Some(key) = own["json"].as_str() else {
                assert_eq!(own["inline"], true, "{own}");
                let (inner, content) = self.message(&home, &text);
                json.extend(inner);
                bytes.extend(field(number, &content));
                continue;
            };
            let mut put = |sample: &Sample| {
                bytes.extend(tag(number, sample.kind));
                if sample.kind == 2 {
                    bytes.extend(varint(sample.bytes.len() as u64));
                }
                bytes.extend(&sample.bytes);
            };
            if let Some((_, value)) = text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
                let Sample { json: value, kind, bytes: content } = self.value(&home, value);
                assert_eq!(kind, 2, "{own}");
                let entry = [field(1, b"key"), field(2, &content)].concat();
                put(&Sample { json: Value::Null, kind: 2, bytes: entry });
                json.insert(key.to_owned(), json!({"key": value}));
            } else if let Some(item) = text.strip_prefix("[]").filter(|_| text != "[]byte") {
                let item = self.value(&home, item);
                put(&item);
                put(&item);
                json.insert(key.to_owned(), json!([item.json, item.json]));
            } else {
                let value = self.value(&home, &text);
                put(&value);
                json.insert(key.to_owned(), value.json);
            }
        }
        (json, bytes)
    }
}

fn facts() -> Facts {
    let types = serde_json::from_str(include_str!("../../facts/types.json")).expect("facts are JSON");
    Facts { types, known: BTreeSet::new(), written: 0 }
}

/// Where two trees differ first.
fn difference(place: &str, written: &Value, read: &Value) -> Option<String> {
    match (written, read) {
        (Value::Object(one), Value::Object(other)) => one
            .keys()
            .chain(other.keys())
            .find_map(|key| difference(&format!("{place}.{key}"), &written[key], &read[key])),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).find_map(|(one, other)| difference(&format!("{place}[]"), one, other))
        }
        _ => (written != read).then(|| format!("{place}: written {written}, read {read}")),
    }
}

#[test]
fn a_list_that_go_tags_as_a_single_value_is_read_as_a_list() {
    // What `kubectl debug node` sends: one toleration of everything, its empty texts written.
    let toleration = [field(1, b""), field(2, b"Exists"), field(3, b""), field(4, b"")].concat();
    let other = field(1, b"k");
    let spec = [field(22, &toleration), field(22, &other)].concat();
    assert_eq!(
        decode(&object("v1", "Pod", &field(2, &spec))).expect("well formed")["spec"],
        json!({"tolerations": [{"key": "", "operator": "Exists", "value": "", "effect": ""}, {"key": "k"}]})
    );
}

#[test]
fn every_field_of_every_kind_is_read_as_it_was_written() {
    let (mut facts, mut wrong) = (facts(), Vec::new());
    let mut kinds: Vec<(String, &str)> = crate::resources()
        .iter()
        .filter(|resource| !resource.group.ends_with("coracle.dev") && resource.kind != "Template")
        // The facts have no types of this group.
        .filter(|resource| resource.group != "resource.k8s.io")
        .map(|resource| (resource.group_version.to_owned(), resource.kind))
        .collect();
    kinds.extend(
        [("v1", "DeleteOptions"), ("v1", "PatchOptions"), ("policy/v1", "Eviction")]
            .map(|(version, kind)| (version.to_owned(), kind)),
    );
    for (api_version, kind) in kinds {
        let ty = crate::builtin()
            .type_for(&api_version, kind)
            .unwrap_or_else(|| panic!("{api_version} {kind} has no type"));
        let (mut json, bytes) = facts.message(ty.package(), ty.name());
        json.insert("apiVersion".to_owned(), json!(api_version));
        json.insert("kind".to_owned(), json!(kind));
        match decode(&object(&api_version, kind, &bytes)) {
            Ok(read) => wrong.extend(difference(kind, &Value::Object(json), &read)),
            Err(error) => wrong.push(format!("{kind}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(facts.written > 1800, "only {} fields were written", facts.written);
}

#[test]
fn what_stands_in_the_place_of_a_schema_is_read() {
    // spec.versions[0].schema.openAPIV3Schema = {items: [..], additionalProperties: true, dependencies: {d: [a, b]}}.
    let items = [field(2, &field(5, b"string")), field(2, &field(5, b"integer"))].concat();
    let dependency = [field(1, b"d"), field(2, &[field(2, b"a"), field(2, b"b")].concat())].concat();
    let schema = [field(24, &items), field(30, &number(1, 1)), field(32, &dependency)].concat();
    let version = [field(1, b"v1"), field(4, &field(1, &schema))].concat();
    let read = decode(&object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &field(2, &field(7, &version)),
    ));
    assert_eq!(
        read.expect("well formed")["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({"items": [{"type": "string"}, {"type": "integer"}], "additionalProperties": true, "dependencies": {"d": ["a", "b"]}})
    );
}
