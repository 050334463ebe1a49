//! Service variables.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use e2e::{Node, PATIENCE, Place, finish, privileged};

#[test]
fn a_url_is_composed_from_service_variables() {
    if !privileged("a_url_is_composed_from_service_variables") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Service
metadata: {name: git-server}
spec: {selector: {app: git}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "test \"$URL\" = \"http://$GIT_SERVER_SERVICE_HOST:80\" && echo same; env | grep -c ^GIT_SERVER_; env | grep -c ^KUBERNETES_SERVICE_HOST"]
    env: [{name: URL, value: "http://$(GIT_SERVER_SERVICE_HOST):$(GIT_SERVER_SERVICE_PORT_HTTP)"}]
"#;
    let said = Place::new().run(manifest, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.lines(), ["same", "8", "1"], "{}", said.all());
}

#[test]
fn service_links_can_be_switched_off() {
    if !privileged("service_links_can_be_switched_off") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Service
metadata: {name: git}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  restartPolicy: Never
  enableServiceLinks: false
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "env | grep ^GIT_ || echo none; env | grep -c ^KUBERNETES_PORT="]
"#;
    let said = Place::new().run(manifest, &["--quiet"]);
    assert_eq!(said.lines(), ["none", "1"], "{}", said.all());
}

#[test]
fn a_pod_reaches_the_api_at_its_service_and_in_no_other_way() {
    if !privileged("a_pod_reaches_the_api_at_its_service_and_in_no_other_way") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let server = node.kubectl_ok(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"], "");
    let port = server.rsplit(':').next().expect("a port").to_owned();
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c"]
    args:
    - |
      curl -sS --max-time 20 --cacert /ca/ca.crt https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/version | grep -c gitVersion
      curl -sS --max-time 20 --cacert /ca/ca.crt -o /dev/null -w '%{http_code}\n' https://$KUBERNETES_SERVICE_HOST/api/v1/secrets
      for port in PORT $LISTENING; do
        curl -sk --max-time 2 -o /dev/null https://$NODE:$port/version && echo "$port is open"
      done
      echo done
    env:
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    volumeMounts: [{name: ca, mountPath: /ca}]
  volumes: [{name: ca, configMap: {name: kube-root-ca.crt}}]
"#;
    // The port for pods is found as anybody on the machine would: it is no secret.
    let listening = finish(
        std::process::Command::new("sh").args([
            "-c",
            &format!(
                "ss -Hltnp 2>/dev/null | grep pid={}, | awk '{{print $4}}' | sed 's/.*://' | tr '\\n' ' '",
                node.pid()
            ),
        ]),
        "",
    )
    .stdout;
    assert!(listening.split(' ').filter(|port| !port.is_empty()).count() >= 2, "{listening}");
    let manifest = manifest.replace("PORT $LISTENING", &format!("{port} {listening}"));
    node.kubectl_ok(&["create", "-f", "-"], &manifest);
    node.wait_for(&["get", "pod", "client", "-o", "jsonpath={.status.phase}"], |phase| {
        matches!(phase, "Succeeded" | "Failed")
    });
    assert_eq!(node.kubectl_ok(&["logs", "client"], ""), "1\n403\ndone\n");
}

/// A pod that serves its name over HTTP at port 8080, behind a service `web` with this address.
fn web(address: &str) -> String {
    WEB.replace("ADDRESS", address)
}

const WEB: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: ADDRESS, type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: server
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "mkdir /tmp/www && echo from $HOSTNAME > /tmp/www/index.html && exec busybox httpd -f -p 8080 -h /tmp/www"]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {port: http, path: /}, periodSeconds: 1}
"#;

/// An address that no other test has: processes of the machine are served by the node that came first.
fn address_of_this_test(number: u32) -> String {
    let own = std::process::id();
    format!("10.43.{}.{}", 128 + own / 32 % 64, 1 + (own % 32) * 4 + number)
}

/// What a web server answers to the machine itself.
pub(crate) fn fetched(url: &str) -> String {
    let curl = ["-sS", "--max-time", "10", "--retry", "10", "--retry-connrefused", "--retry-delay", "0", url];
    let said = finish(std::process::Command::new("curl").args(curl), "");
    said.stdout.trim().to_owned() + said.stderr.trim()
}

fn wait_for_endpoint(node: &Node) {
    let ready = "jsonpath={.items[*].endpoints[*].conditions.ready}";
    node.wait_for(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", ready], |text| {
        text == "true"
    });
}

/// Runs a pod to its end and answers what it wrote.
pub(crate) fn output_of(node: &Node, name: &str, script: &str) -> String {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [{
            "name": "test", "image": "coracle.dev/host", "command": ["/bin/sh", "-c", script],
        }]},
    });
    node.kubectl_ok(&["create", "-f", "-"], &pod.to_string());
    node.wait_for(&["get", "pod", name, "-o", "jsonpath={.status.phase}"], |phase| {
        matches!(phase, "Succeeded" | "Failed")
    });
    node.kubectl_ok(&["logs", name], "")
}

pub(crate) const CURL: &str = "curl -sS --max-time 10 --retry 10 --retry-connrefused --retry-delay 0";

