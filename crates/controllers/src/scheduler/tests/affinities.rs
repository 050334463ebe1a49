//! Affinity between pods.

use serde_json::{Value, json};

use super::{Desk, labelled, node, on, pod};

const ALONE: &str = "node(s) didn't match pod affinity rules";
const NOT_APART: &str = "node(s) didn't match pod anti-affinity rules";
const UNWELCOME: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
const HOST: &str = "kubernetes.io/hostname";

fn app(name: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": HOST})
}

fn required(kind: &str, terms: Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn preferred(kind: &str, term: Value) -> Value {
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 100, "podAffinityTerm": term}]}}})
}

fn with(mut term: Value, field: &str, value: Value) -> Value {
    term[field] = value;
    term
}

fn all(reason: &str) -> String {
    format!("0/3 nodes are available: 3 {reason}")
}

/// Three nodes, two in a zone; `db` in namespace `ns` on `b`, `web` in `other` on `c`.
fn desk() -> Desk {
    let zone = |name: &str, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let mut desk = Desk::new(&[zone("a", "1"), zone("b", "1"), zone("c", "2")]);
    desk.board.see_namespace("ns", Some([("team".to_owned(), "x".to_owned())].into()));
    desk.board.see_namespace("other", Some([("team".to_owned(), "y".to_owned())].into()));
    desk.see(&on(labelled(pod("db", json!({})), json!({"app": "db", "tier": "back"})), "b"));
    let mut web = on(labelled(pod("web", json!({})), json!({"app": "web"})), "c");
    web["metadata"]["namespace"] = json!("other");
    desk.see(&web);
    desk
}

#[test]
fn a_pod_goes_near_those_it_must_be_near_and_away_from_those_it_must_not() {
    let near = |term: Value| required("podAffinity", json!([term]));
    let apart = |term: Value| required("podAntiAffinity", json!([term]));
    let in_zone = |term: Value| with(term, "topologyKey", json!("zone"));
    let everywhere = |term: Value| with(term, "namespaceSelector", json!({}));
    let rows = [
        (near(app("db")), "b".to_owned()),
        (near(in_zone(app("db"))), "a".to_owned()),
        (near(with(app("db"), "topologyKey", json!("rack"))), all(ALONE)),
        (near(app("nobody")), all(ALONE)),
        // In another namespace.
        (near(app("web")), all(ALONE)),
        (near(with(app("web"), "namespaces", json!(["other"]))), "c".to_owned()),
        (near(everywhere(app("web"))), "c".to_owned()),
        (near(with(app("web"), "namespaceSelector", json!({"matchLabels": {"team": "y"}}))), "c".to_owned()),
        (near(with(app("web"), "namespaceSelector", json!({"matchLabels": {"team": "z"}}))), all(ALONE)),
        (apart(in_zone(app("db"))), "c".to_owned()),
        (apart(json!({"labelSelector": {}, "topologyKey": HOST})), "a".to_owned()),
        (apart(everywhere(json!({"labelSelector": {}, "topologyKey": "zone"}))), all(NOT_APART)),
        // Without a selector nobody is meant.
        (apart(json!({"topologyKey": "zone"})), "a".to_owned()),
        // One pod must be meant by all terms.
        (
            required(
                "podAffinity",
                json!([app("db"), {"labelSelector": {"matchLabels": {"tier": "back"}}, "topologyKey": "zone"}]),
            ),
            "b".to_owned(),
        ),
        (required("podAffinity", json!([app("db"), everywhere(app("web"))])), all(ALONE)),
        // What is only preferred.
        (preferred("podAffinity", app("db")), "b".to_owned()),
        (preferred("podAntiAffinity", in_zone(app("db"))), "c".to_owned()),
    ];
    for (spec, expected) in rows {
        assert_eq!(desk().outcome(&pod("p", spec.clone())), expected, "{spec}");
    }
}

#[test]
fn the_first_of_pods_that_want_to_be_together_is_let_in() {
    let spec = required("podAffinity", json!([app("new")]));
    assert_eq!(desk().outcome(&pod("p", spec.clone())), all(ALONE));
    let mut desk = desk();
    let first = labelled(pod("p", spec.clone()), json!({"app": "new"}));
    assert_eq!(desk.outcome(&first), "a");
    let second = labelled(pod("q", spec), json!({"app": "new"}));
    assert_eq!(desk.outcome(&second), "a");
}

#[test]
fn pods_that_are_there_keep_those_away_that_they_do_not_want_near() {
    let mut desk = desk();
    let term = with(app("noisy"), "topologyKey", json!("zone"));
    desk.see(&on(pod("shy", required("podAntiAffinity", json!([term]))), "a"));
    let noisy = |name: &str| labelled(pod(name, json!({})), json!({"app": "noisy"}));
    assert_eq!(desk.outcome(&noisy("p")), "c");
    assert_eq!(desk.outcome(&pod("quiet", json!({}))), "a");
    let mut pinned = noisy("q");
    pinned["spec"]["nodeSelector"] = json!({"zone": "1"});
    assert_eq!(
        desk.outcome(&pinned),
        format!(
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 {UNWELCOME}"
        )
    );
    desk.board.forget_pod("shy");
    assert_eq!(desk.turn(), ["q: a"], "whom it kept away comes in when it goes");
}

#[test]
fn what_pods_that_are_there_prefer_counts_as_well() {
    let mut desk = desk();
    desk.see(&on(pod("host", preferred("podAffinity", app("guest"))), "c"));
    assert_eq!(desk.outcome(&labelled(pod("p", json!({})), json!({"app": "guest"}))), "c");
}

#[test]
fn keys_of_labels_bind_a_term_to_the_pod_s_own_values() {
    let mut desk = desk();
    desk.see(&on(labelled(pod("v1", json!({})), json!({"app": "s", "version": "1"})), "a"));
    desk.see(&on(labelled(pod("v2", json!({})), json!({"app": "s", "version": "2"})), "c"));
    let own = |spec: Value| labelled(pod("p", spec), json!({"app": "s", "version": "2"}));
    let same = with(app("s"), "matchLabelKeys", json!(["version"]));
    assert_eq!(desk.outcome(&own(required("podAffinity", json!([same])))), "c");
    let mut desk = self::desk();
    desk.see(&on(labelled(pod("v1", json!({})), json!({"app": "s", "version": "1"})), "a"));
    let other = with(app("s"), "mismatchLabelKeys", json!(["version"]));
    assert_eq!(desk.outcome(&own(required("podAffinity", json!([other])))), "a");
}

#[test]
fn a_pod_that_waits_for_company_comes_when_it_comes() {
    let mut desk = desk();
    desk.see(&pod("p", required("podAffinity", json!([app("late")]))));
    assert_eq!(desk.turn().len(), 1);
    desk.see(&pod("unrelated", json!({})));
    desk.later(2);
    assert_eq!(desk.turn(), ["unrelated: a"]);
    desk.see(&on(labelled(pod("late", json!({})), json!({"app": "late"})), "c"));
    assert_eq!(desk.turn(), ["p: c"]);
    // Labels of pods and of namespaces count as they are now.
    let term = with(app("web"), "namespaceSelector", json!({"matchLabels": {"team": "new"}}));
    desk.see(&pod("q", required("podAffinity", json!([term]))));
    assert_eq!(desk.turn().len(), 1);
    desk.board.see_namespace("other", Some([("team".to_owned(), "new".to_owned())].into()));
    assert_eq!(desk.turn(), ["q: c"]);
}
