//! What a document says outside of its containers, and documents of other kinds.

use super::*;

/// Kind, place, message and hint of each finding of an object.
fn of_objects(explanation: &Explanation) -> Vec<String> {
    let objects = explanation.objects.iter().flat_map(|object| {
        let kind = object.record.kind.as_str();
        object.record.findings.iter().map(move |finding| (kind, finding))
    });
    objects
        .map(|(kind, finding)| {
            let at = finding.position.as_ref().map(|at| format!("{}:{}", at.line, at.column));
            let hint = finding.hint.replace(" (Kubernetes drops it, kubectl refuses it)", "");
            format!("{kind} {} {} | {hint}", at.unwrap_or_default(), finding.message)
        })
        .collect()
}

#[test]
fn an_unknown_field_outside_of_every_container_is_told_with_what_was_meant() {
    for (text, wanted) in [
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  contianers: []\n",
            vec![
                "Pod 4:1 spec.containers: Required value | give the pod at least one container",
                "Pod 5:3 unknown field \"spec.contianers\" | did you mean \"containers\"?",
            ],
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndat: {A: b}\n",
            vec!["ConfigMap 4:1 unknown field \"dat\" | did you mean \"data\"?"],
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\n  lables: {}\nspec: {}\n",
            vec!["Service 5:3 unknown field \"metadata.lables\" | did you mean \"labels\"?"],
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replica: 2\n  template:\n    spec:\n      containers: [{name: c}]\n    restartPolicy: Always\n",
            vec![
                "Deployment 5:3 unknown field \"spec.replica\" | did you mean \"replicas\"?",
                "Deployment 9:5 unknown field \"spec.template.restartPolicy\" | it is a field of spec: move it there",
            ],
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c}]\n  env: []\n",
            vec!["Pod 6:3 unknown field \"spec.env\" | it is a field of containers[]: move it there"],
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {A: b}\ndata: {A: c}\n",
            vec![
                "ConfigMap 5:1 key data was written before at line 4; the last one wins | remove one of them",
            ],
        ),
        (
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\nspec: {rule: []}\n",
            vec!["Ingress 4:8 unknown field \"spec.rule\" | did you mean \"rules\"?"],
        ),
        (
            "apiVersion: v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: {containers: [{name: c}]}}}\n",
            vec![
                "Deployment 1:13 no matches for kind \"Deployment\" in version \"v1\" | write apiVersion: apps/v1",
            ],
        ),
        (
            "apiVersion: v1\nkind: ConfgMap\nmetadata: {name: d}\n",
            vec!["ConfgMap 2:7 no matches for kind \"ConfgMap\" in version \"v1\" | did you mean ConfigMap?"],
        ),
        (
            "apiVersion: v1\nkind: List\nitem:\n- {apiVersion: v1, kind: Pod}\n",
            vec!["List 3:1 unknown field \"item\" | did you mean \"items\"?"],
        ),
        (
            "apiVersion: v1\nkind: List\nitems: []\nitems: []\n",
            vec!["List 4:1 key items was written before at line 3; the last one wins | remove one of them"],
        ),
    ] {
        let explanation = explanation(text);
        assert_eq!(of_objects(&explanation), wanted, "{text}");
        assert_eq!(mistakes(&explanation), Vec::<String>::new(), "{text}");
        assert_eq!(exit_status(&explanation, false), ExitCode::SUCCESS, "{text}");
        assert_eq!(exit_status(&explanation, true), ExitCode::from(1), "{text}");
    }
}

#[test]
fn the_table_shows_an_unknown_field_with_its_key() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndat:\n  A: b\n";
    insta::assert_snapshot!(table::render(&explanation(text), false), @r#"
    configmap default/m  f.yaml:1

    warning[unknown-field]: unknown field "dat"
     --> f.yaml:4:1
      |
    4 | dat
      | ^^^
      |
      = help: did you mean "data"? (Kubernetes drops it, kubectl refuses it)
    "#);
}

#[test]
fn every_value_of_a_wrong_type_is_told_at_its_place() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a.b/c: 1}}\nspec:\n  containers:\n  - name: a\n    env:\n    - {name: A, value: \"x\"}\n  - name: b\n    imgae: x\n    env:\n    - {name: B, value: 8080}\n    command: /bin/sh\n    resources: {limits: {cpu: lots}}\n";
    let explanation = explanation(text);
    let shown = mistakes(&explanation).join("\n");
    for place in ["f.yaml:3:37", "f.yaml:12:24", "f.yaml:13:14", "f.yaml:14:31"] {
        assert!(shown.contains(place), "{place}: {shown}");
    }
    assert!(
        shown.contains("put it in quotes: \"8080\"") && shown.contains("begin each entry with"),
        "{shown}"
    );
    assert!(shown.contains("spec.containers[1].resources.limits.cpu: quantities must match"), "{shown}");
    let unknown = of_objects(&explanation);
    assert!(unknown[0].contains("unknown field \"spec.containers[1].imgae\""), "{unknown:?}");
    assert_eq!(exit_status(&explanation, false), ExitCode::from(2));
}

#[test]
fn an_object_without_api_version_is_told_which_to_write() {
    let explanation = explanation("kind: ConfigMap\nmetadata: {name: m}\ndata: {A: b}\n");
    let shown = mistakes(&explanation).join("\n");
    assert!(shown.contains("ConfigMap has no apiVersion") && shown.contains("f.yaml:1:7"), "{shown}");
    assert!(shown.contains("write apiVersion: v1 above it"), "{shown}");
}

#[test]
fn items_of_a_typed_list_are_explained() {
    let text = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: p}\n  spec:\n    containers:\n    - name: c\n      env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: k}}}]\n---\napiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: m}\n  data: {k: from the list}\n";
    let explanation = explanation(text);
    assert_eq!(display(&explanation, "A"), "from the list");
    assert_eq!(of_objects(&explanation), Vec::<String>::new());
}

#[test]
fn findings_of_objects_stay_when_one_container_is_asked_for() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndat: {}\n";
    let mut explanation = explanation(text);
    explanation.keep_container("c");
    assert_eq!(of_objects(&explanation).len(), 1);
    let record: serde_json::Value = serde_json::from_str(&output::json(&explanation)).expect("JSON");
    assert_eq!(record["objects"][0]["findings"][0]["code"], "unknown-field");
    assert_eq!(record["objects"][0]["kind"], "ConfigMap");
}
