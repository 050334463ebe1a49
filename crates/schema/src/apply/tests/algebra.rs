//! What holds for every object, set and configuration.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{FieldSet, ManagedFields, Write, check, compare, fields_of, merge_applied};
use crate::decode::{FieldValidation, decode_value};
use crate::table::{Type, builtin};

fn pod_type() -> Type {
    builtin().type_for("v1", "Pod").expect("a core kind")
}

fn write(manager: &str) -> Write<'_> {
    Write {
        ty: pod_type(),
        api_version: "v1",
        versions: &["v1"],
        manager,
        subresource: "",
        ignored: &[],
        now: "2026-01-01T00:00:00Z",
    }
}

/// A configuration of a pod out of few names, so that two of them often meet.
fn config() -> impl Strategy<Value = Value> {
    let letter = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let labels = proptest::collection::btree_map(letter(), letter(), 0..3);
    let ports = proptest::collection::btree_set((1..3_u8, prop_oneof![Just("TCP"), Just("UDP")]), 0..3);
    let container =
        (letter(), ports, proptest::option::of(letter()), proptest::collection::vec(letter(), 0..2));
    let containers = proptest::collection::btree_map(letter(), container, 0..3);
    let finalizers = proptest::collection::btree_set(letter(), 0..3);
    (labels, containers, finalizers, proptest::option::of(letter())).prop_map(
        |(labels, containers, finalizers, node)| {
            let mut pod = json!({"metadata": {"name": "p"}});
            if !labels.is_empty() {
                pod["metadata"]["labels"] = json!(labels);
            }
            if !finalizers.is_empty() {
                pod["metadata"]["finalizers"] = json!(finalizers);
            }
            if !containers.is_empty() {
                pod["spec"]["containers"] = containers
                    .into_iter()
                    .map(|(name, (_, ports, image, args))| {
                        let mut container = json!({"name": name});
                        if !ports.is_empty() {
                            container["ports"] = ports
                                .iter()
                                .map(|(port, protocol)| json!({"containerPort": port, "protocol": protocol}))
                                .collect();
                        }
                        if let Some(image) = image {
                            container["image"] = json!(image);
                        }
                        if !args.is_empty() {
                            container["args"] = json!(args);
                        }
                        container
                    })
                    .collect();
            }
            if let Some(node) = node {
                pod["spec"]["nodeName"] = json!(node);
            }
            pod
        },
    )
}

