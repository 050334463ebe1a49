//! `coracle env -f`: explains without root and without running anything.

use e2e::{Place, finish, project};

#[test]
fn the_first_command_of_the_readme_works() {
    let place = Place::new();
    let example = project().join("examples/expansion.yaml");
    let said = finish(&mut place.coracle(&["env", "-f", example.to_str().expect("text")]), "");
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(said.stdout.contains("VAR_A") && said.stdout.contains("env["), "{}", said.all());
}

#[test]
fn a_mistake_is_shown_with_its_place_and_strict_makes_it_fatal() {
    let place = Place::new();
    let manifest = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: web
        image: web:1
        env:
        - {name: URL, value: "http://$(HOST):80"}
        - {name: HOST, value: example}
"#;
    let file = place.file("web.yaml", manifest);
    let file = file.to_str().expect("text");
    let said = finish(&mut place.coracle(&["env", "-f", file]), "");
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(said.all().contains("web.yaml:11:"), "{}", said.all());
    let said = finish(&mut place.coracle(&["env", "--strict", "-f", file]), "");
    assert_eq!(said.status, 1, "{}", said.all());
    let said = finish(&mut place.coracle(&["env", "-f", "-", "-o", "json"]), manifest);
    let record: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(record["pods"][0]["containers"][0]["environment"].as_array().map(Vec::is_empty), Some(false));
    assert_eq!(record["pods"][0]["containers"][0]["findings"][0]["severity"], "warning", "{record:#}");
}

#[test]
fn secrets_are_masked_also_behind_references() {
    let place = Place::new();
    let manifest = r#"
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {PASSWORD: canary-1b2c}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    image: x:1
    args: ["--url=$(URL)"]
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: PASSWORD}}}
    - {name: URL, value: "postgres://app:$(PASSWORD)@db"}
"#;
    for output in ["table", "json", "yaml"] {
        let arguments: &[&str] =
            if output == "table" { &["env", "-f", "-"] } else { &["env", "-f", "-", "-o", output] };
        let said = finish(&mut place.coracle(arguments), manifest);
        assert_eq!(said.status, 0, "{}", said.all());
        assert!(!said.all().contains("canary-1b2c"), "{output}: {}", said.all());
        assert!(said.stdout.contains("postgres://app:****@db"), "{output}: {}", said.all());
    }
    let said = finish(&mut place.coracle(&["env", "-f", "-", "--show-secrets"]), manifest);
    assert!(said.stdout.contains("postgres://app:canary-1b2c@db"), "{}", said.all());
}

#[test]
fn input_that_cannot_be_read_says_where_and_ends_with_2() {
    let place = Place::new();
    let said = finish(&mut place.coracle(&["env", "-f", "-"]), "a: [1\nb: }\n");
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains(":2:"), "{}", said.all());
    let said = finish(&mut place.coracle(&["env", "-f", "no-such-file.yaml"]), "");
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains("no-such-file.yaml"), "{}", said.all());
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let place = Place::new();
    let file = place.file(
        "p.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: x:1}]}\n",
    );
    let mut command = place.coracle(&["env", "-f"]);
    let status = command.arg(file).stdout(full).status().expect("it runs");
    assert_eq!(status.code(), Some(2));
}

#[test]
fn errors_stand_before_warnings() {
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    image: x:1
    args: ["$(NOBODY)"]
    env:
    - {name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
"#;
    let said = finish(&mut Place::new().coracle(&["env", "-f", "-", "-o", "json"]), manifest);
    let record: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let findings = record["pods"][0]["containers"][0]["findings"].as_array().expect("findings");
    let severities = findings.iter().map(|each| each["severity"].as_str().expect("text")).collect::<Vec<_>>();
    assert!(severities.contains(&"error") && severities.contains(&"warning"), "{record:#}");
    assert!(severities.is_sorted_by_key(|severity| *severity != "error"), "{severities:?}");
}
