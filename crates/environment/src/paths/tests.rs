//! What the tables of the crate root leave out.

use serde_json::json;

use super::*;
use crate::{Entry, Origin, Part, SecretText, Value};

fn environment(pairs: &[(&str, Value)]) -> Environment {
    let entries = pairs.iter().enumerate().map(|(index, (name, value))| Entry {
        name: (*name).into(),
        value: value.clone(),
        origin: Origin::Value { index },
        references: Vec::new(),
        shadowed: Vec::new(),
    });
    Environment::from_entries(entries.collect())
}

#[test]
fn an_empty_value_is_missing_and_an_escaped_reference_is_not_one() {
    let environment = environment(&[("EMPTY", Value::EMPTY), ("A", Value::plain("a".to_owned()))]);
    let error = expand_sub_path("$(EMPTY)/$(A)", &environment).expect_err("empty");
    assert_eq!(error, SubPathError::MissingValues(vec!["EMPTY".to_owned()]));
    assert_eq!(expand_sub_path("$$(NOPE)/$(A)", &environment).as_deref(), Ok("$(NOPE)/a"));
}

#[test]
fn secret_values_are_used_and_unknown_ones_are_missing() {
    let secret = Value::Composed(vec![Part::Secret(SecretText::new("s"))]);
    let unknown = Value::Composed(vec![Part::UnknownUntilRun { label: "x".to_owned() }]);
    let environment = environment(&[("S", secret), ("U", unknown)]);
    assert_eq!(expand_sub_path("a/$(S)", &environment).as_deref(), Ok("a/s"));
    assert!(matches!(expand_sub_path("$(U)", &environment), Err(SubPathError::MissingValues(_))));
}

#[test]
fn a_refusal_does_not_show_what_is_secret() {
    let secret = Value::Composed(vec![Part::Secret(SecretText::new("/hunter2"))]);
    let error = expand_sub_path("$(S)/x", &environment(&[("S", secret)])).expect_err("absolute");
    assert_eq!(error.to_string(), "error SubPath `****/x` must not be an absolute path");
}

#[test]
fn dots_inside_of_a_name_are_no_way_out() {
    let environment =
        environment(&[("A", Value::plain("a..b".to_owned())), ("UP", Value::plain("x/..".to_owned()))]);
    assert_eq!(expand_sub_path("$(A)", &environment).as_deref(), Ok("a..b"));
    assert!(matches!(expand_sub_path("$(UP)/y", &environment), Err(SubPathError::Backstep(_))));
    let long = "x".repeat(5000);
    assert_eq!(expand_sub_path(&long, &environment), Err(SubPathError::TooLarge { size: 5000, limit: 4096 }));
}

#[test]
fn a_probe_sees_a_variable_with_a_source_as_empty() {
    let env: Vec<EnvVar> = serde_json::from_value(json!([
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "B", "value": "$(C)"},
    ]))
    .expect("variables");
    let command = ["[$(A)]", "$(B)", "$(NOPE)"].map(str::to_owned);
    assert_eq!(expand_exec_probe(&command, &env), ["[]", "$(C)", "$(NOPE)"]);
}
