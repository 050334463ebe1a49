//! Rules, one table or sequence each.

use serde_json::{Value, json};

use super::super::{
    FieldSet, ManagedFields, Write, check, compare, fields_of, merge_applied, same_but_times,
};
use crate::table::{Type, builtin};

fn ty(kind: &str) -> Type {
    let group_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
    builtin().type_for(group_version, kind).expect("a built-in kind")
}

fn write<'w>(kind: &str, manager: &'w str, now: &'w str) -> Write<'w> {
    Write {
        ty: ty(kind),
        api_version: "v1",
        versions: &["v1"],
        manager,
        subresource: "",
        ignored: &[&["status"]],
        now,
    }
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
}

fn set(value: Value) -> FieldSet {
    FieldSet::parse(&value).expect("a set")
}

#[test]
fn a_new_pod_is_owned_as_the_real_server_says_it() {
    let object = json!({
        "metadata": {"name": "web", "namespace": "default", "labels": {"run": "web"}, "creationTimestamp": null},
        "spec": {
            "containers": [{
                "name": "web", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "args": ["a", "b"],
            }],
            "nodeSelector": {"a": "b"}, "dnsPolicy": "ClusterFirst", "securityContext": {},
            "imagePullSecrets": [{"name": "s"}], "tolerations": [{"key": "k"}],
        },
        "status": {"phase": "Pending"},
    });
    let change = compare(ty("Pod"), None, &object, &[&["status"]]);
    assert!(change.removed.is_empty());
    assert_eq!(
        change.taken.into_value(),
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:run": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"web\"}": {
                    ".": {}, "f:name": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:resources": {}, "f:args": {},
                    "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                        ".": {}, "f:containerPort": {}, "f:protocol": {}
                    }},
                }},
                "f:nodeSelector": {}, "f:dnsPolicy": {}, "f:securityContext": {}, "f:tolerations": {},
                "f:imagePullSecrets": {".": {}, "k:{\"name\":\"s\"}": {}},
            },
        })
    );
}

#[test]
fn sets_finalizers_and_atomic_items_are_told_apart() {
    let object = json!({"metadata": {
        "finalizers": ["a/b", "c"], "ownerReferences": [{"uid": "1", "name": "o", "kind": "K", "apiVersion": "v1"}]
    }});
    assert_eq!(
        fields_of(ty("ConfigMap"), &object, &[]).into_value(),
        json!({"f:metadata": {
            "f:finalizers": {"v:\"a/b\"": {}, "v:\"c\"": {}},
            "f:ownerReferences": {"k:{\"uid\":\"1\"}": {}},
        }})
    );
    let mut other = object.clone();
    other["metadata"]["ownerReferences"][0]["name"] = json!("x");
    other["metadata"]["finalizers"] = json!(["c"]);
    let change = compare(ty("ConfigMap"), Some(&object), &other, &[]);
    assert_eq!(
        change.taken.into_value(),
        json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}}})
    );
    assert_eq!(change.removed.into_value(), json!({"f:metadata": {"f:finalizers": {"v:\"a/b\"": {}}}}));
}

#[test]
fn ports_that_differ_by_protocol_only_are_two() {
    let service = |ports: Value| json!({"spec": {"ports": ports}});
    let old = service(json!([{"port": 53, "protocol": "TCP"}]));
    let new = service(
        json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "targetPort": 5353}]),
    );
    let change = compare(ty("Service"), Some(&old), &new, &[]);
    assert_eq!(
        change.taken.into_value(),
        json!({"f:spec": {"f:ports": {"k:{\"port\":53,\"protocol\":\"UDP\"}": {
            ".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}
        }}}})
    );
}

