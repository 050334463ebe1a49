//! When two pod templates are the same, and a short name for one. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use crate::revisions::hash;

/// The label that tells the pods and replica sets of one template of a deployment from those of another.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// Whether two templates make the same pods; the label of the hash does not count.
pub(crate) fn same_template(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    let labels = |template: &PodTemplateSpec| -> BTreeMap<String, String> {
        let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
        labels.into_iter().flatten().filter(|(key, _)| key != HASH_LABEL).collect()
    };
    if labels(one) != labels(other) {
        return false;
    }
    (one.spec == other.spec && annotations(one) == annotations(other)) || plain(one) == plain(other)
}

fn annotations(template: &PodTemplateSpec) -> Option<&BTreeMap<String, String>> {
    template.metadata.as_ref()?.annotations.as_ref()
}

/// A name for a template: the same for the same template and number of collisions, whoever asks and whenever.
pub(crate) fn template_hash(template: &PodTemplateSpec, collisions: i32) -> String {
    hash(&plain(template), collisions)
}

/// A template as a tree in which what is empty is not there, and neither is the label of the hash.
fn plain(template: &PodTemplateSpec) -> Value {
    let mut tree = serde_json::to_value(template).unwrap_or(Value::Null);
    if let Some(labels) = tree.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    for map in ["/metadata/labels", "/metadata/annotations"] {
        if tree.pointer(map).is_some_and(|map| map == &Value::Object(serde_json::Map::new()))
            && let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove(map.trim_start_matches("/metadata/"));
        }
    }
    strip(&mut tree);
    tree
}

/// Takes away lists without elements and nulls. An empty object may mean something (`emptyDir: {}`), and stays.
fn strip(tree: &mut Value) {
    match tree {
        Value::Object(fields) => {
            fields
                .retain(|_, field| !field.is_null() && field.as_array().is_none_or(|list| !list.is_empty()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(tree: Value) -> PodTemplateSpec {
        serde_json::from_value(tree).unwrap()
    }

    fn web(image: &str) -> PodTemplateSpec {
        template(json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": image}]},
        }))
    }

    #[test]
    fn the_label_of_the_hash_and_empty_lists_make_no_difference() {
        let labelled = template(json!({
            "metadata": {"labels": {"app": "web", HASH_LABEL: "x"}, "annotations": {}},
            "spec": {"containers": [{"name": "c", "image": "i:1", "env": []}], "volumes": []},
        }));
        assert!(same_template(&labelled, &web("i:1")));
        assert_eq!(template_hash(&labelled, 0), template_hash(&web("i:1"), 0));
        assert!(!same_template(&labelled, &web("i:2")));
        let other = template(json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "now"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        }));
        assert!(!same_template(&labelled, &other), "a restart is a change");
        let with = |volume: Value| {
            template(
                json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [], "volumes": [volume]}}),
            )
        };
        assert!(!same_template(&with(json!({"name": "v"})), &with(json!({"name": "v", "emptyDir": {}}))));
    }

    #[test]
    fn a_hash_stays_what_it_is_between_versions_of_this_program() {
        let hashes =
            [template_hash(&web("i:1"), 0), template_hash(&web("i:1"), 1), template_hash(&web("i:2"), 0)];
        assert_eq!(hashes.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
        assert_eq!(hashes[0], "5b7748956");
    }
}
