//! Parameters: values, types, what is required, unknown, unused and repeated; all problems at once.

use serde_json::json;

use super::{Run, config_map, data, findings, problems, processed, refusal};
use crate::{Dialect, ValueOrigin};

#[test]
fn a_text_without_quotes_becomes_a_scalar_of_the_grammar_or_stays_text() {
    let rows = [
        ("1", json!(1)),
        ("-7", json!(-7)),
        ("0", json!(0)),
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("1.5", json!(1.5)),
        ("-0.25", json!(-0.25)),
        ("1e3", json!(1000)),
        ("2.5E-1", json!(0.25)),
        ("true", json!(true)),
        ("false", json!(false)),
    ];
    for (text, wanted) in rows {
        let run = Run::of_json(&config_map(json!([{"name": "P", "value": text}]), json!({"x": "$((P))"})));
        assert_eq!(data(&run)["x"], wanted, "{text}");
    }
    let texts = [
        "BAR",
        "",
        "01",
        "007",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e400",
        "-1e999",
        "0x10",
        "0o7",
        " 1",
        "1 ",
        "1_000",
        "NaN",
        "Infinity",
        "null",
        "~",
        "True",
        "yes",
        "{}",
        "[]",
        "{\"privileged\":true}",
        "[1]",
        "\"1\"",
        "9223372036854775808",
        "-9223372036854775809",
        "1\n",
        "- a",
        "٣",
    ];
    for text in texts {
        let run = Run::of_json(&config_map(json!([{"name": "P", "value": text}]), json!({"x": "$((P))"})));
        assert_eq!(data(&run)["x"], json!(text), "{text}");
    }
}

#[test]
fn concatenations_follow_the_kind_of_their_references() {
    let parameters =
        json!([{"name": "N", "value": "4"}, {"name": "T", "value": "t"}, {"name": "B", "value": "true"}]);
    let rows = [
        ("$((N))", json!(4)),
        ("$(N)", json!("4")),
        ("1$((N))", json!(14)),
        ("$((N))$((N))", json!(44)),
        ("$((N)).5", json!(4.5)),
        ("-$((N))", json!(-4)),
        ("$((N))$(N)", json!("44")),
        ("$((N))m", json!("4m")),
        ("prefix_$((T))_suffix", json!("prefix_t_suffix")),
        ("prefix_$((T))_$(T)_suffix", json!("prefix_t_t_suffix")),
        ("$((B))", json!(true)),
        ("$(B)", json!("true")),
        ("7", json!("7")),
    ];
    for (text, wanted) in rows {
        let run = Run::of_json(&config_map(parameters.clone(), json!({"x": text})));
        assert_eq!(data(&run)["x"], wanted, "{text}");
    }
}

#[test]
fn a_declared_type_is_checked_and_obeyed() {
    let process = |kind: &str, value: &str, text: &str| {
        let parameters = json!([{"name": "P", "value": value, "type": kind}]);
        Run::of_json(&config_map(parameters, json!({"x": text})))
    };
    let fits = [
        ("int", "8080", "$((P))", json!(8080)),
        ("int", "8080", "$(P)", json!("8080")),
        ("bool", "false", "$((P))", json!(false)),
        ("string", "8080", "$((P))", json!("8080")),
        ("string", "true", "a$((P))", json!("atrue")),
        ("base64", "MTIzNA==", "$((P))", json!("MTIzNA==")),
        ("base64", "1234", "$((P))", json!("1234")),
    ];
    for (kind, value, text, wanted) in fits {
        assert_eq!(data(&process(kind, value, text))["x"], wanted, "{kind} {value}");
    }
    let misfits = [
        ("int", "8080m"),
        ("int", "1.5"),
        ("int", "0x10"),
        ("int", " 1"),
        ("int", "9223372036854775808"),
        ("int", "true"),
        ("bool", "1"),
        ("bool", "True"),
        ("bool", "yes"),
        ("base64", "not base64"),
        ("base64", "YQ"),
    ];
    for (kind, value) in misfits {
        for text in ["$((P))", "$(P)"] {
            let refusal = refusal(&process(kind, value, text));
            assert_eq!(refusal.problems.len(), 1, "{kind} {value}");
            let problem = &refusal.problems[0];
            assert_eq!(problem.code(), "template-value-type");
            assert_eq!((problem.parameter(), &*problem.place.field), (Some("P"), "parameters[0].value"));
            assert!(problem.to_string().ends_with("objects[0].data.x uses it"), "{problem}");
        }
    }
    assert_eq!(problems(&process("int", "", "$((P))")), ["objects[0].data.x template-value-type P"]);
    assert_eq!(data(&process("int", "", "$(P)"))["x"], "");
}

