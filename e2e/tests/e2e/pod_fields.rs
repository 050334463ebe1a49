//! The fields of a pod that are neither environment nor security nor volumes: names, resolver, namespaces, ports, limits,
//! terminals, last words, signals, pull secrets.

use e2e::{Node, Place, Said, privileged};

fn run(spec: &str) -> Said {
    named("p", spec)
}

fn named(name: &str, spec: &str) -> Said {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  restartPolicy: Never\n{spec}"
    );
    Place::new().run(&manifest, &["--quiet"])
}

fn shell(script: &str) -> String {
    format!(
        "  containers:\n  - name: test\n    image: coracle.dev/host\n    command: [\"/bin/sh\", \"-c\", {script:?}]\n"
    )
}

#[test]
fn a_container_starts_in_its_working_directory() {
    if !privileged("a_container_starts_in_its_working_directory") {
        return;
    }
    let said = run(&format!("{}    workingDir: /var/tmp\n", shell("pwd")));
    assert_eq!(said.lines(), ["/var/tmp"], "{}", said.all());
}

#[test]
fn host_names_are_as_asked() {
    if !privileged("host_names_are_as_asked") {
        return;
    }
    let script = "hostname; cat /etc/hostname; grep -v '^#' /etc/hosts | tail -n 1 | cut -f 2-";
    let full = "web.front.shop.svc.cluster.local";
    let rows = [
        ("", ["p", "p", "p"]),
        ("  hostname: web\n", ["web", "web", "web"]),
        ("  hostname: web\n  subdomain: front\n", ["web", "web", "web.front.shop.svc.cluster.local\tweb"]),
        (
            "  hostname: web\n  subdomain: front\n  setHostnameAsFQDN: true\n",
            [full, full, "web.front.shop.svc.cluster.local\tweb"],
        ),
        (
            "  hostnameOverride: other.example.org\n",
            ["other.example.org", "other.example.org", "other.example.org"],
        ),
    ];
    for (fields, expected) in rows {
        let said = run(&format!("{fields}{}", shell(script)));
        assert_eq!(said.lines(), expected, "{fields}{}", said.all());
    }
}

#[test]
fn host_aliases_are_in_the_hosts_file() {
    if !privileged("host_aliases_are_in_the_hosts_file") {
        return;
    }
    let aliases = "  hostAliases: [{ip: 10.1.2.3, hostnames: [foo.local, bar.local]}, {ip: 10.1.2.4, hostnames: [baz]}]\n";
    let said = run(&format!("{aliases}{}", shell("tail -n 3 /etc/hosts")));
    let expected = ["# Entries added by HostAliases.", "10.1.2.3\tfoo.local\tbar.local", "10.1.2.4\tbaz"];
    assert_eq!(said.lines(), expected, "{}", said.all());
}

#[test]
fn the_resolver_is_as_asked() {
    if !privileged("the_resolver_is_as_asked") {
        return;
    }
    let config = "  dnsConfig: {nameservers: [192.0.2.1], searches: [a.example], options: [{name: ndots, value: \"2\"}, {name: edns0}]}\n";
    let said = run(&format!("  dnsPolicy: None\n{config}{}", shell("cat /etc/resolv.conf")));
    let expected = ["search a.example", "nameserver 192.0.2.1", "options ndots:2 edns0"];
    assert_eq!(said.lines(), expected, "{}", said.all());
    // Under another policy it is added to what the policy gives.
    let said = run(&format!("  dnsPolicy: Default\n{config}{}", shell("cat /etc/resolv.conf")));
    assert!(said.stdout.contains("nameserver 192.0.2.1\n"), "{}", said.all());
    assert!(said.stdout.contains("a.example") && said.stdout.contains("ndots:2"), "{}", said.all());
}

