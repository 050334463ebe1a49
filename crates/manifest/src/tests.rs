//! Tables: kubectl's resolution of scalars, positions, paths, limits, JSON.

use serde_json::Value;

use super::*;

fn parse(text: &str) -> Result<Vec<Document>, ParseError> {
    parse_stream(text.as_bytes(), &Limits::default())
}

fn only(text: &str) -> Document {
    let mut documents = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error} at {:?}", error.mark()));
    assert_eq!(documents.len(), 1, "{text:?}");
    documents.remove(0)
}

fn refusal(text: &str) -> String {
    let error = parse(text).expect_err(text);
    error.mark().map_or_else(|| error.to_string(), |mark| format!("{mark}: {error}"))
}

/// A number as Go's JSON encoder writes it, with its kind, as the vectors hold it.
fn as_in_vectors(node: &Node) -> Value {
    match &node.value {
        NodeValue::Int(number) => serde_json::json!({ "int": number.to_string() }),
        NodeValue::Float(number) if number.fract() == 0.0 => serde_json::json!({ "int": number.to_string() }),
        NodeValue::Float(number) => serde_json::json!({ "float": number.to_string() }),
        NodeValue::List(items) => items.iter().map(as_in_vectors).collect(),
        NodeValue::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), as_in_vectors(&entry.value))).collect()
        }
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::String(_) => node.to_json(),
    }
}

#[test]
fn scalars_and_keys_are_resolved_as_kubectl_resolves_them() {
    let vectors: Value = serde_json::from_str(include_str!("../tests/vectors/yaml_resolve.json")).unwrap();
    for case in vectors["cases"].as_array().unwrap() {
        if let Some(yaml) = case["yaml"].as_str() {
            let text = format!("a: 1\nb: 2\nc:\n  d: 3\n  v: {yaml}\n");
            match parse(&text) {
                Err(error) => assert!(case["error"].is_string(), "{yaml}: {error}"),
                Ok(documents) => {
                    let value = as_in_vectors(documents[0].find("c.v").unwrap());
                    assert_eq!(Some(&value), case.get("json"), "{yaml}");
                }
            }
        } else if let Some(key) = case["yamlKey"].as_str() {
            match parse(&format!("{key}: v\n")) {
                Err(error) => assert!(case["error"].is_string(), "{key}: {error}"),
                Ok(documents) => {
                    let entry = &documents[0].root.entries()[0];
                    assert_eq!(Some(entry.key.as_str()), case["jsonKey"].as_str(), "{key}");
                }
            }
        } else {
            let text = case["document"].as_str().unwrap();
            match parse(text) {
                Err(error) => assert!(case["error"].is_string(), "{text}: {error}"),
                Ok(documents) => {
                    let json = documents.first().map_or(Value::Null, |document| document.root.to_json());
                    assert_eq!(Some(&json), case.get("json"), "{text}");
                }
            }
        }
    }
}

#[test]
fn every_scalar_knows_where_it_stands() {
    let text =
        "kind: Pod\nspec:\n  containers:\n  - name: c\n    env:\n    - name: Ä\n      value: \"a $(B) c\"\n";
    let document = only(text);
    let value = document.find("spec.containers[0].env[0].value").unwrap();
    assert_eq!(value.span.start, Mark { offset: 79, line: 7, column: 14 });
    assert_eq!(value.span.slice(text), "\"a $(B) c\"");
    let part = value.span_of(text, 2..6);
    assert_eq!((part.start.line, part.start.column, part.slice(text)), (7, 17, "$(B)"));
    assert_eq!(document.find("spec.containers[0].env[0].name").unwrap().span.slice(text), "Ä");
    let located = document.locate("spec.containers[0].image");
    assert!(!located.is_complete);
    assert_eq!(located.span().slice(text), "name");
    assert_eq!(document.locate("spec.containers[0].env").span().start.to_string(), "5:5");
}

