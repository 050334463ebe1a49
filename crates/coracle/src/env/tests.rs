//! The command's output for whole inputs: tables, records, env files, mistakes, exit statuses.

mod documents;
mod secrets;

use std::process::ExitCode;

use super::*;
use crate::env::local_images::LocalImages;

/// Explains a text as if it stood in `f.yaml`.
fn explained(text: &str, reveal: Reveal) -> Explanation {
    try_explained(text, reveal).unwrap_or_else(|error| panic!("{error}"))
}

fn try_explained(text: &str, reveal: Reveal) -> Result<Explanation, InputError> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("f.yaml");
    std::fs::write(&path, text).expect("a file");
    let mut input = Input::read(&[path])?;
    input.files[0].name = "f.yaml".to_owned();
    let settings = Settings {
        namespace: "default".to_owned(),
        gates: FeatureGates::default(),
        env_file_syntax: envfile::Syntax::Default,
        reveal,
    };
    Ok(explain::explain(&input, &LocalImages::none(), &settings, None))
}

fn explanation(text: &str) -> Explanation {
    explained(text, Reveal::Nothing)
}

/// The display form of a variable of the first container that has it.
fn display(explanation: &Explanation, name: &str) -> String {
    let variables =
        explanation.pods.iter().flat_map(|pod| &pod.record.containers).flat_map(|each| &each.environment);
    variables
        .filter(|variable| variable.name == name)
        .map(|variable| variable.display.clone())
        .next()
        .unwrap_or_default()
}

/// Code, severity and place of each finding.
fn findings(explanation: &Explanation) -> Vec<String> {
    let found =
        explanation.pods.iter().flat_map(|pod| &pod.record.containers).flat_map(|each| &each.findings);
    found
        .map(|finding| {
            let place = finding.position.as_ref().map(|at| format!("{}:{}:{}", at.file, at.line, at.column));
            format!("{:?} {} {}", finding.severity, finding.code, place.unwrap_or_default())
        })
        .collect()
}

fn mistakes(explanation: &Explanation) -> Vec<String> {
    explanation.mistakes.iter().map(|mistake| mistake.render(false)).collect()
}

/// The lines that are about the variables of the input, without what every pod has.
fn without_service_kubernetes(table: &str) -> String {
    let lines = table.lines().filter(|line| !line.contains("service kubernetes"));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

const DEPLOYMENT: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: web
        image: coracle.dev/host
        args: ["--url=$(URL)", "$(NOBODY)"]
        env:
        - {name: HOST, value: example}
        - {name: URL, value: "http://$(HOST):$(PORT)"}
        - {name: PORT, value: "80"}
"#;

#[test]
fn the_table_shows_variables_in_order_and_findings_below() {
    let table = table::render(&explanation(DEPLOYMENT), false);
    assert!(!table.contains('\u{1b}'), "no colour was asked for");
    insta::assert_snapshot!(without_service_kubernetes(&table), @r#"
    deployment default/web  f.yaml:1

    container web  image coracle.dev/host

      VARIABLE                       VALUE                                                         ORIGIN
      PATH                           /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin  runtime
      HOSTNAME                       <host name>                                                   runtime
      HOST                           example                                                       env[0] value
      URL                            http://example:$(PORT)                                        env[1] value
      PORT                           80                                                            env[2] value
      HOME                           <home of the user>                                            runtime

      args     ["--url=http://example:$(PORT)", "$(NOBODY)"]

    warning[reference-declared-later]: $(PORT) stays as it is: "PORT" is declared later, at env[2]
      --> f.yaml:13:46
       |
    13 |         - {name: URL, value: "http://$(HOST):$(PORT)"}
       |                                              ^^^^^^^
       |
       = help: move env[2] above env[1]

    warning[reference-undefined]: $(NOBODY) stays as it is: "NOBODY" is not defined
      --> f.yaml:10:33
       |
    10 |         args: ["--url=$(URL)", "$(NOBODY)"]
       |                                 ^^^^^^^^^
       |
       = help: declare "NOBODY" above, or write $$(NOBODY) to keep the text

    <...>  known only when the pod runs
    "#);
}

#[test]
fn colour_changes_nothing_but_colour() {
    let explanation = explanation(DEPLOYMENT);
    let coloured = table::render(&explanation, true);
    assert!(coloured.contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), table::render(&explanation, false));
}

const SECRETS: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: login}
data: {USER: YXBw}
stringData: {PASSWORD: canary-1b2c}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    image: coracle.dev/host
    command: [login, "$(URL)"]
    envFrom:
    - {prefix: LOGIN_, secretRef: {name: login}}
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: PASSWORD}}}
    - {name: URL, value: "postgres://app:$(PASSWORD)@db"}
