//! What a container needs.

use serde_json::json;

use super::*;
use crate::Gates;

fn pod() -> Pod {
    let file = |key: &str, optional: bool| json!({"fileKeyRef": {"volumeName": "v", "path": "f", "key": key, "optional": optional}});
    serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{
            "name": "c",
            "resources": {"limits": {"memory": "1Gi"}},
            "envFrom": [
                {"configMapRef": {"name": "a", "optional": true}},
                {"secretRef": {"name": "s", "optional": true}},
            ],
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "D", "valueFrom": file("x", true)},
                {"name": "E", "valueFrom": file("y", false)},
                {"name": "F", "value": "literal"},
                {"name": "G", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
            ],
        }]},
    }))
    .expect("a pod")
}

fn needs(pod: &Pod, options: &Options) -> Requirements {
    let views = containers(pod.spec.as_ref().expect("a spec"));
    required(pod, &views[0], options)
}

#[test]
fn each_source_is_listed_once_and_required_if_any_reference_is() {
    let needs = needs(&pod(), &Options::default());
    assert_eq!(needs.config_maps, BTreeMap::from([("a".to_owned(), Need::Required)]));
    assert_eq!(needs.secrets, BTreeMap::from([("s".to_owned(), Need::Optional)]));
    let key = EnvFileKey { volume: "v".to_owned(), path: "f".to_owned() };
    assert_eq!(needs.env_files, BTreeMap::from([(key, Need::Required)]));
    assert_eq!(needs.pod_fields, BTreeSet::from(["status.podIP".to_owned()]));
    assert!(needs.namespace_services);
    assert!(!needs.node_allocatable, "the limit is set");
}

#[test]
fn with_the_gate_off_no_env_file_is_needed() {
    let options = Options { gates: Gates { env_files: false, ..Gates::default() }, ..Options::default() };
    assert!(needs(&pod(), &options).env_files.is_empty());
}

#[test]
fn a_limit_that_is_not_set_needs_the_node() {
    let mut pod = pod();
    pod.spec.as_mut().expect("a spec").containers[0].resources = None;
    pod.spec.as_mut().expect("a spec").enable_service_links = Some(false);
    let needs = needs(&pod, &Options::default());
    assert!(needs.node_allocatable && !needs.namespace_services);
}
