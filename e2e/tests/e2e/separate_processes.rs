//! A cluster of processes: an API server, the controllers and a node agent, each by itself. Services and names work as in the
//! one process of `coracle up`, and the routes outlive the agent.

use e2e::{Node, Place, finish};

use super::node::with_kubectl;
use super::nodes::Part;
use super::own_machine::on_a_machine_of_its_own;

const WEB: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.43.7.7, type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: coracle.dev/host
        command: [/bin/sh, -c, "mkdir -p /srv/www && echo from web > /srv/www/index.html && exec busybox httpd -f -p 8080 -h /srv/www"]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {tcpSocket: {port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: coracle.dev/host, command: [sleep, "100000"]}
"#;

/// Asks by name, by variable and by address, and for the API by its name.
const ASK: [&str; 6] = [
    "exec",
    "client",
    "--",
    "sh",
    "-c",
    "for at in web web.default.svc.cluster.local $WEB_SERVICE_HOST:$WEB_SERVICE_PORT 10.43.7.7; do curl -sS -m 10 http://$at/; done; \
     curl -sSk -m 10 https://kubernetes.default/version | grep -c gitVersion",
];
const ANSWERS: &str = "from web\nfrom web\nfrom web\nfrom web\n1\n";

fn curl(url: &str) -> String {
    let said = finish(std::process::Command::new("curl").args(["-sS", "-m", "10", url]), "");
    said.stdout + &said.stderr
}

#[test]
fn services_and_names_work_on_a_node_agent_alone_and_its_routes_outlive_it() {
    if !with_kubectl("services_and_names_work_on_a_node_agent_alone_and_its_routes_outlive_it") {
        return;
    }
    on_a_machine_of_its_own(|| {
        let place = Place::new();
        let kept = place.data().join("kept").to_str().expect("text").to_owned();
        let serve = || Node::api_alone(&place, "api", &["--listen", "192.0.2.2:6443", "--data-dir", &kept]);
        let mut api = serve();
        let kubeconfig = api.kubeconfig.to_str().expect("text").to_owned();
        let data = place.data().join("one").to_str().expect("text").to_owned();
        let controllers = |log: &str| Part::start(&place, log, &["controllers", "--kubeconfig", &kubeconfig]);
        let kubelet = |log: &str| {
            let flags = ["kubelet", "--kubeconfig", &kubeconfig, "--node-name", "one", "--allow-host-image"];
            let more = ["--cluster-dns", "10.43.0.10", "--listen", "0.0.0.0:10250", "--data-dir", &data];
            Part::start(&place, log, &[&flags[..], &more].concat())
        };
        let (mut acts, agent) = (controllers("controllers.log"), kubelet("one.log"));
        api.kubectl_ok(&["apply", "-f", "-"], WEB);
        api.kubectl_ok(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
        api.kubectl_ok(&["wait", "--for=condition=Ready", "pod/client", "--timeout=60s"], "");
        api.wait_for(&ASK, |said| said == ANSWERS);
        let port = api.kubectl_ok(&["get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}"], "");
        let ways = ["http://10.43.7.7/".to_owned(), format!("http://127.0.0.1:{port}/")];
        let all_lead_there = |when: &str| {
            for way in &ways {
                assert_eq!(curl(way), "from web\n", "{way} {when}");
            }
        };
        all_lead_there("from the machine");

        agent.kill();
        all_lead_there("while the node agent is dead");
        let agent = kubelet("one-again.log");
        api.wait_for(&ASK, |said| said == ANSWERS);
        all_lead_there("as soon as the next one is there");

        // Each of the others may die as well: what is routed stays, and what changes is followed again.
        acts.kill();
        api.kill();
        all_lead_there("while nobody decides anything");
        api = serve();
        acts = controllers("controllers-again.log");
        api.kubectl_ok(&["scale", "deployment/web", "--replicas=1"], "");
        let slices = "jsonpath={.items[*].endpoints[*].addresses[0]}";
        let of_web = ["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", slices];
        api.wait_for(&of_web, |said| said.split_whitespace().count() == 1);
        api.wait_for(&ASK, |said| said == ANSWERS);
        api.kubectl_ok(&["delete", "deployment/web", "pod/client"], "");
        api.wait_for(&["get", "pods", "-o", "name"], str::is_empty);
        drop((agent, acts));
        let down = finish(&mut place.coracle(&["down", "--data-dir", &data]), "");
        assert_eq!(down.status, 0, "{}", down.all());
        let left = finish(std::process::Command::new("nft").args(["list", "tables"]), "");
        assert!(!left.stdout.contains("coracle"), "{}", left.all());
    });
}