#[test]
fn values_come_from_what_is_given_then_the_default_then_a_generator() {
    let parameters = json!([
        {"name": "A", "value": "a"}, {"name": "B", "value": "b"}, {"name": "C", "generate": "expression", "from": "c[a-b]{2}"},
        {"name": "D", "value": "d", "generate": "expression", "from": "[a-z]{9}"}, {"name": "E"},
        {"name": "F", "generate": "expression", "from": "[a-z]{9}"},
    ]);
    let run = Run::of_json(&config_map(parameters, json!({"x": "$(A) $(B) $(C) $(D) $(E) $(F)"})));
    let result = processed(&run.with("B", "given").with("F", ""));
    let origins: Vec<&str> = result.parameters.iter().map(|each| each.origin.as_str()).collect();
    assert_eq!(origins, ["default", "given", "generated", "default", "empty", "given"]);
    assert_eq!(result.objects[0].to_json()["data"]["x"], "a given cab d  ");
    assert_eq!(result.parameters[4].origin, ValueOrigin::Empty);
}

#[test]
fn every_problem_is_reported_at_once_with_its_line_and_column() {
    let run = Run::of_yaml(
        "kind: Template
apiVersion: template.coracle.dev/v1
parameters:
- name: NAME
  required: true
- name: COUNT
  type: int
  value: many
- name: COUNT
- name: no-name
- name: KIND
  type: integer
- {name: PASSWORD, secret: true, generate: expression, from: '[a-z]{4}'}
- {name: TOKEN, generate: uuid}
labels: {app: '-$(NAME)-'}
objects:
- apiVersion: v1
  kind: $(KIND)
  metadata:
    name: $(NAMES)
  spec:
    replicas: $((COUT))
- kind: Pod
- apiVersion: v1
  kind: Pod
  metadata: {name: p}
  spec:
    containers:
    - name: c
      env:
      - {name: TOKEN, value: a}
      - {name: B, value: $(TOKEN)}
",
    );
    let seen = problems(&run.with("COUNTS", "1").with("NAM", "1").with("OTHER", "1"));
    assert_eq!(
        seen,
        [
            "parameters template-parameter-unknown COUNTS",
            "parameters template-parameter-unknown NAM",
            "parameters template-parameter-unknown OTHER",
            "4:9 template-parameter-required NAME",
            "8:10 template-value-type COUNT",
            "9:9 template-parameter-duplicate COUNT",
            "10:9 template-parameter-name",
            "12:9 template-parameter-type",
            "13:10 template-secret-weak PASSWORD",
            "14:10 template-generator TOKEN",
            "18:9 template-reference-in-kind",
            "20:11 template-reference-near NAME",
            "22:15 template-reference-whole COUNT",
            "23:3 template-object-incomplete",
            "32:26 template-reference-ambiguous TOKEN",
        ]
    );
}