#[test]
fn a_service_is_reached_by_address_variable_and_port_from_pods_and_the_machine_also_while_the_daemon_is_dead()
{
    if !privileged(
        "a_service_is_reached_by_address_variable_and_port_from_pods_and_the_machine_also_while_the_daemon_is_dead",
    ) {
        return;
    }
    let place = Place::new();
    let address = address_of_this_test(0);
    let mut node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], &web(&address));
    wait_for_endpoint(&node);
    let script = format!(
        "{CURL} http://{address}/; {CURL} http://$WEB_SERVICE_HOST:$WEB_SERVICE_PORT/; {CURL} ${{WEB_PORT/tcp/http}}/; \
         {CURL} http://$WEB_PORT_80_TCP_ADDR:$WEB_PORT_80_TCP_PORT/"
    );
    // The shell of the image may not know how to replace; docker's way needs the address alone.
    let script = script.replace("${WEB_PORT/tcp/http}", "http://${WEB_PORT#tcp://}");
    assert_eq!(output_of(&node, "client", &script), "from web\n".repeat(4));
    assert_eq!(fetched(&format!("http://{address}/")), "from web", "from the machine");
    let port = node.kubectl_ok(&["get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}"], "");
    assert_eq!(fetched(&format!("http://127.0.0.1:{port}/")), "from web", "at the node's port");

    node.kill();
    assert_eq!(fetched(&format!("http://{address}/")), "from web", "while no daemon is there");
    node = Node::up(&place, &[]);
    assert_eq!(fetched(&format!("http://{address}/")), "from web", "as soon as the next is there");
    node.kubectl_ok(&["delete", "pod", "web", "--wait=true"], "");
    let target = format!("{address}:80").parse().expect("an address");
    let begun = Instant::now();
    let connect =
        || TcpStream::connect_timeout(&target, Duration::from_secs(5)).map_err(|error| error.kind());
    loop {
        match connect() {
            Err(ErrorKind::ConnectionRefused) => break,
            other => assert!(begun.elapsed() < PATIENCE, "nobody is left: {other:?}"),
        }
    }
}

#[test]
fn a_service_without_selector_leads_to_the_endpoints_that_its_user_wrote() {
    if !privileged("a_service_without_selector_leads_to_the_endpoints_that_its_user_wrote") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], &web(&address_of_this_test(1)));
    wait_for_endpoint(&node);
    let address = node.kubectl_ok(&["get", "pod", "web", "-o", "jsonpath={.status.podIP}"], "");
    let by_hand = format!(
        r#"
apiVersion: v1
kind: Service
metadata: {{name: by-slice}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: by-slice-1, labels: {{kubernetes.io/service-name: by-slice}}}}
addressType: IPv4
ports: [{{name: "", port: 8080, protocol: TCP}}]
endpoints: [{{addresses: ["{address}"]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: by-endpoints}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: v1
kind: Endpoints
metadata: {{name: by-endpoints}}
subsets: [{{addresses: [{{ip: "{address}"}}], ports: [{{port: 8080}}]}}]
"#
    );
    node.kubectl_ok(&["create", "-f", "-"], &by_hand);
    let script = format!("{CURL} http://$BY_SLICE_SERVICE_HOST/; {CURL} http://$BY_ENDPOINTS_SERVICE_HOST/");
    assert_eq!(output_of(&node, "client", &script), "from web\nfrom web\n");
}

/// What a machine without nf_tables answers: no socket of that family.
const WITHOUT_NF_TABLES: &str = r#"
import ctypes, os, struct, sys
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
NETLINK, NETFILTER, SOCKET, UNSUPPORTED = 16, 12, 41, 93
filter = b"".join(struct.pack("HBBI", *one) for one in [
    (LOAD, 0, 0, 0), (EQUAL, 0, 5, SOCKET),
    (LOAD, 0, 0, 16), (EQUAL, 0, 3, NETLINK),
    (LOAD, 0, 0, 32), (EQUAL, 0, 1, NETFILTER),
    (RETURN, 0, 0, 0x00050000 | UNSUPPORTED),
    (RETURN, 0, 0, 0x7fff0000),
])
kept = ctypes.create_string_buffer(filter)
program = struct.pack("HxxxxxxQ", len(filter) // 8, ctypes.addressof(kept))
given = ctypes.create_string_buffer(program)
if ctypes.CDLL(None, use_errno=True).prctl(22, 2, ctypes.byref(given), 0, 0) != 0:
    sys.exit("no seccomp: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn without_nf_tables_pods_run_services_have_no_route_and_it_is_said_once() {
    if !privileged("without_nf_tables_pods_run_services_have_no_route_and_it_is_said_once") {
        return;
    }
    let place = Place::new();
    let wrapper = place.file("without.py", WITHOUT_NF_TABLES);
    let mut command = std::process::Command::new("python3");
    command.arg(wrapper).arg(e2e::binary()).env_remove("KUBECONFIG").env("NO_COLOR", "1");
    let node = Node::up_by(command, &place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], &web(&address_of_this_test(2)));
    wait_for_endpoint(&node);
    let pod = node.kubectl_ok(&["get", "pod", "web", "-o", "jsonpath={.status.podIP}"], "");
    let connect = "import os, socket; socket.create_connection((os.environ['WEB_SERVICE_HOST'], 80), 10)";
    let headless = "apiVersion: v1\nkind: Service\nmetadata: {name: pods}\nspec: {clusterIP: None, selector: {app: web}}\n";
    node.kubectl_ok(&["create", "-f", "-"], headless);
    // Names are found nevertheless, and lead on where no service stands between.
    let script = format!(
        "{CURL} http://{pod}:8080/; python3 -c \"{connect}\" 2>&1 | tail -n 1; getent ahostsv4 web | grep -c STREAM; \
         until getent ahostsv4 pods > /dev/null; do :; done; {CURL} http://pods:8080/"
    );
    let said = output_of(&node, "client", &script);
    assert_eq!(said, "from web\nOSError: [Errno 113] No route to host\n1\nfrom web\n");
    let said = node.log().matches("services have no route").count();
    assert_eq!(said, 1, "{}", node.log());
}
