//! Who may do what, until roles exist: administrators everything, nodes what a kubelet needs, nobody else anything.

use crate::identity::{Identity, MASTERS, NODES};
use crate::request::{ResourceTarget, Verb};

/// Whether `identity` may do `verb` on `target`.
pub(crate) fn may(identity: &Identity, verb: Verb, target: &ResourceTarget) -> bool {
    if identity.is_in(MASTERS) {
        return true;
    }
    if !identity.is_in(NODES) {
        return false;
    }
    node_may(verb, &target.group, &target.resource, target.subresource.as_deref())
}

/// Whether `identity` may read paths that are no resources, such as discovery.
pub(crate) fn may_discover(identity: &Identity) -> bool {
    !identity.is_anonymous()
}

/// Whether `identity` may read Secrets (of `namespace`).
pub(crate) fn may_read_secrets(identity: &Identity, namespace: &str) -> bool {
    let target = ResourceTarget {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "secrets".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: None,
        subresource: None,
        rest: String::new(),
    };
    may(identity, Verb::Get, &target)
}

fn node_may(verb: Verb, group: &str, resource: &str, subresource: Option<&str>) -> bool {
    match verb {
        Verb::Get | Verb::List | Verb::Watch => true,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => matches!(
            (group, resource, subresource),
            ("", "nodes" | "pods" | "events", None)
                | ("", "nodes" | "pods", Some("status"))
                | ("", "pods", Some("binding"))
                | ("", "serviceaccounts", Some("token"))
                | ("coordination.k8s.io", "leases", None)
        ),
        Verb::DeleteCollection => false,
    }
}

#[cfg(test)]
mod tests {
    use super::node_may;
    use crate::request::Verb;

    #[test]
    fn a_node_writes_its_objects_and_nothing_else() {
        assert!(node_may(Verb::Update, "", "pods", Some("status")));
        assert!(node_may(Verb::Create, "", "events", None));
        assert!(node_may(Verb::Get, "", "secrets", None));
        assert!(!node_may(Verb::Create, "", "secrets", None));
        assert!(!node_may(Verb::Create, "", "pods", Some("exec")));
        assert!(!node_may(Verb::DeleteCollection, "", "pods", None));
    }
}