"#;

#[test]
fn secrets_are_masked_in_every_form_also_behind_references() {
    let masked = explanation(SECRETS);
    let forms = [
        table::render(&masked, false),
        output::json(&masked),
        output::yaml(&masked),
        dotenv::render(&masked),
    ];
    for form in &forms {
        assert!(!form.contains("canary-1b2c") && !form.contains("YXBw"), "{form}");
    }
    assert_eq!(display(&masked, "URL"), "postgres://app:****@db");
    assert!(forms[3].contains("# PASSWORD comes from a Secret"), "{}", forms[3]);
    let shown = explained(SECRETS, Reveal::Secrets);
    assert_eq!(display(&shown, "URL"), "postgres://app:canary-1b2c@db");
    assert!(dotenv::render(&shown).contains("URL='postgres://app:canary-1b2c@db'\n# HOME is known only"));
    assert!(dotenv::render(&shown).contains("LOGIN_USER='app'\n"));
}

#[test]
fn the_record_names_file_line_and_types() {
    let record: serde_json::Value = serde_json::from_str(&output::json(&explanation(SECRETS))).expect("JSON");
    let pod = &record["pods"][0];
    assert_eq!(pod["namespace"], "default");
    assert_eq!(pod["source"], serde_json::json!({"file": "f.yaml", "line": 8}));
    let container = &pod["containers"][0];
    assert_eq!(container["type"], "container");
    assert_eq!(container["command"][1]["display"], "postgres://app:****@db");
    assert_eq!(container["command"][1]["value"], serde_json::Value::Null);
    assert_eq!(container["args"], serde_json::Value::Null);
    let from_yaml: serde_json::Value =
        manifest::parse_stream(output::yaml(&explanation(SECRETS)).as_bytes(), &manifest::Limits::default())
            .expect("YAML")[0]
            .root
            .to_json();
    assert_eq!(from_yaml, record);
}

#[test]
fn an_env_file_that_was_written_reads_back() {
    let text = r#"
kind: Pod
apiVersion: v1
metadata: {name: p}
spec:
  enableServiceLinks: false
  containers:
  - name: c
    image: coracle.dev/host
    env:
    - {name: PLAIN, value: "a $HOME # b"}
    - {name: LINES, value: "a\nb\\"}
    - {name: QUOTE, value: "it's"}
    - {name: EMPTY, value: ""}
    - {name: " blank", value: x}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
"#;
    let written = dotenv::render(&explanation(text));
    let file =
        envfile::parse(written.as_bytes(), envfile::Syntax::Kubernetes, names::EnvNameGrammar::Relaxed)
            .unwrap();
    let value = |name: &str| file.lookup(name).unwrap().map(|assignment| assignment.value.to_owned());
    assert_eq!(value("PLAIN").as_deref(), Some("a $HOME # b"));
    assert_eq!(value("LINES").as_deref(), Some("a\nb\\"));
    for name in ["QUOTE", "EMPTY", " blank", "IP"] {
        assert_eq!(value(name), None, "{name}");
        assert!(written.contains(&format!("# {name} ")), "{name} is told: {written}");
    }
}

