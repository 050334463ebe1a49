//! Volumes and their mounts, as a process inside sees them.

use e2e::{Node, Place, Said, privileged};

fn run(spec: &str) -> Said {
    let manifest =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  restartPolicy: Never\n{spec}");
    Place::new().run(&manifest, &["--quiet"])
}

#[test]
fn a_read_only_mount_cannot_be_written() {
    if !privileged("a_read_only_mount_cannot_be_written") {
        return;
    }
    let said = run(r#"  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: test
    image: coracle.dev/host
    command: [/bin/sh, -c, "touch /write/a && ls /read; touch /read/b 2>&1"]
    volumeMounts: [{name: v, mountPath: /write}, {name: v, mountPath: /read, readOnly: true}]
"#);
    assert_eq!(said.lines()[0], "a", "{}", said.all());
    assert!(said.stdout.contains("Read-only file system"), "{}", said.all());
}

#[test]
fn a_recursive_read_only_mount_is_read_only_all_the_way_down() {
    if !privileged("a_recursive_read_only_mount_is_read_only_all_the_way_down") {
        return;
    }
    let tree = tempfile::tempdir().expect("a directory");
    let below = tree.path().join("below");
    std::fs::create_dir(&below).expect("made");
    let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&below).status();
    assert!(mounted.expect("mount runs").success());
    let spec = |recursive: &str| {
        format!(
            r#"  volumes: [{{name: v, hostPath: {{path: {}}}}}]
  containers:
  - name: test
    image: coracle.dev/host
    command: [/bin/sh, -c, "touch /v/x 2>/dev/null || echo upper; touch /v/below/x 2>/dev/null || echo lower"]
    volumeMounts: [{{name: v, mountPath: /v, readOnly: true{recursive}}}]
"#,
            tree.path().display()
        )
    };
    let rows = [
        ("", vec!["upper"]),
        (", recursiveReadOnly: Disabled", vec!["upper"]),
        (", recursiveReadOnly: IfPossible", vec!["upper", "lower"]),
        (", recursiveReadOnly: Enabled", vec!["upper", "lower"]),
    ];
    let outcome: Vec<Said> = rows.iter().map(|(field, _)| run(&spec(field))).collect();
    let unmounted = std::process::Command::new("umount").arg(&below).status();
    assert!(unmounted.expect("umount runs").success());
    for ((field, expected), said) in rows.iter().zip(outcome) {
        assert_eq!(said.lines(), *expected, "{field}: {}", said.all());
    }
}

