//! Templates that want harm: T31 to T38 of what Coracle must withstand, three variants each.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Run, config_map, data, findings, problems, processed, refusal};
use crate::limits::{MAX_DEPTH, MAX_OUTPUT_BYTES};

fn openshift(mut template: Value) -> Value {
    template["apiVersion"] = crate::OPENSHIFT_API_VERSION.into();
    template
}

#[test]
fn an_unquoted_reference_injects_no_structure() {
    let values = [
        "{\"privileged\":true}",
        "[\"a\"]",
        "null",
        "1e400",
        "0x10",
        " 1",
        "NaN",
        "\"a\": 1",
        "a\nprivileged: true",
        "{}",
    ];
    for value in values {
        let parameters = json!([{"name": "P", "value": value}]);
        let proposal = Run::of_json(&config_map(parameters.clone(), json!({"x": "$((P))"})));
        assert_eq!(data(&proposal), json!({"x": value}));
        let other = Run::of_json(&openshift(config_map(parameters, json!({"x": "${{P}}"}))));
        assert_eq!(data(&other), json!({"x": value}));
        for kind in ["int", "bool"] {
            let typed = json!([{"name": "P", "value": value, "type": kind}]);
            let typed = Run::of_json(&config_map(typed, json!({"x": "$((P))"})));
            assert_eq!(problems(&typed), ["parameters[0].value template-value-type P"], "{value}");
        }
    }
}

#[test]
fn a_value_is_text_whatever_it_looks_like() {
    let values = [
        "$(OTHER)",
        "\"",
        "\\",
        "\n",
        "</script>",
        "a: b\n- c",
        "${OTHER}",
        "\u{0}\u{7f}\u{2028}",
        "{{ x }}",
    ];
    for value in values {
        for (template, text) in [
            (config_map as fn(Value, Value) -> Value, "-$(P)-"),
            (|p, d| openshift(config_map(p, d)), "-${P}-"),
        ] {
            let parameters = json!([{"name": "P", "value": value}, {"name": "OTHER", "value": "no"}]);
            let run = Run::of_json(&template(parameters, json!({"x": text})));
            assert_eq!(data(&run), json!({"x": format!("-{value}-")}));
            // What is written out reads back as the same tree.
            let objects = processed(&run).to_list();
            for text in [manifest::to_yaml(&objects), manifest::to_json_text(&objects)] {
                let read = manifest::parse_stream(text.as_bytes(), &manifest::Limits::default())
                    .expect("it reads back");
                assert_eq!(read[0].root.to_json(), objects.to_json());
            }
        }
    }
}

#[test]
fn keys_that_become_the_same_are_refused() {
    let parameters = json!([{"name": "A", "value": "__proto__"}, {"name": "B", "value": "__proto__"}, {"name": "E", "value": ""}]);
    let rows = [
        json!({"$(A)": 1, "$(B)": 2}),
        json!({"$(A)": 1, "__proto__": 2}),
        json!({"a$(E)": 1, "a": 2, "b": 3}),
    ];
    for row in rows {
        let run = Run::of_json(&config_map(parameters.clone(), row.clone()));
        let refusal = refusal(&run);
        assert_eq!(refusal.problems.len(), 1, "{row}");
        assert_eq!(refusal.problems[0].code(), "template-keys-collide", "{row}");
    }
    let apart = Run::of_json(&config_map(parameters, json!({"$(A)": "1", "constructor": "2"})));
    assert_eq!(data(&apart)["__proto__"], "1");
}

#[test]
fn kind_and_api_version_are_fixed_in_the_proposals_dialect_only() {
    let template = |object: Value| {
        json!({
            "kind": "Template", "apiVersion": crate::API_VERSION, "objects": [object],
            "parameters": [{"name": "K", "value": "ClusterRoleBinding"}, {"name": "V", "value": "rbac.authorization.k8s.io/v1"}],
        })
    };
    let rows = [
        json!({"apiVersion": "v1", "kind": "$(K)"}),
        json!({"apiVersion": "$(V)", "kind": "$((K))"}),
        json!({"apiVersion": "rbac.$(V)", "kind": "Role"}),
    ];
    for row in rows {
        let refusal = refusal(&Run::of_json(&template(row.clone())));
        assert!(
            refusal.problems.iter().all(|each| each.code() == "template-reference-in-kind"),
            "{row}: {refusal}"
        );
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "$(K)"}});
    assert_eq!(
        processed(&Run::of_json(&template(namespace))).objects[0].to_json()["metadata"]["namespace"],
        "ClusterRoleBinding"
    );
    let other = openshift(template(json!({"apiVersion": "${V}", "kind": "${K}"})));
    assert_eq!(
        processed(&Run::of_json(&other)).objects[0].to_json(),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"})
    );
}