/// Any JSON.
fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::from),
        "[a-c.:]{0,3}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("spec"),
        Just("metadata"),
        Just("containers"),
        Just("name"),
        Just("labels"),
        Just("ports"),
        Just("finalizers"),
        Just("f:spec"),
        Just("f:a"),
        Just("."),
        Just("k:{\"name\":\"a\"}"),
        Just("v:1"),
        Just("i:0"),
        Just("k:{"),
        Just("x"),
        Just("operation"),
        Just("fieldsV1"),
        Just("data"),
    ];
    scalar.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(key.clone(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// A set of fields of few names.
fn field_set() -> impl Strategy<Value = FieldSet> {
    (config(), config()).prop_map(|(old, new)| {
        let mut set = compare(pod_type(), Some(&old), &new, &[]).taken;
        set.unite(&fields_of(pod_type(), &old, &[]));
        set
    })
}

/// The object as the server would keep it.
fn kept(object: &Value) -> Value {
    decode_value(pod_type(), object, FieldValidation::Ignore).expect("a pod").value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn applying_twice_changes_nothing(live in config(), one in config()) {
        let mut managed = ManagedFields::default();
        let live = kept(&live);
        managed.update(&write("somebody"), None, &live);
        let first = kept(&managed.apply(&write("m"), &live, &one, true).expect("forced"));
        let after = managed.clone();
        let second = kept(&managed.apply(&write("m"), &first, &one, false).expect("its own fields"));
        prop_assert_eq!(&first, &second);
        prop_assert_eq!(&after, &managed);
        // What it named is there.
        prop_assert_eq!(&kept(&merge_applied(pod_type(), &first, &one)), &first);
    }

    #[test]
    fn what_one_manager_alone_applied_goes_when_it_applies_nothing(one in config(), other in config()) {
        let nothing = json!({"metadata": {"name": "p"}});
        let mut managed = ManagedFields::default();
        let start = kept(&nothing);
        let with_other = kept(&managed.apply(&write("other"), &start, &other, true).expect("forced"));
        let before = managed.clone();
        let with_both = kept(&managed.apply(&write("m"), &with_other, &one, true).expect("forced"));
        let owned = managed.clone();
        let without = kept(&managed.apply(&write("m"), &with_both, &nothing, true).expect("forced"));
        let mine = owned.managers().iter().find(|manager| manager.name == "m");
        let others = owned.managers().iter().find(|manager| manager.name == "other");
        let left = fields_of(pod_type(), &without, &[]);
        for path in mine.map(|mine| mine.fields.paths()).unwrap_or_default() {
            let is_shared = others.is_some_and(|others| {
                others.fields.contains(&path)
                    || others.fields.paths().iter().any(|below| below.starts_with(&path))
            });
            prop_assert!(is_shared || !left.contains(&path), "{path:?} is left of {with_both}: {without}");
        }
        // What was never contested is as it was.
        if compare(pod_type(), Some(&with_other), &with_both, &[]).taken.intersection(&fields_of(pod_type(), &other, &[])).is_empty() {
            prop_assert_eq!(kept(&merge_applied(pod_type(), &without, &other)), without);
            prop_assert!(before.managers().iter().all(|known| managed.managers().iter().any(|now| now.fields == known.fields)));
        }
    }

    #[test]
    fn sets_obey_the_laws_of_sets(one in field_set(), other in field_set(), third in field_set()) {
        let union = |one: &FieldSet, other: &FieldSet| { let mut both = one.clone(); both.unite(other); both };
        let difference = |one: &FieldSet, other: &FieldSet| { let mut left = one.clone(); left.subtract(other); left };
        prop_assert_eq!(union(&one, &other), union(&other, &one));
        prop_assert_eq!(one.intersection(&other), other.intersection(&one));
        prop_assert_eq!(union(&union(&one, &other), &third), union(&one, &union(&other, &third)));
        prop_assert_eq!(union(&difference(&one, &other), &one.intersection(&other)), one.clone());
        prop_assert!(difference(&one, &other).intersection(&other).is_empty());
        prop_assert_eq!(difference(&difference(&one, &other), &third), difference(&one, &union(&other, &third)));
        prop_assert!(difference(&one, &one).is_empty());
        for path in one.paths() {
            prop_assert!(one.contains(&path));
            prop_assert_eq!(other.contains(&path), one.intersection(&other).contains(&path));
        }
        prop_assert_eq!(FieldSet::parse(&one.clone().into_value()), Ok(one));
    }

    #[test]
    fn the_owner_of_all_differences_is_the_writer(old in config(), new in config()) {
        let mut managed = ManagedFields::default();
        managed.update(&write("first"), None, &old);
        managed.update(&write("second"), Some(&old), &new);
        let change = compare(pod_type(), Some(&old), &new, &[]);
        let first = managed.managers().iter().find(|manager| manager.name == "first");
        if let Some(first) = first {
            prop_assert!(first.fields.intersection(&change.taken).is_empty());
            prop_assert!(first.fields.intersection(&change.removed).is_empty());
        }
        let second = managed.managers().iter().find(|manager| manager.name == "second");
        prop_assert_eq!(second.map(|manager| manager.fields.clone()).unwrap_or_default(), change.taken);
    }

    #[test]
    fn no_input_makes_it_panic(live in any_json(), config in any_json(), entries in any_json()) {
        let ty = pod_type();
        let _ = check(ty, &config);
        let _ = FieldSet::parse(&entries);
        let _ = ManagedFields::parse(Some(&entries));
        let _ = compare(ty, Some(&live), &config, &[&["spec"]]);
        let entry = json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": entries}]);
        let mut managed = ManagedFields::parse(Some(&entry)).unwrap_or_default();
        managed.update(&write("m"), Some(&live), &config);
        let _ = managed.apply(&write("x"), &live, &config, false);
        let _ = managed.apply_as_kubectl(&write("x"), &live, &config, true);
        let _ = managed.into_value();
    }
}
