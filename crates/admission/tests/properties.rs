//! Whatever is sent: nothing panics, and what is admitted is already in the form in which it is stored.

use std::sync::LazyLock;

use admission::{AdmissionRequest, prepare_create, prepare_status_update, prepare_update};
use proptest::prelude::{ProptestConfig, any, proptest};
use schema::{FieldValidation, Resource, builtin, convert_unstructured, decode, resources, strategic_merge};
use serde_json::{Map, Value, json};

/// Objects to start from: recorded ones, and a pod that uses what they do not.
fn seeds() -> &'static [Value] {
    static SEEDS: LazyLock<Vec<Value>> = LazyLock::new(read_seeds);
    &SEEDS
}

fn read_seeds() -> Vec<Value> {
    let table: Value =
        serde_json::from_str(include_str!("vectors/defaulting.json")).expect("the vectors are JSON");
    let recorded = table["cases"].as_array().expect("a list").iter();
    let mut seeds: Vec<Value> =
        recorded.flat_map(|case| [case["input"].clone(), case["want"].clone()]).collect();
    seeds.push(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": {"a": "b"}, "finalizers": ["a.b/c"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y", "controller": true}]},
        "spec": {
            "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always", "ports": [{"containerPort": 1, "hostPort": 2}]}],
            "containers": [{
                "name": "c", "image": "i", "args": ["$(A)"],
                "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}}],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "m", "optional": true}}],
                "volumeMounts": [{"name": "v", "mountPath": "/m", "subPathExpr": "$(A)"}],
                "securityContext": {"allowPrivilegeEscalation": false, "seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}
            }],
            "securityContext": {"sysctls": [{"name": "net.x", "value": "1"}], "supplementalGroups": [1]},
            "volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}}]}}],
            "dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a.b"]},
            "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}],
            "resources": {"limits": {"cpu": "1"}}
        }
    }));
    seeds
}

/// A small generator of numbers, so that one seed describes a whole run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits fit") % sides.max(1)
    }

    fn value(&mut self) -> Value {
        match self.roll(14) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(-1),
            3 => json!(1.5),
            4 => json!(i64::MAX),
            5 => json!(""),
            6 => json!("a\u{0}\u{e9}$("),
            7 => json!("100000Ei"),
            8 => json!([]),
            9 => json!([null]),
            10 => json!({}),
            11 => json!({"$patch": "delete"}),
            12 => json!([{"name": "c", "$patch": "replace"}]),
            _ => json!("x".repeat(300)),
        }
    }

    /// Changes, removes or doubles something somewhere below.
    fn damage(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) if !fields.is_empty() && self.roll(5) > 0 => {
                let key = fields.keys().nth(self.roll(fields.len())).cloned().expect("in range");
                if self.roll(12) == 0 {
                    fields.remove(&key);
                } else if let Some(field) = fields.get_mut(&key) {
                    self.damage(field);
                }
            }
            Value::Array(items) if !items.is_empty() && self.roll(5) > 0 => {
                let index = self.roll(items.len());
                if self.roll(8) == 0 {
                    let copy = items[index].clone();
                    items.push(copy);
                } else {
                    self.damage(&mut items[index]);
                }
            }
            other => *other = self.value(),
        }
    }
}

fn resource_of(object: &Value) -> Option<&'static Resource> {
    resources()
        .iter()
        .find(|entry| object["apiVersion"] == entry.group_version && object["kind"] == entry.kind)
}

/// Decodes and creates a damaged object; gives back what would be stored.
fn create(resource: &Resource, damaged: &Value) -> Option<Value> {
    let ty = builtin().type_for(resource.group_version, resource.kind).expect("every kind here has a type");
    let mut object = decode(ty, damaged.to_string().as_bytes(), FieldValidation::Ignore).ok()?.value;
    prepare_create(resource, &mut object, &AdmissionRequest::default()).ok()?;
    Some(object)
}

fn is_stable(resource: &Resource, stored: &Value) {
    let ty = builtin().type_for(resource.group_version, resource.kind).expect("every kind here has a type");
    let again = decode(ty, stored.to_string().as_bytes(), FieldValidation::Strict);
    let again = again.unwrap_or_else(|error| panic!("{error}: {stored}")).value;
    assert_eq!(again, *stored, "what is stored is read back as it is");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_objects_are_refused_or_stored_in_canonical_form(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let seeds = seeds();
        let mut object = seeds[dice.roll(seeds.len())].clone();
        let resource = resource_of(&object).expect("seeds are of built-in kinds");
        for _ in 0..dice.roll(4) {
            dice.damage(&mut object);
        }
        let Some(stored) = create(resource, &object) else { return Ok(()) };
        is_stable(resource, &stored);
        let mut change = stored.clone();
        dice.damage(&mut change);
        let ty = builtin().type_for(resource.group_version, resource.kind).expect("every kind here has a type");
        if let Ok(mut new) = decode(ty, change.to_string().as_bytes(), FieldValidation::Ignore).map(|new| new.value) {
            let mut status = new.clone();
            if prepare_update(resource, &stored, &mut new, &AdmissionRequest::default()).is_ok() {
                is_stable(resource, &new);
            }
            if prepare_status_update(resource, &stored, &mut status).is_ok() {
                is_stable(resource, &status);
            }
        }
    }

    #[test]
    fn damaged_patches_do_not_panic(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let seeds = seeds();
        let live = &seeds[dice.roll(seeds.len())];
        let resource = resource_of(live).expect("seeds are of built-in kinds");
        let ty = builtin().type_for(resource.group_version, resource.kind).expect("every kind here has a type");
        let mut patch = live.clone();
        for _ in 0..=dice.roll(4) {
            dice.damage(&mut patch);
        }
        if !patch.is_object() {
            patch = Value::Object(Map::new());
        }
        if let Ok(merged) = strategic_merge(ty, live, &patch) {
            // Merging may give anything; converting it must answer, not panic.
            let _ = convert_unstructured(ty, &merged, FieldValidation::Strict);
        }
    }
}