#[test]
fn unknown_parameters_are_refused_with_the_nearest_name_or_ignored_when_asked() {
    let template =
        config_map(json!([{"name": "DATABASE_NAME", "value": "d"}]), json!({"x": "$(DATABASE_NAME)"}));
    let near = refusal(&Run::of_json(&template).with("DATABASE_NMAE", "x"));
    assert_eq!(near.problems[0].to_string(), "unknown parameter name \"DATABASE_NMAE\"");
    assert_eq!(near.problems[0].hint(), "did you mean DATABASE_NAME?");
    let far = refusal(&Run::of_json(&template).with("SOMETHING", "x"));
    assert!(far.problems[0].hint().contains("--ignore-unknown-parameters"));
    let mut run = Run::of_json(&template).with("SOMETHING", "x");
    run.ignore_unknown = true;
    assert_eq!(findings(&processed(&run).findings), ["parameters template-parameter-unknown"]);
    let twice = refusal(&Run::of_json(&template).with("DATABASE_NAME", "x").with("DATABASE_NAME", "y"));
    assert_eq!(twice.problems[0].code(), "template-parameter-given-twice");
}

#[test]
fn a_parameter_that_nothing_uses_is_found() {
    let parameters = json!([{"name": "USED"}, {"name": "IN_MESSAGE"}, {"name": "IN_LABEL"}, {"name": "IN_KEY"}, {"name": "UNUSED"}]);
    let mut template = config_map(parameters, json!({"x": "$(USED)", "k$(IN_KEY)": ""}));
    template["message"] = "$(IN_MESSAGE)".into();
    template["labels"] = json!({"l": "$(IN_LABEL)"});
    assert_eq!(
        findings(&processed(&Run::of_json(&template)).findings),
        ["parameters[4] template-parameter-unused"]
    );
}

#[test]
fn required_means_a_value_that_is_not_empty() {
    let template = |parameter| config_map(json!([parameter]), json!({"x": "$(P)"}));
    let required = json!({"name": "P", "required": true});
    assert_eq!(
        problems(&Run::of_json(&template(required.clone()))),
        ["parameters[0] template-parameter-required P"]
    );
    assert_eq!(data(&Run::of_json(&template(required)).with("P", "v"))["x"], "v");
    let with_default = json!({"name": "P", "required": true, "value": "d"});
    let emptied = Run::of_json(&template(with_default)).with("P", "");
    assert_eq!(problems(&emptied), ["parameters[0] template-parameter-required P"]);
    assert_eq!(data(&Run::of_json(&template(json!({"name": "P"}))))["x"], "");
}

#[test]
fn a_check_misses_no_values_and_generates_nothing() {
    let template = |text: &str| {
        config_map(
            json!([{"name": "P", "required": true}, {"name": "S", "secret": true, "value": "x"},
                   {"name": "G", "generate": "expression", "from": "[a-z]{9}"}, {"name": "N", "type": "int"}]),
            json!({"$(P)": "$(S)", "$(G)": text}),
        )
    };
    assert_eq!(Run::of_json(&template("$((N))")).check(), Ok(Vec::new()));
    let refused = Run::of_json(&template("$((M))$(PP)")).check();
    assert!(refused.is_ok(), "PP is too short to be taken for P");
    let refused = Run::of_json(&template("$((NN))")).check().expect_err("names no parameter");
    assert_eq!(refused.problems[0].code(), "template-reference-whole");
    let mut stored = Run::of_json(&template("$((N))"));
    stored.is_stored = true;
    let refused = stored.check().expect_err("a secret with a default");
    assert_eq!(
        refused.problems[0].to_string(),
        "parameters[1].value: parameter S is secret, and a stored template must not hold its value"
    );
}

#[test]
fn what_could_be_processed_with_other_values_can_be_stored() {
    let template = config_map(
        json!([{"name": "A", "value": "same"}, {"name": "B", "value": "same"}]),
        json!({"$(A)": "1", "$(B)": "2"}),
    );
    let mut run = Run::of_json(&template);
    assert_eq!(run.check().expect_err("the defaults collide").problems[0].code(), "template-keys-collide");
    run.is_stored = true;
    assert_eq!(run.check(), Ok(Vec::new()));
    let misfit = config_map(json!([{"name": "A", "type": "int", "value": "many"}]), json!({"x": "$((A))"}));
    let mut run = Run::of_json(&misfit);
    run.is_stored = true;
    assert_eq!(run.check().expect_err("the default is wrong").problems[0].code(), "template-value-type");
}