#[test]
fn the_same_reference_twice_is_found_where_it_stands_the_second_time() {
    let text = "v: >\n  one $(A)\n  two $(A)\n";
    let document = only(text);
    let node = document.find("v").unwrap();
    assert_eq!(node.as_str(), Some("one $(A) two $(A)\n"));
    assert_eq!(node.span_of(text, 13..17).start.to_string(), "3:7");
}

#[test]
fn paths_name_keys_with_dots_brackets_and_quotes() {
    let document = only("metadata:\n  labels: {a.b/c: x}\ndata: {K.E: v, '0': zero}\nlist: [[1, 2], [3]]\n");
    let text = |path: &str| document.find(path).and_then(Node::as_str).map(str::to_owned);
    assert_eq!(text("metadata.labels['a.b/c']").as_deref(), Some("x"));
    assert_eq!(text("metadata.labels[a.b/c]").as_deref(), Some("x"));
    assert_eq!(text("data[K.E]").as_deref(), Some("v"));
    assert_eq!(text("data[0]").as_deref(), Some("zero"));
    assert_eq!(document.find("list[0][1]").unwrap().value, NodeValue::Int(2));
    for path in ["list[2]", "list[x]", "list.0", "data.K", "data[", "metadata.labels['a"] {
        assert_eq!(document.find(path), None, "{path}");
    }
    assert_eq!(document.find(""), Some(&document.root));
}

#[test]
fn of_equal_keys_the_last_wins_with_a_notice() {
    for text in ["a: 1\nb: 2\na: 3\n", "{\"a\": 1, \"b\": 2, \"a\": 3}"] {
        let document = only(text);
        assert_eq!(document.root.to_json(), serde_json::json!({"a": 3, "b": 2}));
        let [Notice::DuplicateKey { key, first, again }] = document.notices.as_slice() else {
            panic!("{:?}", document.notices)
        };
        assert_eq!(key, "a");
        assert!(first.start < again.start);
    }
    let many: String = (0..40).map(|number| format!("k{}: {number}\n", number % 30)).collect();
    let document = only(&many);
    assert_eq!(document.root.entries().len(), 30);
    assert_eq!(document.notices.len(), 10);
    assert_eq!(document.find("k9").unwrap().value, NodeValue::Int(39));
}