#[test]
fn too_many_parameters_and_objects_and_levels_are_refused() {
    let parameters: Value = (0..10_000).map(|number| json!({"name": format!("P{number}")})).collect();
    assert_eq!(problems(&Run::of_json(&config_map(parameters, json!({})))), ["parameters template-too-many"]);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let objects: Value = (0..10_000).map(|_| object.clone()).collect();
    let template = json!({"kind": "Template", "apiVersion": crate::API_VERSION, "objects": objects});
    assert_eq!(problems(&Run::of_json(&template)), ["objects template-too-many"]);
    let nested = |levels: usize| {
        let inner = (0..levels).fold(json!("leaf"), |inner, _| json!([inner]));
        let mut template = config_map(json!([]), json!({}));
        template["objects"][0]["data"] = inner;
        template
    };
    assert_eq!(problems(&Run::of_json(&nested(MAX_DEPTH))), ["objects[0] template-too-deep"]);
    assert!(Run::of_json(&nested(MAX_DEPTH - 1)).process().is_ok());
    // The same text is not read at all when it is nested deeper than any document may be.
    let hostile = format!("{{kind: Template, objects: {}", "[".repeat(10_000));
    assert!(manifest::parse_stream(hostile.as_bytes(), &manifest::Limits::default()).is_err());
}