#[test]
fn set_algebra_has_a_row_each() {
    let one = || set(json!({"f:a": {".": {}, "f:b": {}, "f:c": {"f:d": {}}}, "f:x": {}}));
    let other = || set(json!({"f:a": {"f:b": {}, "f:e": {}}, "f:x": {"f:y": {}}}));
    let mut both = one();
    both.unite(&other());
    assert_eq!(
        both.into_value(),
        json!({"f:a": {".": {}, "f:b": {}, "f:c": {"f:d": {}}, "f:e": {}}, "f:x": {".": {}, "f:y": {}}})
    );
    assert_eq!(one().intersection(&other()).into_value(), json!({"f:a": {"f:b": {}}}));
    let mut left = one();
    left.subtract(&other());
    assert_eq!(left.into_value(), json!({"f:a": {".": {}, "f:c": {"f:d": {}}}, "f:x": {}}));
    let mut left = one();
    left.subtract_with_children(&set(json!({"f:a": {"f:c": {}}})));
    assert_eq!(left.into_value(), json!({"f:a": {".": {}, "f:b": {}}, "f:x": {}}));
    assert_eq!(one().leaves().into_value(), json!({"f:a": {"f:b": {}, "f:c": {"f:d": {}}}, "f:x": {}}));
    let paths: Vec<String> = one().paths().iter().map(|path| super::super::display_path(path)).collect();
    assert_eq!(paths, [".a", ".x", ".a.b", ".a.c.d"]);
    assert!(
        one().contains(&["f:a", "f:c", "f:d"]) && !one().contains(&["f:a", "f:c"]) && !one().contains(&[])
    );
}

#[test]
fn elements_have_one_spelling_and_what_is_not_known_is_left_out() {
    let told = json!({
        "k:{\"protocol\": \"TCP\", \"port\": 80}": {"f:port": {}}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {},
        "v: \"x\"": {}, "i:007": {}, "z:new": {"f:x": {}}, "f:": {}
    });
    assert_eq!(
        set(told).into_value(),
        json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}, "v:\"x\"": {}, "i:7": {}, "f:": {}})
    );
    for (broken, message) in [
        (json!({"f": {}}), "key must be 2 characters long"),
        (json!({"fx:": {}}), "missing colon: fx:"),
        (json!({"i:x": {}}), "parsing key as path element: i:x"),
        (json!({"k:[]": {}}), "parsing key as path element: k:[]"),
        (json!({"f:a": 1}), "expect an object, but found something else"),
        (json!([]), "expect an object, but found something else"),
    ] {
        let error = FieldSet::parse(&broken).expect_err("no set");
        assert_eq!(error.to_string(), message, "{broken}");
    }
}

#[test]
fn broken_entries_are_told() {
    let parsed = |field: &str, told: Value| {
        let mut entry = json!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}}});
        entry[field] = told;
        ManagedFields::parse(Some(&json!([entry]))).map(|managed| managed.managers().len())
    };
    assert_eq!(parsed("manager", json!("n")), Ok(1));
    let rows = [
        ("operation", json!("Steal"), "operation must be `Apply` or `Update`"),
        ("apiVersion", json!(""), "apiVersion must not be empty"),
        ("fieldsType", json!("FieldsV2"), "invalid fieldsType \"FieldsV2\" in managed fields entry 0"),
        ("fieldsV1", json!(5), "error decoding set: expect an object, but found something else"),
        ("fieldsV1", json!({"q": {}}), "error decoding set: key must be 2 characters long"),
    ];
    for (field, told, message) in rows {
        assert_eq!(parsed(field, told).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
    assert!(ManagedFields::is_reset(&json!([])) && ManagedFields::is_reset(&json!([{}])));
    assert!(!ManagedFields::is_reset(&json!([{}, {}])) && !ManagedFields::is_reset(&json!(null)));
}

#[test]
fn configurations_that_do_not_fit_their_type_are_told_in_the_words_of_upstream() {
    let rows = [
        (json!({"foo": 1}), ".foo: field not declared in schema"),
        (json!({"spec": {"hostNetwork": "yes"}}), ".spec.hostNetwork: expected boolean, got &{yes}"),
        (json!({"spec": {"priority": "1"}}), ".spec.priority: expected numeric (int or float), got string"),
        (
            json!({"spec": {"nodeName": 8080}}),
            ".spec.nodeName: expected string, got &value.valueUnstructured{Value:8080}",
        ),
        (json!({"spec": []}), ".spec: expected map, got &{[]}"),
        (json!({"spec": {"volumes": {"a": "b"}}}), ".spec.volumes: expected list, got &{map[a:b]}"),
        (
            json!({"spec": {"tolerations": [{"key": 1}]}}),
            ".spec.tolerations[0].key: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            json!({"spec": {"containers": [{"image": "i"}]}}),
            ".spec.containers: element 0: associative list with keys has an element that omits key field \"name\" (and doesn't have default value)",
        ),
        (
            json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}]}}),
            ".spec.containers[name=\"c\"].ports: duplicate entries for key [containerPort=1,protocol=\"TCP\"]",
        ),
        (
            json!({"metadata": {"finalizers": [{}]}}),
            ".metadata.finalizers: element 0: associative list without keys has an element that's a map type",
        ),
        (
            json!({"metadata": 1, "spec": 2}),
            "errors:\n  .metadata: expected map, got &{1}\n  .spec: expected map, got &{2}",
        ),
    ];
    for (config, message) in rows {
        let problems = check(ty("Pod"), &config).expect_err("does not fit");
        assert_eq!(problems.to_string(), message);
    }
    let fine = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"port": "http"}}}], "nodeName": null}});
    assert_eq!(check(ty("Pod"), &fine), Ok(()));
}

