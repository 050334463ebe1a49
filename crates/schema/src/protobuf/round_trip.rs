//! Objects of every kind that travels, with random fields, are read as they were written, and random bytes never panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{has_form, read_message, read_object, write_message};
use crate::table::{Shape, Special, Type};
use crate::{FieldValidation, builtin, decode_value};

/// A generator of numbers that a test can be run again with.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.roll(texts.len() as u64) as usize]
    }
}

fn object(dice: &mut Dice, ty: Type, depth: usize) -> Value {
    let mut map = Map::new();
    fill(dice, Shape::Named(ty).named().unwrap_or(ty), depth, &mut map);
    Value::Object(map)
}

fn fill(dice: &mut Dice, ty: Type, depth: usize, map: &mut Map<String, Value>) {
    for field in ty.declared_fields() {
        match field.inlined() {
            // What an object says about its own type is in the envelope.
            Some(inner) if inner.name() == "TypeMeta" => {}
            Some(inner) => fill(dice, inner, depth, map),
            // Deep inside fewer fields, so that there is an end.
            None if field.wire_number().is_none() || dice.roll(3 + 2 * depth as u64) > 2 => {}
            None => {
                let value = value(dice, field.shape().resolved(), depth + 1);
                map.insert(field.json().to_owned(), value);
            }
        }
    }
}

fn value(dice: &mut Dice, shape: Shape, depth: usize) -> Value {
    match shape {
        Shape::String => json!(dice.pick(&["", "a", "\u{e9}\u{1f600}\n\"", "kubernetes.io/x", "0"])),
        Shape::Bool => json!(dice.roll(2) == 0),
        Shape::Int32 => json!([0, 1, -1, i32::MAX, i32::MIN][dice.roll(5) as usize]),
        Shape::Int64 => json!([0, 1, -1, i64::MAX, i64::MIN][dice.roll(5) as usize]),
        Shape::Float64 => json!([0.5, -1.5e300, 3.25][dice.roll(3) as usize]),
        Shape::Bytes => json!(dice.pick(&["AP8=", "eA==", "SGVsbG8="])),
        Shape::Any | Shape::Pointer(_) => Value::Null,
        // Go's protobuf cannot tell an empty list or map from none, so there is something in each.
        Shape::List(item) => {
            (0..=dice.roll(2)).map(|_| value(dice, item.shape().resolved(), depth + 1)).collect()
        }
        Shape::Map { value: item, .. } => {
            let keys = ["b", "a", "\u{e9}"];
            let count = dice.roll(3) as usize;
            keys[..=count].iter().map(|key| (*key, value(dice, item.shape().resolved(), depth + 1))).collect()
        }
        Shape::Named(ty) => match ty.special() {
            None => object(dice, ty, depth),
            Some(Special::Quantity) => json!(dice.pick(&["0", "250m", "64Mi", "1e3", "-5", "0.5"])),
            Some(Special::Time) => {
                json!(dice.pick(&["1970-01-01T00:00:00Z", "2024-02-29T12:00:00Z", "1969-12-31T23:59:59Z"]))
            }
            Some(Special::MicroTime) => json!(dice.pick(&[
                "1970-01-01T00:00:00.000000Z",
                "2024-02-29T12:00:00.123456Z",
                "1969-12-31T23:59:59.5Z"
            ])),
            Some(Special::IntOrString) => {
                [json!(0), json!(-80), json!("http"), json!("")][dice.roll(4) as usize].clone()
            }
            Some(Special::Duration) => json!(dice.pick(&["0s", "1m30s", "1.5ms"])),
            Some(Special::RawExtension | Special::FieldsV1) => json!({"f:a": {"b": [1, 1.5, null]}}),
            Some(Special::SchemaJson) => {
                [json!(1), json!("x"), json!({"a": [true]})][dice.roll(3) as usize].clone()
            }
            Some(Special::SchemaOrArray) => {
                [json!({"type": "a"}), json!([{"type": "a"}, {}])][dice.roll(2) as usize].clone()
            }
            Some(Special::SchemaOrBool) => {
                [json!({"type": "a"}), json!(true), json!(false)][dice.roll(3) as usize].clone()
            }
            Some(Special::SchemaOrStrings) => {
                [json!({"type": "a"}), json!(["a", "b"])][dice.roll(2) as usize].clone()
            }
        },
    }
}

/// Everything that is served, listed, or sent as options.
fn travelling() -> Vec<Type> {
    let mut types: Vec<Type> = crate::resources()
        .iter()
        .flat_map(|resource| {
            [resource.kind.to_owned(), format!("{}List", resource.kind)]
                .map(|kind| builtin().type_for(resource.group_version, &kind))
        })
        .flatten()
        .collect();
    for (group_version, kind) in [
        ("v1", "Status"),
        ("v1", "DeleteOptions"),
        ("v1", "CreateOptions"),
        ("v1", "PatchOptions"),
        ("v1", "PartialObjectMetadataList"),
        ("v1", "List"),
        ("v1", "WatchEvent"),
        ("v1", "PodTemplate"),
        ("autoscaling/v1", "Scale"),
        ("policy/v1", "Eviction"),
        ("authentication.k8s.io/v1", "TokenRequest"),
    ] {
        types.extend(builtin().type_for(group_version, kind));
    }
    types.retain(|ty| has_form(*ty));
    types
}

/// As Go would write it in JSON.
fn settled(ty: Type, value: &Value) -> Value {
    decode_value(ty, value, FieldValidation::Strict)
        .unwrap_or_else(|error| panic!("{ty:?}: {error}: {value}"))
        .value
}

#[test]
fn every_kind_that_kubernetes_has_travels() {
    let missing: Vec<String> = crate::resources()
        .iter()
        .filter(|resource| !resource.group.ends_with("coracle.dev"))
        .filter_map(|resource| builtin().type_for(resource.group_version, resource.kind))
        .filter(|ty| !has_form(*ty) && ty.name() != "Template")
        .map(Type::go_name)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(travelling().len() > 90, "{}", travelling().len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_written_is_read(seed: u64) {
        for ty in travelling() {
            let mut dice = Dice(seed);
            let tree = settled(ty, &object(&mut dice, ty, 0));
            let bytes = write_message(ty, tree.to_string().as_bytes()).expect("of its own type");
            let read = read_message(ty, &bytes).expect("well formed");
            prop_assert_eq!(settled(ty, &read), tree, "{}", ty.go_name());
        }
    }

    #[test]
    fn damage_never_panics(seed: u64, at: usize, byte: u8, cut: usize) {
        let ty = builtin().type_for("v1", "Pod").expect("known");
        let tree = settled(ty, &object(&mut Dice(seed), ty, 0));
        let mut bytes = write_message(ty, tree.to_string().as_bytes()).expect("a pod");
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut % bytes.len() / 2);
        let _ = read_message(ty, &bytes);
        let _ = read_object(&bytes);
        let _ = read_object(&[b"k8s\0".as_slice(), &bytes].concat());
    }
}
