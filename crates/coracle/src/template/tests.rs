//! Tables: what the words of the command line mean, where values come from, and what is shown.

use std::path::{Path, PathBuf};

use environment::SecretText;

use super::arguments::{SourceArgs, ValueArgs};
use super::source::{Origin, WordsError, words};
use super::values::{self, ValueError};
use super::{expand, random_bytes};
use crate::input::Input;

fn origin(all: &[&str], files: &[&str]) -> Result<(Origin, Vec<String>), WordsError> {
    let args = SourceArgs {
        words: all.iter().map(|&word| word.to_owned()).collect(),
        files: files.iter().map(PathBuf::from).collect(),
    };
    words(&args, |path| path == Path::new("there")).map(|words| (words.origin, words.values))
}

#[test]
fn words_are_a_file_a_stored_template_or_values() {
    let file = |name: &str| Origin::File(name.into());
    let stored = |namespace: Option<&str>, name: &str| Origin::Stored {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    for (all, files, expected) in [
        (&["app.yaml"][..], &[][..], file("app.yaml")),
        (&["there"], &[], file("there")),
        (&["-"], &[], file("-")),
        (&[], &["x"], file("x")),
        (&["shop"], &[], stored(None, "shop")),
        (&["template/shop"], &[], stored(None, "shop")),
        (&["ns//shop"], &[], stored(Some("ns"), "shop")),
        (&["ns/template/shop"], &[], stored(Some("ns"), "shop")),
    ] {
        assert_eq!(origin(all, files).map(|(origin, _)| origin), Ok(expected), "{all:?} {files:?}");
    }
    let values = origin(&["A=1", "shop", "B=x=y"], &[]).map(|(_, values)| values);
    assert_eq!(values, Ok(vec!["A=1".to_owned(), "B=x=y".to_owned()]));
    assert_eq!(origin(&["A=1"], &[]), Err(WordsError::Missing));
    assert!(matches!(origin(&["shop"], &["x"]), Err(WordsError::Several(..))));
}

fn given(params: &[&str], files: &[PathBuf]) -> Result<Vec<(String, SecretText)>, ValueError> {
    let args = ValueArgs {
        params: params.iter().map(|&each| each.to_owned()).collect(),
        param_files: files.to_vec(),
        ..ValueArgs::default()
    };
    values::of_flags(&args, &[]).map(|given| given.values)
}

#[test]
fn values_come_from_flags_then_files_and_a_file_gives_its_whole_content() {
    let directory = tempfile::tempdir().expect("a directory");
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "line one\nline two\r\n").expect("a file");
    let env_file = directory.path().join("values.env");
    std::fs::write(&env_file, "# values\nA=ignored\nC=from file\nC=last\n").expect("a file");
    let at = format!("B=@{}", secret.display());
    let found = given(&["A=1", &at, "D=@@literal", "E="], &[env_file]).expect("values");
    let found: Vec<(&str, &str)> =
        found.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(found, [("A", "1"), ("B", "line one\nline two"), ("D", "@literal"), ("E", ""), ("C", "last")]);
    assert!(
        matches!(given(&["A=1", "A=2", "B=1", "B=1"], &[]), Err(ValueError::Twice(names)) if names == ["A", "B"])
    );
    assert!(matches!(given(&["A=@/nowhere/at/all"], &[]), Err(ValueError::Unreadable { .. })));
}

#[test]
fn a_value_without_a_name_is_not_repeated_in_the_error() {
    let error = given(&["hunter2!secret"], &[]).expect_err("no pair").to_string();
    assert!(!error.contains("secret"), "{error}");
}

const TEMPLATE: &str = "apiVersion: template.coracle.dev/v1
kind: Template
metadata: {name: pair}
message: $(NAME) is there, $(PASSWORD)
parameters:
- {name: NAME, required: true}
- {name: PASSWORD, secret: true, required: true}
objects:
- apiVersion: v1
  kind: Pod
  metadata: {name: $(NAME)}
  spec:
    containers:
    - {name: c, image: i, env: [{name: PW, value: $(PASSWORD)}]}
";

#[test]
fn an_expanded_template_keeps_its_places_and_shows_no_secret() {
    let input = Input::of_text("t.yaml", TEMPLATE.into()).unwrap_or_else(|error| panic!("{error}"));
    let args = ValueArgs {
        params: vec!["NAME=shop".to_owned(), "PASSWORD=say \"x\"".to_owned()],
        no_prompt: true,
        ..ValueArgs::default()
    };
    let expanded = expand(input, &args, true).expect("processed");
    let [pod] = expanded.input.objects.as_slice() else { panic!("one object") };
    assert_eq!((pod.kind.as_str(), pod.name.as_str()), ("Pod", "shop"));
    assert_eq!(expanded.input.place(pod, "metadata.name"), "t.yaml:11:20");
    let json = pod.document.root.to_json();
    assert_eq!(json["metadata"]["labels"]["template.coracle.dev/instance"], "pair");
    assert_eq!(json["spec"]["containers"][0]["env"][0]["value"], "say \"x\"");
    assert_eq!(expanded.messages, ["shop is there, ****"]);
    assert_eq!(expanded.redactor.redact("a say \"x\" b"), "a **** b");
    assert_eq!(expanded.redactor.redact(&json["spec"].to_string()).matches("****").count(), 1);
}

#[test]
fn values_without_a_template_are_refused() {
    let input = Input::of_text("p.yaml", b"{kind: Pod, apiVersion: v1}".to_vec())
        .unwrap_or_else(|error| panic!("{error}"));
    let args = ValueArgs { params: vec!["A=1".to_owned()], ..ValueArgs::default() };
    assert!(expand(input, &args, true).is_err());
}

#[test]
fn random_bytes_differ() {
    let (mut one, mut two) = ([0; 32], [0; 32]);
    random_bytes(&mut one).expect("bytes");
    random_bytes(&mut two).expect("bytes");
    assert_ne!(one, two);
}

#[test]
fn a_template_that_is_sent_has_values_instead_of_defaults_and_generators() {
    let text = "kind: Template
apiVersion: v1
metadata: {name: t}
parameters:
- {name: A, value: old}
- {name: B, generate: expression, from: '[a-z]{8}'}
- {name: C, generate: expression, from: '[a-z]{8}'}
objects: []
";
    let input = Input::of_text("t.yaml", text.into()).unwrap_or_else(|error| panic!("{error}"));
    let root = &input.objects[0].document.root;
    let template = ::template::Template::read(root, None).expect("a template");
    let args = ValueArgs { instance: Some("one".to_owned()), ..ValueArgs::default() };
    let given = values::Given {
        values: vec![("A".to_owned(), SecretText::new("new")), ("B".to_owned(), SecretText::new("x"))],
        labels: vec![("tier".to_owned(), "web".to_owned())],
    };
    assert_eq!(
        super::process::filled(root, &template, &given, &args).to_json(),
        serde_json::json!({
            "kind": "Template", "apiVersion": "v1", "metadata": {"name": "t"}, "objects": [],
            "labels": {"tier": "web", "template.coracle.dev/instance": "one"},
            "parameters": [{"name": "A", "value": "new"}, {"name": "B", "value": "x"},
                {"name": "C", "generate": "expression", "from": "[a-z]{8}"}],
        })
    );
}
