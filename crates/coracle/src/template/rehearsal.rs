//! What a rehearsal of writes cannot know, and what is said when the writes themselves stop half-way. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster::ClusterError;

/// The kinds that must be there before the API server takes an object that names them.
const NEEDED_FIRST: [&str; 3] = ["Namespace", "ServiceAccount", "PriorityClass"];

/// The objects that a rehearsal does not make, and without which the API server refuses others.
#[derive(Debug, Default)]
pub(super) struct NotYetThere {
    names: BTreeSet<(String, String)>,
}

impl NotYetThere {
    /// Notes an object that will be created.
    pub(super) fn add(&mut self, object: &Value) {
        let kind = text(object, "/kind");
        if NEEDED_FIRST.contains(&kind) {
            self.names.insert((kind.to_owned(), text(object, "/metadata/name").to_owned()));
        }
    }

    /// Whether a refusal says nothing about the write itself: the object names another one of the same template that is not
    /// there yet, or the server cannot rehearse (an admission webhook with side effects).
    pub(super) fn explains(&self, error: &ClusterError, object: &Value) -> bool {
        let ClusterError::Refused { code, message, .. } = error else { return false };
        if *code == 400 && message.contains("does not support dry run") {
            return true;
        }
        // Only a refusal because something is not there.
        if !(matches!(code, 403 | 404) && message.contains("found")) {
            return false;
        }
        let pod = ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
        let names = |kind: &str, name: &str| {
            !name.is_empty() && self.names.contains(&(kind.to_owned(), name.to_owned()))
        };
        let says = |name: &str| message.contains(name);
        let namespace = text(object, "/metadata/namespace");
        let needs = |kind: &str, field: &str| {
            pod.iter().any(|spec| {
                let name = text(object, &format!("{spec}/{field}"));
                names(kind, name) && says(name)
            })
        };
        (names("Namespace", namespace) && message.to_lowercase().contains("namespace") && says(namespace))
            || needs("ServiceAccount", "serviceAccountName")
            || needs("PriorityClass", "priorityClassName")
    }
}

fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// How far the writes came when one of them failed: two lines.
pub(super) fn how_far(written: &[String], left: &[String]) -> [String; 2] {
    let list = |names: &[String]| match names {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    };
    [format!("written: {}", list(written)), format!("not written: {}", list(left))]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_for_want_of_an_object_of_the_same_template_is_none() {
        let mut missing = NotYetThere::default();
        missing.add(&json!({"kind": "Namespace", "metadata": {"name": "shop"}}));
        missing.add(&json!({"kind": "ServiceAccount", "metadata": {"name": "runner"}}));
        missing.add(&json!({"kind": "ConfigMap", "metadata": {"name": "settings"}}));
        let pod = json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": {"serviceAccountName": "runner"}});
        let deployment = json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"serviceAccountName": "runner"}}}});
        let plain = json!({"kind": "ConfigMap", "metadata": {"name": "settings"}});
        let rows = [
            (404, "namespaces \"shop\" not found", &pod, true),
            (404, "namespaces \"shop\" not found", &plain, false),
            (
                403,
                "error looking up service account shop/runner: serviceaccount \"runner\" not found",
                &pod,
                true,
            ),
            (
                403,
                "error looking up service account a/runner: serviceaccount \"runner\" not found",
                &deployment,
                true,
            ),
            (
                403,
                "error looking up service account a/other: serviceaccount \"other\" not found",
                &pod,
                false,
            ),
            (403, "pods \"p\" is forbidden: no", &pod, false),
            (422, "Pod \"p\" is invalid: runner not found", &pod, false),
            (400, "admission webhook \"w\" does not support dry run", &plain, true),
        ];
        for (code, message, object, expected) in rows {
            let message = message.to_owned();
            let error = ClusterError::Refused { what: "it".to_owned(), message, code, causes: Vec::new() };
            assert_eq!(missing.explains(&error, object), expected, "{error} of {object}");
        }
    }

    #[test]
    fn what_is_written_and_what_is_not_is_said() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            how_far(&names(&["service/a", "pod/b"]), &names(&["pod/c"])),
            ["written: service/a, pod/b", "not written: pod/c"]
        );
        assert_eq!(how_far(&[], &names(&["pod/c"]))[0], "written: nothing");
    }
}
