//! Which pods fit a node, and what is said of those that do not.

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::{Claim, Load, Obstacle, allocatable, obstacles, refusal};

fn node(changes: Value) -> Node {
    let mut node = json!({
        "metadata": {"name": "n1", "labels": {"disk": "ssd", "size": "7", "kubernetes.io/hostname": "n1"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3", "ephemeral-storage": "10Gi"}},
    });
    for (name, value) in changes.as_object().expect("fields") {
        node[name] = value.clone();
    }
    serde_json::from_value(node).expect("a node")
}

fn pod(spec: Value) -> Pod {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    for (name, value) in spec.as_object().expect("fields") {
        whole[name] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": whole})).expect("a pod")
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
}

fn port(number: i32, protocol: &str, ip: &str) -> Value {
    json!({"containers": [{"name": "c", "ports": [
        {"containerPort": 80, "hostPort": number, "protocol": protocol, "hostIP": ip}]}]})
}

fn found(spec: Value, node: &Node, others: &[Value]) -> Vec<Obstacle> {
    let mut load = Load::default();
    for other in others {
        load.add(&Claim::of(&pod(other.clone())));
    }
    let pod = pod(spec);
    obstacles(&pod, &Claim::of(&pod), node, &allocatable(node), &load)
}

/// The reasons, sorted; empty for a pod that fits.
fn told(spec: Value, node: &Node, others: &[Value]) -> String {
    let mut reasons: Vec<String> =
        found(spec, node, others).iter().map(|obstacle| format!("1 {}", obstacle.reason())).collect();
    reasons.sort();
    reasons.join(", ")
}

const NOT_WANTED: &str = "1 node(s) didn't match Pod's node affinity/selector";

#[test]
fn node_selectors_and_required_affinity_choose_nodes() {
    let term = |expressions: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": expressions}}}})
    };
    let one = |key: &str, operator: &str, values: &[&str]| {
        term(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
    };
    let rows = [
        (json!({"nodeSelector": {"disk": "ssd"}}), true),
        (json!({"nodeSelector": {"disk": "hdd"}}), false),
        (json!({"nodeSelector": {"disk": "ssd", "gpu": "yes"}}), false),
        (one("disk", "In", &["hdd", "ssd"]), true),
        (one("disk", "NotIn", &["ssd"]), false),
        (one("gpu", "NotIn", &["a"]), true),
        (one("disk", "Exists", &[]), true),
        (one("disk", "DoesNotExist", &[]), false),
        (one("size", "Gt", &["6"]), true),
        (one("size", "Gt", &["7"]), false),
        (one("size", "Lt", &["8"]), true),
        (one("disk", "Lt", &["8"]), false),
        (one("disk", "Unheard", &["ssd"]), false),
        (term(json!([{}])), false),
        (term(json!([{}, {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}])), true),
        (
            term(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])),
            true,
        ),
        (
            term(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}])),
            false,
        ),
        (
            term(
                json!([{"matchExpressions": [{"key": "disk", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}]}]),
            ),
            false,
        ),
        // What is only preferred keeps no pod away.
        (
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 1, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}]}}}),
            true,
        ),
    ];
    for (spec, fits) in rows {
        let expected = if fits { "" } else { NOT_WANTED };
        assert_eq!(told(spec.clone(), &node(json!({})), &[]), expected, "{spec}");
    }
}

#[test]
fn taints_keep_pods_out_that_do_not_bear_them() {
    let tainted = node(json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}));
    let rows = [
        (json!([]), false),
        (json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]), true),
        (json!([{"key": "k", "operator": "Equal", "value": "v"}]), true),
        (json!([{"key": "k", "value": "w"}]), false),
        (json!([{"key": "k", "operator": "Exists"}]), true),
        (json!([{"operator": "Exists"}]), true),
        (json!([{"operator": "Exists", "effect": "NoExecute"}]), false),
        (json!([{"key": "other", "operator": "Exists"}]), false),
        (json!([{"value": "v"}]), false),
    ];
    for (tolerations, fits) in rows {
        let expected = if fits { "" } else { "1 node(s) had untolerated taint(s)" };
        assert_eq!(told(json!({"tolerations": tolerations}), &tainted, &[]), expected, "{tolerations}");
    }
    let prefers = node(json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}));
    assert_eq!(told(json!({}), &prefers, &[]), "");
}

#[test]
fn a_cordoned_node_takes_only_pods_that_bear_it() {
    let cordoned = node(json!({"spec": {"unschedulable": true}}));
    assert_eq!(told(json!({}), &cordoned, &[]), "1 node(s) were unschedulable");
    let tolerations =
        json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
    assert_eq!(told(tolerations, &cordoned, &[]), "");
}