#[test]
fn an_output_bomb_is_measured_and_not_built() {
    let big = "x".repeat(1 << 20);
    let bombs = [
        // A gigabyte in values, in keys and in labels.
        config_map(json!([{"name": "P", "value": big}]), json!({"x": "$(P)".repeat(1024)})),
        config_map(
            json!([{"name": "P", "value": big}]),
            (0..1024)
                .map(|number| (format!("{number}$(P)"), json!("")))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        ),
        {
            let mut template = config_map(json!([]), json!({}));
            template["objects"] = (0..1000).map(|_| template["objects"][0].clone()).collect();
            template["labels"] = (0..10_000)
                .map(|number| (format!("label-{number}"), json!("v")))
                .collect::<serde_json::Map<_, _>>()
                .into();
            template
        },
    ];
    for bomb in bombs {
        let begin = Instant::now();
        assert_eq!(problems(&Run::of_json(&bomb)), ["objects template-too-large"]);
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    let line = "x".repeat(1000);
    let fits = config_map(
        json!([{"name": "P", "value": line}]),
        json!({"x": "$(P)".repeat(MAX_OUTPUT_BYTES / 1000 - 1)}),
    );
    assert!(Run::of_json(&fits).process().is_ok());
    let value = config_map(json!([{"name": "P", "value": "x".repeat((1 << 20) + 1)}]), json!({"x": "$(P)"}));
    assert_eq!(problems(&Run::of_json(&value)), ["parameters[0].value template-value-too-large P"]);
}

#[test]
fn a_secret_is_echoed_nowhere_but_in_the_objects() {
    let secret = "correct-horse-battery";
    let parameter = json!({"name": "P", "secret": true});
    let mut in_message = config_map(json!([parameter]), json!({"x": "$(P)"}));
    in_message["message"] = "The password is $(P) and $((P)).".into();
    let in_key = config_map(json!([parameter]), json!({"$(P)": "x"}));
    let mut in_selector = config_map(json!([parameter]), json!({"x": "$(P)"}));
    in_selector["labels"] = json!({"$(P)": "x"});
    in_selector["objects"][0]["metadata"]["labels"] = json!({secret: "y"});
    for template in [in_message, in_key, in_selector] {
        let run = Run::of_json(&template).with("P", secret);
        let result = processed(&run);
        let mut answer = run.to_template(&result).to_json();
        answer["objects"] = json!([]);
        let said: Vec<String> =
            result.findings.iter().map(|each| format!("{each} {} {each:?}", each.hint())).collect();
        assert!(!format!("{answer} {said:?} {:?} {:?}", result.message, result.parameters).contains(secret));
        assert!(result.to_list().to_json().to_string().contains(secret));
    }
}

/// A generator of bytes that is quick and even enough for a test of frequencies.
fn even() -> impl FnMut(&mut [u8]) -> Result<(), crate::RandomnessFailed> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move |bytes| {
        for chunk in bytes.chunks_mut(8) {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let word = (mixed ^ (mixed >> 31)).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

/// The sum of squared deviations from what is expected, for characters of an alphabet.
fn chi_square(text: &str, alphabet: usize) -> f64 {
    let mut counts = std::collections::HashMap::new();
    text.chars().for_each(|each| *counts.entry(each).or_insert(0_u64) += 1);
    assert_eq!(counts.len(), alphabet, "every character comes");
    let expected = text.len() as f64 / alphabet as f64;
    counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn generated_characters_come_equally_often() {
    // The bounds are those of p = 0.01 for one degree of freedom less than there are characters.
    for (class, alphabet, bound) in
        [("[a-zA-Z0-9]", 62, 89.6), ("[\\A]", 32, 52.2), ("[0-9]", 10, 21.7), ("[0-1]", 2, 6.6)]
    {
        let expression = crate::Expression::parse(&format!("{class}{{250}}").repeat(200)).expect(class);
        let mut random = even();
        let text: String = (0..20).map(|_| expression.generate(&mut random).expect("random bytes")).collect();
        assert_eq!(text.len(), 1_000_000);
        let found = chi_square(&text, alphabet);
        assert!(found < bound, "{class}: {found}");
    }
}

#[test]
fn a_secret_that_could_be_guessed_is_not_generated() {
    let template = |name: &str, secret: bool, from: &str| {
        config_map(
            json!([{"name": name, "secret": secret, "generate": "expression", "from": from}]),
            json!({"x": format!("$({name})")}),
        )
    };
    for from in ["[0-9]{19}", "[a-z]{13}", "[\\w]{10}", "fixed", "[a-a]{255}", ""] {
        assert_eq!(
            problems(&Run::of_json(&template("P", true, from))),
            ["parameters[0] template-secret-weak P"],
            "{from}"
        );
    }
    for from in ["[0-9]{20}", "[a-z]{14}", "[\\w]{11}", "[\\a]{11}", "x[a-f0-9]{8}-[a-f0-9]{8}"] {
        assert!(Run::of_json(&template("P", true, from)).process().is_ok(), "{from}");
    }
    let named = processed(&Run::of_json(&template("DB_PASSWORD", false, "[a-z]{8}")));
    assert_eq!(findings(&named.findings), ["parameters[0] template-secret-weak"]);
    assert!(processed(&Run::of_json(&template("SUFFIX", false, "[a-z]{4}"))).findings.is_empty());
}

#[test]
fn a_generator_without_an_expression_gives_an_empty_value_and_says_so() {
    let template = json!([{"name": "SUFFIX", "generate": "expression"}]);
    let result = processed(&Run::of_json(&config_map(template, json!({"x": "a$(SUFFIX)"}))));
    assert_eq!(result.objects[0].to_json()["data"]["x"], "a");
    assert_eq!(findings(&result.findings), ["parameters[0] template-generates-nothing"]);
}

#[test]
fn the_size_counts_numbers_as_they_are_written_out() {
    let run = Run::of_json(&config_map(json!([{"name": "N", "value": "0.1e11"}]), json!({"x": "$((N))"})));
    let read = crate::Template::read(&run.root, None).expect("a template");
    let size = crate::process::size_of(&read, &run.request());
    assert!(processed(&run).objects[0].to_json().to_string().len() <= size);
}

#[test]
fn what_a_generator_makes_is_not_read_as_a_pattern_again() {
    // `\A` holds brackets and braces; upstream goes on replacing in what it has made.
    let expression = crate::Expression::parse("[\\A]{255}[\\A]{255}").expect("a pattern");
    assert_eq!(expression.generate(&mut even()).expect("random bytes").len(), 510);
    for from in ["[a-z]{999999999999999999999}", "[z-a]{1}", "[\\s]{3}", "[-]{2}", "[a-]{2}", "[\\]{2}"] {
        assert!(crate::Expression::parse(from).is_err(), "{from}");
    }
    for from in ["[", "[[[[", "[a-z", "[a-z]{", "[a-z]{3", "[]{3}", "é[ü]{2}", "]{3}"] {
        let literal = crate::Expression::parse(from).expect(from);
        assert_eq!(literal.generate(&mut even()).expect("random bytes"), from);
    }
}

#[test]
fn a_name_that_is_a_parameter_and_a_variable_is_refused_with_both_places() {
    let pod = |container: Value| {
        json!({"kind": "Template", "apiVersion": crate::API_VERSION, "parameters": [{"name": "USED"}, {"name": "POD_IP", "value": "x"}],
            "objects": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$(USED)"}, "spec": {"containers": [container]}}]})
    };
    let downward = json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
    let rows = [
        json!({"env": [downward, {"name": "A", "value": "$(POD_IP)"}]}),
        json!({"env": [downward], "args": ["--listen=$(POD_IP)"]}),
        json!({"env": [{"name": "POD_IP", "value": "1"}, {"name": "POD_IP", "value": "$(POD_IP)"}]}),
    ];
    for row in rows {
        let refusal = refusal(&Run::of_json(&pod(row.clone())));
        assert_eq!(refusal.problems.len(), 1, "{row}");
        let said = refusal.problems[0].to_string();
        assert!(said.contains("parameters[1] and env[0] of the container"), "{said}");
    }
}

/// Quadratic behaviour would take minutes on these; the bound leaves room for a busy machine and a debug build.
#[test]
fn hostile_templates_take_linear_time() {
    let mebibyte = 1 << 20;
    for shape in ["$(", "$((", "$$(", "$$((", "${", "${{", "$(a", "$((a)", "$(A)$", "$$", "$(A", "(A)"] {
        let text = shape.repeat(mebibyte / shape.len());
        for template in [config_map as fn(Value, Value) -> Value, |p, d| openshift(config_map(p, d))] {
            let run = Run::of_json(&template(json!([{"name": "A", "value": "v"}]), json!({"x": text})));
            let begin = Instant::now();
            let result = run.process();
            assert!(begin.elapsed() < Duration::from_secs(20), "{shape:?} took {:?}", begin.elapsed());
            assert!(result.is_ok(), "{shape:?}");
        }
    }
    // A thousand parameters, and references that almost name them; sources and prefixes without end.
    let parameters: Value = (0..1000)
        .map(|number| json!({"name": format!("PARAMETER_NUMBER_{number:04}"), "value": "v"}))
        .collect();
    let text: String = (0..40_000).map(|number| format!("$(PARAMETERS_NUMBERS_{number:05})")).collect();
    let near = config_map(parameters.clone(), json!({"x": text}));
    let env_from: Value = (0..20_000)
        .map(|number| json!({"prefix": format!("P{number}"), "configMapRef": {"name": "m"}}))
        .collect();
    let keys: serde_json::Map<String, Value> =
        (0..20_000).map(|number| (format!("K{number}"), json!(""))).collect();
    let args: Value =
        (0..20_000).map(|number| json!(format!("$(PARAMETER_NUMBER_{:04})", number % 1000))).collect();
    let mut sources = config_map(parameters.clone(), keys.into());
    sources["objects"].as_array_mut().expect("a list").push(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"envFrom": env_from, "args": args}]},
    }));
    let mut long = config_map(json!([]), json!({"a": ""}));
    long["objects"].as_array_mut().expect("a list").push(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{
            "envFrom": [{"configMapRef": {"name": "m"}}], "args": [format!("$({})", "a".repeat(1 << 20))],
        }]},
    }));
    // Pods and selectors that agree in all labels but the last.
    let labels = |last: &str| {
        let labels = (0..60)
            .map(|number| (format!("a{number:03}"), json!("v")))
            .chain([("z".to_owned(), json!(last))]);
        labels.collect::<serde_json::Map<_, _>>()
    };
    let pods = (0..500).map(
        |_| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels("x")}}),
    );
    let services = (0..500).map(|_| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": labels("y")}}));
    let selectors = json!({
        "kind": "Template", "apiVersion": crate::API_VERSION, "labels": {"l": "v"}, "objects": pods.chain(services).collect::<Vec<_>>(),
    });
    // A long key with much to say about it.
    let mut wordy = config_map(json!([]), json!({}));
    wordy["objects"][0]["metadata"]["annotations"] = json!({"a".repeat(1 << 20): "$(UNKNOWN)".repeat(5000)});
    // Containers with nothing in them, and many parameters that they could refer to.
    let mut crowded = config_map(parameters, json!({}));
    crowded["objects"].as_array_mut().expect("a list").push(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": vec![json!({}); 100_000]},
    }));
    for template in [near, sources, long, selectors, wordy, crowded] {
        let run = Run::of_json(&template);
        let begin = Instant::now();
        let _ = run.process();
        assert!(begin.elapsed() < Duration::from_secs(20), "took {:?}", begin.elapsed());
    }
}

