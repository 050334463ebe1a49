//! What administrators set over pods: quotas, limits, priorities, budgets; and a node that is emptied.

use e2e::{Node, Place, newer_kubectl, privileged};

const WORKER: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, labels: {app: worker}}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers: [{name: c, image: coracle.dev/host, command: [/bin/sleep, \"1000\"]}]\n";

const RULES: &str = "apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec:
  limits:
  - {type: Container, defaultRequest: {cpu: 10m}, default: {memory: 64Mi}, max: {memory: 128Mi}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: one-stays}
spec: {minAvailable: 1, selector: {matchLabels: {app: worker}}}
";

fn worker(name: &str) -> String {
    WORKER.replace("NAME", name)
}

#[test]
fn quotas_limits_and_priorities_hold_for_pods_and_can_be_described() {
    if !privileged("quotas_limits_and_priorities_hold_for_pods_and_can_be_described")
        || !newer_kubectl("quotas_limits_and_priorities_hold_for_pods_and_can_be_described")
    {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "quota", "few", "--hard=pods=1,requests.cpu=1"], "");
    node.kubectl_ok(&["create", "priorityclass", "high", "--value=1000", "--description=first"], "");
    node.kubectl_ok(&["apply", "-f", "-"], RULES);
    let first = worker("first").replace("spec:\n", "spec:\n  priorityClassName: high\n");
    node.kubectl_ok(&["apply", "-f", "-"], &first);
    let shown = ["get", "pod", "first", "-o", "jsonpath={.spec.priority} {.spec.containers[0].resources}"];
    assert_eq!(
        node.kubectl_ok(&shown, ""),
        "1000 {\"limits\":{\"memory\":\"64Mi\"},\"requests\":{\"cpu\":\"10m\",\"memory\":\"64Mi\"}}"
    );
    let said = node.kubectl(&["apply", "-f", "-"], &worker("second"));
    assert!(
        said.stderr.contains("pods \"second\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"),
        "{}",
        said.all()
    );
    let described = node.wait_for(&["describe", "quota", "few"], |text| text.contains("10m"));
    let row = |name: &str| {
        let line = described.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("pods"), ["pods", "1", "1"], "{described}");
    assert_eq!(row("requests.cpu"), ["requests.cpu", "10m", "1"], "{described}");
    for (kind, name, part) in [
        ("limitrange", "limits", "128Mi"),
        ("priorityclass", "high", "1000"),
        ("pdb", "one-stays", "Min available:"),
        ("namespace", "default", "Resource Quotas"),
    ] {
        let described = node.kubectl_ok(&["describe", kind, name], "");
        assert!(described.contains(part), "{kind}: {described}");
    }
    node.kubectl_ok(&["delete", "pod", "first"], "");
    node.wait_for(&["get", "quota", "few", "-o", "jsonpath={.status.used.pods}"], |used| used == "0");
}

#[test]
fn a_node_is_drained_as_far_as_budgets_allow() {
    if !privileged("a_node_is_drained_as_far_as_budgets_allow") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], RULES);
    node.kubectl_ok(&["apply", "-f", "-"], &format!("{}---\n{}", worker("a"), worker("b")));
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s"], "");
    node.wait_for(&["get", "pdb", "one-stays", "-o", "jsonpath={.status.disruptionsAllowed}"], |one| {
        one == "1"
    });
    let name = node.kubectl_ok(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "");
    let drain = ["drain", &name, "--force", "--timeout=15s"];
    let said = node.kubectl(&drain, "");
    assert_ne!(said.status, 0, "{}", said.all());
    assert!(
        said.stderr.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{}",
        said.all()
    );
    let left = node.kubectl_ok(&["get", "pods", "-o", "name"], "");
    assert_eq!(left.lines().count(), 1, "one stays: {left}");
    assert!(node.kubectl_ok(&["get", "nodes"], "").contains("SchedulingDisabled"));
    node.kubectl_ok(&["delete", "pdb", "one-stays"], "");
    node.kubectl_ok(&["drain", &name, "--force", "--timeout=60s"], "");
    assert_eq!(node.kubectl_ok(&["get", "pods", "-o", "name"], ""), "");
    node.kubectl_ok(&["taint", "node", &name, "example.com/full=yes:NoSchedule"], "");
    node.kubectl_ok(&["uncordon", &name], "");
    node.kubectl_ok(&["apply", "-f", "-"], &worker("c"));
    node.wait_for(&["describe", "pod", "c"], |text| text.contains("untolerated taint"));
    node.kubectl_ok(&["taint", "node", &name, "example.com/full-"], "");
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod", "c", "--timeout=60s"], "");
}

#[test]
fn events_are_there_by_both_names() {
    if !privileged("events_are_there_by_both_names") || !newer_kubectl("events_are_there_by_both_names") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], &worker("a"));
    let of_pod = ["get", "events.events.k8s.io", "--field-selector", "regarding.name=a,reason=Started"];
    let shown = node.wait_for(&of_pod, |text| text.contains("pod/a"));
    assert!(shown.starts_with("LAST SEEN"), "{shown}");
    let by = |resource: &str, fields: &str| {
        node.kubectl_ok(&["get", resource, "-o", &format!("jsonpath={{range .items[*]}}{fields}{{end}}")], "")
    };
    let old = by("events.v1.", "{.reason} {.involvedObject.name} {.message};");
    let new = by("events.events.k8s.io", "{.reason} {.regarding.name} {.note};");
    assert_eq!(old, new);
    assert!(old.contains("Started a "), "{old}");
    assert!(node.kubectl_ok(&["events", "--for", "pod/a"], "").contains("Started"));
}

#[test]
fn a_namespace_goes_with_everything_in_it() {
    if !privileged("a_namespace_goes_with_everything_in_it") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "namespace", "n"], "");
    node.kubectl_ok(&["-n", "n", "apply", "-f", "-"], &format!("{RULES}---\n{}", worker("a")));
    node.kubectl_ok(&["-n", "n", "create", "quota", "q", "--hard=pods=5"], "");
    node.kubectl_ok(&["-n", "n", "wait", "--for=condition=Ready", "pod", "a", "--timeout=60s"], "");
    node.kubectl_ok(&["delete", "namespace", "n", "--timeout=60s"], "");
    for kind in ["pods", "limitranges", "resourcequotas", "poddisruptionbudgets", "configmaps"] {
        assert_eq!(node.kubectl_ok(&["-n", "n", "get", kind, "-o", "name"], ""), "", "{kind}");
    }
    let said = node.kubectl(&["delete", "namespace", "default"], "");
    assert!(
        said.stderr.contains("namespaces \"default\" is forbidden: this namespace may not be deleted"),
        "{}",
        said.all()
    );
}