#[test]
fn merged_lists_keep_their_neighbours() {
    let containers = |names: &[&str]| {
        pod(json!({"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}))
    };
    let rows: [(&[&str], &[&str], &[&str]); 8] = [
        (&["a", "b"], &[], &["a", "b"]),
        (&[], &["a", "b"], &["a", "b"]),
        (&["a", "b"], &["c"], &["a", "b", "c"]),
        (&["a", "b", "c"], &["b", "x"], &["a", "b", "c", "x"]),
        (&["a", "b", "c"], &["x", "b"], &["a", "x", "b", "c"]),
        (&["a", "b"], &["b", "a"], &["b", "a"]),
        (&["x", "a", "y", "b", "z"], &["b", "a"], &["x", "y", "b", "z", "a"]),
        (&["a", "a", "b"], &["a"], &["a", "b"]),
    ];
    for (live, config, want) in rows {
        let merged = merge_applied(ty("Pod"), &containers(live), &containers(config));
        let names: Vec<&str> = merged["spec"]["containers"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|each| each["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, want, "{live:?} {config:?}");
    }
}

#[test]
fn an_update_takes_what_it_changes_from_everybody() {
    let map = |data: Value| json!({"metadata": {"name": "m"}, "data": data});
    let mut managed = ManagedFields::default();
    let first =
        managed.apply(&write("ConfigMap", "a", "1"), &json!({}), &map(json!({"x": "1", "y": "1"})), false);
    let live = first.expect("nobody else");
    managed.update(&write("ConfigMap", "b", "2"), Some(&live), &map(json!({"x": "2", "z": "3"})));
    let value = managed.clone().into_value().expect("entries");
    assert_eq!(value[0]["manager"], "b");
    assert_eq!(value[0]["fieldsV1"], json!({"f:data": {"f:x": {}, "f:z": {}}}));
    assert_eq!(value.as_array().map(Vec::len), Some(1), "a owns nothing any more: {value}");
    // Nothing changes: nobody's time does.
    let before = managed.clone();
    managed.update(&write("ConfigMap", "c", "3"), Some(&live), &live);
    assert_eq!(managed, before);
}

#[test]
fn conflicts_of_several_managers_are_told_one_after_the_other() {
    let map = |data: Value| json!({"metadata": {"name": "m"}, "data": data});
    let mut managed = ManagedFields::default();
    let live = managed
        .apply(&write("ConfigMap", "b", "1"), &json!({}), &map(json!({"x": "1", "y": "1"})), false)
        .expect("nobody else");
    let new = map(json!({"x": "1", "y": "1", "z": "1"}));
    managed.update(&Write { subresource: "status", ..write("ConfigMap", "a", "2") }, Some(&live), &new);
    let want = map(json!({"x": "2", "y": "2", "z": "2"}));
    let before = managed.clone();
    let conflicts = managed.apply(&write("ConfigMap", "c", "3"), &new, &want, false).expect_err("conflicts");
    assert_eq!(
        conflicts.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"a\" with subresource \"status\" using v1:\n- .data.z\nconflicts with \"b\":\n- .data.x\n- .data.y"
    );
    assert_eq!(managed, before, "a refused apply changes nothing");
    assert!(managed.apply(&write("ConfigMap", "c", "3"), &new, &want, true).is_ok());
    assert_eq!(managed.managers().len(), 1);
}

#[test]
fn what_has_no_entries_belongs_to_before_first_apply() {
    let live = json!({"metadata": {"name": "m"}, "data": {"x": "1"}});
    let config = json!({"metadata": {"name": "m"}, "data": {"x": "2"}});
    let mut managed = ManagedFields::default();
    let conflicts =
        managed.apply(&write("ConfigMap", "a", "1"), &live, &config, false).expect_err("a conflict");
    assert_eq!(
        conflicts.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
    assert!(managed.is_empty());
}

#[test]
fn eleven_updates_leave_ten_entries() {
    let mut managed = ManagedFields::default();
    let mut live = json!({"metadata": {"name": "m"}, "data": {}});
    for number in 0..13 {
        let mut new = live.clone();
        new["data"][format!("k{number:02}")] = json!("v");
        let (manager, now) = (format!("m{number:02}"), format!("2026-01-01T00:00:{number:02}Z"));
        managed.update(&write("ConfigMap", &manager, &now), Some(&live), &new);
        live = new;
        assert!(managed.managers().len() <= 10);
    }
    let value = managed.into_value().expect("entries");
    assert_eq!(value[0]["manager"], "ancient-changes");
    assert_eq!(value[0]["fieldsV1"], json!({"f:data": {"f:k00": {}, "f:k01": {}, "f:k02": {}, "f:k03": {}}}));
    assert_eq!(value[0]["time"], "2026-01-01T00:00:03Z");
    assert_eq!(value[9]["manager"], "m12");
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client() {
    let config = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": value}});
    let mut live = config("1");
    live["metadata"]["annotations"] = json!({super::super::LAST_APPLIED: config("1").to_string()});
    let mut managed = ManagedFields::default();
    managed.update(&write("ConfigMap", "kubectl-client-side-apply", "1"), None, &live);
    let new = managed
        .apply_as_kubectl(&write("ConfigMap", "kubectl", "2"), &live, &config("<2>"), false)
        .expect("its own fields");
    assert_eq!(new["data"]["x"], "<2>");
    let text = new["metadata"]["annotations"][super::super::LAST_APPLIED].as_str().expect("text");
    assert!(text.contains(r#""x":"\u003c2\u003e""#) && text.ends_with("}\n"), "{text}");
    // What somebody else changed since is a conflict.
    let mut changed = live.clone();
    changed["data"]["x"] = json!("5");
    let mut managed = ManagedFields::default();
    managed.update(&write("ConfigMap", "editor", "1"), None, &changed);
    assert!(
        managed.apply_as_kubectl(&write("ConfigMap", "kubectl", "2"), &changed, &config("2"), false).is_err()
    );
}

#[test]
fn times_alone_are_no_difference() {
    let entries = |time: Value, name: &str| json!([{"manager": name, "time": time}]);
    let (one, two) = (entries(json!("1"), "a"), entries(json!("2"), "a"));
    assert!(same_but_times(Some(&one), Some(&two)) && same_but_times(None, None));
    assert!(!same_but_times(Some(&one), Some(&entries(json!("1"), "b"))));
    assert!(!same_but_times(Some(&one), None));
}
