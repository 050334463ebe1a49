//! Export: what goes, what stays, what becomes a parameter; and that the template processes to what was exported.

use base64::Engine;
use manifest::Node;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Run, findings};
use crate::export::{Defaulting, ExportError, Exported, Options, export};

fn exported(objects: &[Value], parameterize: bool, defaulting: Option<Defaulting<'_>>) -> Exported {
    let options = Options { name: "app", parameterize, ..Options::default() };
    export(objects, &options, defaulting).expect("something to export")
}

/// What the exported template processes to.
fn again(exported: &Exported) -> Vec<Value> {
    let text = manifest::to_yaml(&exported.template);
    let run =
        exported.taken.iter().fold(Run::of_yaml(&text), |run, (name, value)| run.with(name, value.expose()));
    super::processed(&run).objects.iter().map(Node::to_json).collect()
}

fn plain(nodes: &[Node]) -> Vec<Value> {
    nodes.iter().map(Node::to_json).collect()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 2, "creationTimestamp": "now",
            "annotations": {"deployment.kubernetes.io/revision": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "managedFields": [{}], "labels": {"app": "web", "template.coracle.dev/instance": "one"},
        },
        "spec": {
            "replicas": 2, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web", "template.coracle.dev/instance": "one"}},
            "template": {
                "metadata": {"creationTimestamp": null, "labels": {"app": "web", "template.coracle.dev/instance": "one"}},
                "spec": {
                    "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "serviceAccount": "default", "serviceAccountName": "default",
                    "containers": [{
                        "name": "web", "image": "example.com:5000/team/web:1.4", "resources": {}, "args": ["$(date)", "$(DB_PASSWORD)", "$$(X)"],
                        "env": [
                            {"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "MODE", "value": "fast"}, {"name": "ODD", "value": "$((X))"},
                            {"name": "USER", "valueFrom": {"secretKeyRef": {"name": "db", "key": "user"}}},
                        ],
                        "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/t"}],
                    }],
                    "volumes": [{"name": "kube-api-access-x", "projected": {}}],
                },
            },
        },
        "status": {"replicas": 2},
    })
}

fn others() -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "uid": "u"}, "spec": {
            "type": "ClusterIP", "clusterIP": "10.43.0.1", "clusterIPs": ["10.43.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP", "targetPort": 80}], "selector": {"app": "web"}}, "status": {"loadBalancer": {}}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "type": "Opaque", "data": {"user": "YXBw", "password": "aHVudGVyMg=="}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"}, "spec": {
            "rules": [{"host": "web.example.com", "http": {"paths": [{"backend": {"service": {"name": "web"}}}]}}], "tls": [{"hosts": ["web.example.com"], "secretName": "db"}]}}),
    ]
}

/// A part of what an API server fills in.
fn defaulting(object: &Value) -> Option<Value> {
    let mut object = object.clone();
    fn fill(map: Option<&mut Value>, key: &str, value: Value) {
        if let Some(map) = map.and_then(Value::as_object_mut) {
            map.entry(key).or_insert(value);
        }
    }
    match object["kind"].as_str()? {
        "Deployment" => {
            fill(object.pointer_mut("/spec"), "replicas", json!(1));
            fill(object.pointer_mut("/spec"), "revisionHistoryLimit", json!(10));
            fill(object.pointer_mut("/spec/template/spec"), "restartPolicy", json!("Always"));
            fill(object.pointer_mut("/spec/template/spec"), "dnsPolicy", json!("ClusterFirst"));
        }
        "Service" => {
            fill(object.pointer_mut("/spec"), "type", json!("ClusterIP"));
            fill(object.pointer_mut("/spec/ports/0"), "protocol", json!("TCP"));
            let port = object.pointer("/spec/ports/0/port").cloned().unwrap_or_default();
            fill(object.pointer_mut("/spec/ports/0"), "targetPort", port);
        }
        _ => {}
    }
    Some(object)
}

#[test]
fn status_identity_and_defaults_stay_behind() {
    let mut objects = vec![deployment()];
    objects.extend(others());
    let result = exported(&objects, false, Some(&defaulting));
    let seen = plain(&result.objects);
    assert_eq!(
        seen[0],
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{
                        "name": "web", "image": "example.com:5000/team/web:1.4", "args": ["$(date)", "$(DB_PASSWORD)", "$$(X)"],
                        "env": [
                            {"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "MODE", "value": "fast"}, {"name": "ODD", "value": "$((X))"},
                            {"name": "USER", "valueFrom": {"secretKeyRef": {"name": "db", "key": "user"}}},
                        ],
                    }]},
                },
            },
        })
    );
    assert_eq!(seen[1]["spec"], json!({"ports": [{"port": 80}], "selector": {"app": "web"}}));
    assert_eq!(again(&result), seen);
    assert!(result.taken.is_empty());
}

