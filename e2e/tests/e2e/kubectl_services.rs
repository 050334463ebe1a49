//! What people do with a Deployment and its Service by kubectl: expose, reach, look into, wait for, and what is refused.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use e2e::{Node, Place, finish, newer_kubectl};

use super::node::with_kubectl;

const WEB: &str = r#"
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
        command: [/bin/sh, -c, "echo up; mkdir -p /srv/www && echo from web > /srv/www/index.html && exec busybox httpd -f -p 8080 -h /srv/www"]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {tcpSocket: {port: http}, periodSeconds: 1}
"#;

/// What is answered through `kubectl port-forward`.
fn forwarded(node: &Node, to: &str, port: &str) -> String {
    let mut command = Command::new("kubectl");
    command.args(["port-forward", to, &format!(":{port}")]).env("KUBECONFIG", &node.kubeconfig);
    let mut forward = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("kubectl");
    let mut line = String::new();
    // Held open to the end: it writes a line for each connection.
    let mut says = BufReader::new(forward.stdout.take().expect("a pipe"));
    says.read_line(&mut line).expect("a line");
    let address = line.split_whitespace().nth(2).unwrap_or_default().to_owned();
    let said = finish(Command::new("curl").args(["-sS", "-m", "10", &format!("http://{address}/")]), "");
    let _ = forward.kill();
    let _ = forward.wait();
    drop(says);
    format!("{}{}", said.stdout, said.stderr)
}

#[test]
fn people_expose_reach_watch_and_describe_what_they_have_deployed() {
    let test = "people_expose_reach_watch_and_describe_what_they_have_deployed";
    if !with_kubectl(test) || !newer_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let run = |arguments: &[&str]| node.kubectl_ok(arguments, "");
    let refused = |arguments: &[&str], why: &str| {
        let said = node.kubectl(arguments, "");
        assert!(said.status != 0 && said.stderr.contains(why), "{arguments:?}: {}", said.all());
    };
    node.kubectl_ok(&["apply", "-f", "-"], WEB);
    run(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"]);
    run(&["wait", "--for=jsonpath={.status.readyReplicas}=2", "deployment/web", "--timeout=60s"]);
    run(&["expose", "deployment/web", "--port=80", "--target-port=http"]);
    let addresses = ["get", "endpoints", "web", "-o", "jsonpath={.subsets[*].addresses[*].ip}"];
    let pods = node.wait_for(&addresses, |said| said.split_whitespace().count() == 2);
    let pods: Vec<&str> = pods.split_whitespace().collect();

    // Whatever stands before the pods leads to one of them.
    for (to, port) in [("svc/web", "80"), ("deployment/web", "8080"), ("deployment/web", "http")] {
        assert_eq!(forwarded(&node, to, port), "from web\n", "{to} {port}");
    }
    for owner in ["deployment/web", "svc/web"] {
        assert!(run(&["exec", owner, "--", "hostname"]).starts_with("web-"));
        assert_eq!(run(&["logs", owner]), "up\n");
    }

    let slices = run(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web"]);
    assert!(pods.iter().all(|pod| slices.contains(pod)) && slices.contains("8080"), "{slices}");
    let service = run(&["describe", "service", "web"]);
    for part in [
        "Selector:                 app=web",
        "TargetPort:               http/TCP",
        "Session Affinity:         None",
    ] {
        assert!(service.contains(part), "{part}: {service}");
    }
    assert!(pods.iter().all(|pod| service.contains(&format!("{pod}:8080"))), "{service}");
    let slice = run(&["describe", "endpointslices", "-l", "kubernetes.io/service-name=web"]);
    for part in
        ["AddressType:  IPv4", "Ready:    true", "TargetRef:  Pod/web-", "endpointslice-controller.k8s.io"]
    {
        assert!(slice.contains(part), "{part}: {slice}");
    }
    let set = run(&["describe", "replicaset", "-l", "app=web"]);
    assert!(set.contains("Controlled By:  Deployment/web") && set.contains("2 Running / 0 Waiting"), "{set}");
    let all = run(&["get", "all"]);
    for part in ["pod/web-", "service/web", "deployment.apps/web", "replicaset.apps/web-"] {
        assert!(all.contains(part), "{part}: {all}");
    }

    refused(&["autoscale", "deployment/web", "--max=3"], "nothing here measures the load of pods");
    refused(&["top", "pods"], "Metrics API not available");
    refused(
        &["scale", "deployment/web", "--replicas=3", "--current-replicas=7"],
        "Expected replicas to be 7, was 2",
    );
    refused(&["rollout", "undo", "deployment/web"], "no rollout history found");
    refused(&["rollout", "resume", "deployment/web"], "is not paused");
    refused(&["expose", "deployment/web", "--port=80"], "services \"web\" already exists");
    refused(&["port-forward", "svc/web", ":99"], "Service web does not have a service port 99");
    refused(&["wait", "--for=condition=Complete", "deployment/web", "--timeout=1s"], "timed out waiting");

    // Another image: the pods are new ones, and the service leads to them.
    run(&["set", "env", "deployment/web", "ROUND=2"]);
    run(&["rollout", "status", "deployment/web", "--timeout=90s"]);
    let later = node.wait_for(&addresses, |said| {
        said.split_whitespace().count() == 2
            && !pods.iter().any(|pod| said.split_whitespace().any(|at| at == *pod))
    });
    assert_eq!(forwarded(&node, "svc/web", "80"), "from web\n", "{later}");
    run(&["delete", "service", "web"]);
    node.wait_for(&["get", "endpoints,endpointslices", "-o", "name"], |left| !left.contains("/web"));
}
