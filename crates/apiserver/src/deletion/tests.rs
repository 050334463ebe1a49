use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Plan, plan};
use crate::kinds::KindTable;

fn pod(node: &str, phase: &str, grace: Value) -> Value {
    json!({"metadata": {"name": "p", "generation": 1}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": grace},
        "status": {"phase": phase}})
}

fn decide(plural: &str, old: &Value, requested: Option<i64>) -> (Plan, String) {
    let kinds = KindTable::builtin().expect("the schema has them");
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let plan = plan(kinds.core(plural).expect("served"), old, requested, now);
    let shown = match &plan {
        Plan::Remove => "remove".to_owned(),
        Plan::Leave => "leave".to_owned(),
        Plan::Mark(new) => format!(
            "{} {} gen {}",
            new["metadata"]["deletionTimestamp"],
            new["metadata"]["deletionGracePeriodSeconds"],
            new["metadata"]["generation"]
        ),
    };
    (plan, shown)
}

#[test]
fn a_pod_gets_its_grace_unless_nothing_runs() {
    let table = [
        (pod("n", "Running", json!(30)), None, r#""2026-01-01T00:00:30Z" 30 gen 2"#),
        (pod("n", "Running", json!(null)), None, r#""2026-01-01T00:00:30Z" 30 gen 2"#),
        (pod("n", "Running", json!(30)), Some(5), r#""2026-01-01T00:00:05Z" 5 gen 2"#),
        (pod("n", "Running", json!(30)), Some(-1), r#""2026-01-01T00:00:01Z" 1 gen 2"#),
        (pod("n", "Running", json!(30)), Some(0), "remove"),
        (pod("", "Pending", json!(30)), None, "remove"),
        (pod("n", "Succeeded", json!(30)), None, "remove"),
        (pod("n", "Failed", json!(30)), Some(60), "remove"),
    ];
    for (old, requested, expected) in table {
        assert_eq!(decide("pods", &old, requested).1, expected, "{old} {requested:?}");
    }
}

#[test]
fn a_later_deletion_only_shortens_the_grace() {
    let (Plan::Mark(marked), _) = decide("pods", &pod("n", "Running", json!(30)), None) else {
        panic!("marked")
    };
    assert_eq!(decide("pods", &marked, None).1, "leave");
    assert_eq!(decide("pods", &marked, Some(40)).1, "leave");
    assert_eq!(decide("pods", &marked, Some(10)).1, r#""2026-01-01T00:00:10Z" 10 gen 2"#);
    assert_eq!(decide("pods", &marked, Some(0)).1, "remove");
}

#[test]
fn finalizers_keep_an_object_after_its_grace() {
    let mut old = pod("n", "Running", json!(30));
    old["metadata"]["finalizers"] = json!(["example.com/x"]);
    let (Plan::Mark(marked), shown) = decide("pods", &old, Some(0)) else { panic!("marked") };
    assert_eq!(shown, r#""2026-01-01T00:00:00Z" 0 gen 2"#);
    assert_eq!(decide("pods", &marked, Some(0)).1, "leave");
    let config_map = json!({"metadata": {"name": "c", "finalizers": ["example.com/x"]}});
    assert_eq!(decide("configmaps", &config_map, None).1, r#""2026-01-01T00:00:00Z" 0 gen null"#);
    assert_eq!(decide("configmaps", &json!({"metadata": {"name": "c"}}), Some(9)).1, "remove");
}

#[test]
fn a_namespace_ends_when_it_is_empty() {
    let old = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let (Plan::Mark(marked), _) = decide("namespaces", &old, None) else { panic!("marked") };
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(decide("namespaces", &marked, None).1, "leave");
}
