//! Variable expansion in env, command and args, in real containers.

use e2e::{Place, privileged};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: expansion}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/usr/bin/printf", "%s\n"]
"#;

#[test]
fn composed_variables_reach_command_and_args() {
    if !privileged("composed_variables_reach_command_and_args") {
        return;
    }
    let place = Place::new();
    let manifest = format!(
        "{POD}    args: [\"$(URL)\", \"$$(URL)\", \"$(NOBODY)\", \"[$(EMPTY)]\"]
    env:
    - {{name: HOST, value: example}}
    - {{name: URL, value: \"http://$(HOST):80\"}}
    - {{name: EMPTY, value: \"\"}}
"
    );
    let said = place.run(&manifest, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.lines(), ["http://example:80", "$(URL)", "$(NOBODY)", "[]"], "{}", said.all());
}

#[test]
fn an_unresolved_reference_is_kept_and_reported_once() {
    if !privileged("an_unresolved_reference_is_kept_and_reported_once") {
        return;
    }
    let place = Place::new();
    let manifest = format!(
        "{POD}    args: [\"$(GREETING)\"]
    env:
    - {{name: GREETING, value: \"hello $(NAME)\"}}
    - {{name: NAME, value: world}}
"
    );
    let said = place.run(&manifest, &[]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(said.stdout.contains("hello $(NAME)"), "{}", said.all());
    assert_eq!(said.stderr.matches("UnresolvedReference").count(), 1, "{}", said.all());
}

#[test]
fn strict_does_not_start_a_container_with_an_unresolved_reference() {
    if !privileged("strict_does_not_start_a_container_with_an_unresolved_reference") {
        return;
    }
    let place = Place::new();
    let manifest = format!("{POD}    args: [\"ran $(NOBODY)\"]\n");
    let said = place.run(&manifest, &["--strict"]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(!said.stdout.contains("ran"), "{}", said.all());
    assert!(said.stderr.contains("NOBODY"), "{}", said.all());
}

#[test]
fn the_process_sees_its_variables_in_the_declared_order() {
    if !privileged("the_process_sees_its_variables_in_the_declared_order") {
        return;
    }
    let place = Place::new();
    let manifest = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {B_KEY: b, A_KEY: a}
---
apiVersion: v1
kind: Pod
metadata: {name: order}
spec:
  restartPolicy: Never
  enableServiceLinks: false
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/usr/bin/env"]
    envFrom: [{configMapRef: {name: settings}}]
    env:
    - {name: Z, value: "1"}
    - {name: X, value: "2"}
    - {name: "Logging:LogLevel:Default", value: Debug}
    - {name: Z, value: "3"}
"#;
    let said = place.run(manifest, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    let shown = said.lines().into_iter().filter(|line| !line.starts_with("KUBERNETES_")).collect::<Vec<_>>();
    assert_eq!(
        shown,
        [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOSTNAME=order",
            "A_KEY=a",
            "B_KEY=b",
            "X=2",
            "Logging:LogLevel:Default=Debug",
            "Z=3",
            "HOME=/root",
        ],
        "{}",
        said.all()
    );
}
