//! Security contexts of pods and containers, as a process inside sees them.

use e2e::{Node, Place, Said, privileged};

fn run(spec: &str) -> Said {
    let manifest =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  restartPolicy: Never\n{spec}");
    Place::new().run(&manifest, &["--quiet"])
}

/// A container with a security context.
fn shell(script: &str, context: &str) -> String {
    format!(
        "  containers:\n  - name: test\n    image: coracle.dev/host\n    securityContext: {{{context}}}\n    command: [\"/bin/sh\", \"-c\", {script:?}]\n"
    )
}

#[test]
fn a_containers_own_user_comes_before_the_pods() {
    if !privileged("a_containers_own_user_comes_before_the_pods") {
        return;
    }
    let said = run(&format!(
        "  securityContext: {{runAsUser: 1, runAsGroup: 2}}\n{}",
        shell("id -u; id -g", "runAsUser: 3, runAsGroup: 4")
    ));
    assert_eq!(said.lines(), ["3", "4"], "{}", said.all());
}

#[test]
fn who_must_not_be_root_does_not_start() {
    if !privileged("who_must_not_be_root_does_not_start") {
        return;
    }
    let said = run(&shell("echo ran", "runAsNonRoot: true"));
    assert_eq!(said.status, 125, "{}", said.all());
    let words = "container has runAsNonRoot and image will run as root (pod: \"p_default(";
    assert!(said.stderr.contains(words) && !said.stdout.contains("ran"), "{}", said.all());
    let said =
        run(&format!("  securityContext: {{runAsNonRoot: true}}\n{}", shell("echo ran", "runAsUser: 0")));
    assert!(said.stderr.contains("container's runAsUser breaks non-root policy"), "{}", said.all());
    let said =
        run(&format!("  securityContext: {{runAsNonRoot: true}}\n{}", shell("echo ran", "runAsUser: 7")));
    assert_eq!(said.lines(), ["ran"], "{}", said.all());
}

#[test]
fn groups_of_the_image_are_merged_unless_the_policy_is_strict() {
    if !privileged("groups_of_the_image_are_merged_unless_the_policy_is_strict") {
        return;
    }
    // The machine's own image: a user of it that is in a further group, if there is one.
    let text = std::fs::read_to_string("/etc/group").expect("groups");
    let member = text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let name = fields.get(3)?.split(',').find(|name| !name.is_empty())?;
        Some((name.to_owned(), (*fields.get(2)?).to_owned()))
    });
    let passwd = std::fs::read_to_string("/etc/passwd").expect("users");
    let user = member.and_then(|(name, group)| {
        let line = passwd.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let uid = line.split(':').nth(2)?.to_owned();
        Some((uid, group))
    });
    let strict = run(&format!(
        "  securityContext: {{runAsUser: 1, runAsGroup: 9, supplementalGroups: [60], supplementalGroupsPolicy: Strict}}\n{}",
        shell("id -G", "")
    ));
    assert_eq!(strict.lines(), ["9 60"], "{}", strict.all());
    let Some((uid, group)) = user else {
        eprintln!("no user of this machine is in a further group: only the strict policy was tried");
        return;
    };
    for (policy, merged) in [("Merge", true), ("Strict", false)] {
        let said = run(&format!(
            "  securityContext: {{runAsUser: {uid}, runAsGroup: 7, supplementalGroupsPolicy: {policy}}}\n{}",
            shell("id -G", "")
        ));
        let has = said.lines()[0].split(' ').any(|one| one == group);
        assert_eq!(has, merged, "{policy}: {}", said.all());
    }
}

#[test]
fn capabilities_are_added_and_dropped() {
    if !privileged("capabilities_are_added_and_dropped") {
        return;
    }
    let script = "grep CapEff /proc/self/status | tr -d '\\t' | cut -d : -f 2";
    let rows = [
        ("capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}", "0000000000000400"),
        ("capabilities: {drop: [ALL], add: [CHOWN, KILL]}", "0000000000000021"),
        ("capabilities: {drop: [MKNOD, NET_RAW, AUDIT_WRITE]}", "00000000800405fb"),
    ];
    for (context, bits) in rows {
        let said = run(&shell(script, context));
        assert_eq!(said.lines(), [bits], "{context}: {}", said.all());
    }
    let said = run(&shell("echo ran", "capabilities: {add: [FLY]}"));
    assert!(said.status != 0 && said.stderr.contains("FLY"), "{}", said.all());
}

#[test]
fn a_privileged_container_is_not_confined() {
    if !privileged("a_privileged_container_is_not_confined") {
        return;
    }
    let script = "m=$(mktemp -d) && mount -t tmpfs none $m 2>/dev/null && echo mounted; grep Seccomp: /proc/self/status | tr -d '\\t'; touch /proc/sys/kernel/domainname 2>/dev/null && echo writable";
    let said = run(&shell(script, "privileged: true"));
    assert_eq!(said.lines(), ["mounted", "Seccomp:0", "writable"], "{}", said.all());
    let said = run(&shell(script, ""));
    assert_eq!(said.lines(), ["Seccomp:2"], "{}", said.all());
}

