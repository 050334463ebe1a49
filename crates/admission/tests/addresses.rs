//! Addresses of pods in their status and ranges of nodes: lists of one for each family, which agree with the single fields.

use admission::{AdmissionRequest, prepare_create, prepare_status_update, prepare_update};
use schema::{FieldValidation, builtin, decode_value, resource};
use serde_json::{Value, json};

fn decoded(kind: &str, object: &Value) -> Value {
    let ty = builtin().type_for("v1", kind).expect("a built-in type");
    decode_value(ty, object, FieldValidation::Strict).expect("well-formed").value
}

#[test]
fn the_addresses_of_a_pod_agree_and_are_one_of_each_family() {
    let pods = resource("", "v1", "pods").expect("a core resource");
    let mut old = decoded(
        "Pod",
        &json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    prepare_create(pods, &mut old, &AdmissionRequest::default()).expect("valid");
    for (status, expected) in [
        (json!({"podIP": "10.0.0.1"}), "10.0.0.1 | 10.0.0.1"),
        (json!({"podIPs": [{"ip": "10.0.0.1"}]}), "10.0.0.1 | 10.0.0.1"),
        (json!({"podIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.1"}]}), "fd00::1 | fd00::1 10.0.0.1"),
        (
            json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
            "10.0.0.1 | 10.0.0.1 fd00::1",
        ),
        (
            json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
            "10.0.0.2 | 10.0.0.2",
        ),
        (json!({"phase": "Running"}), " | "),
        (
            json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}),
            "status.podIPs: Invalid value: [{\"ip\":\"10.0.0.1\"},{\"ip\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family",
        ),
        (
            json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}, {"ip": "fd00::2"}]}),
            "status.podIPs: Invalid value: [{\"ip\":\"10.0.0.1\"},{\"ip\":\"fd00::1\"},{\"ip\":\"fd00::2\"}]: may specify no more than one IP for each IP family",
        ),
        (
            json!({"podIPs": [{"ip": "nowhere"}]}),
            "status.podIPs[0]: Invalid value: \"nowhere\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (json!({"hostIP": "10.0.0.9", "hostIPs": [{"ip": "10.0.0.9"}, {"ip": "fd00::9"}]}), " | "),
        (
            json!({"hostIP": "10.0.0.9", "hostIPs": [{"ip": "fd00::9"}, {"ip": "10.0.0.9"}]}),
            "status.hostIPs[0].ip: Invalid value: \"fd00::9\": must be equal to `hostIP`",
        ),
    ] {
        let mut new = old.clone();
        new["status"] = status.clone();
        let outcome = prepare_status_update(pods, &old, &mut new);
        let shown = match outcome {
            Err(errors) => errors.to_string(),
            Ok(_) => {
                let all = new["status"]["podIPs"].as_array().cloned().unwrap_or_default();
                let all: Vec<&str> = all.iter().filter_map(|one| one["ip"].as_str()).collect();
                format!("{} | {}", new["status"]["podIP"].as_str().unwrap_or_default(), all.join(" "))
            }
        };
        assert_eq!(shown, expected, "{status}");
    }
}

#[test]
fn the_ranges_of_a_node_agree_are_one_of_each_family_and_stay() {
    let nodes = resource("", "v1", "nodes").expect("a core resource");
    let node = |spec: &Value| decoded("Node", &json!({"metadata": {"name": "n"}, "spec": spec}));
    let ranges = |node: &Value| (node["spec"]["podCIDR"].clone(), node["spec"]["podCIDRs"].clone());
    for (spec, expected) in [
        (json!({"podCIDR": "10.1.0.0/24"}), Ok((json!("10.1.0.0/24"), json!(["10.1.0.0/24"])))),
        (
            json!({"podCIDRs": ["fd00:1::/64", "10.1.0.0/24"]}),
            Ok((json!("fd00:1::/64"), json!(["fd00:1::/64", "10.1.0.0/24"]))),
        ),
        (
            json!({"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00:1::/64"]}),
            Ok((json!("10.2.0.0/24"), json!(["10.2.0.0/24"]))),
        ),
        (json!({}), Ok((Value::Null, Value::Null))),
        (
            json!({"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]}),
            Err(
                "spec.podCIDRs: Invalid value: [\"10.1.0.0/24\",\"10.2.0.0/24\"]: may specify no more than one CIDR for each IP family",
            ),
        ),
        (
            json!({"podCIDRs": ["10.1.0.0"]}),
            Err(
                "spec.podCIDRs[0]: Invalid value: \"10.1.0.0\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ),
        ),
    ] {
        let mut new = node(&spec);
        let outcome = prepare_create(nodes, &mut new, &AdmissionRequest::default());
        let got = outcome.map(|_| ranges(&new)).map_err(|errors| errors.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{spec}");
    }
    let mut old = node(&json!({"podCIDR": "10.1.0.0/24"}));
    prepare_create(nodes, &mut old, &AdmissionRequest::default()).expect("valid");
    let mut new = node(&json!({"podCIDRs": ["10.1.0.0/24", "fd00:1::/64"]}));
    let errors = prepare_update(nodes, &old, &mut new, &AdmissionRequest::default()).expect_err("fixed");
    assert_eq!(
        errors.to_string(),
        "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"
    );
}
