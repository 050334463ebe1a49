//! Tables of decoding: upstream's sentences, zero values, special forms.

use serde_json::{Value, json};

use super::{FieldValidation, Step, convert_unstructured, decode, decode_value, inspect, peek_type_meta};
use crate::builtin;

fn check(kind: &str, text: &str) -> Result<Value, String> {
    let ty = builtin().type_for("v1", kind).expect("a core kind");
    decode(ty, text.as_bytes(), FieldValidation::Strict)
        .map(|decoded| decoded.value)
        .map_err(|error| error.to_string())
}

#[test]
fn wrong_types_are_told_as_go_tells_them() {
    let cases = [
        (
            r#"{"spec":{"containers":[{"command":"x"}]}}"#,
            "json: cannot unmarshal string into Go struct field Container.spec.containers.command of type []string",
        ),
        (
            r#"{"metadata":{"labels":{"a":5}}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            r#"{"metadata":[]}"#,
            "json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta",
        ),
        (
            r#"{"spec":{"containers":{}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            r#"{"spec":{"restartPolicy":1}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            r#"{"spec":{"containers":[{"ports":[{"containerPort":1.5}]}]}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            r#"{"spec":{"priority":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            r#"{"spec":{"containers":[{"env":[{"name":"A","value":true}]}]}}"#,
            "json: cannot unmarshal bool into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}"#,
            "json: cannot unmarshal bool into Go value of type int32",
        ),
        (
            r#"{"metadata":{"creationTimestamp":"x"}}"#,
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
        ("[]", "json: cannot unmarshal array into Go value of type v1.Pod"),
        (
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            r#"{"spec":{"containers":[{"env":[{"name":"A","value":1}]}],"priority":"x"}}"#,
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(check("Pod", text), Err(want.to_owned()), "{text}");
    }
    assert_eq!(
        check("Secret", r#"{"data":{"a":"x!"}}"#),
        Err("illegal base64 data at input byte 1".to_owned())
    );
    assert_eq!(
        check("Secret", r#"{"data":{"a":5}}"#),
        Err("json: cannot unmarshal number into Go struct field Secret.data of type []uint8".to_owned())
    );
    assert_eq!(
        check("List", r#"{"items":[{"a":1e400}]}"#),
        Err("json: cannot unmarshal number 1e400 into Go struct field List.items of type float64".to_owned())
    );
}

#[test]
fn unknown_and_duplicate_fields_are_told_together_in_order() {
    let text = r#"{"foo":1,"spec":{"Containers":[],"containers":[{"name":"a","name":"b","bar":1,"bar":2}]},
        "metadata":{"labels":{"x":"1","x":"2"}}}"#;
    let problems = "strict decoding error: unknown field \"foo\", unknown field \"spec.Containers\", duplicate field \
        \"spec.containers[0].name\", unknown field \"spec.containers[0].bar\", duplicate field \"metadata.labels.x\"";
    assert_eq!(check("Pod", text), Err(problems.to_owned()));
    let ty = builtin().type_for("v1", "Pod").expect("Pod is built in");
    let warned = decode(ty, text.as_bytes(), FieldValidation::Warn).expect("only warnings");
    assert_eq!(warned.warnings.len(), 5);
    assert_eq!(warned.warnings[0], "unknown field \"foo\"");
    assert_eq!(warned.value["spec"]["containers"][0]["name"], "b");
    assert_eq!(warned.value["metadata"]["labels"]["x"], "2");
    let ignored = decode(ty, text.as_bytes(), FieldValidation::Ignore).expect("nothing is told");
    assert!(ignored.warnings.is_empty());
    assert_eq!(ignored.value, warned.value);
}

#[test]
fn a_wrong_type_hides_unknown_fields() {
    let text = r#"{"foo":1,"spec":{"priority":"x"}}"#;
    let want = "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32";
    assert_eq!(check("Pod", text), Err(want.to_owned()));
}

#[test]
fn zero_values_are_written_as_go_writes_them() {
    let cases = [
        ("Pod", r#"{}"#, json!({"metadata": {}, "spec": {"containers": null}, "status": {}})),
        (
            "Pod",
            r#"{"spec":{"containers":[{"env":[{"value":""}],"ports":[],"args":null}],"volumes":[{"name":"v","emptyDir":{}}]}}"#,
            json!({
                "metadata": {},
                "spec": {
                    "containers": [{"name": "", "env": [{"name": ""}], "resources": {}}],
                    "volumes": [{"name": "v", "emptyDir": {}}]
                },
                "status": {}
            }),
        ),
        ("ConfigMap", r#"{"data":{},"immutable":false}"#, json!({"metadata": {}, "immutable": false})),
        (
            "Service",
            r#"{"spec":{"ports":[{"port":80}]}}"#,
            json!({"metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]}, "status": {"loadBalancer": {}}}),
        ),
        (
            "Event",
            r#"{}"#,
            json!({
                "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
                "eventTime": null, "reportingComponent": "", "reportingInstance": ""
            }),
        ),
    ];
    for (kind, text, want) in cases {
        assert_eq!(check(kind, text), Ok(want), "{kind} {text}");
    }
}

#[test]
fn special_forms_are_made_canonical() {
    let text = r#"{"metadata":{"creationTimestamp":"2024-01-02T03:04:05.5+01:00"},
        "spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":0.5,"memory":"1024Ki"}},
        "env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}]}]}}"#;
    let value = check("Pod", text).expect("a pod");
    assert_eq!(value["metadata"]["creationTimestamp"], "2024-01-02T02:04:05Z");
    let container = &value["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"], json!({"cpu": "500m", "memory": "1Mi"}));
    assert_eq!(container["env"][0]["valueFrom"]["resourceFieldRef"]["divisor"], "0");
    let secret =
        check("Secret", "{\"data\":{\"a\":\"Yg\\n==\"}}").expect("line breaks are allowed in base64");
    assert_eq!(secret["data"]["a"], "Yg==");
    let secret = check("Secret", r#"{"data":{"a":null}}"#).expect("null bytes are empty ones");
    assert_eq!(secret["data"], json!({"a": ""}));
}

#[test]
fn decoding_twice_changes_nothing() {
    let text =
        r#"{"spec":{"containers":[{"name":"c","image":"i","livenessProbe":{"tcpSocket":{"port":"web"}}}]}}"#;
    let once = check("Pod", text).expect("a pod");
    let ty = builtin().type_for("v1", "Pod").expect("Pod is built in");
    let twice = decode_value(ty, &once, FieldValidation::Strict).expect("still a pod");
    assert_eq!(twice.value, once);
}

#[test]
fn patched_trees_are_told_in_other_words() {
    let ty = builtin().type_for("apps/v1", "Deployment").expect("Deployment is built in");
    let told = |value: Value| {
        convert_unstructured(ty, &value, FieldValidation::Strict)
            .map(|decoded| decoded.value)
            .map_err(|error| error.to_string())
    };
    let cases = [
        (json!({"spec": {"replicas": "x"}}), "unrecognized type: int32"),
        (json!({"spec": "x"}), "cannot restore struct from: string"),
        (json!({"metadata": {"labels": 1}}), "cannot restore map from int64"),
        (json!({"spec": {"template": {"spec": {"containers": true}}}}), "cannot restore slice from bool"),
        (json!({"spec": {"foo": 1}}), "strict decoding error: unknown field \"spec.foo\""),
    ];
    for (value, want) in cases {
        assert_eq!(told(value), Err(want.to_owned()));
    }
    assert_eq!(told(json!({"spec": {"replicas": 2.0}})).expect("a whole float")["spec"]["replicas"], 2);
}

#[test]
fn the_kind_is_read_before_anything_else() {
    let meta = peek_type_meta(br#"{"kind":"Pod","apiVersion":"v1","spec":[]}"#).expect("an object");
    assert_eq!((meta.api_version.as_str(), meta.kind.as_str()), ("v1", "Pod"));
    let error = peek_type_meta(b"{").expect_err("not JSON").to_string();
    assert_eq!(error, "couldn't get version/kind; json parse error: unexpected end of JSON input");
    let error = peek_type_meta(br#"{"kind":1}"#).expect_err("not text").to_string();
    assert_eq!(
        error,
        "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string"
    );
}

#[test]
fn an_inspection_goes_on_behind_a_value_of_the_wrong_type() {
    let ty = builtin().type_for("v1", "Pod").expect("a core kind");
    let object = json!({
        "metadata": {"labels": {"a.b/c": 5, "d": "e"}, "lables": {}},
        "spec": {"containers": [{"name": 1, "imgae": "x"}, {"env": [{"value": true, "nmae": "A"}]}], "priority": "x"},
    });
    let found = inspect(ty, &object);
    let key = |text: &str| Step::Key(text.to_owned());
    let paths: Vec<&[Step]> = found.mismatches.iter().map(|each| each.path.as_slice()).collect();
    let containers = [key("spec"), key("containers")];
    let first = [containers.as_slice(), &[Step::Index(0), key("name")]].concat();
    let second =
        [containers.as_slice(), &[Step::Index(1), key("env"), Step::Index(0), key("value")]].concat();
    let labels = [key("metadata"), key("labels"), key("a.b/c")];
    let priority = [key("spec"), key("priority")];
    assert_eq!(paths, [labels.as_slice(), &first, &second, &priority]);
    let sentences: Vec<&str> = found.mismatches.iter().map(|each| each.message.as_str()).collect();
    assert_eq!(
        sentences[2],
        "json: cannot unmarshal bool into Go struct field EnvVar.spec.containers.env.value of type string"
    );
    let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "unknown field \"metadata.lables\"",
            "unknown field \"spec.containers[0].imgae\"",
            "unknown field \"spec.containers[1].env[0].nmae\""
        ]
    );
    assert_eq!(found.value["metadata"]["labels"]["d"], "e");
}
