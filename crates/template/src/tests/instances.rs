//! Instances: generated values that stay, and secrets that are not shown.

use environment::SecretText;
use serde_json::json;

use super::{Run, config_map, data, problems, processed};
use crate::instance::{
    Filler, check_instance_name, fillers, kept_in_live, kept_in_secret, parameters_secret, secret_name,
};
use crate::{Template, without_secret_values};

const GENERATED: &str = "[a-zA-Z0-9]{20}";

fn passwords() -> serde_json::Value {
    config_map(
        json!([{"name": "A", "generate": "expression", "from": GENERATED}, {"name": "B", "generate": "expression", "from": GENERATED}]),
        json!({"a": "$(A)", "b": "$(B)"}),
    )
}

#[test]
fn generated_values_are_kept_unless_they_are_to_be_generated_again() {
    let first = processed(&Run::of_json(&passwords()));
    let secret = parameters_secret(&first, "web", Some("n")).expect("something was generated").to_json();
    assert_eq!(
        secret["metadata"],
        json!({"name": "web-parameters", "namespace": "n", "labels": {crate::INSTANCE_LABEL: "web"}})
    );
    let mut again = Run::of_json(&passwords());
    again.kept = kept_in_secret(&secret);
    again.kept.insert("A".to_owned(), SecretText::new("kept before"));
    assert_eq!(data(&again), json!({"a": "kept before", "b": first.parameters[1].value.expose()}));
    let origins =
        |run: &Run| processed(run).parameters.iter().map(|each| each.origin.as_str()).collect::<Vec<_>>();
    assert_eq!(origins(&again), ["kept", "kept"]);
    again.regenerate = vec!["A".to_owned()];
    assert_eq!(origins(&again), ["generated", "kept"]);
    assert_eq!(origins(&again.with("B", "given")), ["generated", "given"]);
    let mut wrong = Run::of_json(&passwords());
    wrong.regenerate = vec!["C".to_owned()];
    assert_eq!(problems(&wrong), ["parameters template-parameter-not-generated C"]);
}

#[test]
fn nothing_is_kept_when_nothing_was_generated() {
    let run = Run::of_json(&passwords()).with("A", "x").with("B", "y");
    assert_eq!(parameters_secret(&processed(&run), "web", None), None);
}

#[test]
fn values_are_found_in_the_live_secrets_that_they_fill() {
    let mut template = passwords();
    template["parameters"].as_array_mut().expect("a list").push(json!({"name": "NAME", "value": "db"}));
    template["objects"] = json!([
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "$(NAME)-secret"}, "stringData": {"password": "$(A)", "url": "x://$(A)"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "$(B)"}, "stringData": {"password": "$(A)"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "raw", "namespace": "n"}, "data": {"key": "$(B)"}},
    ]);
    let run = Run::of_json(&template);
    let read = Template::read(&run.root, None).expect("a template");
    let found = fillers(&read, &run.request());
    let filler = |parameter: &str, namespace: Option<&str>, name: &str, key: &str, is_encoded| Filler {
        parameter: parameter.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        key: key.to_owned(),
        is_encoded,
    };
    assert_eq!(
        found,
        [filler("A", None, "db-secret", "password", false), filler("B", Some("n"), "raw", "key", true)]
    );
    let live = json!({"data": {"password": "cDQ1NQ==", "key": "cDQ1NQ=="}});
    assert_eq!(kept_in_live(&found[0], &live), Some(SecretText::new("p455")));
    assert_eq!(kept_in_live(&found[1], &live), Some(SecretText::new("cDQ1NQ==")));
    assert_eq!(kept_in_live(&found[0], &json!({"data": {"password": "/w=="}})), None, "no text");
}

#[test]
fn names_of_instances_are_those_of_objects() {
    assert_eq!(secret_name("web"), "web-parameters");
    assert!(check_instance_name("web-1").is_ok());
    for name in ["", "Web", "a b", "-a", &"a".repeat(64)] {
        let refusal = check_instance_name(name).expect_err(name);
        assert_eq!(refusal.problems[0].code(), "template-instance-name");
    }
}

#[test]
fn a_secret_parameter_is_in_the_objects_only() {
    let mut template = config_map(
        json!([{"name": "PASSWORD", "secret": true, "required": true}, {"name": "USER", "value": "u"}]),
        json!({"p": "$(PASSWORD)", "u": "$(USER)"}),
    );
    template["message"] = "Log in as $(USER) with $(PASSWORD).".into();
    template["labels"] = json!({"l": "$(PASSWORD)"});
    let run = Run::of_json(&template).with("PASSWORD", "hunter2");
    let result = processed(&run);
    assert_eq!(result.objects[0].to_json()["data"]["p"], "hunter2");
    assert_eq!(result.message.as_deref(), Some("Log in as u with ****."));
    assert_eq!(result.parameters[0].shown(), "****");
    assert_eq!(result.parameters[1].shown(), "u");
    assert_eq!(result.redact("refused: \"hunter2\""), "refused: \"****\"");
    let mut answer = run.to_template(&result).to_json();
    answer["objects"] = json!([]);
    assert!(!answer.to_string().contains("hunter2"), "{answer}");
    assert!(!format!("{result:?} {:?}", run.given).contains("hunter2"));
    template["parameters"][0]["value"] = "hunter2".into();
    let with_default = Run::of_json(&template);
    assert!(!format!("{:?}", Template::read(&with_default.root, None)).contains("hunter2"));
    let stored = without_secret_values(&Run::of_json(&template).root).to_json();
    assert!(!stored.to_string().contains("hunter2"), "{stored}");
    assert_eq!(stored["parameters"][1]["value"], "u");
}

#[test]
fn problems_and_findings_hold_no_values() {
    let mut template = config_map(
        json!([
            {"name": "A", "secret": true, "type": "int"}, {"name": "B", "secret": true, "type": "base64"},
            {"name": "C", "secret": true}, {"name": "D", "secret": true},
        ]),
        json!({"$(C)": "$((A))", "$(D)": "$(B)"}),
    );
    template["labels"] = json!({"x": "$(C)"});
    let run = Run::of_json(&template);
    let run = ["A", "B", "C", "D"].iter().fold(run, |run, name| run.with(name, "hunter2 "));
    let refusal = run.process().expect_err("nothing fits");
    assert_eq!(refusal.problems.len(), 4, "{refusal}");
    let shown = format!(
        "{refusal} {refusal:?} {:?}",
        refusal.problems.iter().map(crate::Problem::hint).collect::<Vec<_>>()
    );
    assert!(!shown.contains("hunter2"), "{shown}");
}
