//! Rows that the recorded table does not have.

use serde_json::{Value, json};

use super::{MergeError, strategic_merge};
use crate::builtin;

fn check(kind: &str, live: &Value, patch: &Value) -> Result<Value, MergeError> {
    strategic_merge(builtin().type_for("v1", kind).expect("a core kind"), live, patch)
}

#[test]
fn finalizers_are_merged_as_a_set() {
    let live = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"finalizers": ["c", "a"]}});
    let merged = check("Pod", &live, &patch).expect("a valid patch");
    assert_eq!(merged, json!({"metadata": {"finalizers": ["c", "a", "b"]}}));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
    let merged = check("Pod", &live, &patch).expect("a valid patch");
    assert_eq!(merged, json!({"metadata": {"finalizers": ["b"]}}));
}

#[test]
fn status_conditions_merge_by_type() {
    let live = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]}});
    let patch = json!({"status": {
        "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "X"}],
        "conditions": [{"type": "Ready", "status": "True"}]
    }});
    let merged = check("Pod", &live, &patch).expect("a valid patch");
    assert_eq!(
        merged["status"]["conditions"],
        json!([{"type": "Ready", "status": "True"}, {"type": "X", "status": "True"}])
    );
}

#[test]
fn nulls_delete_and_new_objects_lose_their_directives() {
    let live = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    let patch = json!({"metadata": {"labels": {"a": null, "z": null}, "annotations": {"k": "v", "n": null}},
        "spec": {"volumes": [{"$patch": "replace"}, {"name": "v", "$retainKeys": ["name"]}]}});
    let merged = check("Pod", &live, &patch).expect("a valid patch");
    assert_eq!(
        merged,
        json!({"metadata": {"labels": {"b": "2"}, "annotations": {"k": "v"}}, "spec": {"volumes": [{"name": "v"}]}})
    );
}

#[test]
fn malformed_patches_are_told_in_the_words_of_upstream() {
    let live = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "v", "emptyDir": {}}]}});
    let cases = [
        (
            json!({"spec": {"containers": [{"image": "i"}]}}),
            "map: map[image:i] does not contain declared merge key: name",
            500,
        ),
        (
            json!({"spec": {"containers": [{"$patch": "delete"}]}}),
            "map: map[$patch:delete] does not contain declared merge key: name",
            500,
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "secret": {}}]}}),
            "invalid patch format of retainKeys",
            400,
        ),
        (
            json!({"spec": {"$setElementOrder/containers": {}}}),
            "invalid patch format of setElementOrder list",
            400,
        ),
        (json!({"spec": {"containers": [[]]}}), "lists of lists are not supported", 422),
        (json!([]), "invalid JSON document", 400),
    ];
    for (patch, message, code) in cases {
        let error = check("Pod", &live, &patch).expect_err("a malformed patch");
        assert_eq!((error.to_string().as_str(), error.status_code()), (message, code), "{patch}");
    }
}

#[test]
fn long_lists_are_merged_without_searching_them_again_and_again() {
    let env = |value: &str| -> Vec<Value> {
        (0..20_000).map(|i| json!({"name": format!("V{i}"), "value": value})).collect()
    };
    let pod = |value: &str| json!({"spec": {"containers": [{"name": "c", "env": env(value)}]}});
    let started = std::time::Instant::now();
    let merged = check("Pod", &pod("a"), &pod("b")).expect("a valid patch");
    assert_eq!(merged, pod("b"));
    // Quadratic search takes minutes in this build; this is no measurement.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