#[test]
fn the_root_file_system_is_read_only_when_asked() {
    if !privileged("the_root_file_system_is_read_only_when_asked") {
        return;
    }
    let script = "touch /written 2>&1; touch /tmp/written 2>&1; touch /v/written && echo volume";
    let containers = format!(
        "  volumes: [{{name: v, emptyDir: {{}}}}]\n{}    volumeMounts: [{{name: v, mountPath: /v}}]\n",
        shell(script, "readOnlyRootFilesystem: true")
    );
    let said = run(&containers);
    assert_eq!(said.stdout.matches("Read-only file system").count(), 2, "{}", said.all());
    assert!(said.stdout.ends_with("volume\n"), "{}", said.all());
}

#[test]
fn seccomp_profiles_are_as_asked() {
    if !privileged("seccomp_profiles_are_as_asked") {
        return;
    }
    let script = "grep Seccomp: /proc/self/status | tr -d '\\t'; mkdir /tmp/d && echo made";
    for (profile, filter) in [("{type: RuntimeDefault}", "Seccomp:2"), ("{type: Unconfined}", "Seccomp:0")] {
        let said = run(&shell(script, &format!("seccompProfile: {profile}")));
        assert_eq!(said.lines(), [filter, "made"], "{profile}: {}", said.all());
        let said = run(&format!("  securityContext: {{seccompProfile: {profile}}}\n{}", shell(script, "")));
        assert_eq!(said.lines(), [filter, "made"], "{profile}: {}", said.all());
    }
    // A profile of the node's directory.
    let place = Place::new();
    let profiles = place.data().join("seccomp/profiles");
    std::fs::create_dir_all(&profiles).expect("a directory");
    let profile = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}"#;
    std::fs::write(profiles.join("no-mkdir.json"), profile).expect("written");
    let manifest = |file: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  restartPolicy: Never\n{}",
            shell(script, &format!("seccompProfile: {{type: Localhost, localhostProfile: {file}}}"))
        )
    };
    let said = place.run(&manifest("profiles/no-mkdir.json"), &["--quiet"]);
    // What the container says on its two outputs may come in either order.
    let is_filtered = said.lines().contains(&"Seccomp:2");
    assert!(is_filtered && !said.stdout.contains("made"), "{}", said.all());
    let said = place.run(&manifest("profiles/absent.json"), &["--quiet"]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("seccomp") && said.stderr.contains("absent.json"), "{}", said.all());
}

