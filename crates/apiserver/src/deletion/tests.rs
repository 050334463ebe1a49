use jiff::Timestamp;
use serde_json::{Value, json};

use super::{DeleteOptions, Plan, Propagation, finalizers_after, plan};
use crate::kinds::KindTable;
use crate::strategy::DefaultPropagation;

fn pod(node: &str, phase: &str, grace: Value) -> Value {
    json!({"metadata": {"name": "p", "generation": 1}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": grace},
        "status": {"phase": phase}})
}

fn decide(plural: &str, old: &Value, requested: Option<i64>) -> (Plan, String) {
    let kinds = KindTable::builtin().expect("the schema has them");
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let options = DeleteOptions { grace_seconds: requested, ..DeleteOptions::default() };
    let plan = plan(kinds.core(plural).expect("served"), old, &options, now);
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

#[test]
fn what_becomes_of_dependents_is_said_by_the_client_then_by_the_object_then_by_its_kind() {
    use DefaultPropagation as Default;
    let none: &[&str] = &[];
    let says = |propagation| DeleteOptions::propagating(propagation);
    let orphans = |value| DeleteOptions { orphan_dependents: Some(value), ..DeleteOptions::default() };
    let nothing = DeleteOptions::default;
    let table = [
        (Default::Background, nothing(), none, none),
        (Default::Background, says(Propagation::Foreground), none, &["foregroundDeletion"]),
        (Default::Background, says(Propagation::Orphan), none, &["orphan"]),
        (Default::Background, orphans(true), none, &["orphan"]),
        (Default::Background, orphans(false), none, none),
        (Default::Orphan, nothing(), none, &["orphan"]),
        (Default::Orphan, says(Propagation::Background), none, none),
        (Default::Orphan, orphans(false), none, none),
        (Default::Unsupported, says(Propagation::Foreground), none, none),
        (Default::Background, nothing(), &["foregroundDeletion"], &["foregroundDeletion"]),
        (Default::Background, nothing(), &["orphan", "a.b/c"], &["a.b/c", "orphan"]),
        (Default::Orphan, nothing(), &["foregroundDeletion"], &["foregroundDeletion"]),
        (Default::Background, says(Propagation::Background), &["a.b/c", "foregroundDeletion"], &["a.b/c"]),
        (Default::Background, says(Propagation::Orphan), &["foregroundDeletion"], &["orphan"]),
        (Default::Background, orphans(false), &["foregroundDeletion"], none),
    ];
    for (default, options, own, expected) in table {
        let old = json!({"metadata": {"name": "c", "finalizers": own}});
        assert_eq!(
            json!(finalizers_after(default, &options, &old)),
            json!(expected),
            "{default:?} {options:?} {own:?}"
        );
    }
}

#[test]
fn a_second_deletion_may_say_anew_what_becomes_of_dependents_but_not_of_a_pod_that_ends() {
    let kinds = KindTable::builtin().expect("the schema has them");
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let again = |plural: &str, old: &Value, propagation| {
        plan(kinds.core(plural).expect("served"), old, &DeleteOptions::propagating(propagation), now)
    };
    let old = json!({"metadata": {"name": "c"}});
    let Plan::Mark(marked) = again("configmaps", &old, Propagation::Foreground) else { panic!("marked") };
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(again("configmaps", &marked, Propagation::Foreground), Plan::Leave);
    assert_eq!(again("configmaps", &marked, Propagation::Background), Plan::Remove);
    let Plan::Mark(other) = again("configmaps", &marked, Propagation::Orphan) else { panic!("marked") };
    assert_eq!(other["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(other["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    let Plan::Mark(ending) = again("pods", &pod("n", "Running", json!(30)), Propagation::Foreground) else {
        panic!("marked")
    };
    assert_eq!(ending["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(again("pods", &ending, Propagation::Background), Plan::Leave);
}
