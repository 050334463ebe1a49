//! Service variables.

use e2e::{Node, Place, finish, privileged};

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
