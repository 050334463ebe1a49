//! What annotations may say of hooks.

use admission::{AdmissionRequest, prepare_create, prepare_update};
use schema::resource;
use serde_json::{Value, json};

fn pod(annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 10,
            "initContainers": [{"name": "init", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}],
            "containers": [{"name": "c", "image": "i"}]}})
}

fn told(annotations: &Value) -> Vec<String> {
    let resource = resource("", "v1", "pods").expect("pods");
    match prepare_create(resource, &mut pod(annotations), &AdmissionRequest::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

fn handlers(handlers: &Value) -> Vec<String> {
    told(&json!({"hooks.coracle.dev/handlers": handlers.to_string()}))
}

const HANDLERS: &str = "metadata.annotations[hooks.coracle.dev/handlers]";

#[test]
fn handlers_have_the_shape_and_the_words_of_lifecycle() {
    let http = json!({"httpGet": {"port": 80}});
    let rows: Vec<(Value, Vec<String>)> = vec![
        (json!({"c": {"preStart": http, "postRestart": {"exec": {"command": ["x"]}}}}), vec![]),
        (json!({"side": {"preStart": {"sleep": {"seconds": 3}}}}), vec![]),
        (
            json!({"c": {"preStart": {}}}),
            vec![format!("{HANDLERS}[c].preStart: Required value: must specify a handler type")],
        ),
        (
            json!({"c": {"preStart": {"exec": {"command": ["x"]}}}}),
            vec![format!(
                "{HANDLERS}[c].preStart.exec: Forbidden: exec is incompatible with preStart, which is sent before the \
                 container exists"
            )],
        ),
        (
            json!({"c": {"postRestart": {"exec": {}, "sleep": {"seconds": 1}}}}),
            vec![
                format!("{HANDLERS}[c].postRestart.exec.command: Required value"),
                format!(
                    "{HANDLERS}[c].postRestart.sleep: Forbidden: may not specify more than 1 handler type"
                ),
            ],
        ),
        (
            json!({"c": {"postRestart": {"httpGet": {"port": 0, "scheme": "FTP"}}}}),
            vec![
                format!(
                    "{HANDLERS}[c].postRestart.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive"
                ),
                format!(
                    "{HANDLERS}[c].postRestart.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \
                     \"HTTPS\""
                ),
            ],
        ),
        (
            json!({"c": {"postRestart": {"sleep": {"seconds": 11}}}}),
            vec![format!(
                "{HANDLERS}[c].postRestart.sleep: Invalid value: 11: must be non-negative and less than \
                 terminationGracePeriodSeconds (10)"
            )],
        ),
        (
            json!({"c": {"postRestart": {"tcpSocket": {"port": 80}}}}),
            vec![format!(
                "{HANDLERS}[c].postRestart.tcpSocket: Forbidden: a hook cannot be a TCP connection"
            )],
        ),
        (
            json!({"c": {"postStart": http}}),
            vec![format!(
                "{HANDLERS}[c].postStart: Forbidden: belongs to the field lifecycle.postStart of container c"
            )],
        ),
        (
            json!({"c": {"beforeLunch": http}}),
            vec![format!(
                "{HANDLERS}[c]: Unsupported value: \"beforeLunch\": supported values: \"postRestart\", \"preStart\""
            )],
        ),
        (json!({"d": {"preStart": http}}), vec![format!("{HANDLERS}[d]: Not found: \"d\"")]),
        (
            json!({"init": {"preStart": http}}),
            vec![format!(
                "{HANDLERS}[init]: Forbidden: may not be set for init containers without restartPolicy=Always"
            )],
        ),
        (
            json!({"c": 3}),
            vec![format!("{HANDLERS}[c]: Invalid value: 3: must be a JSON object of hooks by name")],
        ),
        (
            json!([]),
            vec![format!("{HANDLERS}: Invalid value: \"[]\": must be a JSON object of containers by name")],
        ),
    ];
    for (given, expected) in rows {
        assert_eq!(handlers(&given), expected, "{given}");
    }
}

#[test]
fn handlers_that_are_no_handlers_are_told_with_their_place() {
    for given in [
        json!({"c": {"preStart": {"httpGet": {"port": 80, "pth": "/"}}}}),
        json!({"c": {"postRestart": {"exec": {"command": "x"}}}}),
    ] {
        let told = handlers(&given);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("{HANDLERS}[c].p")), "{told:?}");
    }
    let told = told(&json!({"hooks.coracle.dev/handlers": "{"}));
    assert!(told[0].starts_with(&format!("{HANDLERS}: Invalid value: \"{{\": must be JSON: ")), "{told:?}");
}