#[test]
fn safe_sysctls_are_set_and_others_are_refused() {
    if !privileged("safe_sysctls_are_set_and_others_are_refused") {
        return;
    }
    let sysctls = "  securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: \"77\"}, {name: kernel.shm_rmid_forced, value: \"1\"}]}\n";
    let script = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced";
    let said = run(&format!("{sysctls}{}", shell(script, "")));
    assert_eq!(said.lines(), ["77", "1"], "{}", said.all());
    assert_ne!(
        std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").expect("readable").trim(),
        "77",
        "the machine has its own"
    );
    let place = Place::new();
    let node = Node::up(&place, &[]);
    for (name, sysctl) in
        [("queue", "kernel.msgmax"), ("host", "kernel.panic"), ("route", "net.ipv4.ip_forward")]
    {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  securityContext: {{sysctls: [{{name: {sysctl}, value: \"1\"}}]}}\n{}",
            shell("echo ran", "")
        );
        node.kubectl_ok(&["create", "-f", "-"], &manifest);
        let template = "jsonpath={.status.phase} {.status.reason} {.status.message}";
        let shown = node.wait_for(&["get", "pod", name, "-o", template], |shown| shown.starts_with("Failed"));
        assert_eq!(
            shown,
            format!(
                "Failed SysctlForbidden Pod was rejected: forbidden sysctl: \"{sysctl}\" not allowlisted"
            )
        );
    }
}

#[test]
fn proc_is_masked_unless_the_pod_has_its_own_users() {
    if !privileged("proc_is_masked_unless_the_pod_has_its_own_users") {
        return;
    }
    let script = "wc -c < /proc/timer_list; touch /proc/sys/kernel/domainname 2>&1";
    let said = run(&shell(script, ""));
    assert_eq!(said.lines()[0], "0", "{}", said.all());
    assert!(said.stdout.contains("Read-only file system"), "{}", said.all());
    let said = run(&shell(script, "procMount: Unmasked"));
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains("`hostUsers` must be false to use `Unmasked`"), "{}", said.all());
    let script = "grep -c ' /proc/' /proc/self/mountinfo";
    let said = run(&format!("  hostUsers: false\n{}", shell(script, "procMount: Unmasked")));
    assert_eq!(said.lines(), ["0"], "nothing covers /proc: {}", said.all());
}

#[test]
fn volumes_belong_to_the_group_of_the_pod() {
    if !privileged("volumes_belong_to_the_group_of_the_pod") {
        return;
    }
    let spec = |policy: &str| {
        format!(
            r#"  securityContext: {{runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000{policy}}}
  volumes:
  - {{name: empty, emptyDir: {{}}}}
  - {{name: memory, emptyDir: {{medium: Memory}}}}
  - {{name: info, downwardAPI: {{defaultMode: 0400, items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}}}
  - {{name: all, projected: {{defaultMode: 0400, sources: [{{downwardAPI: {{items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}}}]}}}}
  containers:
  - name: test
    image: coracle.dev/host
    command: [/bin/sh, -c, "id -G; for v in empty memory; do touch /$v/x && stat -c '%g %a' /$v && stat -c %g /$v/x; done; cat /info/name; echo; cat /all/name; echo; stat -L -c '%g %a' /info/name"]
    volumeMounts: [{{name: empty, mountPath: /empty}}, {{name: memory, mountPath: /memory}}, {{name: info, mountPath: /info}}, {{name: all, mountPath: /all}}]
"#
        )
    };
    for policy in ["", ", fsGroupChangePolicy: OnRootMismatch", ", fsGroupChangePolicy: Always"] {
        let said = run(&spec(policy));
        let expected = ["1000 2000", "2000 2777", "2000", "2000 2777", "2000", "p", "p", "2000 440"];
        assert_eq!(said.lines(), expected, "{policy}: {}", said.all());
    }
}

#[test]
fn users_of_a_pod_are_not_those_of_the_host() {
    if !privileged("users_of_a_pod_are_not_those_of_the_host") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let shared = place.file("shared", "of the host\n");
    let manifest = |name: &str| {
        format!(
            r#"apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 1
  volumes:
  - {{name: v, emptyDir: {{}}}}
  - {{name: m, emptyDir: {{medium: Memory}}}}
  - {{name: info, downwardAPI: {{items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}}}
  - {{name: shared, hostPath: {{path: {}}}}}
  containers:
  - name: test
    image: coracle.dev/host
    command: [/bin/sh, -c, "echo ready > /dev/stdout; exec sleep 1000"]
    volumeMounts: [{{name: v, mountPath: /v}}, {{name: m, mountPath: /m}}, {{name: info, mountPath: /info}}, {{name: shared, mountPath: /shared}}]
"#,
            shared.display()
        )
    };
    for name in ["one", "two"] {
        node.kubectl_ok(&["create", "-f", "-"], &manifest(name));
    }
    for name in ["one", "two"] {
        node.kubectl_ok(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=60s"], "");
        node.wait_for(&["logs", name], |log| log == "ready\n");
    }
    let inside = |pod: &str, script: &str| node.kubectl_ok(&["exec", pod, "--", "/bin/sh", "-c", script], "");
    // Root inside, with files that are root's, and the rights of root over what belongs to the pod.
    let script = "id -u; touch /v/a /m/a /written && stat -c %u /v/a /m/a /written /etc/hosts /; cat /info/name; echo; busybox httpd -p 80 -h /tmp && echo bound";
    let lines = inside("one", script);
    assert_eq!(
        lines.lines().collect::<Vec<&str>>(),
        ["0", "0", "0", "0", "0", "0", "one", "bound"],
        "{lines}"
    );
    // Somebody without a name outside, and not the same one for both pods.
    let map = |pod: &str| {
        inside(pod, "cat /proc/self/uid_map").split_whitespace().map(str::to_owned).collect::<Vec<String>>()
    };
    let (one, two) = (map("one"), map("two"));
    assert_eq!((one[0].as_str(), one[2].as_str()), ("0", "65536"));
    assert!(one[1] != "0" && one[1] != two[1], "{one:?} {two:?}");
    let outside = std::fs::read_dir("/proc")
        .expect("processes")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path).ok()?);
            (owner.to_string() == one[1]).then_some(path)
        })
        .count();
    assert!(outside >= 1, "the process runs as {}", one[1]);
    // What root of the host may do it may not.
    let forbidden = "mount -t tmpfs none /mnt 2>/dev/null && echo mounted; cat /etc/shadow 2>/dev/null; mknod /tmp/disk b 8 0 2>/dev/null && echo node; echo over";
    assert_eq!(inside("one", forbidden), "over\n");
    for name in ["one", "two"] {
        node.kubectl_ok(&["delete", "pod", name, "--grace-period=1"], "");
    }
    assert_eq!(std::fs::read_to_string(&shared).expect("still there"), "of the host\n");
}

#[test]
fn any_user_may_open_its_own_output_again() {
    if !privileged("any_user_may_open_its_own_output_again") {
        return;
    }
    let script = "echo out > /dev/stdout; echo err > /dev/stderr; echo again > /proc/self/fd/1";
    let said = run(&shell(script, "runAsUser: 1000, runAsGroup: 1000"));
    let mut lines = said.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["again", "err", "out"], "{}", said.all());
}
