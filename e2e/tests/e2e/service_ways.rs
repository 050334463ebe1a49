//! The ways to a service: by address, by variables in both of their forms, and by name. All lead to the same place.

use e2e::{Node, Place, privileged};

/// A service whose pods say who they are, and a client that asks by every way.
const SHOP: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: coracle.dev/host
        command: ["/bin/sh", "-c", "mkdir -p /srv/www && echo NAME/$(POD) > /srv/www/index.html && exec busybox httpd -f -p 8080 -h /srv/www"]
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: 80, targetPort: 8080}]}
"#;

const CLIENT: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  restartPolicy: Never
  containers:
  - name: asks
    image: coracle.dev/host
    command:
    - /bin/sh
    - -c
    - |
      for way in $SHOP_SERVICE_HOST:$SHOP_SERVICE_PORT ${SHOP_PORT#tcp://} $SHOP_PORT_80_TCP_ADDR:$SHOP_PORT_80_TCP_PORT shop:80 shop.default:80 shop.default.svc.cluster.local:80; do
        curl -sS -m 10 http://$way/ || echo "no answer by $way"
      done
      curl -sS -m 10 http://$OTHER_SERVICE_HOST/
      for try in $(seq 64); do curl -sS -m 10 http://shop/; done
"#;

#[test]
fn address_variables_links_and_names_lead_to_the_same_service_and_a_second_one_is_independent() {
    if !privileged(
        "address_variables_links_and_names_lead_to_the_same_service_and_a_second_one_is_independent",
    ) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    for name in ["shop", "other"] {
        node.kubectl_ok(&["create", "-f", "-"], &SHOP.replace("NAME", name));
    }
    for name in ["shop", "other"] {
        node.kubectl_ok(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"], "");
        let addresses = ["get", "endpoints", name, "-o", "jsonpath={.subsets[*].addresses[*].ip}"];
        node.wait_for(&addresses, |said| said.split_whitespace().count() == 2);
    }
    node.kubectl_ok(&["create", "-f", "-"], CLIENT);
    node.wait_for(&["get", "pod", "client", "-o", "jsonpath={.status.phase}"], |phase| phase == "Succeeded");
    let said = node.kubectl_ok(&["logs", "client"], "");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 7 + 64, "{said}");
    assert!(lines[..6].iter().all(|line| line.starts_with("shop/shop-")), "{said}");
    assert!(lines[6].starts_with("other/other-"), "{said}");
    let hosts: std::collections::BTreeSet<&str> = lines[7..].iter().copied().collect();
    assert_eq!(hosts.len(), 2, "all pods of a service get their share: {said}");
}