#[test]
fn a_value_that_yaml_reads_as_something_else_is_refused_in_kubernetes_words() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    env:\n    - name: A\n      value: x\n    - name: B\n      value: no\n";
    let explanation = explanation(text);
    assert!(explanation.pods.is_empty());
    insta::assert_snapshot!(mistakes(&explanation).join("\n"), @r#"
    error: json: cannot unmarshal bool into Go struct field EnvVar.spec.containers.env.value of type string
      --> f.yaml:11:14
       |
    11 |       value: no
       |              ^^ this is a boolean
       |
       = help: put it in quotes: "no"
    "#);
    let number = text.replace("value: no", "value: 8080");
    let shown = mistakes(&super::tests::explanation(&number)).join("\n");
    assert!(
        shown.contains(
            "cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string"
        ),
        "{shown}"
    );
    assert!(shown.contains("put it in quotes: \"8080\""), "{shown}");
}

#[test]
fn a_mistake_in_a_source_does_not_hide_the_pods() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  A: x\n  PORT: 80\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n";
    let explanation = explanation(text);
    assert_eq!(explanation.pods.len(), 1);
    let shown = mistakes(&explanation).join("\n");
    assert!(shown.contains("ConfigMap.data") && shown.contains("f.yaml:6:9"), "{shown}");
    assert_eq!(exit_status(&explanation, false), ExitCode::from(2));
}

#[test]
fn every_kind_with_a_template_is_explained() {
    let spec = "{containers: [{name: c, env: [{name: A, value: $(NOPE)}]}]}";
    for (api_version, kind, path) in [
        ("v1", "Pod", "spec: SPEC"),
        ("apps/v1", "Deployment", "spec: {template: {spec: SPEC}}"),
        ("extensions/v1beta1", "Deployment", "spec: {template: {spec: SPEC}}"),
        ("apps/v1", "StatefulSet", "spec: {template: {spec: SPEC}}"),
        ("apps/v1", "DaemonSet", "spec: {template: {spec: SPEC}}"),
        ("apps/v1", "ReplicaSet", "spec: {template: {spec: SPEC}}"),
        ("v1", "ReplicationController", "spec: {template: {spec: SPEC}}"),
        ("batch/v1", "Job", "spec: {template: {spec: SPEC}}"),
        ("batch/v1", "CronJob", "spec: {jobTemplate: {spec: {template: {spec: SPEC}}}}"),
        ("v1", "PodTemplate", "template: {spec: SPEC}"),
    ] {
        let text = format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n{}\n",
            path.replace("SPEC", spec)
        );
        let explanation = explanation(&text);
        assert_eq!(display(&explanation, "A"), "$(NOPE)", "{kind}: {:?}", mistakes(&explanation));
        let found = findings(&explanation);
        assert!(found[0].starts_with("Warning reference-undefined f.yaml:4:"), "{kind}: {found:?}");
    }
}

#[test]
fn other_objects_are_passed_over() {
    for text in [
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n",
        "apiVersion: example.dev/v1\nkind: Job\nspec: {anything: true}\n",
        "apiVersion: v1\nkind: List\nitems: []\n",
        "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: c, lables: {}}\nspec: {nope: 1}\n",
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Table\nrwos: 1\n",
    ] {
        let explanation = explanation(text);
        assert!(explanation.pods.is_empty() && explanation.mistakes.is_empty(), "{text}");
        assert_eq!(exit_status(&explanation, true), ExitCode::SUCCESS);
    }
}

#[test]
fn what_kubernetes_drops_or_takes_twice_is_found_where_it_stands() {
    let text = r#"apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: a
    envfrom: []
  - name: b
    env:
    - name: A
      value: one
      value: two
"#;
    let explanation = explanation(text);
    assert_eq!(
        findings(&explanation),
        ["Warning unknown-field f.yaml:7:5", "Warning duplicate-key f.yaml:12:7"]
    );
    let of = |container: usize| &explanation.pods[0].record.containers[container].findings[0];
    assert_eq!(of(0).message, "unknown field \"spec.containers[0].envfrom\"");
    assert_eq!(of(1).field_path, "spec.containers[1].env[0].value");
    assert_eq!(display(&explanation, "A"), "two");
    assert_eq!(exit_status(&explanation, false), ExitCode::SUCCESS);
    assert_eq!(exit_status(&explanation, true), ExitCode::from(1));
}

