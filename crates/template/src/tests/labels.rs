//! Labels: on objects, in pod templates, in selectors; and where they do not go.

use serde_json::{Value, json};

use super::{Run, findings, problems, processed};
use crate::INSTANCE_LABEL;

fn template(objects: Value) -> Value {
    json!({"kind": "Template", "apiVersion": crate::API_VERSION, "labels": {"t": "1"}, "objects": objects})
}

/// What the objects become.
fn objects(template: &Value) -> Vec<Value> {
    processed(&Run::of_json(template)).objects.iter().map(manifest::Node::to_json).collect()
}

fn pods(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": []}})
}

fn pod(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {}})
}

#[test]
fn every_object_gets_them_whether_or_not_it_has_labels_or_metadata() {
    let all = template(json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "labels": {"x": "y"}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": null}},
        {"apiVersion": "example.com/v1", "kind": "Service"},
    ]));
    let labels: Vec<Value> =
        objects(&all).iter().map(|object| object["metadata"]["labels"].clone()).collect();
    assert_eq!(
        labels,
        [json!({"t": "1"}), json!({"t": "1", "x": "y"}), json!({"t": "1"}), json!({"t": "1"})]
    );
}

#[test]
fn selectors_of_the_listed_kinds_and_their_pod_templates_get_them() {
    let a = json!({"a": "b"});
    let wanted = json!({"a": "b", "t": "1"});
    let own = [
        ("v1", "ReplicationController", false),
        ("apps.openshift.io/v1", "DeploymentConfig", false),
        ("apps/v1", "Deployment", true),
        ("apps/v1", "ReplicaSet", true),
        ("apps/v1", "StatefulSet", true),
        ("apps/v1", "DaemonSet", true),
    ];
    for (api_version, kind, has_match_labels) in own {
        let selector = if has_match_labels { json!({"matchLabels": a}) } else { a.clone() };
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": "o"},
            "spec": {"selector": selector, "template": pods(&a)},
        });
        let result = objects(&template(json!([object])))[0].clone();
        let selector = &result["spec"]["selector"];
        let selector = if has_match_labels { &selector["matchLabels"] } else { selector };
        assert_eq!(*selector, wanted, "{kind}");
        assert_eq!(result["spec"]["template"]["metadata"]["labels"], wanted, "{kind}");
    }
    let selecting = [
        ("v1", "Service", "selector", a.clone()),
        ("policy/v1", "PodDisruptionBudget", "selector", json!({"matchLabels": a})),
        ("networking.k8s.io/v1", "NetworkPolicy", "podSelector", json!({"matchLabels": a})),
    ];
    for (api_version, kind, field, selector) in selecting {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "o"}, "spec": {field: selector}});
        let result = objects(&template(json!([object, pod("p", a.clone())])))[0].clone();
        let selector = &result["spec"][field];
        let selector = if kind == "Service" { selector } else { &selector["matchLabels"] };
        assert_eq!(*selector, wanted, "{kind}");
    }
}

#[test]
fn selectors_that_are_empty_or_not_there_stay_so() {
    let rows = [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "o"}, "spec": {}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "o"}, "spec": {"selector": {}}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "o"}, "spec": {"selector": null}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "o"},
               "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "o"},
               "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "o"},
               "spec": {"selector": {"matchLabels": {"a": "b"}}}}),
        json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "o"}, "spec": {"selector": {"a": "b"}}}),
    ];
    for row in rows {
        let spec = row["spec"].clone();
        let template = template(json!([row, pod("p", json!({"a": "b"}))]));
        let result = processed(&Run::of_json(&template));
        assert_eq!(result.objects[0].to_json()["spec"], spec, "{row}");
        assert!(result.findings.is_empty(), "{row}: {:?}", result.findings);
    }
}

#[test]
fn jobs_keep_their_selectors_and_their_pods_get_labels() {
    let job = |spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec});
    let plain = objects(&template(json!([job(json!({"template": {"spec": {}}}))])))[0].clone();
    assert_eq!(plain["spec"], json!({"template": {"metadata": {"labels": {"t": "1"}}, "spec": {}}}));
    let selector = json!({"matchLabels": {"a": "b"}});
    let automatic = job(json!({"selector": selector, "template": pods(&json!({"a": "b"}))}));
    assert_eq!(objects(&template(json!([automatic])))[0]["spec"]["selector"], selector);
    let manual =
        job(json!({"manualSelector": true, "selector": selector, "template": pods(&json!({"a": "b"}))}));
    assert_eq!(
        objects(&template(json!([manual])))[0]["spec"]["selector"],
        json!({"matchLabels": {"a": "b", "t": "1"}})
    );
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
        "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}});
    let cron = objects(&template(json!([cron])))[0].clone();
    assert_eq!(cron["spec"]["jobTemplate"]["metadata"]["labels"], json!({"t": "1"}));
    assert_eq!(cron["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"], json!({"t": "1"}));
}

