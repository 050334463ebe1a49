//! Every row of `vectors/template_process.json`. Rows of mode `upstream` record flaws that are mended here: for those
//! the mended answer stands below.

use manifest::Node;
use serde_json::{Value, json};

use super::{Run, counting, processed, refusal};
use crate::Expression;
use crate::finding::Findings;
use crate::labels::{self, Label};
use crate::problem::Problems;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../tests/vectors/template_process.json"))
        .expect("the vectors are JSON")
}

fn rows<'v>(vectors: &'v Value, pointer: &str) -> &'v Vec<Value> {
    vectors.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{pointer} is a list"))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The row's template with its parameters given.
fn run_of(row: &Value) -> Run {
    let mut run = Run::of_json(&row["template"]);
    for (name, value) in row["parameters"].as_object().into_iter().flatten() {
        run = run.with(name, value.as_str().expect("a text"));
    }
    run
}

/// What Coracle answers where it mends a flaw.
fn mended(name: &str) -> Option<Value> {
    let answer = match name {
        "value forms" => json!([{"kind": "Service", "apiVersion": "v1", "metadata": {"labels": {
            "i1": 1,
            "invalidjsonmap": "{\"key\":\"value\"",
            "invalidjsonarray": "[\"key\":\"value\"",
            "key1": "1",
            "key2": "$1",
            "quoted_string": "string1",
            "s1_s1": "string1_string1",
            "s1_s2": "string1_string2",
            "untouched": "a${{INT_1}}",
            "untouched2": "${{INT_1}}a",
            "untouched3": "${{INVALID_PARAMETER}}",
            "untouched4": "${{INVALID PARAMETER}}",
            // Scalars only.
            "validjsonmap": "{\"key\":\"value\"}",
            "validjsonarray": "[\"key\",\"value\"]",
        }}}]),
        "value is not rescanned when its reference has not been seen yet" => json!([{
            "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"x": "${B}", "y": "${B} 2"},
        }]),
        "non-string: int, bool, null in a map, string fallback" => json!([{
            "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"},
            "spec": {"replicas": 3, "paused": true, "minReadySeconds": "null", "x": "plain"},
        }]),
        "selectors and pod templates get no template labels" => json!([{
            "kind": "ReplicationController", "apiVersion": "v1", "metadata": {"name": "r", "labels": {"t": "1"}},
            "spec": {
                "selector": {"a": "b", "t": "1"},
                "template": {"metadata": {"labels": {"a": "b", "t": "1"}}, "spec": {"containers": []}},
            },
        }]),
        "label values that are not strings make the whole label map be replaced" => json!([{
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "a", "labels": {"n": 1, "k": "v", "t": "1"}},
        }]),
        _ => return None,
    };
    Some(answer)
}

#[test]
fn templates_of_openshift_process_as_openshift_processes_them_or_better() {
    let vectors = vectors();
    let rows = rows(&vectors, "/openshift");
    assert!(rows.len() >= 17, "{} rows", rows.len());
    for row in rows {
        let name = text(row, "name");
        let run = run_of(row);
        if let Some(errors) = row["errors"].as_array() {
            let refusal = refusal(&run);
            assert_eq!(refusal.problems.len(), errors.len(), "{name}: {refusal}");
            for (problem, error) in refusal.problems.iter().zip(errors) {
                assert_eq!(format!("template.{}", problem.place.field), text(error, "field"), "{name}");
                assert!(text(error, "detail").ends_with(&problem.to_string()), "{name}: {problem}");
                assert_eq!(problem.is_required(), text(error, "type") == "FieldValueRequired", "{name}");
            }
            continue;
        }
        let result = processed(&run);
        let template = run.to_template(&result).to_json();
        let is_upstream = text(row, "mode") == "upstream";
        let mended = mended(name);
        assert_eq!(is_upstream, mended.is_some(), "{name}: each flaw has an answer of its own");
        assert_eq!(template["objects"], mended.unwrap_or_else(|| row["want"]["objects"].clone()), "{name}");
        for field in ["labels", "message"] {
            assert_eq!(template[field], row["want"][field], "{name}: {field}");
        }
        let wanted = row["want"]["parameters"].as_array().expect("parameters");
        assert_eq!(result.parameters.len(), wanted.len(), "{name}");
        for (given, wanted) in template["parameters"].as_array().into_iter().flatten().zip(wanted) {
            assert_eq!((&given["name"], &given["value"]), (&wanted["name"], &wanted["value"]), "{name}");
        }
    }
}