#[test]
fn namespaces_of_the_host_are_shared_when_asked() {
    if !privileged("namespaces_of_the_host_are_shared_when_asked") {
        return;
    }
    let own = |kind: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
        link.to_string_lossy().into_owned()
    };
    let script = "for kind in net pid ipc uts; do readlink /proc/self/ns/$kind; done";
    let said = run(&shell(script));
    let inside = said.lines();
    assert_eq!(inside.len(), 4, "{}", said.all());
    for (kind, seen) in ["net", "pid", "ipc", "uts"].into_iter().zip(&inside) {
        assert_ne!(*seen, own(kind), "{kind}");
    }
    let said = run(&format!("  hostNetwork: true\n  hostPID: true\n  hostIPC: true\n{}", shell(script)));
    let expected = ["net", "pid", "ipc", "uts"].map(own);
    assert_eq!(said.lines(), expected, "{}", said.all());
}

#[test]
fn containers_share_processes_when_asked() {
    if !privileged("containers_share_processes_when_asked") {
        return;
    }
    let containers = |share: bool| {
        format!(
            r#"  shareProcessNamespace: {share}
  initContainers:
  - {{name: side, image: coracle.dev/host, restartPolicy: Always, command: [/bin/sleep, "4242"]}}
  containers:
  - {{name: test, image: coracle.dev/host, command: [/bin/sh, -c, "tr '\\0' ' ' < /proc/1/cmdline; echo; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 424[2]'"]}}
"#
        )
    };
    let said = run(&containers(true));
    assert_eq!(said.lines().last().copied(), Some("1"), "the sidecar is seen: {}", said.all());
    assert!(!said.lines()[0].contains("/bin/sh"), "somebody else is process 1: {}", said.all());
    let said = run(&containers(false));
    assert_eq!(said.lines().last().copied(), Some("0"), "{}", said.all());
    assert!(said.lines()[0].starts_with("/bin/sh -c"), "{}", said.all());
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

/// The body that an HTTP server answers with; nothing where nobody listens.
fn fetch(host: &str, port: u16) -> String {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect((host, port)) else { return String::new() };
    let mut answer = String::new();
    let asked = stream.write_all(format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes());
    if asked.and_then(|()| stream.read_to_string(&mut answer)).is_err() {
        return String::new();
    }
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

#[test]
fn ports_of_the_host_lead_to_the_pod() {
    if !privileged("ports_of_the_host_lead_to_the_pod") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let (port, only) = (free_port(), free_port());
    let manifest = |name: &str| {
        format!(
            r#"apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: coracle.dev/host
    command: [/bin/sh, -c, "mkdir /tmp/www; echo $HOSTNAME > /tmp/www/index.html; exec busybox httpd -f -p 8080 -h /tmp/www"]
    ports:
    - {{name: web, containerPort: 8080, hostPort: {port}}}
    - {{containerPort: 8080, hostPort: {only}, hostIP: 127.0.0.1, protocol: TCP}}
    readinessProbe: {{tcpSocket: {{port: web}}, periodSeconds: 1}}
"#
        )
    };
    node.kubectl_ok(&["create", "-f", "-"], &manifest("first"));
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/first", "--timeout=60s"], "");
    let host = node.kubectl_ok(&["get", "pod", "first", "-o", "jsonpath={.status.hostIP}"], "");
    assert_eq!(fetch("127.0.0.1", port), "first\n", "over loopback");
    assert_eq!(fetch(&host, port), "first\n", "over the machine's address");
    assert_eq!(fetch("127.0.0.1", only), "first\n", "the address that was asked for");
    if host != "127.0.0.1" {
        assert_eq!(fetch(&host, only), "", "no other address");
    }
    // The same port a second time is not given away.
    node.kubectl_ok(&["create", "-f", "-"], &manifest("second"));
    node.wait_for(&["get", "events", "--field-selector", "involvedObject.name=second"], |events| {
        events.contains("node(s) didn't have free ports for the requested pod ports")
    });
    assert_eq!(fetch("127.0.0.1", port), "first\n");
    node.kubectl_ok(&["delete", "pod", "first", "--grace-period=1"], "");
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/second", "--timeout=60s"], "");
    assert_eq!(fetch("127.0.0.1", port), "second\n", "it is free again");
}

#[test]
fn limits_and_requests_reach_the_control_group() {
    if !privileged("limits_and_requests_reach_the_control_group") {
        return;
    }
    // Whatever version the machine has, one of the two files is there.
    let script = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; \
        cat /sys/fs/cgroup/cpu*/cpu.cfs_quota_us 2>/dev/null | head -n 1; cut -d ' ' -f 1 /sys/fs/cgroup/cpu.max 2>/dev/null; \
        cat /sys/fs/cgroup/cpu*/cpu.shares 2>/dev/null | head -n 1; cat /sys/fs/cgroup/cpu.weight 2>/dev/null; \
        cat /proc/self/oom_score_adj";
    let resources =
        "    resources: {limits: {cpu: 500m, memory: 64Mi}, requests: {cpu: 250m, memory: 32Mi}}\n";
    let said = run(&format!("{}{resources}", shell(script)));
    let lines = said.lines();
    assert_eq!(&lines[..2], ["67108864", "50000"], "{}", said.all());
    assert!(["256", "10"].contains(&lines[2]), "{}", said.all());
    let score: i32 = lines[3].parse().expect("a number");
    assert!((3..1000).contains(&score), "a burstable container dies before the machine: {}", said.all());
    let said = run(&shell("cat /proc/self/oom_score_adj"));
    assert_eq!(said.lines(), ["1000"], "a container that asks for nothing goes first: {}", said.all());
}

#[test]
fn limits_of_the_pod_hold_for_its_containers_together() {
    if !privileged("limits_of_the_pod_hold_for_its_containers_together") {
        return;
    }
    // 20 MiB in each of two containers are too much for a pod of 32 MiB, in which each of them is welcome alone.
    let eat = "head -c 20m /dev/zero | tail -c 20m > /dev/null && echo fits";
    let one = |name: &str, script: &str| {
        format!("  - {{name: {name}, image: coracle.dev/host, command: [/bin/sh, -c, {script:?}]}}\n")
    };
    let alone = run(&format!("  resources: {{limits: {{memory: 32Mi}}}}\n  containers:\n{}", one("a", eat)));
    assert_eq!(alone.lines(), ["fits"], "{}", alone.all());
    let hold = "dd if=/dev/zero of=/dev/shm/$HOSTNAME bs=1M count=20 2>/dev/null; echo filled; sleep 1";
    let eater = "sleep 0.5; head -c 30m /dev/zero | tail -c 30m > /dev/null && echo fits";
    let both = run(&format!(
        "  resources: {{limits: {{memory: 40Mi}}}}\n  containers:\n{}{}",
        one("a", hold),
        one("b", eater)
    ));
    assert!(!both.stdout.contains("fits"), "{}", both.all());
}

#[test]
fn a_container_leaves_its_last_words() {
    if !privileged("a_container_leaves_its_last_words") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let rows: [(&str, &str, &str, &str); 7] = [
        ("file", "echo -n done > /dev/termination-log; exit 3", "", "done"),
        ("path", "echo -n there > /tmp/words", "terminationMessagePath: /tmp/words,", "there"),
        (
            "logs",
            "echo one; echo two; exit 1",
            "terminationMessagePolicy: FallbackToLogsOnError,",
            "one\ntwo\n",
        ),
        ("good", "echo one; exit 0", "terminationMessagePolicy: FallbackToLogsOnError,", ""),
        (
            "link",
            "ln -s /etc/passwd /v/words",
            "terminationMessagePath: /v/words, volumeMounts: [{name: v, mountPath: /v}],",
            "",
        ),
        (
            "pipe",
            "mkfifo /v/words; sleep 0.2",
            "terminationMessagePath: /v/words, volumeMounts: [{name: v, mountPath: /v}],",
            "",
        ),
        ("deaf", "yes x | head -c 5000 > /dev/termination-log", "", "4096"),
    ];
    for (name, script, fields, _) in rows {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{restartPolicy: Never, volumes: [{{name: v, emptyDir: {{}}}}], \
             containers: [{{name: c, image: coracle.dev/host, {fields} command: [/bin/sh, -c, {script:?}]}}]}}\n"
        );
        node.kubectl_ok(&["create", "-f", "-"], &manifest);
    }
    for (name, _, _, words) in rows {
        let template = "jsonpath={.status.phase}|{.status.containerStatuses[0].state.terminated.message}";
        let shown = node.wait_for(&["get", "pod", name, "-o", template], |shown| {
            shown.starts_with("Succeeded") || shown.starts_with("Failed")
        });
        let message = shown.split_once('|').expect("a phase and a message").1;
        if words == "4096" {
            assert_eq!(message.len(), 4096, "{name}");
        } else {
            assert_eq!(message, words, "{name}");
        }
    }
}