#[test]
fn merge_keys_set_their_entries_where_they_stand() {
    for (text, want) in [
        ("x: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", r#"{"b":1,"c":3}"#),
        ("x: &x {b: 1, c: 2}\nd: {c: 3, <<: *x}", r#"{"b":1,"c":2}"#),
        ("x: &x {b: 1}\ny: &y {b: 2, z: 3}\nd: {<<: [*x, *y]}", r#"{"b":1,"z":3}"#),
        ("d: {\"<<\": 1}", r#"{"<<":1}"#),
        ("d: {<<: {b: 1}}", r#"{"b":1}"#),
    ] {
        let document = only(text);
        let want: Value = serde_json::from_str(want).unwrap();
        assert_eq!(document.find("d").unwrap().to_json(), want, "{text}");
        assert_eq!(document.notices, [], "{text}");
    }
}

#[test]
fn several_documents_and_empty_ones_are_told_apart() {
    let documents = parse("# only a comment\n---\na: 1\n---\n---\nb: 2\n...\n").unwrap();
    let roots: Vec<Value> = documents.iter().map(|document| document.root.to_json()).collect();
    assert_eq!(roots.iter().filter(|root| !root.is_null()).count(), 2);
    assert_eq!(parse("").unwrap(), []);
    assert_eq!(parse("# nothing\n").unwrap(), []);
    assert_eq!(only("\u{feff}a: 1\n").root.entries()[0].key, "a");
    assert_eq!(only("a: &x 1\n").root.to_json(), serde_json::json!({"a": 1}));
    assert!(parse("a: &x 1\n---\nb: *x\n").is_err(), "anchors end with their document");
}

#[test]
fn json_is_read_with_positions() {
    let text = "{\"a\": [1, -2.5, true, null, \"x\\u00e9\\n\\ud83d\\ude00\"],\n \"b\": {\"Ä\": 18446744073709551615}}";
    let document = only(text);
    assert_eq!(document.find("a[4]").unwrap().as_str(), Some("xé\n😀"));
    assert_eq!(document.find("b").unwrap().span.start.to_string(), "2:7");
    assert_eq!(document.find("b.Ä").unwrap().span.start.to_string(), "2:13");
    assert_eq!(document.find("b.Ä").unwrap().value, NodeValue::Float(18_446_744_073_709_551_615.0));
    assert_eq!(parse("{\"a\": 1}\n{\"a\": 2}\n---\n[3]").unwrap().len(), 3);
    assert_eq!(only("a: 1e400").root.to_json(), serde_json::json!({"a": "1e400"}));
    assert_eq!(only("{a: b}").root.to_json(), serde_json::json!({"a": "b"}));
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    for (text, want) in [
        ("a:\n\tb: 1", "2:2: found a tab where indentation needs blanks"),
        ("a: .inf", "1:4: infinity and NaN have no JSON form; quote the value if a string is meant"),
        ("~: 1", "1:1: null cannot be a map key"),
        ("? [a]\n: 1", "1:3: a list cannot be a map key"),
        ("a: &a [*a]", "1:8: an anchored value contains itself"),
        ("a: !!int x", "1:10: cannot decode a !!str as !!int"),
        ("a: !!binary '!'", "1:13: !!binary value contains invalid base64 text"),
        ("a: {<<: 1}", "1:9: a merge key needs a map or a list of maps"),
        ("{\"a\": 1 \"b\": 2}", "1:9: expected `,` or `}` in a JSON map"),
        ("{\"a\": tru \"b\": 1}", "1:7: this is no JSON value"),
        ("{\"a\": \"x\ny\"", "1:9: a JSON string cannot hold a control character"),
    ] {
        assert_eq!(refusal(text), want, "{text:?}");
    }
    assert_eq!(
        parse_stream(b"a: 1\nb: \xff\n", &Limits::default()),
        Err(ParseError::NotUtf8 { mark: Mark { offset: 8, line: 2, column: 4 }, is_utf16: false })
    );
}

#[test]
fn hostile_input_runs_into_a_limit() {
    let laughs: String = std::iter::once("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned())
        .chain((1..30).map(|level| {
            let below = level - 1;
            format!("a{level}: &a{level} [*a{below}, *a{below}, *a{below}, *a{below}, *a{below}, *a{below}, *a{below}]\n")
        }))
        .collect();
    assert!(matches!(parse(&laughs), Err(ParseError::ExcessiveAliasing { .. })));
    let text = "x".repeat(1_000_000);
    let long_text = format!("a: &a {text}\nb: [{}]\n", ["*a"; 1000].join(", "));
    assert!(matches!(parse(&long_text), Err(ParseError::ExcessiveAliasing { .. })));
    assert!(matches!(parse(&"[".repeat(100_000)), Err(ParseError::TooDeep { .. })));
    assert!(matches!(parse(&format!("a: {}", "[".repeat(100_000))), Err(ParseError::TooDeep { .. })));
    assert!(matches!(parse(&"- ".repeat(100_000)), Err(ParseError::TooDeep { .. })));
    assert!(matches!(parse(&"{\"a\":".repeat(100_000)), Err(ParseError::TooDeep { .. })));
    let few = Limits { nodes: 10, bytes: 100, ..Limits::default() };
    assert!(matches!(parse_stream(b"[1,2,3,4,5,6,7,8,9,10,11]", &few), Err(ParseError::TooManyNodes { .. })));
    assert!(matches!(
        parse_stream(b"a: [1,2,3,4,5,6,7,8,9,10,11]", &few),
        Err(ParseError::TooManyNodes { .. })
    ));
    assert!(matches!(parse_stream(&[b' '; 101], &few), Err(ParseError::TooLarge { limit: 100 })));
}

/// With the columns of each value counted from the beginning of its line, these take minutes; the bound leaves room for a
/// busy machine and a debug build.
#[test]
fn a_stream_on_one_line_takes_no_more_time_than_on_many() {
    let long = "x".repeat(8 << 20);
    let numbers = "1, ".repeat(400_000);
    for text in [
        format!("[\"{long}\", {numbers}2]"),
        format!("a: [{long}, {numbers}2]"),
        format!("a: {{b: [{numbers}2]}}"),
    ] {
        let begin = std::time::Instant::now();
        let document = only(&text);
        assert!(begin.elapsed().as_secs() < 20, "took {:?}", begin.elapsed());
        let list = ["a.b", "a", ""].into_iter().filter_map(|path| document.find(path));
        let last = list.flat_map(Node::items).last().expect("a list");
        assert_eq!(last.span.slice(&text), "2");
        assert_eq!(last.span.start.column, last.span.start.offset + 1);
    }
}

#[test]
fn what_is_written_is_what_people_would_write() {
    let tree = Node::from_json(&serde_json::json!({
        "a": {"script": "set -e\necho $(A)\n", "no": "no", "n": 1, "f": 1.5, "z": null, "e": {}, "l": []},
        "b": [{"image": "a/b:1.2", "port": "8080", "v": "1.10"}, "x: y", "plain text", ["q"]],
    }));
    let expected = "a:
  e: {}
  f: 1.5
  l: []
  \"n\": 1
  \"no\": \"no\"
  script: |
    set -e
    echo $(A)
  z: null
b:
- image: a/b:1.2
  port: \"8080\"
  v: \"1.10\"
- \"x: y\"
- plain text
- - q
";
    assert_eq!(to_yaml(&tree), expected);
    assert_eq!(only(expected).root.to_json(), tree.to_json());
    assert_eq!(to_yaml(&Node::from("")), "\"\"\n");
    assert_eq!(
        to_json_text(&Node::from_iter([("b", "1".into()), ("a", Node::from("2"))])),
        "{\n    \"b\": \"1\",\n    \"a\": \"2\"\n}\n"
    );
}

fn trees() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let text = prop_oneof![
        any::<String>(),
        "[-a-zA-Z0-9:{}\\[\\],&*<'\"#|>!~. \n\té\\\\$()@%=?]{0,12}",
        "(yes|no|null|true|0x1f|1e3|0644|1_000|\\.inf|<<|=|~|- a|a:|a #b|2001-01-01)",
        "([a-z:# ]{0,6}\n){1,4}",
    ];
    let number = (-1e300_f64..1e300).prop_map(|number| serde_json::json!(number));
    let leaf = prop_oneof![
        text.clone().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        number,
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn what_is_written_reads_back_as_the_same_tree(value in trees()) {
        // Through the tree once, so that numbers have their final form.
        let tree = Node::from_json(&value);
        let yaml = to_yaml(&tree);
        proptest::prop_assert_eq!(only(&yaml).root.to_json(), tree.to_json(), "{}", yaml);
        let json = to_json_text(&tree);
        proptest::prop_assert_eq!(only(&json).root.to_json(), tree.to_json());
    }

    #[test]
    fn no_input_makes_it_panic(text in "[-a-c:{}\\[\\],&*<'\"#|>!~0-9. \n\té\\\\]{0,60}") {
        let _ = parse(&text);
    }

    #[test]
    fn json_reads_as_serde_json_reads_it(text in "[a-z é\\\\\"\n]{0,12}", number in 0.01_f64..0.99, whole: i64) {
        let value = serde_json::json!({"t": text, "n": number, "w": [whole, null, true, {}]});
        let compact = value.to_string();
        proptest::prop_assert_eq!(only(&compact).root.to_json(), value.clone());
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        proptest::prop_assert_eq!(only(&pretty).root.to_json(), value);
    }
}

#[test]
fn each_kind_of_mistake_has_its_own_hint() {
    use SyntaxMistake as M;
    let cases: &[(&str, M, &str)] = &[
        ("a:\n\tb: 1\n", M::Tab, "2:2"),
        ("a: 1\n\tb: 2\n", M::Tab, "2:1"),
        ("a: \"x\nb: 1\n", M::UnclosedQuote, "1:4"),
        ("a: 'x\n", M::UnclosedQuote, "1:4"),
        ("a: 'it's'\n", M::TextBehindQuote { quote: '\'' }, "1:8"),
        ("a: \"x\" y\n", M::TextBehindQuote { quote: '"' }, "1:8"),
        ("a: [1, 2\nb: 1\n", M::Bracket, "2:2"),
        ("a: {b: 1\nc: 2\n", M::Bracket, "2:2"),
        ("a: [1, 2}\n", M::Bracket, "1:4"),
        ("a: [b\n", M::Bracket, "1:4"),
        ("a: b: c\n", M::ColonInValue, "1:5"),
        ("key\nb: 1\n", M::MissingColon, "2:2"),
        ("a:b\nc: d\n", M::MissingColon, "2:2"),
        ("a: 1\nkey\n", M::MissingColon, "2:1"),
        ("a: 1\n  b: 2\n", M::Indentation, "2:4"),
        ("a:\n  b: 1\n c: 2\n", M::Indentation, "3:2"),
        ("env:\n- name: A\n  value: b\n - name: C\n", M::Indentation, "4:2"),
        ("a: - b\n", M::ListBehindKey, "1:4"),
        ("a: *x\n", M::UnknownAlias, "1:4"),
        ("a: *\n", M::NoAnchorName, "1:4"),
        ("a: @x\n", M::Reserved { character: '@' }, "1:4"),
        ("a: \u{1}\n", M::ControlCharacter, "1:4"),
        ("a: !x!y z\n", M::Tag, "1:4"),
        ("a: \"\\q\"\n", M::Escape, "1:4"),
        ("a: | x\n", M::BlockHeader, "1:4"),
        ("a: x #y\n b: 1\n", M::CommentInText, "1:6"),
        ("%YAML 3.0\n---\na: 1\n", M::Directive, "1:1"),
        ("{{- if .x }}\na: 1\n", M::Template, "1:3"),
        ("<<<<<<< HEAD\na: 1\n=======\n", M::MergeConflict, "2:2"),
        ("{\"a\": 1 \"b\": 2}", M::Json, "1:9"),
    ];
    let mut hints = std::collections::BTreeSet::new();
    for (text, wanted, place) in cases {
        let error = parse(text).expect_err(text);
        let ParseError::Syntax { mark, mistake, .. } = &error else { panic!("{text:?}: {error:?}") };
        assert_eq!((mistake, mark.to_string().as_str()), (wanted, *place), "{text:?}: {error}");
        hints.insert(error.hint());
    }
    assert!(hints.len() >= 20, "{hints:#?}");
    let other = |text: &[u8]| {
        parse_stream(text, &Limits { depth: 3, nodes: 20, copies: 30, bytes: 400 }).unwrap_err()
    };
    let mut more: Vec<ParseError> = vec![
        other(&[b'#'; 500]),
        other(b"a: \xFF"),
        other(b"\xFF\xFEa"),
        other(b"a: [[[[1]]]]"),
        other("- 1\n".repeat(30).as_bytes()),
        other(b"a: &a [1,2,3,4,5]\nb: [*a,*a,*a,*a,*a,*a]\n"),
        other(b"a: &a [*a]\n"),
        other(b"a: {{ x }}\n"),
        other(b"? [a]\n: b\n"),
        other(b"<<: 1\n"),
        other(b"a: .inf\n"),
        other(b"a: !!int x\n"),
        other(b"a: !!binary x\n"),
    ];
    more.retain(|error| hints.insert(error.hint()));
    assert_eq!(more.len(), 12, "each has a hint of its own, maps and lists as keys share one: {more:?}");
}

#[test]
fn steps_lead_through_keys_with_dots() {
    let document = only("metadata:\n  labels:\n    a.b/c[0]: 5\n  list: [x, y]\n");
    let steps = [PathStep::Key("metadata"), PathStep::Key("labels"), PathStep::Key("a.b/c[0]")];
    let located = document.follow(steps);
    assert!(located.is_complete);
    assert_eq!((located.span().start.line, located.span().start.column), (3, 15));
    let steps = [PathStep::Key("metadata"), PathStep::Key("list"), PathStep::Index(2)];
    assert!(!document.follow(steps).is_complete);
}