#[test]
fn what_the_api_would_refuse_about_a_variable_is_an_error_finding() {
    let text = r#"apiVersion: batch/v1
kind: Job
metadata: {name: p}
spec:
  template:
    spec:
      containers:
      - name: c
        env:
        - name: BOTH
          value: x
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        envFrom:
        - {configMapRef: {name: NOT_A_NAME}}
"#;
    let explanation = explanation(text);
    let found = findings(&explanation);
    assert!(found.contains(&"Error refused-by-api f.yaml:12:11".to_owned()), "{found:?}");
    assert!(found.contains(&"Error refused-by-api f.yaml:14:33".to_owned()), "{found:?}");
    assert_eq!(exit_status(&explanation, false), ExitCode::SUCCESS);
    assert_eq!(exit_status(&explanation, true), ExitCode::from(1));
}

#[test]
fn one_container_can_be_asked_for() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  initContainers: [{name: i}]\n  containers: [{name: a}, {name: b}]\n";
    let mut explanation = explanation(text);
    assert_eq!(explanation.keep_container("b"), ["i", "a", "b"]);
    assert_eq!(explanation.pods[0].record.containers.len(), 1);
    assert_eq!(explanation.pods[0].containers.len(), 1);
    assert_eq!(explanation.keep_container("nobody"), ["b"]);
    assert!(explanation.pods.is_empty());
}

#[test]
fn a_value_cannot_speak_to_the_terminal() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    env:\n    - {name: A, value: \"\\e[31mred\\n\\tend\"}\n";
    let table = table::render(&explanation(text), false);
    assert!(table.contains("\\u{1b}[31mred\\n\\tend"), "{table}");
    assert!(!table.contains('\u{1b}'));
}

#[test]
fn the_legend_tells_a_refused_value_from_one_that_is_not_in_the_input() {
    let text = |env: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{A: b}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - name: c\n    image: coracle.dev/host\n    env: [{env}]\n"
        )
    };
    let legend = |env: &str| {
        let table = table::render(&explanation(&text(env)), false);
        let lines =
            table.lines().filter(|line| line.starts_with('<') && !line.contains("only when the pod runs"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let refused = "<!...> cannot be used: an error above says why";
    for env in [
        "{name: A, valueFrom: {configMapKeyRef: {name: m, key: none}}}",
        "{name: A, valueFrom: {fieldRef: {fieldPath: status.phase}}}",
        "{name: A, value: \"a\\0b\"}",
        &format!("{{name: A, value: {}}}", "x".repeat(140_000)),
    ] {
        assert_eq!(legend(env), [refused]);
    }
    let elsewhere = "{name: B, valueFrom: {configMapKeyRef: {name: other, key: k}}}";
    assert_eq!(legend(elsewhere), ["<...>  its source is not in the input"]);
    let both = "{name: A, valueFrom: {configMapKeyRef: {name: m, key: none}}}, ".to_owned() + elsewhere;
    assert_eq!(legend(&both), ["<...>  its source is not in the input", refused]);
    let record = output::json(&explanation(&text(&both)));
    assert_eq!(record.matches("\"refused\": true").count(), 1, "{record}");
}

#[test]
fn a_doubling_chain_does_not_fill_the_terminal() {
    let mut env = "{name: A0, value: \"0123456789\"}".to_owned();
    for number in 1..30 {
        let before = number - 1;
        env.push_str(&format!(", {{name: A{number}, value: $(A{before})$(A{before})}}"));
    }
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - {{name: c, args: [$(A13)], env: [{env}]}}\n"
    );
    let explanation = explanation(&text);
    let table = table::render(&explanation, false);
    assert!(table.len() < 12_000, "{} bytes", table.len());
    assert!(table.contains("… (81920 bytes in all)") && table.contains("value-depends-on-error"), "{table}");
    let record: serde_json::Value = serde_json::from_str(&output::json(&explanation)).expect("JSON");
    let variables = record["pods"][0]["containers"][0]["environment"].as_array().expect("variables");
    let a13 = variables.iter().find(|each| each["name"] == "A13").expect("A13");
    assert_eq!(a13["value"].as_str().map(str::len), Some(81_920), "programs get all of it");
}

#[test]
fn a_long_line_is_named_and_not_shown() {
    let filler = "x".repeat(1000);
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"c","env":[{{"name":"A","value":"$(NOPE) {filler}"}}]}}]}}}}"#
    );
    let explanation = explanation(&text);
    let shown = table::render(&explanation, false);
    assert_eq!(shown.matches(&filler).count(), 0, "the table shows the beginning only");
    assert!(shown.contains("… (1008 bytes in all)"), "{shown}");
    assert!(shown.contains("--> f.yaml:1:119"), "{shown}");
}

