use serde_json::{Value, json};

use super::*;

fn pod(value: Value) -> Pod {
    serde_json::from_value(value).expect("a pod")
}

fn service(value: Value) -> Service {
    serde_json::from_value(value).expect("a service")
}

#[test]
fn a_port_of_a_service_leads_to_a_number_or_to_the_port_of_that_name_and_protocol() {
    let pod = pod(json!({"spec": {
        "containers": [
            {"name": "a", "ports": [{"name": "web", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
            {"name": "b", "ports": [{"name": "web", "containerPort": 9090}]},
        ],
        "initContainers": [
            {"name": "i", "ports": [{"name": "early", "containerPort": 1}]},
            {"name": "s", "restartPolicy": "Always", "ports": [{"name": "mesh", "containerPort": 15001}]},
        ],
    }}));
    for (port, expected) in [
        (json!({"port": 80, "targetPort": 8000}), Some(8000)),
        (json!({"port": 80}), Some(80)),
        (json!({"port": 80, "targetPort": 0}), Some(80)),
        (json!({"port": 80, "targetPort": "web"}), Some(8080)),
        (json!({"port": 80, "targetPort": "dns"}), None),
        (json!({"port": 80, "targetPort": "dns", "protocol": "UDP"}), Some(53)),
        (json!({"port": 80, "targetPort": "mesh"}), Some(15001)),
        (json!({"port": 80, "targetPort": "early"}), None),
        (json!({"port": 80, "targetPort": "absent"}), None),
    ] {
        let read: ServicePort = serde_json::from_value(port.clone()).expect("a port");
        assert_eq!(target_port(&pod, &read), expected, "{port}");
    }
}

#[test]
fn a_pod_stands_behind_services_while_it_has_an_address_and_has_not_ended() {
    for (value, serves, serves_terminating) in [
        (json!({"status": {"podIP": "10.0.0.1", "phase": "Running"}}), true, true),
        (json!({"status": {"podIPs": [{"ip": "10.0.0.1"}], "phase": "Pending"}}), true, true),
        (json!({"status": {"phase": "Running"}}), false, false),
        (json!({}), false, false),
        (json!({"status": {"podIP": "10.0.0.1", "phase": "Succeeded"}}), false, false),
        (json!({"status": {"podIP": "10.0.0.1", "phase": "Failed"}}), false, false),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"podIP": "10.0.0.1", "phase": "Running"}}),
            false,
            true,
        ),
    ] {
        let pod = pod(value.clone());
        assert_eq!((may_serve(&pod, false), may_serve(&pod, true)), (serves, serves_terminating), "{value}");
    }
}

#[test]
fn a_headless_service_names_the_pods_of_its_subdomain_in_its_namespace() {
    let service = service(json!({"metadata": {"name": "db", "namespace": "n"}}));
    for (spec, namespace, expected) in [
        (json!({"hostname": "db-0", "subdomain": "db", "containers": []}), "n", Some("db-0")),
        (json!({"hostname": "db-0", "subdomain": "db", "containers": []}), "m", None),
        (json!({"hostname": "db-0", "subdomain": "other", "containers": []}), "n", None),
        (json!({"hostname": "db-0", "containers": []}), "n", None),
        (json!({"subdomain": "db", "containers": []}), "n", None),
    ] {
        let pod = pod(json!({"metadata": {"name": "p", "namespace": namespace}, "spec": spec}));
        assert_eq!(hostname(&pod, &service), expected, "{spec} in {namespace}");
    }
}

#[test]
fn families_are_those_of_the_service_or_of_its_address() {
    for (spec, expected) in [
        (json!({"ipFamilies": ["IPv6", "IPv4"]}), vec![Family::V6, Family::V4]),
        (json!({"clusterIP": "fd00::1"}), vec![Family::V6]),
        (json!({"clusterIP": "10.0.0.1"}), vec![Family::V4]),
        (json!({"clusterIP": "None"}), vec![Family::V4]),
        (json!({}), vec![Family::V4]),
    ] {
        assert_eq!(families(&service(json!({"spec": spec}))), expected, "{spec}");
    }
}

#[test]
fn only_what_endpoints_show_asks_for_a_look() {
    let base = json!({
        "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"podIP": "10.0.0.1", "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let with = |path: &str, value: Value| {
        let mut changed = base.clone();
        *changed.pointer_mut(path).expect("there") = value;
        changes_endpoints(&pod(base.clone()), &pod(changed))
    };
    assert!(!with("/metadata/name", json!("p")), "nothing has changed");
    assert!(!with("/status/phase", json!("Unknown")));
    assert!(with("/status/phase", json!("Succeeded")));
    assert!(with("/metadata/labels", json!({"a": "c"})));
    assert!(with("/metadata/uid", json!("v")));
    assert!(with("/status/podIP", json!("10.0.0.2")));
    assert!(with("/status/conditions/0/status", json!("False")));
    assert!(with("/spec/nodeName", json!("m")));
    let mut going = base.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(changes_endpoints(&pod(base.clone()), &pod(going)));
}

#[test]
fn the_trigger_is_the_earliest_of_what_is_new_since_the_last_look() {
    let service = service(
        json!({"metadata": {"name": "s", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:05Z"}}),
    );
    let ready = |name: &str, since: &str| {
        Arc::new(pod(json!({"metadata": {"name": name}, "status": {"conditions":
            [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}})))
    };
    let mut triggers = Triggers::default();
    let shown = |trigger: Option<Timestamp>| trigger.map(|time| time.to_string()).unwrap_or_default();
    let (a, b) = (ready("a", "2026-01-01T00:00:03Z"), ready("b", "2026-01-01T00:00:09Z"));
    assert_eq!(shown(triggers.look(&service, &[a.clone(), b.clone()])), "2026-01-01T00:00:03Z");
    assert_eq!(shown(triggers.look(&service, &[a.clone(), b.clone()])), "", "nothing is new");
    let later = ready("a", "2026-01-01T00:00:20Z");
    assert_eq!(shown(triggers.look(&service, &[later.clone(), b.clone()])), "2026-01-01T00:00:20Z");
    assert_eq!(shown(triggers.look(&service, &[later])), "", "one that is gone says nothing");
    triggers.forget(&ObjectKey::new("n", "s"));
    assert_eq!(shown(triggers.look(&service, &[])), "2026-01-01T00:00:05Z");
}
