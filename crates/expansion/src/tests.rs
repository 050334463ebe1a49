//! The tables of the design document and of Kubernetes, and a naive model beside the real thing.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Row {
    name: String,
    input: String,
    vars: BTreeMap<String, String>,
    want: String,
    source: String,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("../tests/vectors/expansion.json")).expect("the vectors are JSON")
}

fn expanded<'i>(input: &'i str, lookup: &impl Lookup) -> Expanded<'i> {
    expand(input, |name| lookup.value_of(name), usize::MAX).expect("no limit")
}

#[test]
fn every_row_of_the_table_expands() {
    let rows = rows();
    assert!(rows.len() >= 78, "the table has {} rows", rows.len());
    for row in rows {
        assert_eq!(expanded(&row.input, &row.vars).value, row.want, "{}", row.name);
    }
}

#[derive(Deserialize)]
struct ContextRow {
    name: String,
    contexts: Vec<HashMap<String, String>>,
    #[serde(default)]
    input: String,
    #[serde(default)]
    want: String,
    cases: Option<String>,
}

#[test]
fn the_first_lookup_that_has_a_name_wins() {
    let fields: serde_json::Value =
        serde_json::from_str(include_str!("../tests/vectors/expansion_fields.json")).expect("JSON");
    let context_rows: Vec<ContextRow> = serde_json::from_value(fields["contexts"].clone()).expect("rows");
    assert_eq!(context_rows.len(), 3);
    for context_row in context_rows {
        let lookups = Prioritised::new(context_row.contexts.iter().map(|map| map as &dyn Lookup));
        if context_row.cases.is_some() {
            let upstream = rows().into_iter().filter(|row| row.source == "upstream-1.36-test");
            for row in upstream {
                assert_eq!(
                    expanded(&row.input, &lookups).value,
                    row.want,
                    "{}: {}",
                    context_row.name,
                    row.name
                );
            }
        } else {
            let found = expanded(&context_row.input, &lookups);
            assert_eq!(found.value, context_row.want, "{}", context_row.name);
        }
    }
}

#[test]
fn references_are_reported_with_their_spans() {
    let vars = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
    let input = "é$(A)$$(A)$(B)$(";
    let found = expanded(input, &vars);
    assert_eq!(found.value, "é1$(A)$(B)$(");
    let reported: Vec<_> = found
        .references
        .iter()
        .map(|reference| (reference.name, &input[reference.span.clone()], reference.resolved))
        .collect();
    assert_eq!(reported, [("A", "$(A)", true), ("B", "$(B)", false)]);
    assert_eq!(references(input).map(|(name, _)| name).collect::<Vec<_>>(), ["A", "B"]);
}

#[test]
fn text_without_an_operator_is_not_copied() {
    for input in ["", "plain", "a$", "$x £ $£", "$(never closed", "${A}"] {
        let found = expanded(input, &BTreeMap::new());
        if !input.is_empty() {
            assert!(matches!(found.value, Cow::Borrowed(_)), "{input}");
        }
        assert_eq!(found.value, input);
    }
}

#[test]
fn a_result_over_the_limit_is_refused_with_its_size() {
    let big = "x".repeat(1000);
    let lookup = |_: &str| Some(big.as_str());
    assert_eq!(expand("$(A)$(A)", lookup, 2000).expect("at the limit").value.len(), 2000);
    let error = expand("$(A)-$(A)", lookup, 2000).expect_err("one byte over");
    assert_eq!(error, ExpandError::TooLarge { size: 2001, limit: 2000 });
    assert_eq!(error.to_string(), "the expanded value has 2001 bytes, the limit is 2000");
    assert!(expand("four", |_| None, 3).is_err(), "literal text obeys the limit too");
}

#[test]
fn a_huge_result_is_measured_without_being_made() {
    let big = "x".repeat(1 << 20);
    let input = "$(A)".repeat(1 << 14);
    let error = expand(&input, |_| Some(big.as_str()), 1 << 17).expect_err("sixteen GiB");
    assert_eq!(error, ExpandError::TooLarge { size: 1 << 34, limit: 1 << 17 });
}

/// Quadratic behaviour would take minutes on these; the bound leaves room for a busy machine and a debug build.
#[test]
fn hostile_inputs_take_linear_time() {
    let mebibyte = 1 << 20;
    let shapes = ["$(", "$$(", "$($", "$()", "$", "$(a", ")$(", "$((", "$)"];
    for shape in shapes {
        let input = shape.repeat(mebibyte / shape.len());
        let begin = Instant::now();
        let found = expand(&input, |_| None, usize::MAX).expect("no limit");
        assert!(found.value.len() <= input.len());
        assert!(begin.elapsed() < Duration::from_secs(5), "{shape:?} took {:?}", begin.elapsed());
    }
}

/// The grammar, read slowly: for each `$` decide by the next character, searching from scratch each time.
fn naive(input: &str, vars: &BTreeMap<String, String>) -> String {
    let characters: Vec<char> = input.chars().collect();
    let mut output = String::new();
    let mut at = 0;
    while at < characters.len() {
        if characters[at] != '$' || at + 1 == characters.len() {
            output.push(characters[at]);
            at += 1;
            continue;
        }
        match characters[at + 1] {
            '$' => {
                output.push('$');
                at += 2;
            }
            '(' => match characters[at + 2..].iter().position(|character| *character == ')') {
                Some(length) => {
                    let name: String = characters[at + 2..at + 2 + length].iter().collect();
                    match vars.get(&name) {
                        Some(value) => output.push_str(value),
                        None => output.push_str(&format!("$({name})")),
                    }
                    at += length + 3;
                }
                None => {
                    output.push_str("$(");
                    at += 2;
                }
            },
            other => {
                output.push('$');
                output.push(other);
                at += 2;
            }
        }
    }
    output
}

proptest! {
    #[test]
    fn expansion_agrees_with_a_naive_model(
        input in "[$()AB £\\\\]{0,40}",
        vars in proptest::collection::btree_map("[AB$( £]{0,2}", "[$()AB]{0,6}", 0..5),
    ) {
        let found = expanded(&input, &vars);
        prop_assert_eq!(&*found.value, naive(&input, &vars));
        let tokens: usize = scan(&input).map(|token| match token {
            Token::Text(text) => text.len(),
            Token::Reference { span, .. } => span.len(),
        }).sum();
        prop_assert!(tokens <= input.len());
        for reference in &found.references {
            let written = format!("$({})", reference.name);
            prop_assert_eq!(&input[reference.span.clone()], written.as_str());
            prop_assert_eq!(reference.resolved, vars.contains_key(reference.name));
        }
    }

    #[test]
    fn any_text_is_accepted(input in any::<String>()) {
        let found = expanded(&input, &BTreeMap::new());
        prop_assert_eq!(&*found.value, naive(&input, &BTreeMap::new()));
    }
}
