use serde_json::json;

use super::{SelectableField, Selector, parse_fields, parse_labels};

fn selects(labels: &str, object: &serde_json::Value) -> bool {
    Selector::bind(parse_labels(labels).expect(labels), Vec::new(), &[]).expect("labels only").accepts(object)
}

#[test]
fn label_selectors_select() {
    let object = json!({"metadata": {"labels": {"app": "web", "tier": "", "n": "5", "example.com/x": "y"}}});
    let table = [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web , n", true),
        ("app!=web", false),
        ("other!=web", true),
        ("app in (db, web)", true),
        ("app in (db)", false),
        ("app notin (db)", true),
        ("missing notin (db)", true),
        ("missing in (db)", false),
        ("app", true),
        ("!app", false),
        ("!missing", true),
        ("tier=", true),
        ("tier in ()", true),
        ("n>4", true),
        ("n<5", false),
        ("example.com/x=y", true),
        ("app=web,!missing,n in (5,6)", true),
    ];
    for (selector, expected) in table {
        assert_eq!(selects(selector, &object), expected, "{selector}");
    }
}

#[test]
fn malformed_label_selectors_are_refused() {
    for selector in
        ["a=b=c", "a in b", "a in (b", "=a", "a,,b", "!", "a b", "a=b,", "-a", "a=-", "n>x", "x/y/z=1"]
    {
        assert!(parse_labels(selector).is_err(), "{selector}");
    }
}

#[test]
fn malformed_label_selectors_are_told_in_the_words_of_kubernetes() {
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let table = [
        ("a=b=c", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("=a", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        ("a=b,", "found '', expected: identifier after ','".to_owned()),
        ("a in b", "unable to parse requirement: found 'b', expected: '('".to_owned()),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        ("a in (b,@)", format!("unable to parse requirement: values[1][a]: Invalid value: \"@\": {value}")),
        ("n>x", "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer".to_owned()),
    ];
    for (selector, expected) in table {
        assert_eq!(parse_labels(selector).expect_err(selector).to_string(), expected, "{selector}");
    }
    let key = parse_labels("x/y/z=1").expect_err("three parts").to_string();
    assert!(
        key.starts_with("unable to parse requirement: <nil>: Invalid value: \"x/y/z\": a qualified name"),
        "{key}"
    );
}

#[test]
fn field_selectors_select() {
    let known = [
        SelectableField { label: "spec.nodeName", paths: &[&["spec", "nodeName"]], absent: "" },
        SelectableField {
            label: "spec.unschedulable",
            paths: &[&["spec", "unschedulable"]],
            absent: "false",
        },
    ];
    let object = json!({"metadata": {"name": "a,b", "namespace": "ns"}, "spec": {"nodeName": "n1"}});
    let selects = |text: &str| {
        let selector = Selector::bind(Vec::new(), parse_fields(text).expect(text), &known).expect(text);
        selector.name.as_deref().is_none_or(|name| name == "a,b") && selector.accepts(&object)
    };
    let table = [
        ("spec.nodeName=n1", true),
        ("spec.nodeName==n1,metadata.namespace=ns", true),
        ("spec.nodeName!=n1", false),
        ("spec.unschedulable=false", true),
        ("metadata.name=a\\,b", true),
        ("metadata.name=a", false),
        ("", true),
    ];
    for (text, expected) in table {
        assert_eq!(selects(text), expected, "{text}");
    }
    assert!(parse_fields("nonsense").is_err());
    assert!(parse_fields("a=b=c").is_err());
    assert!(Selector::bind(Vec::new(), parse_fields("spec.other=1").expect("well formed"), &known).is_err());
}
