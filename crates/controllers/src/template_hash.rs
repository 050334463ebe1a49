//! When two pod templates are the same, and a short name for one. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The label that tells the pods and replica sets of one template of a deployment from those of another.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// Letters and digits of which no word that anybody minds can be made.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters of a hash.
const LENGTH: usize = 10;

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
    let mut text = plain(template).to_string().into_bytes();
    if collisions != 0 {
        text.extend(collisions.to_le_bytes());
    }
    let digest = Sha256::digest(&text);
    let mut number = digest.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    let mut hash = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        let digit = usize::try_from(number % 27).unwrap_or(0);
        hash.push(char::from(ALPHABET[digit]));
        number /= 27;
    }
    hash
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
        assert!(
            hashes
                .iter()
                .all(|hash| hash.len() == LENGTH && hash.bytes().all(|byte| ALPHABET.contains(&byte)))
        );
        assert_eq!(hashes[0], "b8d57jtrpb");
    }
}
