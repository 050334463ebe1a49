use kube::core::discovery::ApiResource;
use kube::core::discovery::v2::APIGroupDiscoveryList;
use serde_json::{Value, json};

use super::decision::{Found, Left, News, Remaining, discovered, is_pods};
use k8s_openapi::api::core::v1::NamespaceCondition;

use super::*;

fn resource(group: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") },
        kind: "Kind".to_owned(),
        plural: plural.to_owned(),
    }
}

fn found(uid: &str, finalizers: &[&str]) -> Found {
    let finalizers = finalizers.iter().map(|&one| one.to_owned()).collect();
    Found { name: uid.to_owned(), uid: uid.to_owned(), finalizers, leaving: true }
}

fn namespace(leaving: bool, finalizers: &[&str], more: &Value) -> Namespace {
    let mut namespace = json!({
        "metadata": {"name": "n", "deletionTimestamp": leaving.then_some("2026-01-01T00:00:00Z")},
        "spec": {"finalizers": finalizers},
    });
    if let (Some(into), Some(from)) = (namespace.as_object_mut(), more.as_object()) {
        into.extend(from.clone());
    }
    serde_json::from_value(namespace).expect("a namespace")
}

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).expect("a time"))
}

#[test]
fn a_namespace_is_emptied_when_it_ends_and_says_that_it_waits_for_that() {
    for (leaving, finalizers, expected) in [
        (false, &["kubernetes"][..], false),
        (true, &["kubernetes"], true),
        (true, &["example.com/x", "kubernetes"], true),
        (true, &["example.com/x"], false),
        (true, &[], false),
    ] {
        let namespace = namespace(leaving, finalizers, &json!({}));
        assert_eq!(is_to_be_emptied(&namespace), expected, "{leaving} {finalizers:?}");
        let left = finalized(&namespace).spec.and_then(|spec| spec.finalizers).unwrap_or_default();
        assert!(left.iter().all(|one| one != "kubernetes") && left.len() + 1 >= finalizers.len());
    }
}

#[test]
fn what_goes_with_a_namespace_is_all_that_can_be_listed_and_deleted_once_and_in_the_preferred_version() {
    let resource = |plural: &str, scope: &str, verbs: &[&str]| {
        let kind = json!({"group": "", "version": "", "kind": plural.to_uppercase()});
        json!({"resource": plural, "scope": scope, "verbs": verbs, "responseKind": kind})
    };
    let all = ["create", "delete", "get", "list"];
    let list = |groups: Value| -> APIGroupDiscoveryList {
        serde_json::from_value(json!({"items": groups})).expect("a list")
    };
    let core = list(json!([{"versions": [{"version": "v1", "freshness": "Current", "resources": [
        resource("pods", "Namespaced", &all),
        resource("nodes", "Cluster", &all),
        resource("bindings", "Namespaced", &["create"]),
        resource("hidden", "Namespaced", &["delete"]),
    ]}]}]));
    let others = list(json!([
        {"metadata": {"name": "autoscaling"}, "versions": [
            {"version": "v2", "resources": [resource("scalers", "Namespaced", &all)]},
            {"version": "v1", "resources": [resource("scalers", "Namespaced", &all), resource("older", "Namespaced", &all)]},
        ]},
        {"metadata": {"name": "away.example.com"}, "versions": [
            {"version": "v1", "freshness": "Stale", "resources": [resource("ghosts", "Namespaced", &all)]},
        ]},
    ]));
    let found = discovered(&core, &others);
    let shown: Vec<(&str, &str, &str)> = found
        .resources
        .iter()
        .map(|one| (one.api_version.as_str(), one.plural.as_str(), one.kind.as_str()))
        .collect();
    let expected = [
        ("v1", "pods", "PODS"),
        ("autoscaling/v2", "scalers", "SCALERS"),
        ("autoscaling/v1", "older", "OLDER"),
    ];
    assert_eq!(shown, expected);
    assert_eq!(found.failed, ["away.example.com/v1"]);
    assert_eq!(found.resources.iter().filter(|one| is_pods(one)).count(), 1);
    assert_eq!(discovered(&list(json!([])), &list(json!([]))), decision::Discovered::default());
}

