//! exec, attach, cp and port-forward by every `kubectl` that is there and over both of its protocols, and requests through
//! the proxies of pods, services and nodes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Node, PATIENCE, Place, Said, finish, newer_kubectl, privileged};

const SITE: &str = r#"apiVersion: v1
kind: Pod
metadata: {name: site, labels: {app: site}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: coracle.dev/host
    ports: [{name: http, containerPort: 8000}]
    command:
    - /bin/sh
    - -c
    - |
      mkdir -p /tmp/www/cgi-bin
      echo hello > /tmp/www/index.html
      printf '#!/bin/sh\necho Content-type: text/plain\necho\necho "$REQUEST_METHOD $PATH_INFO?$QUERY_STRING"\ncat\nenv | grep ^HTTP_\n' > /tmp/www/cgi-bin/say
      chmod 755 /tmp/www/cgi-bin/say
      busybox nc -ll -p 7000 -e wc -c &
      exec busybox httpd -f -p 8000 -h /tmp/www
    readinessProbe: {httpGet: {port: 8000}, periodSeconds: 1}
  - name: echo
    image: coracle.dev/host
    stdin: true
    command: [/bin/sh, -c, "while read line; do echo got $line; done"]
---
apiVersion: v1
kind: Service
metadata: {name: site}
spec: {selector: {app: site}, ports: [{name: web, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec: {selector: {app: nobody}, ports: [{port: 80}]}
"#;

/// One way to speak to the node.
#[derive(Debug, Clone)]
struct Client {
    program: String,
    websockets: bool,
}

impl Client {
    /// The machine's `kubectl` over WebSocket and over SPDY, and those that `OTHER_KUBECTLS` names (`:` between them).
    fn all() -> Vec<Self> {
        let mut all: Vec<Self> =
            [true, false].map(|websockets| Self { program: "kubectl".to_owned(), websockets }).into();
        let others = std::env::var("OTHER_KUBECTLS").unwrap_or_default();
        let others = others.split(':').filter(|program| !program.is_empty());
        all.extend(others.map(|program| Self { program: program.to_owned(), websockets: true }));
        all
    }

    fn command(&self, node: &Node, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let websockets = self.websockets.to_string();
        command
            .args(arguments)
            .env("KUBECONFIG", &node.kubeconfig)
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", &websockets)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", &websockets)
            .env("HOME", node.kubeconfig.with_file_name("home"));
        command
    }

    fn run(&self, node: &Node, arguments: &[&str], input: &str) -> Said {
        finish(&mut self.command(node, arguments), input)
    }
}

fn site(place: &Place) -> Node {
    let node = Node::up(place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], SITE);
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/site", "--timeout=60s"], "");
    node
}

#[test]
fn every_kubectl_runs_commands_attaches_and_copies() {
    if !privileged("every_kubectl_runs_commands_attaches_and_copies") {
        return;
    }
    let place = Place::new();
    let node = site(&place);
    let large = "0123456789abcdef".repeat(200_000);
    let file = place.file("large", &large);
    for client in Client::all() {
        let said = client.run(
            &node,
            &["exec", "site", "-c", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3"],
            "",
        );
        assert_eq!((said.status, said.stdout.as_str()), (3, "out\n"), "{client:?}: {}", said.all());
        assert!(said.stderr.starts_with("err\n"), "{client:?}: {}", said.all());
        // The input ends, and so does the command; nothing of what is large is lost on either way.
        let said = client.run(&node, &["exec", "-i", "site", "-c", "web", "--", "cat"], &large);
        assert_eq!(said.status, 0, "{client:?}: {}", said.stderr);
        assert!(said.stdout == large, "{client:?}: {} bytes came back", said.stdout.len());
        let said = client.run(&node, &["exec", "site", "-c", "web", "--", "/no/such/program"], "");
        assert!(said.status != 0 && said.stderr.contains("/no/such/program"), "{client:?}: {}", said.all());

        let there = file.to_str().expect("text");
        let back = place.file("back", "");
        let copied = client.run(&node, &["cp", there, "site:/tmp/large", "-c", "web"], "");
        assert_eq!(copied.status, 0, "{client:?}: {}", copied.all());
        let copied =
            client.run(&node, &["cp", "site:/tmp/large", back.to_str().expect("text"), "-c", "web"], "");
        assert_eq!(copied.status, 0, "{client:?}: {}", copied.all());
        assert!(std::fs::read_to_string(&back).is_ok_and(|text| text == large), "{client:?}");

        let run = |name: &str, script: &str, input: &str| {
            let command =
                ["--image=coracle.dev/host", "--restart=Never", "--command", "--", "sh", "-c", script];
            let said = client.run(&node, &[&["run", "-i", "--rm", name], &command[..]].concat(), input);
            node.wait_for(&["get", "pod", name, "--ignore-not-found", "-o", "name"], str::is_empty);
            said
        };
        let said = run("typed", "cat; echo end", "from here\n");
        assert_eq!(said.status, 0, "{client:?}: {}", said.all());
        assert!(said.stdout.contains("from here\nend\n"), "{client:?}: {}", said.all());
        assert_eq!(run("fails", "cat; exit 3", "").status, 3, "{client:?}");

        let mut attached = client
            .command(&node, &["attach", "-i", "site", "-c", "echo"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut stdin = attached.stdin.take().expect("a pipe");
        stdin.write_all(b"a line\n").expect("written");
        let mut lines = BufReader::new(attached.stdout.take().expect("a pipe")).lines();
        assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("got a line"), "{client:?}");
        end(attached);
    }
}

#[test]
fn a_terminal_has_the_size_of_the_clients() {
    if !privileged("a_terminal_has_the_size_of_the_clients") {
        return;
    }
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no `script` to make a terminal");
        return;
    }
    let place = Place::new();
    let node = site(&place);
    for client in Client::all() {
        let inside = r#"test -t 0 && until [ "$(stty size)" = "51 101" ]; do :; done; echo sized"#;
        let outside = format!(
            "stty cols 101 rows 51; exec '{}' exec -it site -c web -- sh -c '{}'",
            client.program, inside
        );
        let mut command = client.command(&node, &[]);
        let mut script = Command::new("script");
        script.args(["-qec", &outside, "/dev/null"]);
        for (name, value) in command.env("TERM", "xterm").get_envs() {
            script.env(name, value.expect("a value"));
        }
        let said = finish(&mut script, "");
        assert!(said.status == 0 && said.stdout.contains("sized"), "{client:?}: {}", said.all());
    }
}

/// A `kubectl port-forward` that runs.
struct Forward {
    child: Child,
    /// Here, in the order of the ports.
    ports: Vec<u16>,
    log: std::path::PathBuf,
}

impl Forward {
    fn start(client: &Client, node: &Node, place: &Place, arguments: &[&str]) -> Self {
        let log = place.file("forward.log", "");
        let mut child = client
            .command(node, &[&["port-forward"], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).expect("a file"))
            .spawn()
            .expect("it starts");
        let wanted = arguments.len() - 1;
        let mut ports = Vec::new();
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        while ports.len() < wanted {
            let line = lines.next().and_then(Result::ok).unwrap_or_else(|| {
                panic!("{client:?}: {}", std::fs::read_to_string(&log).unwrap_or_default())
            });
            let port: Option<u16> = line
                .strip_prefix("Forwarding from 127.0.0.1:")
                .and_then(|rest| rest.split(' ').next())
                .and_then(|port| port.parse().ok());
            ports.extend(port);
        }
        // It goes on saying what it does; nobody else reads it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, ports, log }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn connect(port: u16) -> TcpStream {
    let connection = TcpStream::connect(("127.0.0.1", port)).expect("kubectl listens");
    connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
    connection
}

fn get(port: u16) -> String {
    let mut connection = connect(port);
    connection.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn every_kubectl_forwards_many_connections_and_half_of_one() {
    if !privileged("every_kubectl_forwards_many_connections_and_half_of_one") {
        return;
    }
    let place = Place::new();
    let node = site(&place);
    for client in Client::all() {
        for target in ["pod/site", "service/site"] {
            // The port of a service is that of its pods in the end.
            let port = if target == "pod/site" { ":8000" } else { ":80" };
            let forward = Forward::start(&client, &node, &place, &[target, port]);
            let local = forward.ports[0];
            let many: Vec<_> = (0..40).map(|_| std::thread::spawn(move || get(local))).collect();
            for one in many {
                let answer = one.join().expect("no panic");
                assert!(answer.starts_with("HTTP/1.") && answer.ends_with("hello\n"), "{client:?}: {answer}");
            }
        }
        let forward = Forward::start(&client, &node, &place, &["pod/site", ":7000", ":9"]);
        // Whoever counts answers when the other side has said everything, and not before.
        let mut connection = connect(forward.ports[0]);
        connection.write_all(&[b'x'; 100_000]).expect("sent");
        connection.shutdown(Shutdown::Write).expect("a socket");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("answered");
        assert_eq!(answer, "100000\n", "{client:?}");
        // Nobody listens there, and kubectl is told why.
        let mut connection = connect(forward.ports[1]);
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        assert!(answer.is_empty());
        let deadline = Instant::now() + PATIENCE;
        let told = || std::fs::read_to_string(&forward.log).unwrap_or_default();
        while !told().contains("connection refused") {
            assert!(Instant::now() < deadline, "{client:?}: {}", told());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn pods_services_and_nodes_have_a_proxy() {
    if !privileged("pods_services_and_nodes_have_a_proxy") {
        return;
    }
    let place = Place::new();
    let node = site(&place);
    let name = node.kubectl_ok(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "");
    let inside = "/api/v1/namespaces/default";
    let raw = |path: &str| node.kubectl(&["get", "--raw", path], "");
    for path in [
        "pods/site/proxy/",
        "pods/site:8000/proxy/index.html",
        "pods/http:site:8000/proxy/",
        "services/site/proxy/",
        "services/site:web/proxy/",
        "services/http:site:80/proxy/index.html",
    ] {
        let said = raw(&format!("{inside}/{path}"));
        assert_eq!((said.status, said.stdout.as_str()), (0, "hello\n"), "{path}: {}", said.all());
    }
    let say = format!("{inside}/services/site/proxy/cgi-bin/say/a%20b?x=1&y=%2F");
    let said = node.kubectl(&["create", "--raw", &say, "-f", "-"], "{\"posted\": true}");
    assert!(said.stdout.starts_with("POST /a b?x=1&y=%2F\n"), "{}", said.all());
    assert!(said.stdout.contains("{\"posted\": true}"), "{}", said.all());
    assert!(!said.stdout.to_ascii_uppercase().contains("AUTHORIZATION"), "{}", said.all());

    for (path, words) in [
        ("services/nobody/proxy/", "no endpoints available for service \"nobody\""),
        ("services/site:x/proxy/", "no service port \"x\" found for service \"site\""),
        ("pods/site:9/proxy/", "connection refused"),
        ("pods/site:x/proxy/", "is not a port"),
        ("pods/none/proxy/", "pods \"none\" not found"),
        ("services/none/proxy/", "services \"none\" not found"),
    ] {
        let said = raw(&format!("{inside}/{path}"));
        assert!(said.status != 0 && said.stderr.contains(words), "{path}: {}", said.all());
    }
    let node_proxy = format!("/api/v1/nodes/{name}/proxy");
    assert_eq!(raw(&format!("{node_proxy}/healthz")).stdout, "ok");
    for path in ["pods", "runningpods/"] {
        let pods: serde_json::Value =
            serde_json::from_str(&raw(&format!("{node_proxy}/{path}")).stdout).expect("JSON");
        let names: Vec<&str> = pods["items"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|pod| pod["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names, ["site"], "{path}");
    }
    let other_port = raw(&format!("/api/v1/nodes/{name}:22/proxy/"));
    assert!(other_port.stderr.contains("only that of its kubelet"), "{}", other_port.all());
    let resize = node.kubectl(&["get", "--raw", &format!("{inside}/pods/site/resize")], "");
    assert!(resize.stderr.contains("cannot be resized in place"), "{}", resize.all());
}

/// A part of Coracle that runs by itself, ended when dropped.
struct Part(Child);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_node_of_another_process_is_reached_by_its_port_and_by_nobody_unknown() {
    if !privileged("a_node_of_another_process_is_reached_by_its_port_and_by_nobody_unknown")
        || !newer_kubectl("a_node_of_another_process_is_reached_by_its_port_and_by_nobody_unknown")
    {
        return;
    }
    let place = Place::new();
    let api = Node::api_alone(&place, "api", &[]);
    let kubeconfig = api.kubeconfig.to_str().expect("text").to_owned();
    let data = place.data().join("node");
    let log = place.file("kubelet.log", "");
    let kubelet = place
        .coracle(&["kubelet", "--kubeconfig", &kubeconfig, "--node-name", "far", "--allow-host-image"])
        .args(["--listen", "0.0.0.0:0", "--data-dir"])
        .arg(&data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("it starts");
    let kubelet = Part(kubelet);
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    api.wait_for(&["get", "node", "far", "--ignore-not-found", "-o", ready], |status| status == "True");
    // There is no scheduler beside an API server alone.
    let pod =
        SITE.replace("  terminationGracePeriodSeconds", "  nodeName: far\n  terminationGracePeriodSeconds");
    api.kubectl_ok(&["apply", "-f", "-"], &pod);
    api.kubectl_ok(&["wait", "--for=condition=Ready", "pod/site", "--timeout=60s"], "");
    for client in Client::all() {
        let said = client.run(&api, &["exec", "-i", "site", "-c", "web", "--", "cat"], "through the port");
        assert_eq!(said.stdout, "through the port", "{client:?}: {}", said.all());
        let forward = Forward::start(&client, &api, &place, &["pod/site", ":8000"]);
        assert!(get(forward.ports[0]).ends_with("hello\n"), "{client:?}");
    }
    let said = api.kubectl_ok(&["get", "--raw", "/api/v1/namespaces/default/pods/site/proxy/"], "");
    assert_eq!(said, "hello\n");
    api.kubectl_ok(&["exec", "site", "-c", "web", "--", "sh", "-c", "echo logged > /proc/1/fd/1"], "");
    assert_eq!(api.kubectl_ok(&["logs", "site", "-c", "web"], ""), "logged\n");

    let port = "jsonpath={.status.addresses[0].address}:{.status.daemonEndpoints.kubeletEndpoint.Port}";
    let address = api.kubectl_ok(&["get", "node", "far", "-o", port], "");
    let ask = |path: &str, more: &[&str]| {
        let url = format!("https://{address}{path}");
        let mut command = Command::new("curl");
        command.args(["-sk", "--max-time", "30", "-o", "/dev/null", "-w", "%{http_code}", &url]).args(more);
        finish(&mut command, "").stdout
    };
    assert_eq!(ask("/healthz", &[]), "200");
    assert_eq!(ask("/pods", &[]), "401", "who shows nothing is nobody");
    assert_eq!(ask("/pods", &["-H", "Authorization: Bearer guessed"]), "401");
    assert_eq!(ask("/exec/default/site/web?command=id", &["-X", "POST"]), "401");
    // Who has a name is let through by what roles give.
    let role = ["create", "clusterrole", "reader", "--verb=get", "--resource=nodes/proxy"];
    api.kubectl_ok(&role, "");
    for account in ["may", "maynot"] {
        api.kubectl_ok(&["create", "serviceaccount", account], "");
    }
    let binding =
        ["create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:may"];
    api.kubectl_ok(&binding, "");
    let header = |account: &str| {
        let token = api.kubectl_ok(&["create", "token", account], "");
        format!("Authorization: Bearer {}", token.trim())
    };
    assert_eq!(ask("/pods", &["-H", &header("may")]), "200");
    assert_eq!(ask("/exec/default/site/web?command=id", &["-X", "POST", "-H", &header("may")]), "403");
    assert_eq!(ask("/pods", &["-H", &header("maynot")]), "403");

    api.kubectl_ok(&["delete", "pod", "site", "--wait=true", "--timeout=60s"], "");
    // What the node agent had no time to take away goes with the node.
    drop(kubelet);
    let down = finish(&mut place.coracle(&["down", "--data-dir", data.to_str().expect("text")]), "");
    assert_eq!(down.status, 0, "{}", down.all());
}