#[test]
fn requests_are_held_against_what_is_left() {
    let node = node(json!({}));
    let rows = [
        (requests("2", "1Gi"), vec![], ""),
        (requests("2001m", "1Gi"), vec![], "1 Insufficient cpu"),
        (requests("3", "2Gi"), vec![], "1 Insufficient cpu, 1 Insufficient memory"),
        (requests("1500m", "1"), vec![requests("500m", "1")], ""),
        (requests("1501m", "1"), vec![requests("500m", "1")], "1 Insufficient cpu"),
        (json!({}), vec![requests("2", "1Gi")], ""),
        (json!({}), vec![json!({}), json!({}), json!({})], "1 Too many pods"),
        (requests("3", "1"), vec![json!({}), json!({}), json!({})], "1 Insufficient cpu, 1 Too many pods"),
        (
            json!({"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}]}),
            vec![],
            "1 Insufficient example.com/gpu",
        ),
    ];
    for (spec, others, expected) in rows {
        assert_eq!(told(spec.clone(), &node, &others), expected, "{spec} beside {others:?}");
    }
}

#[test]
fn a_pod_requests_the_most_that_it_needs_at_any_time() {
    let cpu = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let named = |name: &str, amount: &str| json!({"name": name, "resources": cpu(amount)});
    let sidecar =
        |name: &str, amount: &str| json!({"name": name, "restartPolicy": "Always", "resources": cpu(amount)});
    let rows = [
        (json!({"containers": [named("a", "100m"), named("b", "200m")]}), 300),
        (
            json!({"initContainers": [named("i", "500m"), named("j", "400m")], "containers": [named("a", "100m")]}),
            500,
        ),
        (
            json!({"initContainers": [sidecar("s", "50m"), named("i", "500m")], "containers": [named("a", "100m")]}),
            550,
        ),
        (
            json!({"initContainers": [named("i", "500m"), sidecar("s", "50m")], "containers": [named("a", "460m")]}),
            510,
        ),
        (json!({"containers": [named("a", "100m")], "overhead": {"cpu": "10m"}}), 110),
        (json!({"containers": [named("a", "100m")], "resources": cpu("900m")}), 900),
        (json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]}), 1000),
        (
            json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "5m"}}}]}),
            5,
        ),
        (json!({"containers": [named("a", "nonsense")]}), 0),
    ];
    for (spec, millis) in rows {
        assert_eq!(Claim::of(&pod(spec.clone())).requests.get("cpu"), Some(&millis), "{spec}");
    }
}

#[test]
fn two_pods_cannot_have_one_port_of_the_node() {
    let taken = "1 node(s) didn't have free ports for the requested pod ports";
    let rows = [
        (port(80, "TCP", ""), port(80, "TCP", ""), taken),
        (port(80, "TCP", ""), port(81, "TCP", ""), ""),
        (port(80, "TCP", ""), port(80, "UDP", ""), ""),
        (port(80, "TCP", "127.0.0.1"), port(80, "TCP", "127.0.0.2"), ""),
        (port(80, "TCP", "127.0.0.1"), port(80, "TCP", "0.0.0.0"), taken),
        (port(0, "TCP", ""), port(0, "TCP", ""), ""),
    ];
    for (one, other, expected) in rows {
        assert_eq!(
            told(one.clone(), &node(json!({})), std::slice::from_ref(&other)),
            expected,
            "{one} {other}"
        );
    }
}

#[test]
fn what_a_pod_takes_is_free_again_when_it_goes() {
    let claims = [port(80, "TCP", ""), requests("500m", "1Mi")].map(|spec| Claim::of(&pod(spec)));
    let mut load = Load::default();
    claims.iter().for_each(|claim| load.add(claim));
    assert_eq!((load.pods(), load.of("cpu"), load.of("memory")), (2, 500, 1 << 20));
    claims.iter().for_each(|claim| load.remove(claim));
    assert_eq!((load.pods(), load.of("cpu"), load.of("memory")), (0, 0, 0));
    let again = pod(port(80, "TCP", ""));
    let node = node(json!({}));
    assert_eq!(obstacles(&again, &claims[0], &node, &allocatable(&node), &load), []);
}

#[test]
fn only_what_others_take_may_become_free() {
    let goes = |spec: Value, others: &[Value]| {
        let found = found(spec, &node(json!({})), others);
        found.iter().map(Obstacle::goes_with_others).collect::<Vec<_>>()
    };
    assert_eq!(goes(json!({"nodeSelector": {"disk": "hdd"}}), &[]), [false]);
    assert_eq!(goes(requests("2", "1"), &[requests("1", "1")]), [true]);
    assert_eq!(goes(requests("3", "1"), &[]), [false]);
}

#[test]
fn a_node_refuses_what_was_bound_to_it_and_does_not_fit() {
    let full = || vec![requests("1500m", "1")];
    let rows = [
        (
            requests("1", "1"),
            full(),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
        ),
        (
            requests("1m", "2Gi"),
            vec![],
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824",
        ),
        (
            json!({}),
            vec![json!({}), json!({}), json!({})],
            "OutOfpods",
            "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
        ),
        (
            json!({"nodeSelector": {"disk": "hdd"}}),
            vec![],
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            port(80, "TCP", ""),
            vec![port(80, "TCP", "")],
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
    ];
    for (spec, others, reason, message) in rows {
        let claims: Vec<Claim> = others.iter().map(|other| Claim::of(&pod(other.clone()))).collect();
        let found =
            refusal(&pod(spec), &node(json!({})), &claims.iter().collect::<Vec<_>>()).expect("refused");
        assert_eq!((found.reason.as_str(), found.message.as_str()), (reason, message));
        assert_eq!(found.status_message(), format!("Pod was rejected: {message}"));
    }
    assert_eq!(refusal(&pod(requests("2", "1Gi")), &node(json!({})), &[]), None);
    let tainted = |effect: &str| {
        node(json!({"spec": {"taints": [{"key": "k", "effect": effect}], "unschedulable": true}}))
    };
    assert_eq!(
        refusal(&pod(json!({})), &tainted("NoSchedule"), &[]),
        None,
        "who binds a pod himself knows why"
    );
    let found = refusal(&pod(json!({})), &tainted("NoExecute"), &[]).expect("refused");
    assert_eq!(found.message, "Predicate TaintToleration failed: node(s) had untolerated taint(s)");
}