#[test]
fn a_selector_that_points_outside_of_the_template_is_left_alone_and_reported() {
    let service = |selector: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": selector}});
    let rows = [
        (service(json!({"app": "elsewhere"})), pod("p", json!({"app": "here"}))),
        (service(json!({"app": "here", "tier": "x"})), pod("p", json!({"app": "here"}))),
        (
            service(json!({"app": "here"})),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "labels": {"app": "here"}}}),
        ),
    ];
    for (service, pod) in rows {
        let selector = service["spec"]["selector"].clone();
        let result = processed(&Run::of_json(&template(json!([service, pod]))));
        assert_eq!(result.objects[0].to_json()["spec"]["selector"], selector);
        assert_eq!(findings(&result.findings), ["objects[0].spec.selector template-selector-outside"]);
    }
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": {
        "matchLabels": {"app": "here"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["db"]}]}}});
    let result =
        processed(&Run::of_json(&template(json!([budget, pod("p", json!({"app": "here", "tier": "web"}))]))));
    assert_eq!(
        findings(&result.findings),
        ["objects[0].spec.selector.matchLabels template-selector-outside"]
    );
}

#[test]
fn an_equal_key_is_overwritten_and_reported() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"t": "0", "u": "1"}},
        "spec": {"selector": {"matchLabels": {"t": "0"}}, "template": pods(&json!({"t": "0"}))}});
    let result = processed(&Run::of_json(&template(json!([deployment]))));
    let object = result.objects[0].to_json();
    assert_eq!(object["metadata"]["labels"], json!({"t": "1", "u": "1"}));
    assert_eq!(object["spec"]["selector"]["matchLabels"], json!({"t": "1"}));
    assert_eq!(object["spec"]["template"]["metadata"]["labels"], json!({"t": "1"}));
    assert_eq!(
        findings(&result.findings),
        [
            "objects[0].metadata.labels template-label-overwritten",
            "objects[0].spec.template.metadata.labels template-label-overwritten",
            "objects[0].spec.selector.matchLabels template-label-overwritten",
        ]
    );
}

#[test]
fn two_instances_share_no_selector() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pods(&json!({"app": "web"}))}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}}});
    let all = json!({"kind": "Template", "apiVersion": crate::API_VERSION, "objects": [deployment, service]});
    let made = |instance| {
        let mut run = Run::of_json(&all);
        run.instance = Some(instance);
        processed(&run).objects.iter().map(manifest::Node::to_json).collect::<Vec<_>>()
    };
    for instance in ["one", "two"] {
        let objects = made(instance);
        for place in [
            "/0/metadata/labels",
            "/0/spec/selector/matchLabels",
            "/0/spec/template/metadata/labels",
            "/1/spec/selector",
        ] {
            let all = Value::from(objects.clone());
            assert_eq!(all.pointer(place).expect(place)[INSTANCE_LABEL], instance, "{place}");
        }
    }
}

#[test]
fn labels_of_the_request_win_and_all_are_checked() {
    let mut run = Run::of_json(&template(
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}]),
    ));
    run.labels = vec![("t".to_owned(), "2".to_owned()), ("u".to_owned(), "3".to_owned())];
    assert_eq!(processed(&run).objects[0].to_json()["metadata"]["labels"], json!({"t": "2", "u": "3"}));
    run.labels = vec![("not a key".to_owned(), "2".to_owned()), ("u".to_owned(), "not a value".to_owned())];
    assert_eq!(problems(&run), ["labels template-label-invalid", "labels template-label-invalid"]);

    let mut all = template(json!([]));
    all["parameters"] = json!([{"name": "A", "value": "same"}, {"name": "B", "value": "same"}, {"name": "C", "value": "x y"}]);
    all["labels"] = json!({"$(A)": "1", "$(B)": "2", "l": "$(C)"});
    assert_eq!(
        problems(&Run::of_json(&all)),
        ["labels template-keys-collide", "labels template-label-invalid"]
    );
    all["objectLabels"] = json!({});
    assert_eq!(problems(&Run::of_json(&all))[0], "objectLabels template-labels-twice");
    let old = json!({"kind": "Template", "apiVersion": "v1", "objectLabels": {"t": "1"}, "objects": [pod("p", json!({}))]});
    assert_eq!(objects(&old)[0]["metadata"]["labels"], json!({"t": "1"}));
}

#[test]
fn objects_of_one_kind_and_name_are_reported() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let result = processed(&Run::of_json(&template(json!([map, map]))));
    assert_eq!(findings(&result.findings), ["objects[1].metadata.name template-object-duplicate"]);
}