#[test]
fn mounts_travel_as_their_propagation_says() {
    if !privileged("mounts_travel_as_their_propagation_says") {
        return;
    }
    let tree = tempfile::tempdir().expect("a directory");
    let path = tree.path().display().to_string();
    let command = |program: &str, arguments: &[&str]| {
        let status = std::process::Command::new(program).args(arguments).status();
        assert!(status.expect("it runs").success(), "{program} {arguments:?}");
    };
    command("mount", &["--bind", &path, &path]);
    command("mount", &["--make-shared", &path]);
    for name in ["late", "inner"] {
        std::fs::create_dir(tree.path().join(name)).expect("made");
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let manifest = format!(
        r#"apiVersion: v1
kind: Pod
metadata: {{name: travel}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{{name: v, hostPath: {{path: {path}}}}}]
  containers:
  - {{name: none, image: coracle.dev/host, command: [/bin/sleep, "1000"], volumeMounts: [{{name: v, mountPath: /v}}]}}
  - {{name: down, image: coracle.dev/host, command: [/bin/sleep, "1000"], volumeMounts: [{{name: v, mountPath: /v, mountPropagation: HostToContainer}}]}}
  - {{name: both, image: coracle.dev/host, command: [/bin/sleep, "1000"], securityContext: {{privileged: true}}, volumeMounts: [{{name: v, mountPath: /v, mountPropagation: Bidirectional}}]}}
"#
    );
    node.kubectl_ok(&["create", "-f", "-"], &manifest);
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/travel", "--timeout=60s"], "");
    let late = format!("{path}/late");
    command("mount", &["-t", "tmpfs", "none", &late]);
    std::fs::write(format!("{late}/seen"), "").expect("written");
    let seen = |container: &str, file: &str| {
        node.kubectl(&["exec", "travel", "-c", container, "--", "test", "-e", file], "").status == 0
    };
    let outcome = [seen("none", "/v/late/seen"), seen("down", "/v/late/seen"), seen("both", "/v/late/seen")];
    let inner = "mount -t tmpfs none /v/inner && touch /v/inner/seen";
    node.kubectl_ok(&["exec", "travel", "-c", "both", "--", "/bin/sh", "-c", inner], "");
    let arrived = std::path::Path::new(&format!("{path}/inner/seen")).exists();
    let from_down = seen("down", "/v/inner/seen");
    command("umount", &[&format!("{path}/inner")]);
    command("umount", &[&late]);
    drop(node);
    command("umount", &["-l", &path]);
    assert_eq!(outcome, [false, true, true], "mounts of the machine: None, HostToContainer, Bidirectional");
    assert!(arrived && from_down, "a mount of the container: machine {arrived}, other container {from_down}");
}

#[test]
fn sub_paths_are_parts_of_a_volume() {
    if !privileged("sub_paths_are_parts_of_a_volume") {
        return;
    }
    let said = run(r#"  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - name: fill
    image: coracle.dev/host
    command: [/bin/sh, -c, "mkdir -p /v/a/b && echo deep > /v/a/b/file && echo one > /v/single && ln -s /etc/passwd /v/link"]
    volumeMounts: [{name: v, mountPath: /v}]
  containers:
  - name: test
    image: coracle.dev/host
    env: [{name: WHO, value: p}, {name: PART, value: made-$(WHO)}]
    command: [/bin/sh, -c, "cat /deep/file /single; touch /expanded/x; ls /all"]
    volumeMounts:
    - {name: v, mountPath: /deep, subPath: a/b}
    - {name: v, mountPath: /single, subPath: single, readOnly: true}
    - {name: v, mountPath: /expanded, subPathExpr: logs/$(PART)}
    - {name: v, mountPath: /all, subPath: logs}
"#);
    assert_eq!(said.lines(), ["deep", "one", "made-p"], "{}", said.all());
}

#[test]
fn a_hostile_sub_path_leads_nowhere() {
    if !privileged("a_hostile_sub_path_leads_nowhere") {
        return;
    }
    for link in
        ["ln -s / /v/part", "ln -s ../../../../../../../../etc /v/part", "ln -s /proc/self/root /v/part"]
    {
        let said = run(&format!(
            r#"  volumes: [{{name: v, emptyDir: {{}}}}]
  initContainers:
  - {{name: evil, image: coracle.dev/host, command: [/bin/sh, -c, "{link}"], volumeMounts: [{{name: v, mountPath: /v}}]}}
  containers:
  - {{name: test, image: coracle.dev/host, command: [/bin/sh, -c, "ls /part"], volumeMounts: [{{name: v, mountPath: /part, subPath: part}}]}}
"#
        ));
        assert_eq!(said.status, 125, "{link}: {}", said.all());
        assert!(said.stderr.contains("does not stay within the volume"), "{link}: {}", said.all());
    }
}

const SOURCES: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {level: low}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: first}
---
"#;

#[test]
fn a_projected_volume_joins_its_sources() {
    if !privileged("a_projected_volume_joins_its_sources") {
        return;
    }
    let manifest = format!(
        "{SOURCES}{}",
        r#"apiVersion: v1
kind: Pod
metadata: {name: p, labels: {tier: web}}
spec:
  restartPolicy: Never
  volumes:
  - name: all
    projected:
      defaultMode: 0440
      sources:
      - configMap: {name: settings, items: [{key: level, path: conf/level, mode: 0444}]}
      - configMap: {name: absent, optional: true}
      - secret: {name: login, items: [{key: password, path: conf/password}]}
      - secret: {name: absent, optional: true}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: limit, resourceFieldRef: {containerName: test, resource: limits.memory, divisor: 1Mi}, mode: 0400}]}
  containers:
  - name: test
    image: coracle.dev/host
    resources: {limits: {memory: 64Mi}}
    command: [/bin/sh, -c, "cd /all; cat conf/level; echo; cat conf/password; echo; cat labels; echo; cat limit; echo; stat -L -c %a conf/level conf/password labels limit; touch x 2>/dev/null || echo read-only"]
    volumeMounts: [{name: all, mountPath: /all}]
"#
    );
    let said = Place::new().run(&manifest, &["--quiet"]);
    let expected = ["low", "first", "tier=\"web\"", "64", "444", "440", "440", "400", "read-only"];
    assert_eq!(said.lines(), expected, "{}", said.all());
}

#[test]
fn volumes_follow_what_they_show() {
    if !privileged("volumes_follow_what_they_show") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let manifest = format!(
        "{SOURCES}{}",
        r#"apiVersion: v1
kind: Pod
metadata: {name: p, labels: {tier: web}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: config, configMap: {name: settings}}
  - {name: secret, secret: {secretName: login}}
  - {name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  containers:
  - name: test
    image: coracle.dev/host
    command: [/bin/sleep, "1000"]
    volumeMounts:
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: info, mountPath: /info}
    - {name: config, mountPath: /fixed, subPath: level}
"#
    );
    node.kubectl_ok(&["create", "-f", "-"], &manifest);
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"], "");
    let all = ["exec", "p", "--", "/bin/sh", "-c", "cat /config/level /secret/password /info/labels"];
    assert_eq!(node.kubectl_ok(&all, ""), "lowfirsttier=\"web\"");
    node.kubectl_ok(
        &["patch", "configmap", "settings", "-p", r#"{"data": {"level": "high", "more": "x"}}"#],
        "",
    );
    node.kubectl_ok(&["patch", "secret", "login", "-p", r#"{"stringData": {"password": "second"}}"#], "");
    node.kubectl_ok(&["label", "pod", "p", "--overwrite", "tier=front"], "");
    node.wait_for(&all, |text| text == "highsecondtier=\"front\"");
    let rest = ["exec", "p", "--", "/bin/sh", "-c", "cat /fixed; ls /config; readlink /config/level"];
    assert_eq!(
        node.kubectl_ok(&rest, ""),
        "lowlevel\nmore\n..data/level\n",
        "a subPath stays what it was, and the others change by one link"
    );
}
