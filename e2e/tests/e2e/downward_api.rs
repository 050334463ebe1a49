//! The downward API in the environment, and the host name.

use e2e::{Place, privileged};

#[test]
fn pod_fields_and_resources_reach_the_environment() {
    if !privileged("pod_fields_and_resources_reach_the_environment") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: fields, namespace: shop, labels: {tier: web}, annotations: {note: hi}}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/usr/bin/printf", "%s\n", "$(NAME).$(NS)", "$(TIER)$(NONE)", "$(CPU)", "$(MEM)", "$(SA)"]
    resources: {limits: {cpu: 1500m, memory: 64Mi}, requests: {cpu: 250m}}
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}
    - {name: NONE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['absent']"}}}
    - {name: SA, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: MEM, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
"#;
    let said = Place::new().run(manifest, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.lines(), ["fields.shop", "web", "2", "64", "default"], "{}", said.all());
}

#[test]
fn the_pod_address_is_the_address_inside() {
    if !privileged("the_pod_address_is_the_address_inside") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: address}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "grep -c \"$POD_IP\\baddress$\\|$POD_IP.address$\" /etc/hosts; test \"$POD_IP\" != \"$HOST_IP\" && echo differs; hostname"]
    env:
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
"#;
    let said = Place::new().run(manifest, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.lines(), ["1", "differs", "address"], "{}", said.all());
}