#[test]
fn timeouts_are_durations_of_hooks_that_exist() {
    let path = "metadata.annotations[hooks.coracle.dev/timeouts]";
    let timeouts = |value: Value| told(&json!({"hooks.coracle.dev/timeouts": value.to_string()}));
    assert!(timeouts(json!({"c": {"postStart": "30s", "preStop": "1m30s", "preStart": "500ms"}})).is_empty());
    assert_eq!(
        timeouts(json!({"c": {"postStart": "soon"}})),
        [format!(
            "{path}[c].postStart: Invalid value: \"soon\": must be a duration such as 30s, 1m30s or 500ms"
        )]
    );
    assert_eq!(
        timeouts(json!({"c": {"postStart": 30}})),
        [format!("{path}[c].postStart: Invalid value: 30: must be a duration such as 30s, 1m30s or 500ms")]
    );
    assert_eq!(
        timeouts(json!({"c": {"start": "3s"}})),
        [format!(
            "{path}[c]: Unsupported value: \"start\": supported values: \"postRestart\", \"postStart\", \"preStart\", \
             \"preStop\""
        )]
    );
}

#[test]
fn switches_have_the_values_that_are_documented_and_other_names_are_mistakes() {
    assert!(
        told(&json!({"hooks.coracle.dev/contract": "document", "hooks.coracle.dev/parameters": "true",
        "hooks.coracle.dev/expand": "false", "other.dev/contract": "x"}))
        .is_empty()
    );
    assert_eq!(
        told(&json!({"hooks.coracle.dev/contract": "documents"})),
        [
            "metadata.annotations[hooks.coracle.dev/contract]: Unsupported value: \"documents\": supported values: \
          \"document\""
        ]
    );
    assert_eq!(
        told(&json!({"hooks.coracle.dev/expand": "yes"})),
        [
            "metadata.annotations[hooks.coracle.dev/expand]: Unsupported value: \"yes\": supported values: \"false\", \
          \"true\""
        ]
    );
    let told = told(&json!({"hooks.coracle.dev/handler": "{}"}));
    assert!(
        told[0].starts_with("metadata.annotations: Unsupported value: \"hooks.coracle.dev/handler\""),
        "{told:?}"
    );
}

#[test]
fn an_update_is_checked_and_so_is_a_template() {
    let resource = resource("", "v1", "pods").expect("pods");
    let mut old = pod(&json!({}));
    prepare_create(resource, &mut old, &AdmissionRequest::default()).expect("valid");
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({"hooks.coracle.dev/expand": "yes"});
    assert!(prepare_update(resource, &old, &mut new, &AdmissionRequest::default()).is_err());
    let deployments = schema::resource("apps", "v1", "deployments").expect("deployments");
    let mut template = pod(&json!({"hooks.coracle.dev/expand": "yes"}));
    template["metadata"] = json!({"labels": {"a": "b"}, "annotations": template["metadata"]["annotations"]});
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let told =
        prepare_create(deployments, &mut deployment, &AdmissionRequest::default()).expect_err("refused");
    let told: Vec<String> = told.0.iter().map(ToString::to_string).collect();
    assert!(
        told.iter().any(|error| {
            error.starts_with(
                "spec.template.metadata.annotations[hooks.coracle.dev/expand]: Unsupported value",
            )
        }),
        "{told:?}"
    );
}
