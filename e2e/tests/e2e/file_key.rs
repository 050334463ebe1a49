//! Env files: both stories of the document and its seven failure scenarios, in real containers.

use e2e::{Place, Said, privileged};

/// Text that must never be seen outside of a container.
const CANARY: &str = "canary-5f1c";

/// A pod whose init container runs `writer` with the volume at /data, and whose app container prints `$(WANTED)`.
fn pod(writer: &str, reference: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: envfile}}
spec:
  restartPolicy: Never
  initContainers:
  - name: setup
    image: coracle.dev/host
    command: ["/bin/sh", "-c", {writer:?}]
    volumeMounts: [{{name: config, mountPath: /data}}]
  containers:
  - name: app
    image: coracle.dev/host
    command: ["/usr/bin/printf", "[%s]\n", "$(WANTED)"]
    env:
    - name: WANTED
      valueFrom:
        fileKeyRef: {{volumeName: config, path: config.env, key: KEY{reference}}}
  volumes:
  - name: config
    emptyDir: {{}}
"#
    )
}

fn refused(said: &Said, expected: &str) {
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("CreateContainerConfigError"), "{}", said.all());
    assert!(said.stderr.contains(expected), "no {expected:?} in {}", said.all());
    assert!(!said.stderr.contains(CANARY) && !said.stdout.contains(CANARY), "content leaked: {}", said.all());
    assert!(
        !said.stderr.contains("/data/kubelet") && !said.stderr.contains("emptydir"),
        "a path of the node: {}",
        said.all()
    );
}

#[test]
fn an_init_container_writes_what_a_container_without_shell_consumes() {
    if !privileged("an_init_container_writes_what_a_container_without_shell_consumes") {
        return;
    }
    let said = Place::new().run(&pod("echo KEY=hello > /data/config.env", ""), &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.lines(), ["[hello]"], "{}", said.all());
}

#[test]
fn the_syntax_that_kubernetes_ships_is_read_too() {
    if !privileged("the_syntax_that_kubernetes_ships_is_read_too") {
        return;
    }
    let writer = "printf \"KEY='two words'\\nOTHER='x'\\n\" > /data/config.env";
    let said = Place::new().run(&pod(writer, ""), &["--quiet"]);
    assert_eq!(said.lines(), ["[two words]"], "{}", said.all());
}

#[test]
fn scenario_1_an_unknown_volume_is_refused() {
    if !privileged("scenario_1_an_unknown_volume_is_refused") {
        return;
    }
    let manifest = pod("true", "").replace("volumeName: config", "volumeName: nowhere");
    let said = Place::new().run(&manifest, &[]);
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains("fileKeyRef.volumeName: Not found: \"nowhere\""), "{}", said.all());
}

#[test]
fn scenario_2_a_volume_that_is_no_empty_dir_is_refused() {
    if !privileged("scenario_2_a_volume_that_is_no_empty_dir_is_refused") {
        return;
    }
    let manifest = pod("true", "").replace("emptyDir: {}", "hostPath: {path: /tmp}");
    let said = Place::new().run(&manifest, &[]);
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains("referenced volume must be of type emptyDir"), "{}", said.all());
}

#[test]
fn scenario_3_a_missing_file_or_key_keeps_the_container_from_starting() {
    if !privileged("scenario_3_a_missing_file_or_key_keeps_the_container_from_starting") {
        return;
    }
    refused(&Place::new().run(&pod("true", ""), &[]), "config.env");
    refused(&Place::new().run(&pod(&format!("echo OTHER={CANARY} > /data/config.env"), ""), &[]), "KEY");
}

#[test]
fn scenario_4_an_optional_key_may_be_missing() {
    if !privileged("scenario_4_an_optional_key_may_be_missing") {
        return;
    }
    let said = Place::new().run(&pod("true", ", optional: true"), &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.lines(), ["[$(WANTED)]"], "a skipped variable is undefined, not empty: {}", said.all());
}

#[test]
fn scenario_5_a_file_that_cannot_be_parsed_keeps_the_container_from_starting() {
    if !privileged("scenario_5_a_file_that_cannot_be_parsed_keeps_the_container_from_starting") {
        return;
    }
    let writer = format!("printf 'KEY=v\\n{CANARY}\\n' > /data/config.env");
    refused(&Place::new().run(&pod(&writer, ""), &[]), "line 2");
}

#[test]
fn scenario_6_an_invalid_name_in_the_file_keeps_the_container_from_starting() {
    if !privileged("scenario_6_an_invalid_name_in_the_file_keeps_the_container_from_starting") {
        return;
    }
    let writer = format!("printf 'KEY=v\\nUML\\303\\204UT={CANARY}\\n' > /data/config.env");
    refused(&Place::new().run(&pod(&writer, ""), &[]), "line 2");
}

#[test]
fn scenario_7_a_user_who_cannot_read_the_file_does_not_get_it() {
    if !privileged("scenario_7_a_user_who_cannot_read_the_file_does_not_get_it") {
        return;
    }
    let writer = format!("echo KEY={CANARY} > /data/config.env; chmod 600 /data/config.env");
    let manifest = pod(&writer, "")
        .replace("  - name: app\n", "  - name: app\n    securityContext: {runAsUser: 1000}\n");
    refused(&Place::new().run(&manifest, &[]), "config.env");
}

#[test]
fn hostile_files_are_refused_at_once_and_never_followed() {
    if !privileged("hostile_files_are_refused_at_once_and_never_followed") {
        return;
    }
    for writer in [
        "ln -s /etc/passwd /data/config.env",
        "ln -s ../../../../../../etc/passwd /data/config.env",
        "mkfifo /data/config.env",
        "mkdir /data/config.env",
        "head -c 70000 /dev/zero | tr '\\0' 'A' > /data/config.env",
        "printf 'KEY=a\\000b\\n' > /data/config.env",
    ] {
        let said = Place::new().run(&pod(writer, ""), &[]);
        refused(&said, "config.env");
        assert!(!said.stderr.contains("root:"), "{writer}: {}", said.all());
        let tells_of_link = said.all().contains("a link on its path leaves the volume");
        assert_eq!(tells_of_link, writer.starts_with("ln -s"), "{writer}: {}", said.all());
    }
}

#[test]
fn a_sidecar_and_an_init_container_read_env_files_too() {
    if !privileged("a_sidecar_and_an_init_container_read_env_files_too") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: kinds}
spec:
  restartPolicy: Never
  volumes: [{name: config, emptyDir: {}}]
  initContainers:
  - name: setup
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "echo KEY=hello > /data/config.env"]
    volumeMounts: [{name: config, mountPath: /data}]
  - name: init
    image: coracle.dev/host
    command: ["/usr/bin/printf", "init %s\n", "$(WANTED)"]
    env: [{name: WANTED, valueFrom: {fileKeyRef: {volumeName: config, path: config.env, key: KEY}}}]
  - name: sidecar
    restartPolicy: Always
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "echo sidecar $WANTED; exec sleep 1000"]
    env: [{name: WANTED, valueFrom: {fileKeyRef: {volumeName: config, path: config.env, key: KEY}}}]
  containers:
  - name: app
    image: coracle.dev/host
    command: ["/usr/bin/printf", "app %s\n", "$(WANTED)"]
    env: [{name: WANTED, valueFrom: {fileKeyRef: {volumeName: config, path: config.env, key: KEY}}}]
"#;
    let said = Place::new().run(manifest, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    let mut lines = said.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["app hello", "init hello", "sidecar hello"], "{}", said.all());
}