#[test]
fn a_parameter_gets_its_value_as_in_openshift() {
    let vectors = vectors();
    for row in rows(&vectors, "/openshiftGenerate/cases") {
        // There is one generator here; rows with another registry say nothing about it.
        if !rows(row, "/generators").is_empty() && row["parameter"]["value"].is_null() {
            continue;
        }
        let template = json!({
            "kind": "Template", "apiVersion": "template.openshift.io/v1", "objects": [], "parameters": [row["parameter"]],
        });
        let run = Run::of_json(&template);
        match row["want"].as_str() {
            Some(want) => assert_eq!(processed(&run).parameters[0].value.expose(), want),
            None => {
                let refusal = refusal(&run);
                let problem = &refusal.problems[0];
                assert_eq!(format!("template.{}", problem.place.field), text(&row["error"], "field"));
                assert!(text(&row["error"], "detail").ends_with(&problem.to_string()), "{problem}");
            }
        }
    }
}

#[test]
fn expressions_have_the_length_of_their_samples_and_the_whole_of_each_range() {
    let vectors = vectors();
    for row in rows(&vectors, "/openshiftExpression/cases") {
        let from = text(row, "from");
        match (Expression::parse(from), row["error"].as_str()) {
            (Ok(expression), None) => {
                let generated = expression.generate(&mut counting()).expect("random bytes");
                assert_eq!(generated.chars().count(), text(row, "sample").chars().count(), "{from}");
                let is_literal = !from.contains("]{") || from.contains("{}");
                assert_eq!(generated == text(row, "sample"), is_literal, "{from}: {generated}");
            }
            (Err(error), Some(wanted)) => assert_eq!(error.to_string(), wanted, "{from}"),
            (found, wanted) => panic!("{from}: {found:?}, wanted {wanted:?}"),
        }
    }
    let alphabets = vectors["openshiftExpression"]["alphabets"].as_object().expect("alphabets");
    for (class, upstream) in alphabets {
        let expression = Expression::parse(&format!("{class}{{255}}")).expect(class);
        let mut found: Vec<char> =
            expression.generate(&mut counting()).expect("random bytes").chars().collect();
        found.sort_unstable();
        found.dedup();
        // What upstream leaves out is the last character of each range.
        let mut wanted: Vec<char> = upstream.as_str().expect("a text").chars().collect();
        wanted.extend(class.split('-').skip(1).filter_map(|part| part.chars().next()));
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(found, wanted, "{class}");
    }
}

#[test]
fn labels_are_added_to_those_that_are_there() {
    let vectors = vectors();
    for row in rows(&vectors, "/openshiftLabels/cases") {
        let kind = row["kind"].as_str().unwrap_or("Service").split(' ').next().expect("a word");
        let mut object = json!({"kind": kind, "apiVersion": "v1", "metadata": {"name": "o"}, "spec": {}});
        if !row["existing"].is_null() {
            object["metadata"]["labels"] = row["existing"].clone();
        }
        if !row["podTemplateLabels"].is_null() {
            object["spec"]["template"] = json!({"metadata": {"labels": row["podTemplateLabels"]}});
        }
        // These are about labels alone: some have values that no template may have.
        let label = |(key, value): (&String, &Value)| {
            let (key, value) = (key.clone(), value.as_str().expect("a text").to_owned());
            Label { shown: (key.clone(), value.clone()), key, value }
        };
        let mut objects = [Node::from_json(&object)];
        if let Some(add) = row["add"].as_object() {
            let labels: Vec<Label> = add.iter().map(label).collect();
            labels::apply(&mut objects, &labels, &mut Problems::default(), &mut Findings::default());
        }
        let result = objects[0].to_json();
        assert_eq!(result["metadata"]["labels"], row["want"], "{row}");
        assert_eq!(result["spec"]["template"]["metadata"]["labels"], row["wantPodTemplateLabels"], "{row}");
    }
}

#[test]
fn references_of_the_proposal_give_what_the_document_says() {
    let vectors = vectors();
    let rows = rows(&vectors, "/proposal");
    assert!(rows.len() >= 11, "{} rows", rows.len());
    for row in rows {
        let name = text(row, "name");
        if let Some(input) = row["input"].as_str() {
            let parameters: Vec<Value> = row["parameters"]
                .as_object()
                .expect("parameters")
                .iter()
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect();
            let template = json!({
                "kind": "Template", "apiVersion": "v1", "parameters": parameters,
                "objects": [{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"x": input}}],
            });
            let result = processed(&Run::of_json(&template)).objects[0].to_json();
            let wanted = text(row, "wantJson");
            // A text without quotes that is no scalar stays a string.
            let wanted = serde_json::from_str(wanted).unwrap_or_else(|_| Value::from(wanted));
            assert_eq!(result["data"]["x"], wanted, "{name}");
        } else if let Some(error) = row["wantError"].as_str() {
            assert!(refusal(&run_of(row)).to_string().contains(error), "{name}");
        } else {
            let objects: Value = processed(&run_of(row)).objects.iter().map(Node::to_json).collect();
            assert_eq!(objects, row["wantObjects"], "{name}");
        }
    }
}