#[test]
fn fields_of_wrong_types_are_named() {
    let run = Run::of_yaml(
        "kind: Template
apiVersion: v1
message: {a: b}
labels: {a: 1}
objects: [1, {kind: Pod}]
parameters: [{name: A, value: 8080}, {name: B, required: 'yes'}, text]
",
    );
    let seen: Vec<String> = refusal(&run).problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        seen,
        [
            "message: expected a string, found object",
            "labels.a: expected a string, found number",
            "objects[0]: expected an object, found number",
            "objects[1]: the object has no apiVersion",
            "parameters[0].value: expected a string, found number",
            "parameters[1].required: expected true or false, found string",
            "parameters[2]: expected an object, found string",
        ]
    );
    for root in
        ["kind: Pod\napiVersion: v1", "kind: Template\napiVersion: example.com/v1", "- a", "kind: Template"]
    {
        assert_eq!(problems(&Run::of_yaml(root)).len(), 1, "{root}");
    }
}

#[test]
fn the_legacy_form_is_told_apart_by_its_references() {
    let template = |parameters: &str, text: &str| {
        format!(
            "{{kind: Template, apiVersion: v1, parameters: {parameters}, objects: [{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m}}, data: {{x: '{text}'}}}}]}}"
        )
    };
    let dialect = |parameters: &str, text: &str| {
        let run = Run::of_yaml(&template(parameters, text));
        let read = crate::Template::read(&run.root, None).map(|template| template.dialect);
        read.map_err(|refusal| refusal.problems[0].code())
    };
    let plain = "[{name: P, value: v}]";
    let generated = "[{name: P, generate: expression, from: '[a-z]{9}'}]";
    let rows = [
        (plain, "nothing", Ok(Dialect::Proposal)),
        (plain, "$(P)", Ok(Dialect::Proposal)),
        (plain, "$(P) ${OTHER}", Ok(Dialect::Proposal)),
        (plain, "${P}", Ok(Dialect::OpenShift)),
        (plain, "${{P}}", Ok(Dialect::OpenShift)),
        (plain, "${P} $(OTHER)", Ok(Dialect::OpenShift)),
        (plain, "${P} $(P)", Err("template-mixed-dialects")),
        (plain, "${{P}} $((P))", Err("template-mixed-dialects")),
        (generated, "nothing", Ok(Dialect::OpenShift)),
        (generated, "${P}", Ok(Dialect::OpenShift)),
        (generated, "$(P)", Ok(Dialect::Proposal)),
        (generated, "${P} $((P))", Err("template-mixed-dialects")),
    ];
    for (parameters, text, wanted) in rows {
        assert_eq!(dialect(parameters, text), wanted, "{parameters} {text}");
    }
    let mut run = Run::of_yaml(&template(plain, "${P} $(P)"));
    run.dialect = Some(Dialect::OpenShift);
    assert_eq!(data(&run)["x"], "v $(P)");
    run.dialect = Some(Dialect::Proposal);
    assert_eq!(data(&run)["x"], "${P} v");
    let found = processed(&Run::of_yaml(&template(plain, "${P}"))).findings;
    assert_eq!(findings(&found), ["apiVersion template-read-as-openshift"]);
}

#[test]
fn the_same_template_request_and_bytes_give_the_same_result() {
    let parameters = json!([{"name": "P", "generate": "expression", "from": "[\\w]{20}"}]);
    let template = config_map(parameters, json!({"x": "$(P)"}));
    assert_eq!(data(&Run::of_json(&template)), data(&Run::of_json(&template)));
    let run = Run::of_json(&template);
    let template = crate::Template::read(&run.root, None).expect("a template");
    let mut broken = |_: &mut [u8]| Err(crate::RandomnessFailed);
    let refusal = crate::process(&template, &run.request(), &mut broken).expect_err("no random bytes");
    assert_eq!(refusal.problems[0].code(), "template-no-randomness");
    let mut stuck = |bytes: &mut [u8]| {
        bytes.fill(255);
        Ok(())
    };
    assert!(
        crate::process(&template, &run.request(), &mut stuck).is_err(),
        "a source that gives nothing usable"
    );
}