#[test]
fn problems_and_findings_are_counted_beyond_a_thousand() {
    let parameters = json!([{"name": "COUNT", "value": "1"}]);
    let data: serde_json::Map<String, Value> =
        (0..1500).map(|number| (number.to_string(), json!("$((COUNTS))"))).collect();
    let refused = refusal(&Run::of_json(&config_map(parameters.clone(), data.into())));
    assert_eq!((refused.problems.len(), refused.left_out), (1000, 500));
    let data: serde_json::Map<String, Value> =
        (0..1500).map(|number| (number.to_string(), json!("$(UNKNOWN)$(COUNT)"))).collect();
    let found = processed(&Run::of_json(&config_map(parameters, data.into()))).findings;
    assert_eq!(found.len(), 1001);
    assert_eq!(found[1000].to_string(), "500 more findings are not shown");
}

#[test]
fn a_key_that_stands_twice_is_refused_with_both_places() {
    let text = "kind: Template\nmetadata: {name: a}\nmetadata: {name: b}\nobjects:\n- data: {a: 1}\n  data:\n    a: 2\n    a: 3\n";
    let documents = manifest::parse_stream(text.as_bytes(), &manifest::Limits::default()).expect("YAML");
    let refused = crate::check_keys(&documents[0].root, &documents[0].notices).expect_err("twice");
    let told: Vec<String> = refused.problems.iter().map(|each| format!("{}: {each}", each.place)).collect();
    let want = [
        "metadata: the key \"metadata\" stands twice in one map, at 2:1 and at 3:1",
        "objects[0].data: the key \"data\" stands twice in one map, at 5:3 and at 6:3",
        "objects[0].data.a: the key \"a\" stands twice in one map, at 7:5 and at 8:5",
    ];
    assert_eq!(told, want);
}

#[test]
fn a_number_that_is_too_near_to_zero_stays_text() {
    for (value, want) in [("1e-400", json!("1e-400")), ("0e-400", json!(0)), ("1e-300", json!(1e-300))] {
        let run = Run::of_json(&config_map(json!([{"name": "P", "value": value}]), json!({"x": "$((P))"})));
        assert_eq!(data(&run), json!({"x": want}), "{value}");
    }
}

/// Everything else about these would be a problem of its own, and work.
#[test]
fn too_many_of_something_is_answered_before_anything_else_is_looked_at() {
    let (parameters, objects) = (vec![json!({"name": "not a name"}); 1001], vec![json!("$(no object"); 1001]);
    let both = json!({"kind": "Template", "apiVersion": crate::API_VERSION, "labels": 1, "parameters": parameters, "objects": objects});
    let run = Run::of_json(&both);
    assert_eq!(problems(&run), ["parameters template-too-many", "objects template-too-many"]);
    assert!(crate::Template::read(&run.root, None).is_err(), "refused when it is read");
}
