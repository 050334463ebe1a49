//! StatefulSets and DaemonSets as people use them with kubectl.

use e2e::{Node, Place, newer_kubectl};

use super::node::with_kubectl;

const DB: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: coracle.dev/host
        command: [/bin/sh, -c, "echo $HOSTNAME >> /data/names; exec sleep 100000"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#;

const DONE: &str = "roll out complete";

#[test]
fn a_stateful_set_keeps_names_and_data_while_it_is_updated_undone_and_scaled_with_kubectl() {
    let test = "a_stateful_set_keeps_names_and_data_while_it_is_updated_undone_and_scaled_with_kubectl";
    if !with_kubectl(test) || !newer_kubectl(test) {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    let said = node.kubectl(&["apply", "-f", "-"], DB);
    assert!(said.status == 0 && said.stderr.is_empty(), "no notice any more: {}", said.all());
    let status = |node: &Node| {
        let said = node.kubectl_ok(&["rollout", "status", "sts/db", "--timeout=90s"], "");
        assert!(said.contains(DONE), "{said}");
    };
    status(&node);
    let pods =
        |node: &Node| node.kubectl_ok(&["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"], "");
    let names = |node: &Node, pod: &str| node.kubectl_ok(&["exec", pod, "--", "cat", "/data/names"], "");
    assert_eq!(pods(&node), "db-0 db-1");
    assert_eq!(names(&node, "db-1"), "db-1\n");
    let shown = node.kubectl_ok(&["describe", "sts", "db"], "");
    for event in [
        "create Claim data-db-0 Pod db-0 in StatefulSet db success",
        "create Pod db-1 in StatefulSet db successful",
    ] {
        assert!(shown.contains(event), "{event}: {shown}");
    }

    node.kubectl_ok(&["set", "env", "sts/db", "ROUND=2"], "");
    status(&node);
    assert_eq!(names(&node, "db-0"), "db-0\ndb-0\n", "a new pod with the data of the old one");
    let history = node.kubectl_ok(&["rollout", "history", "sts/db"], "");
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    node.kubectl_ok(&["rollout", "undo", "sts/db"], "");
    status(&node);
    let env = ["get", "pod", "db-0", "-o", "jsonpath={.spec.containers[0].env}"];
    assert_eq!(node.kubectl_ok(&env, ""), "");
    node.kubectl_ok(&["rollout", "restart", "sts/db"], "");
    status(&node);
    assert_eq!(names(&node, "db-0").lines().count(), 4);

    node.kubectl_ok(&["scale", "sts/db", "--replicas=1"], "");
    node.wait_for(&["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"], |pods| pods == "db-0");
    assert_eq!(
        node.kubectl_ok(&["get", "pvc", "-o", "jsonpath={.items[*].status.phase}"], ""),
        "Bound Bound"
    );
    // The node is killed and comes back; the pod goes on.
    node.kill();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["scale", "sts/db", "--replicas=2"], "");
    status(&node);
    assert_eq!(names(&node, "db-0").lines().count(), 4, "the pod that ran was not made anew");
    assert_eq!(names(&node, "db-1").lines().count(), 5, "its data were kept");
    node.kubectl_ok(&["delete", "sts/db", "--wait=true"], "");
    node.wait_for(&["get", "pods", "-o", "name"], |pods| pods.trim().is_empty());
    assert_eq!(
        node.kubectl_ok(&["get", "pvc", "-o", "jsonpath={.items[*].metadata.name}"], ""),
        "data-db-0 data-db-1"
    );
}

const AGENT: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: coracle.dev/host, command: [sleep, "100000"]}
"#;

#[test]
fn a_daemon_set_has_its_pod_also_on_a_cordoned_node_and_is_updated_and_undone_with_kubectl() {
    let test = "a_daemon_set_has_its_pod_also_on_a_cordoned_node_and_is_updated_and_undone_with_kubectl";
    if !with_kubectl(test) || !newer_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let name = node.kubectl_ok(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "");
    node.kubectl_ok(&["cordon", &name], "");
    let said = node.kubectl(&["apply", "-f", "-"], AGENT);
    assert!(said.status == 0 && said.stderr.is_empty(), "no notice any more: {}", said.all());
    let status = || {
        let said = node.kubectl_ok(&["rollout", "status", "ds/agent", "--timeout=90s"], "");
        assert!(said.contains("successfully rolled out"), "{said}");
    };
    status();
    let row = node.kubectl_ok(&["get", "ds", "agent"], "");
    let row: Vec<&str> = row.lines().last().unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[..6], ["agent", "1", "1", "1", "1", "1"]);
    node.kubectl_ok(&["set", "env", "ds/agent", "ROUND=2"], "");
    status();
    let env = "jsonpath={.items[*].spec.containers[0].env[0].value}";
    assert_eq!(node.kubectl_ok(&["get", "pods", "-l", "app=agent", "-o", env], ""), "2");
    node.kubectl_ok(&["rollout", "undo", "ds/agent"], "");
    status();
    assert_eq!(node.kubectl_ok(&["get", "pods", "-l", "app=agent", "-o", env], ""), "");
    let shown = node.kubectl_ok(&["describe", "ds", "agent"], "");
    assert!(shown.contains("SuccessfulCreate") && shown.contains("Created pod: agent-"), "{shown}");
    node.kubectl_ok(&["delete", "ds", "agent"], "");
    node.wait_for(&["get", "pods", "-o", "name"], |pods| pods.trim().is_empty());
}
