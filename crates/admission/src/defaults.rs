//! What an object gets that it does not say, kind by kind: upstream's defaults, and what a strategy sets at create.

pub(crate) mod pod;
mod service;

use schema::Resource;
use serde_json::{Value, json};

use crate::kinds::rules;
use crate::tree::{default_field, default_pointer, items, object_field, text};

/// Fills in the defaults of the kind. Doing it twice changes nothing.
pub(crate) fn apply(resource: &Resource, object: &mut Value) {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::pod(object),
        ("", "Service") => service::service(object),
        ("", "Secret") => default_field(object, "type", "Opaque"),
        ("", "Namespace") => namespace(object),
        ("", "Node") => node(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            crate::rbac::default_binding(object);
        }
        _ => {}
    }
    rules(resource).default(object);
}

/// Sets what a new object of the kind starts with, whatever its creator wrote.
pub(crate) fn start(resource: &Resource, object: &mut Value) {
    match (resource.group, resource.kind) {
        ("", "Pod") => {
            object["metadata"]["generation"] = 1.into();
            object["status"] =
                json!({"phase": "Pending", "qosClass": pod::quality_of_service(&object["spec"])});
            if !items(&object["spec"]["schedulingGates"]).is_empty() {
                object["status"]["conditions"] = json!([{
                    "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }]);
            }
        }
        ("", "Namespace") => {
            object["status"] = json!({"phase": "Active"});
            let finalizers = object_field(object, "spec").entry("finalizers").or_insert_with(|| json!([]));
            if let Some(list) = finalizers.as_array_mut()
                && !list.contains(&Value::from("kubernetes"))
            {
                list.push("kubernetes".into());
            }
        }
        ("", "Service") => object["status"] = json!({"loadBalancer": {}}),
        _ => {}
    }
}

fn namespace(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    if name.is_string() {
        object_field(&mut object["metadata"], "labels")
            .insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

fn node(object: &mut Value) {
    let capacity = object["status"]["capacity"].clone();
    if capacity.is_object() {
        default_pointer(&mut object["status"], "allocatable", capacity);
    }
    // The single range is the first of the list; where both are given and differ, the single one counts.
    let spec = &mut object["spec"];
    let (one, first) = (text(&spec["podCIDR"]).to_owned(), items(&spec["podCIDRs"]).first().cloned());
    match first {
        Some(first) if one.is_empty() => spec["podCIDR"] = first,
        Some(first) if first != one => spec["podCIDRs"] = json!([one]),
        None if !one.is_empty() => spec["podCIDRs"] = json!([one]),
        Some(_) | None => {}
    }
}