#[test]
fn a_container_is_stopped_by_the_signal_it_asks_for() {
    if !privileged("a_container_is_stopped_by_the_signal_it_asks_for") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let manifest = r#"apiVersion: v1
kind: Pod
metadata: {name: signals}
spec:
  restartPolicy: Never
  os: {name: linux}
  terminationGracePeriodSeconds: 20
  containers:
  - name: test
    image: coracle.dev/host
    lifecycle: {stopSignal: SIGUSR1}
    command: [/bin/sh, -c, "trap 'echo usr1; exit 0' USR1; trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 0.1; done"]
"#;
    node.kubectl_ok(&["create", "-f", "-"], manifest);
    node.wait_for(&["logs", "signals"], |log| log.contains("ready"));
    let status = node.kubectl_ok(
        &["get", "pod", "signals", "-o", "jsonpath={.status.containerStatuses[0].stopSignal}"],
        "",
    );
    assert_eq!(status, "SIGUSR1");
    let mut following = std::process::Command::new("kubectl")
        .args(["logs", "-f", "signals"])
        .env("KUBECONFIG", &node.kubeconfig)
        .env("HOME", place.data().join("home"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    node.kubectl_ok(&["delete", "pod", "signals"], "");
    let mut said = String::new();
    std::io::Read::read_to_string(following.stdout.as_mut().expect("a pipe"), &mut said).expect("text");
    let _ = following.wait();
    assert_eq!(said, "ready\nusr1\n");
}

#[test]
fn standard_input_and_terminals_are_as_asked() {
    if !privileged("standard_input_and_terminals_are_as_asked") {
        return;
    }
    let said = run(&format!("{}    tty: true\n", shell("test -t 0 && test -t 1 && echo on a $TERM")));
    assert_eq!(said.stdout.trim_end(), "on a xterm", "{}", said.all());
    let said = run(&format!(
        "  securityContext: {{runAsUser: 1000}}\n{}    tty: true\n",
        shell("echo written > $(tty)")
    ));
    assert_eq!(said.stdout.trim_end(), "written", "a terminal belongs to its user: {}", said.all());
    let said = run(&shell("test -t 0 || echo no terminal; cat; echo end of input"));
    assert_eq!(said.lines(), ["no terminal", "end of input"], "{}", said.all());
    // With stdinOnce the input ends with the first client that attached.
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let manifest = r#"apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  restartPolicy: Never
  containers:
  - {name: test, image: coracle.dev/host, stdin: true, stdinOnce: true, command: [/bin/sh, -c, "cat; echo end of input"]}
"#;
    node.kubectl_ok(&["create", "-f", "-"], manifest);
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/reader", "--timeout=60s"], "");
    let said = node.kubectl(&["attach", "-i", "reader", "-c", "test"], "spoken\n");
    assert!(said.stdout.contains("spoken"), "{}", said.all());
    node.wait_for(&["get", "pod", "reader", "-o", "jsonpath={.status.phase}"], |phase| phase == "Succeeded");
    assert_eq!(node.kubectl_ok(&["logs", "reader"], ""), "spoken\nend of input\n");
}

/// `letmein`, as the registry's file of users wants it.
const PASSWORD_HASH: &str = "$2y$05$abcdefghijklmnopqrstuuKwWV7ESJpzKzf9FQg57dBvMuv92X9HS";

#[test]
fn pull_secrets_open_the_registry() {
    if !privileged("pull_secrets_open_the_registry") {
        return;
    }
    let Some(image) = testkit::image::ImageMaker::busybox() else {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "busybox-static is not installed");
        return;
    };
    let image = image.cmd(&["echo", "pulled"]).build();
    let store = tempfile::tempdir().expect("a directory");
    let root = store.path().join("store").display().to_string();
    let users = store.path().join("users").display().to_string();
    std::fs::write(&users, format!("puller:{PASSWORD_HASH}\n")).expect("written");
    let place_of_store = ("REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY", root.as_str());
    let Some(open) = testkit::registry::TestRegistry::start_with(&[place_of_store]) else { return };
    open.push("team/app", "1", &image);
    drop(open);
    let Some(closed) = testkit::registry::TestRegistry::start_with(&[
        place_of_store,
        ("REGISTRY_AUTH", "htpasswd"),
        ("REGISTRY_AUTH_HTPASSWD_REALM", "team"),
        ("REGISTRY_AUTH_HTPASSWD_PATH", &users),
    ]) else {
        return;
    };
    let address = closed.address();
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let server = format!("--docker-server={address}");
    let secret = |name: &str, password: &str| {
        let (user, password) = ("--docker-username=puller", format!("--docker-password={password}"));
        node.kubectl_ok(&["create", "secret", "docker-registry", name, &server, user, &password], "");
    };
    secret("good", "letmein");
    secret("wrong", "guessed");
    // The form of old: the same without `auths` around it.
    let old = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: old}}\ntype: kubernetes.io/dockercfg\nstringData:\n  .dockercfg: '{{\"{address}\": {{\"auth\": \"cHVsbGVyOmxldG1laW4=\"}}}}'\n"
    );
    node.kubectl_ok(&["create", "-f", "-"], &old);
    let create = |name: &str, secrets: &str| {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{restartPolicy: Never, {secrets} containers: [{{name: c, image: \"{address}/team/app:1\", imagePullPolicy: Always}}]}}\n"
        );
        node.kubectl_ok(&["create", "-f", "-"], &manifest);
    };
    let refused = [
        ("none", ""),
        ("guess", "imagePullSecrets: [{name: wrong}],"),
        ("lost", "imagePullSecrets: [{name: absent}],"),
    ];
    for (name, secrets) in refused {
        create(name, secrets);
        let template = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
        node.wait_for(&["get", "pod", name, "-o", template], |reason| {
            ["ErrImagePull", "ImagePullBackOff"].contains(&reason)
        });
    }
    let events = node.kubectl_ok(
        &["get", "events", "-o", "jsonpath={range .items[*]}{.reason} {.message}{'\\n'}{end}"],
        "",
    );
    assert!(events.contains("FailedToRetrieveImagePullSecret"), "{events}");
    let opened = [
        ("new", "imagePullSecrets: [{name: good}],"),
        ("former", "imagePullSecrets: [{name: old}],"),
        ("second", "imagePullSecrets: [{name: wrong}, {name: good}],"),
    ];
    for (name, secrets) in opened {
        create(name, secrets);
        node.wait_for(&["get", "pod", name, "-o", "jsonpath={.status.phase}"], |phase| phase == "Succeeded");
        assert_eq!(node.kubectl_ok(&["logs", name], ""), "pulled\n");
    }
    for secret in ["letmein", "guessed", "cHVsbGVyOmxldG1laW4="] {
        assert!(!events.contains(secret) && !node.log().contains(secret), "a password is shown");
    }
}
