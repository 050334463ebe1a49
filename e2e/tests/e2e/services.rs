//! Service variables.

use e2e::{Place, privileged};

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