#[test]
fn common_values_become_parameters_when_asked() {
    let mut objects = vec![deployment()];
    objects.extend(others());
    let result = exported(&objects, true, Some(&defaulting));
    let template = result.template.to_json();
    let parameters: Vec<(&str, Option<&str>)> = template["parameters"]
        .as_array()
        .expect("parameters")
        .iter()
        .map(|each| (each["name"].as_str().expect("a name"), each["value"].as_str()))
        .collect();
    assert_eq!(
        parameters,
        [
            ("WEB_DB_PASSWORD_VALUE", None),
            ("WEB_TAG", Some("1.4")),
            ("WEB_REPLICAS", Some("2")),
            ("DB_PASSWORD_PARAMETER", None),
            ("DB_USER", None),
            ("WEB_HOST", Some("web.example.com")),
            ("WEB_NAME", Some("web")),
            ("DB_NAME", Some("db")),
            ("LITERAL_TEXT", Some("$((X))")),
        ]
    );
    assert!(!template.to_string().contains("hunter2") && !template.to_string().contains("aHVudGVyMg=="));
    assert_eq!(template["objects"][0]["spec"]["replicas"], "$((WEB_REPLICAS))");
    assert_eq!(template["objects"][0]["spec"]["selector"]["matchLabels"]["app"], "$(WEB_NAME)");
    assert_eq!(
        template["objects"][3]["spec"]["tls"],
        json!([{"hosts": ["$(WEB_HOST)"], "secretName": "$(DB_NAME)"}])
    );
    assert_eq!(again(&result), plain(&result.objects));
    let checked = Run::of_node("", result.template.clone()).check().expect("it can be processed");
    assert_eq!(findings(&checked), [""; 0]);
}

#[test]
fn what_others_make_is_left_out_with_the_reason() {
    let object = |kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        object["metadata"].as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        object
    };
    let mut token = object("Secret", "t", json!({}));
    token["type"] = "kubernetes.io/service-account-token".into();
    let objects = [
        object("ConfigMap", "mine", json!({})),
        object("Pod", "web-x", json!({"ownerReferences": [{"kind": "ReplicaSet"}]})),
        object("Event", "e", json!({})),
        object("ServiceAccount", "default", json!({})),
        object("ConfigMap", "kube-root-ca.crt", json!({})),
        object("Service", "kubernetes", json!({})),
        token,
        object("Secret", "one-parameters", json!({"labels": {"template.coracle.dev/instance": "one"}})),
        object("ConfigMap", "going", json!({"deletionTimestamp": "now"})),
    ];
    let result = exported(&objects, false, None);
    assert_eq!(result.objects.len(), 1);
    assert_eq!(result.skipped.len(), 8, "{:?}", result.skipped);
    assert!(
        result
            .skipped
            .iter()
            .any(|skipped| skipped.name == "web-x" && skipped.reason == "another object makes it")
    );
}

#[test]
fn the_filter_takes_kinds_names_and_labels() {
    let objects = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"app": "x"}}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "labels": {"app": "y"}}}),
    ];
    let count =
        |options: &Options<'_>| export(&objects, options, None).map(|exported| exported.objects.len());
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let (kinds, name, both) = (texts(&["configmap"]), texts(&["a"]), texts(&["Secret/a", "b"]));
    let labels = [("app".to_owned(), "y".to_owned())];
    assert_eq!(count(&Options::default()), Ok(3));
    assert_eq!(count(&Options { kinds: &kinds, ..Options::default() }), Ok(2));
    assert_eq!(count(&Options { names: &name, ..Options::default() }), Ok(2));
    assert_eq!(count(&Options { names: &both, ..Options::default() }), Ok(2));
    assert_eq!(count(&Options { labels: &labels, ..Options::default() }), Ok(1));
    assert_eq!(count(&Options { kinds: &kinds, names: &both, labels: &labels, ..Options::default() }), Ok(1));
    let none = texts(&["Pod"]);
    assert_eq!(count(&Options { kinds: &none, ..Options::default() }), Err(ExportError::Nothing));
    let many = vec![objects[0].clone(); 1001];
    let refused = export(&many, &Options::default(), None).expect_err("too many");
    assert_eq!(refused, ExportError::TooMany { count: 1001 });
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,6}",
        "(\\$\\(WEB_NAME\\)|\\$\\(\\(X\\)\\)|\\$\\(\\(WEB_TAG\\)\\)|\\$\\$\\(DB_USER\\)|\\$\\(web_name\\)|\\$\\{A\\}|\\$\\$|\\$\\(date\\))",
        "[$()AWEB_NM]{0,10}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(super::cases(500)))]

    #[test]
    fn an_exported_template_processes_to_what_was_exported(
        name in "(web|db|date|a-b)", tag in "[a-z0-9.]{0,5}", password in texts(), variables in proptest::collection::vec(("[A-Z_]{1,12}", texts()), 0..5),
        args in proptest::collection::vec(texts(), 0..4), data in proptest::collection::vec((texts(), texts()), 0..4), parameterize: bool,
    ) {
        let mut objects = vec![deployment()];
        objects.extend(others());
        let web = &mut objects[0];
        web["metadata"]["name"] = name.into();
        let container = &mut web["spec"]["template"]["spec"]["containers"][0];
        container["image"] = format!("web:{tag}").into();
        container["args"] = args.into();
        let env = container["env"].as_array_mut().expect("a list");
        env.extend(variables.into_iter().map(|(name, value)| json!({"name": name, "value": value})));
        let encoded = base64::engine::general_purpose::STANDARD.encode(password);
        objects[2]["data"]["password"] = encoded.into();
        let data: serde_json::Map<String, Value> = data.into_iter().map(|(key, value)| (key, value.into())).collect();
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}));
        let result = exported(&objects, parameterize, Some(&defaulting));
        prop_assert_eq!(again(&result), plain(&result.objects));
    }
}