#[test]
fn a_namespace_says_what_keeps_it() {
    let mut left = Left::default();
    left.note(&resource("", "pods"), &[found("a", &[]), found("b", &["example.com/x"])]);
    left.note(&resource("coordination.k8s.io", "leases"), &[found("c", &[])]);
    left.note(&resource("", "secrets"), &[]);
    let before = namespace(
        true,
        &["kubernetes"],
        &json!({"status": {"conditions": [
            {"type": "OfAnother", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]}}),
    );
    let first = news(&before, &left, &at(1)).expect("news");
    let shown: Vec<(&str, &str, &str)> = first
        .iter()
        .map(|one| {
            let text = |text: &'static str, own: &Option<String>| own.clone().map_or(text, |own| own.leak());
            (one.status.as_str(), text("", &one.reason), text("", &one.message))
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("False", "ResourcesDiscovered", "All resources successfully discovered"),
            ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
            ("False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            (
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: leases.coordination.k8s.io has 1 resource instances, pods. has 2 resource instances"
            ),
            (
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances"
            ),
            ("True", "", ""),
        ]
    );
    let with = |conditions: &[NamespaceCondition]| {
        namespace(true, &["kubernetes"], &json!({"status": {"conditions": conditions}}))
    };
    let mut fewer = Left::default();
    fewer.note(&resource("", "pods"), &[found("a", &[])]);
    let second = news(&with(&first), &fewer, &at(9)).expect("news");
    assert_eq!(second[3].last_transition_time, Some(at(1)), "still so");
    assert_eq!(second[4].last_transition_time, Some(at(9)), "no longer so");
    assert_eq!(news(&with(&second), &fewer, &at(20)), None, "nothing new");
}

#[test]
fn what_could_not_be_deleted_or_discovered_is_told_and_thousands_of_words_are_not() {
    let mut left = Left::default();
    left.failures.extend((0..5000).map(|number| format!("no {number:04}")));
    left.unknown.push("away.example.com/v1".to_owned());
    assert!(left.is_trouble());
    let told = news(&namespace(true, &["kubernetes"], &json!({})), &left, &at(0)).expect("news");
    let message = |index: usize| told[index].message.clone().unwrap_or_default();
    assert_eq!(told[0].reason.as_deref(), Some("DiscoveryFailed"));
    assert_eq!(
        message(0),
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
         away.example.com/v1: stale GroupVersion discovery: away.example.com/v1"
    );
    assert_eq!(told[2].reason.as_deref(), Some("ContentDeletionFailed"));
    assert!(
        message(2).starts_with("Failed to delete all resource types, 5000 remaining: no 0000, no 0001, ")
    );
    assert!(message(2).ends_with(", no 0031, and 4968 more"), "{}", message(2));
}

#[test]
fn a_namespace_that_goes_at_once_says_nothing_and_one_that_somebody_keeps_says_that_it_is_empty() {
    let nothing = Left::default();
    assert_eq!(news(&namespace(true, &["kubernetes"], &json!({})), &nothing, &at(0)), None);
    let kept = namespace(true, &["kubernetes", "example.com/x"], &json!({}));
    let told = news(&kept, &nothing, &at(0)).expect("news");
    assert!(told.iter().all(|one| one.status == "False"));
    assert_eq!(told[3].reason.as_deref(), Some("ContentRemoved"));
}

#[test]
fn who_waits_hears_when_the_last_object_is_gone_and_of_nothing_that_changes_nothing() {
    let mut remaining =
        Remaining::new(resource("", "pods"), "7".to_owned(), &[found("a", &[]), found("b", &["x"])]);
    assert_eq!(remaining.there(found("a", &[])), News::None, "only its status has changed");
    assert_eq!(remaining.there(found("b", &[])), News::Some, "nothing keeps it any more");
    assert_eq!(remaining.there(found("late", &[])), News::Some);
    assert_eq!(remaining.gone(&found("a", &[])), News::Some);
    assert_eq!(remaining.gone(&found("late", &[])), News::Some);
    assert_eq!(remaining.gone(&found("b", &[])), News::Gone);
}
