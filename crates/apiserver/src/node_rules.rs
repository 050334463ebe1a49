//! What a node may do: read what pods are made from, write its own objects, and those of its pods. What it may read of Secrets
//! and ConfigMaps is not restricted to those of its pods: it watches them all to see them change.

use api::annotations::{DIRECTORY_FINALIZER, DIRECTORY_NODE};
use serde_json::Value;

use crate::authorize::{Attributes, Target};
use crate::object::{self, at, text};
use crate::rights::Change;
use crate::status::ApiError;
use crate::writing::Write;

/// Marks a pod that stands for one of the node's own.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Labels that only administrators give to nodes.
const RESTRICTED_LABELS: &str = "node-restriction.kubernetes.io/";
/// Where the leases of nodes are.
const LEASES: &str = "kube-node-lease";

/// Whether the node `node` may do what is asked, as far as that can be said without the object.
pub(crate) fn may(node: &str, asked: &Attributes<'_>) -> bool {
    let Target::Resource { namespace, group, resource, subresource, name } = asked.target else {
        return false;
    };
    let is_read = matches!(asked.verb, "get" | "list" | "watch");
    let is_change = matches!(asked.verb, "update" | "patch");
    let is_create = asked.verb == "create";
    match (group, resource, subresource) {
        ("", "nodes", "") => is_read || is_create || (is_change && name == node),
        ("", "nodes", "status") => is_change && name == node,
        ("", "pods", "") => is_read || is_create || is_change || asked.verb == "delete",
        ("", "pods", "status") => is_change || asked.verb == "get",
        ("", "pods", "binding" | "eviction") => is_create,
        ("" | "events.k8s.io", "events", "") => is_create || is_change,
        ("", "configmaps" | "secrets" | "services", "") => is_read,
        ("", "endpoints" | "persistentvolumeclaims" | "serviceaccounts", "") => asked.verb == "get",
        // It sees to the directories of volumes that go, and says so by taking its finalizer off.
        ("", "persistentvolumes", "") => is_read || asked.verb == "update",
        ("", "serviceaccounts", "token") => is_create,
        ("node.k8s.io", "runtimeclasses", "") | ("storage.k8s.io", "csidrivers", "") => is_read,
        ("coordination.k8s.io", "leases", "") => {
            namespace == LEASES
                && (is_create || (name == node && (is_change || matches!(asked.verb, "get" | "delete"))))
        }
        ("authentication.k8s.io", "tokenreviews", "")
        | ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews", "") => is_create,
        _ => false,
    }
}

/// Refuses what a node does to objects that are not its own.
pub(crate) fn check(node: &str, write: &Write<'_>, change: Change<'_>) -> Result<(), ApiError> {
    let refused =
        |detail: String| Err(ApiError::forbidden(write.kind, object::name(change.newest()), detail));
    match (write.kind.group(), write.kind.plural()) {
        ("", "nodes") => {
            let name = object::name(change.newest());
            if name != node {
                return refused(format!("node \"{node}\" is not allowed to modify node \"{name}\""));
            }
            if restricted_labels(change.before()) != restricted_labels(change.after())
                && change.after().is_some()
            {
                return refused(format!(
                    "node \"{node}\" is not allowed to modify labels that begin with {RESTRICTED_LABELS}"
                ));
            }
            Ok(())
        }
        ("", "persistentvolumes") => match change {
            Change::Update(old, new) if only_lets_go(node, old, new) => Ok(()),
            Change::Create(_) | Change::Update(..) | Change::Delete(_) => refused(format!(
                "node \"{node}\" can only take the finalizer {DIRECTORY_FINALIZER} off volumes that are its directories"
            )),
        },
        ("coordination.k8s.io", "leases") if object::name(change.newest()) != node => {
            refused(format!("node \"{node}\" can only modify the lease of its own name"))
        }
        ("", "pods") => match change {
            Change::Create(new) => {
                let is_mirror = at(new, &["metadata", "annotations", MIRROR]).is_some();
                match (is_mirror, text(new, &["spec", "nodeName"]) == node) {
                    (true, true) => Ok(()),
                    (false, _) => refused(format!(
                        "pod does not have \"{MIRROR}\" annotation, node \"{node}\" can only create mirror pods"
                    )),
                    (true, false) => refused(format!(
                        "node \"{node}\" can only create pods with spec.nodeName set to itself"
                    )),
                }
            }
            // A pod that is on no node yet may be given to this one.
            Change::Update(old, _) | Change::Delete(old) => match text(old, &["spec", "nodeName"]) {
                "" => Ok(()),
                own if own == node => Ok(()),
                _ => refused(format!(
                    "node \"{node}\" can only change and delete pods with spec.nodeName set to itself"
                )),
            },
        },
        _ => Ok(()),
    }
}

/// Whether all that changes of a volume is that the node, whose directory it is, has let it go.
fn only_lets_go(node: &str, old: &Value, new: &Value) -> bool {
    let on = text(old, &["metadata", "annotations", DIRECTORY_NODE]);
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // Who manages which field follows from the write.
            meta.remove("managedFields");
            meta.remove("resourceVersion");
            let finalizers = meta.remove("finalizers");
            let others: Vec<Value> = finalizers
                .iter()
                .filter_map(Value::as_array)
                .flatten()
                .filter(|finalizer| *finalizer != DIRECTORY_FINALIZER)
                .cloned()
                .collect();
            meta.insert("finalizers".to_owned(), Value::Array(others));
        }
        object
    };
    on == node && without(old) == without(new)
}

fn restricted_labels(node: Option<&Value>) -> Vec<(&String, &Value)> {
    let labels = node.and_then(|node| at(node, &["metadata", "labels"])).and_then(Value::as_object);
    labels.into_iter().flatten().filter(|(key, _)| key.starts_with(RESTRICTED_LABELS)).collect()
}

#[cfg(test)]
mod tests {
    use super::may;
    use crate::authorize::Attributes;

    #[test]
    fn a_node_writes_its_objects_and_nothing_else() {
        let table = [
            ("update", "", "pods", "status", "p", true),
            ("create", "", "events", "", "", true),
            ("get", "", "secrets", "", "s", true),
            ("create", "", "secrets", "", "", false),
            ("create", "", "pods", "exec", "p", false),
            ("deletecollection", "", "pods", "", "", false),
            ("create", "", "nodes", "", "", true),
            ("update", "", "nodes", "status", "n", true),
            ("update", "", "nodes", "status", "other", false),
            ("delete", "", "nodes", "", "n", false),
            ("create", "", "serviceaccounts", "token", "default", true),
            ("get", "rbac.authorization.k8s.io", "clusterroles", "", "admin", false),
            ("list", "", "namespaces", "", "", false),
            ("watch", "", "persistentvolumes", "", "", true),
            ("update", "", "persistentvolumes", "", "v", true),
            ("delete", "", "persistentvolumes", "", "v", false),
            ("list", "", "persistentvolumeclaims", "", "", false),
            ("impersonate", "", "users", "", "jane", false),
        ];
        for (verb, group, resource, subresource, name, allowed) in table {
            let asked = Attributes::resource(verb, group, resource).sub(subresource).named(name);
            assert_eq!(may("n", &asked), allowed, "{asked:?}");
        }
        let lease = |namespace, name| {
            Attributes::resource("update", "coordination.k8s.io", "leases").within(namespace).named(name)
        };
        assert!(may("n", &lease("kube-node-lease", "n")));
        assert!(!may("n", &lease("kube-node-lease", "other")));
        assert!(!may("n", &lease("default", "n")));
    }
}
