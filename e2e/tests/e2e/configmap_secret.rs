//! ConfigMaps and Secrets as environment and as volumes, in real containers.

use e2e::{Place, privileged};

const SOURCES: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {LEVEL: debug, colour: red}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {PASSWORD: canary-77aa}
---
"#;

#[test]
fn env_from_with_prefix_and_key_references() {
    if !privileged("env_from_with_prefix_and_key_references") {
        return;
    }
    let manifest = format!(
        "{SOURCES}{}",
        r#"
apiVersion: v1
kind: Pod
metadata: {name: sources}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/usr/bin/printf", "%s\n", "$(app_LEVEL)", "$(app_colour)", "$(URL)", "$(MISSING)"]
    envFrom: [{prefix: app_, configMapRef: {name: settings}}, {configMapRef: {name: nowhere, optional: true}}]
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: PASSWORD}}}
    - {name: URL, value: "db://$(PASSWORD)@host"}
    - {name: MISSING, valueFrom: {configMapKeyRef: {name: settings, key: none, optional: true}}}
"#
    );
    let said = Place::new().run(&manifest, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.lines(), ["debug", "red", "db://canary-77aa@host", "$(MISSING)"], "{}", said.all());
}

#[test]
fn a_missing_source_keeps_the_container_from_starting_and_names_it() {
    if !privileged("a_missing_source_keeps_the_container_from_starting_and_names_it") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: missing}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/true"]
    env: [{name: A, valueFrom: {configMapKeyRef: {name: nowhere, key: a}}}]
"#;
    let said = Place::new().run(manifest, &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("configmap \"nowhere\" not found"), "{}", said.all());
}

#[test]
fn volumes_hold_keys_as_files_with_their_modes() {
    if !privileged("volumes_hold_keys_as_files_with_their_modes") {
        return;
    }
    let manifest = format!(
        "{SOURCES}{}",
        r#"
apiVersion: v1
kind: Pod
metadata: {name: volumes, labels: {tier: web}}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "cat /config/level /secret/PASSWORD /podinfo/labels; echo; stat -L -c %a /config/level /secret/PASSWORD; touch /config/x 2>/dev/null || echo read-only; cat /all/colour; mount | grep -c ' /memory type tmpfs'"]
    volumeMounts:
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret, readOnly: true}
    - {name: podinfo, mountPath: /podinfo}
    - {name: all, mountPath: /all}
    - {name: memory, mountPath: /memory}
  volumes:
  - {name: config, configMap: {name: settings, items: [{key: LEVEL, path: level, mode: 0440}]}}
  - {name: secret, secret: {secretName: login, defaultMode: 0400}}
  - {name: podinfo, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: all, projected: {sources: [{configMap: {name: settings}}]}}
  - {name: memory, emptyDir: {medium: Memory}}
"#
    );
    let said = Place::new().run(&manifest, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.stdout, "debugcanary-77aatier=\"web\"\n440\n400\nread-only\nred1\n", "{}", said.all());
}

#[test]
fn a_secret_never_shows_in_what_the_node_says() {
    if !privileged("a_secret_never_shows_in_what_the_node_says") {
        return;
    }
    // The value holds a NUL, so the container cannot be started; the reason must name the variable only.
    let manifest = r#"
apiVersion: v1
kind: Secret
metadata: {name: login}
data: {PASSWORD: Y2FuYXJ5LQB4}
---
apiVersion: v1
kind: Pod
metadata: {name: nul}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/true"]
    env: [{name: DB_PASSWORD, valueFrom: {secretKeyRef: {name: login, key: PASSWORD}}}]
"#;
    let said = Place::new().run(manifest, &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("DB_PASSWORD"), "{}", said.all());
    assert!(!said.all().contains("canary-"), "{}", said.all());
}
