//! Properties: processing is substitution on the tree, text never becomes structure, what is written reads back, and no
//! input makes the engine panic.

use manifest::{Node, NodeValue};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Run;
use crate::Dialect;

/// The language, read slowly: what begins at a place, tried in order. Gives the text and whether it may lose its quotes.
fn naive(text: &str, dialect: Dialect, values: &[(&str, &str)]) -> (String, bool) {
    let (mut output, mut quoted, mut unquoted) = (String::new(), false, false);
    let mut rest = text;
    'next: while let Some(first) = rest.chars().next() {
        for (name, value) in values {
            let forms = match dialect {
                Dialect::Proposal => [format!("$(({name}))"), format!("$({name})")],
                Dialect::OpenShift => [format!("${{{{{name}}}}}"), format!("${{{name}}}")],
            };
            for (place, form) in forms.iter().enumerate() {
                if dialect == Dialect::Proposal && rest.starts_with(&format!("${form}")) {
                    output.push_str(form);
                    rest = &rest[form.len() + 1..];
                    continue 'next;
                }
                let only_whole = dialect == Dialect::OpenShift && place == 0;
                if rest.starts_with(form.as_str()) && (!only_whole || text == form) {
                    output.push_str(value);
                    unquoted |= place == 0;
                    quoted |= place == 1;
                    rest = &rest[form.len()..];
                    continue 'next;
                }
            }
        }
        let length =
            if dialect == Dialect::Proposal && rest.starts_with("$$") { 2 } else { first.len_utf8() };
        output.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    (output, unquoted && !quoted)
}

/// A scalar as the document's grammar has it, told by other means than the engine's.
fn naive_scalar(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Bool(_)) if !text.contains(char::is_whitespace) => value,
        Ok(Value::Number(_)) if text.contains(char::is_whitespace) => text.into(),
        Ok(Value::Number(number)) => match number.as_i64() {
            Some(whole) => whole.into(),
            // A whole number that is too large stays text.
            None if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => text.into(),
            None => {
                let near = text.parse::<f64>().expect("a number");
                let mantissa = text.split(['e', 'E']).next().expect("a first part");
                // Too near to zero for a float: it stays text instead of becoming zero.
                match near == 0.0 && mantissa.contains(|digit| ('1'..='9').contains(&digit)) {
                    true => text.into(),
                    false => Node::from_json(&json!(near)).to_json(),
                }
            }
        },
        Ok(_) | Err(_) => text.into(),
    }
}

fn naive_tree(tree: &Value, dialect: Dialect, values: &[(&str, &str)]) -> Value {
    match tree {
        Value::String(text) => match naive(text, dialect, values) {
            (output, true) => naive_scalar(&output),
            (output, false) => output.into(),
        },
        Value::Array(items) => items.iter().map(|item| naive_tree(item, dialect, values)).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (naive(key, dialect, values).0, naive_tree(value, dialect, values)))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Whether two trees have the same lists and maps, and scalars that are strings or came from strings.
fn has_shape_of(built: &Node, written: &Node) -> bool {
    match (&built.value, &written.value) {
        (NodeValue::List(built), NodeValue::List(written)) => {
            built.len() == written.len()
                && built.iter().zip(written).all(|(built, written)| has_shape_of(built, written))
        }
        (NodeValue::Map(built), NodeValue::Map(written)) => {
            built.len() == written.len()
                && built
                    .iter()
                    .zip(written)
                    .all(|(built, written)| has_shape_of(&built.value, &written.value))
        }
        (
            NodeValue::String(_) | NodeValue::Int(_) | NodeValue::Float(_) | NodeValue::Bool(_),
            NodeValue::String(_),
        ) => true,
        (built, written) => built == written,
    }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[$(){}AB x1]{0,14}",
        proptest::collection::vec(
            prop_oneof![
                Just("$(A)"),
                Just("$((A))"),
                Just("$(B)"),
                Just("$((B))"),
                Just("$$(A)"),
                Just("$$((B))"),
                Just("$$"),
                Just("${A}"),
                Just("${{B}}"),
                Just("1"),
                Just("."),
                Just("-"),
                Just("é"),
                Just("$(C)"),
                Just("$"),
            ],
            0..5
        )
        .prop_map(|pieces| pieces.concat()),
        any::<String>(),
    ]
}

fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-$(){}AB x1.e\"\\\\\n]{0,8}",
        "-?[0-9]{1,20}",
        "-?[0-9]{1,3}\\.[0-9]{1,3}(e-?[0-9]{1,3})?",
        "(true|false|null|NaN|\\[\\]|\\{\\}|\\{\"a\":1\\})",
        any::<String>(),
    ]
}

fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => texts().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((texts(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn template(dialect: Dialect, tree: &Value, a: &str, b: &str) -> Value {
    let api_version = match dialect {
        Dialect::Proposal => crate::API_VERSION,
        Dialect::OpenShift => crate::OPENSHIFT_API_VERSION,
    };
    json!({
        "kind": "Template", "apiVersion": api_version,
        "parameters": [{"name": "A", "value": a}, {"name": "B", "value": b}],
        "objects": [{"apiVersion": "example.com/v1", "kind": "Anything", "content": tree}],
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(super::cases(1000)))]

    #[test]
    fn processing_is_substitution_on_the_tree(tree in trees(), a in values(), b in values(), is_proposal: bool) {
        let dialect = if is_proposal { Dialect::Proposal } else { Dialect::OpenShift };
        let run = Run::of_json(&template(dialect, &tree, &a, &b));
        match run.process() {
            Ok(result) => {
                let content = &result.objects[0].get("content").expect("content");
                let wanted = naive_tree(&tree, dialect, &[("A", &a), ("B", &b)]);
                prop_assert_eq!(content.to_json(), Node::from_json(&wanted).to_json());
                let written = run.root.get("objects").expect("objects").items()[0].clone();
                prop_assert!(has_shape_of(&result.objects[0], &written), "{:?}", result.objects[0]);
                let list = result.to_list();
                for text in [manifest::to_yaml(&list), manifest::to_json_text(&list)] {
                    let read = manifest::parse_stream(text.as_bytes(), &manifest::Limits::default());
                    prop_assert_eq!(read.expect("it reads back")[0].root.to_json(), list.to_json());
                }
            }
            Err(refusal) => {
                for problem in &refusal.problems {
                    let is_expected = ["template-keys-collide", "template-reference-whole"].contains(&problem.code());
                    prop_assert!(is_expected, "{}", problem);
                }
            }
        }
    }

    #[test]
    fn values_that_differ_give_trees_that_differ_in_their_texts_only(tree in trees(), a in values(), b in values()) {
        let plain = Run::of_json(&template(Dialect::Proposal, &tree, "x", "y"));
        let other = Run::of_json(&template(Dialect::Proposal, &tree, &a, &b));
        if let (Ok(plain), Ok(other)) = (plain.process(), other.process()) {
            prop_assert_eq!(shape(&plain.objects[0]), shape(&other.objects[0]));
        }
    }

    #[test]
    fn the_size_is_never_less_than_what_is_built(tree in trees(), a in values(), b in values()) {
        let value = template(Dialect::Proposal, &tree, &a, &b);
        let run = Run::of_json(&value);
        let read = crate::Template::read(&run.root, None).expect("a template");
        let size = crate::process::size_of(&read, &run.request());
        if let Ok(result) = run.process() {
            prop_assert!(result.objects[0].to_json().to_string().len() <= size);
        }
    }

    #[test]
    fn no_template_makes_it_panic(text in "[-a-c:{}\\[\\],&*'\"#|> \n$()AB]{0,80}", parameters in trees(), labels in trees()) {
        let base = format!("kind: Template\napiVersion: v1\nparameters: [{{name: A}}]\nobjects: {text}");
        if let Ok(documents) = manifest::parse_stream(base.as_bytes(), &manifest::Limits::default())
            && let Some(document) = documents.into_iter().next()
        {
            let _ = Run::of_node(&base, document.root).process();
        }
        let value = json!({"kind": "Template", "apiVersion": "v1", "parameters": parameters, "labels": labels, "objects": [labels], "message": labels});
        let _ = Run::of_json(&value).process();
        let _ = Run::of_json(&value).check();
    }
}

/// The lists and maps of a tree, scalars left out.
fn shape(node: &Node) -> Value {
    match &node.value {
        NodeValue::List(items) => items.iter().map(shape).collect(),
        NodeValue::Map(entries) => entries.iter().map(|entry| shape(&entry.value)).collect(),
        NodeValue::Null => Value::Null,
        NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_) | NodeValue::String(_) => {
            "scalar".into()
        }
    }
}
