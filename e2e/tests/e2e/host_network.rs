//! Pods in the machine's network: which names they find, by their DNS policy.

use e2e::{Node, Place};

use super::node::with_kubectl;
use super::own_machine::on_a_machine_of_its_own;

/// One that asks for its own service as the first thing that it does, and then serves it.
const AGENT: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: agent}
spec: {clusterIP: 10.43.7.7, selector: {app: agent}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: coracle.dev/host
        command:
        - /bin/sh
        - -c
        - |
          getent ahostsv4 agent | awk '/STREAM/ {print $1}'
          mkdir -p /srv/www && echo from the machine > /srv/www/index.html && exec busybox httpd -f -p 8080 -h /srv/www
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
"#;

/// `$(POLICY)` is its policy; it writes whom it asks, and what it gets by name and by address.
const CLIENT: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  hostNetwork: NETWORK
  dnsPolicy: POLICY
  restartPolicy: Never
  containers:
  - name: c
    image: coracle.dev/host
    command:
    - /bin/sh
    - -c
    - |
      grep -c '^nameserver 10.43.0.10$' /etc/resolv.conf
      timeout 1 getent ahostsv4 agent > /dev/null && echo found || echo not found
      curl -sS -m 10 http://10.43.7.7/
"#;

#[test]
fn pods_in_the_machines_network_find_services_by_name_when_they_ask_for_it_and_reach_them_in_any_case() {
    if !with_kubectl(
        "pods_in_the_machines_network_find_services_by_name_when_they_ask_for_it_and_reach_them_in_any_case",
    ) {
        return;
    }
    on_a_machine_of_its_own(|| {
        let place = Place::new();
        let mut node = Node::up(&place, &[]);
        node.kubectl_ok(&["apply", "-f", "-"], AGENT);
        node.kubectl_ok(&["rollout", "status", "daemonset/agent", "--timeout=90s"], "");
        assert_eq!(node.kubectl_ok(&["logs", "daemonset/agent"], ""), "10.43.7.7\n", "from its first moment");
        let addresses = ["get", "endpoints", "agent", "-o", "jsonpath={.subsets[*].addresses[*].ip}"];
        let machine = node
            .kubectl_ok(&["get", "pods", "-l", "app=agent", "-o", "jsonpath={.items[0].status.hostIP}"], "");
        node.wait_for(&addresses, |said| said == machine);
        let rows = [
            ("asks", "true", "ClusterFirstWithHostNet", "1\nfound\nfrom the machine\n"),
            // As in Kubernetes: in the machine's network this means its resolvers.
            ("falls-back", "true", "ClusterFirst", "0\nnot found\nfrom the machine\n"),
            ("not-at-all", "true", "Default", "0\nnot found\nfrom the machine\n"),
            ("pod", "false", "ClusterFirst", "1\nfound\nfrom the machine\n"),
        ];
        let check = |node: &Node, round: &str| {
            for (name, network, policy, expected) in rows {
                let name = format!("{name}-{round}");
                let pod = CLIENT.replace("NAME", &name).replace("NETWORK", network).replace("POLICY", policy);
                node.kubectl_ok(&["create", "-f", "-"], &pod);
                node.wait_for(&["get", "pod", &name, "-o", "jsonpath={.status.phase}"], |phase| {
                    phase == "Succeeded"
                });
                assert_eq!(node.kubectl_ok(&["logs", &name], ""), expected, "{name}");
            }
        };
        check(&node, "first");
        let events = node.kubectl_ok(&["get", "events", "--field-selector=reason=MissingClusterDNS"], "");
        assert_eq!(events.trim(), "", "nobody lacks anything");
        // The next daemon finds the way of the one before, and takes it over.
        node.kill();
        node = Node::up(&place, &[]);
        let again = node.kubectl_ok(&["get", "pods", "-l", "app=agent", "-o", "name"], "");
        node.kubectl_ok(&["exec", again.trim(), "--", "getent", "ahostsv4", "agent"], "");
        check(&node, "again");
    });
}