/// Every place of two manifests, damaged in several ways: an answer or a mistake, never a panic, never a Secret.
#[test]
fn damaged_input_is_explained_or_refused() {
    let mut refused = 0;
    let mut explained = 0;
    for (sample, step) in [(DEPLOYMENT, 7), (SECRETS, 6)] {
        for at in (0..sample.len()).step_by(step) {
            for damage in ["", "é", "\n", "[", "{a: 1}"] {
                let text = format!("{}{damage}{}", &sample[..at], &sample[at + 1..]);
                let Ok(explanation) = try_explained(&text, Reveal::Nothing) else {
                    refused += 1;
                    continue;
                };
                explained += 1;
                let shown = [
                    table::render(&explanation, true),
                    output::json(&explanation),
                    dotenv::render(&explanation),
                    mistakes(&explanation).join("\n"),
                ];
                let is_secret_still =
                    text.contains("kind: Secret\n") && text.contains("{PASSWORD: canary-1b2c}");
                assert!(
                    !is_secret_still || !shown.concat().contains("canary-1b2c"),
                    "{text}\n{}",
                    shown.concat()
                );
            }
        }
    }
    assert!(refused > 50 && explained > 50, "{refused} refused, {explained} explained");
}

#[test]
fn an_image_that_is_not_here_gives_no_path() {
    let text =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: web:1}]}\n";
    let explanation = explanation(text);
    assert_eq!(display(&explanation, "PATH"), "<PATH of the image>");
    assert!(table::render(&explanation, false).contains("image web:1, not on this machine"));
}

#[test]
fn the_examples_show_what_their_comments_say() {
    let example = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let explanation = explanation(&std::fs::read_to_string(path).expect("an example"));
        assert_eq!(mistakes(&explanation), Vec::<String>::new(), "{name}");
        explanation
    };
    assert_eq!(display(&example("service-url.yaml"), "PUBLIC_URL"), "http://<GITSERVER_SERVICE_HOST>:8080");
    assert_eq!(display(&example("downward-api.yaml"), "PUBLIC_URL"), "http://gitserver.default:8080");
    assert_eq!(display(&example("downward-api.yaml"), "MEMORY_MIB"), "64");
    assert_eq!(display(&example("dotnet-names.yaml"), "SUMMARY"), "Logging level: Debug");
    assert_eq!(display(&example("env-file-per-pod.yaml"), "GREETING"), "<CONFIG_MAIN> from env-file-per-pod");
    assert_eq!(display(&example("sources.yaml"), "DATABASE_URL"), "postgres://app:****@<DB_HOST>:5432/main");
    assert!(example("env-file-without-shell.yaml").pods[0].record.containers.len() == 2);

    // Each row of the expansion example stands beside what it has to give.
    let expansion = example("expansion.yaml");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/expansion.yaml");
    let text = std::fs::read_to_string(path).expect("an example");
    let rows = text.lines().filter_map(|line| line.trim().strip_prefix("- {name: ROW_")?.split_once("}  # "));
    let mut count = 0;
    for (row, want) in rows {
        assert_eq!(display(&expansion, &format!("ROW_{}", &row[..2])), want, "{row}");
        count += 1;
    }
    assert_eq!(count, 36);
}
