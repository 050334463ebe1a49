//! What a StatefulSet's or DaemonSet's template was at each of its versions: the history that `kubectl rollout history` shows and
//! `rollout undo` goes back in. Pure.
//!
//! A revision keeps the patch that makes the template what it was
//! (<https://kubernetes.io/docs/tasks/manage-daemon/rollback-daemon-set/#understanding-daemonset-revisions>). Two revisions are the
//! same when their patches are; their hashes only name them.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

/// Longest part of a name before the hash.
const PREFIX_BYTES: usize = 223;
/// Letters and digits of which no word that anybody minds can be made.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Whose history it is.
#[derive(Clone, Debug)]
pub(crate) struct Holder<'a> {
    /// Its metadata.
    pub(crate) meta: &'a ObjectMeta,
    /// The reference to it in what it owns.
    pub(crate) reference: OwnerReference,
    /// Its template.
    pub(crate) template: &'a PodTemplateSpec,
    /// How many names of revisions were taken by others.
    pub(crate) collisions: i32,
    /// The label of a revision that holds its hash.
    pub(crate) hash_label: &'static str,
}

/// Where the template stands in its history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// It is the newest.
    Newest(Arc<ControllerRevision>),
    /// It was there before: this revision, changed so that it is the newest again, is to be written.
    Again(ControllerRevision),
    /// It is new: this revision is to be created.
    New(ControllerRevision),
}

/// The patch that makes a template what it is.
pub(crate) fn patch_of(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_else(|_| json!({}));
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The template that a revision keeps; none if it is damaged.
pub(crate) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Whether a revision keeps this template.
pub(crate) fn is_of(revision: &ControllerRevision, template: &PodTemplateSpec) -> bool {
    // What was written by an older version may leave out what is empty: compared is what it means.
    template_of(revision).is_some_and(|kept| kept == *template)
}

/// Oldest first.
pub(crate) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|a, b| {
        let key = |one: &ControllerRevision| {
            (one.revision, one.metadata.creation_timestamp.as_ref().map(|time| time.0))
        };
        key(a).cmp(&key(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
}

/// Where the holder's template stands in `revisions`, which are sorted.
pub(crate) fn place(holder: &Holder<'_>, revisions: &[Arc<ControllerRevision>]) -> Place {
    let next = revisions.last().map_or(1, |last| last.revision.saturating_add(1));
    let Some(equal) = revisions.iter().rev().find(|revision| is_of(revision, holder.template)) else {
        return Place::New(new_revision(holder, next));
    };
    if equal.revision.saturating_add(1) == next {
        return Place::Newest(Arc::clone(equal));
    }
    let mut again = ControllerRevision::clone(equal);
    again.revision = next;
    Place::Again(again)
}

/// The revision of the holder's template with this number.
pub(crate) fn new_revision(holder: &Holder<'_>, number: i64) -> ControllerRevision {
    let data = patch_of(holder.template);
    let hash = hash(&data, holder.collisions);
    let owner = holder.meta.name.as_deref().unwrap_or_default();
    let prefix = owner.get(..PREFIX_BYTES).unwrap_or(owner);
    let mut labels =
        holder.template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    labels.insert(holder.hash_label.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{hash}")),
            namespace: holder.meta.namespace.clone(),
            labels: Some(labels),
            annotations: holder.meta.annotations.clone(),
            owner_references: Some(vec![holder.reference.clone()]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// The hash that a revision carries in its label.
pub(crate) fn hash_of<'r>(revision: &'r ControllerRevision, label: &str) -> &'r str {
    let labels = revision.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(label)).map_or("", String::as_str)
}

/// Which of the sorted `revisions` the history no longer keeps: the oldest of those that are not in use, beyond `limit`.
pub(crate) fn surplus(
    revisions: &[Arc<ControllerRevision>],
    in_use: &BTreeSet<&str>,
    limit: Option<i32>,
) -> Vec<Arc<ControllerRevision>> {
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    let idle: Vec<_> = revisions
        .iter()
        .filter(|revision| !in_use.contains(revision.metadata.name.as_deref().unwrap_or_default()))
        .collect();
    let too_many = idle.len().saturating_sub(limit);
    idle.into_iter().take(too_many).cloned().collect()
}

/// A short name for a value, the same whatever the order of its keys. `collisions` makes it another when the name is taken.
pub(crate) fn hash(value: &Value, collisions: i32) -> String {
    let mut state = Fnv(0x811c_9dc5);
    state.value(value);
    if collisions > 0 {
        state.bytes(collisions.to_string().as_bytes());
    }
    let digits = state.0.to_string();
    digits.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// FNV-1a with 32 bits.
struct Fnv(u32);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let sorted: std::collections::BTreeMap<_, _> = fields.iter().collect();
                self.bytes(b"{");
                for (name, value) in sorted {
                    self.bytes(name.as_bytes());
                    self.bytes(b":");
                    self.value(value);
                }
                self.bytes(b"}");
            }
            Value::Array(items) => {
                self.bytes(b"[");
                for item in items {
                    self.value(item);
                    self.bytes(b",");
                }
                self.bytes(b"]");
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.bytes(value.to_string().as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        serde_json::from_value(json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": image}]},
        }))
        .expect("a template")
    }

    fn holder<'a>(meta: &'a ObjectMeta, template: &'a PodTemplateSpec, collisions: i32) -> Holder<'a> {
        Holder {
            meta,
            reference: OwnerReference::default(),
            template,
            collisions,
            hash_label: "controller.kubernetes.io/hash",
        }
    }

    fn meta() -> ObjectMeta {
        ObjectMeta { name: Some("web".to_owned()), namespace: Some("n".to_owned()), ..ObjectMeta::default() }
    }

    #[test]
    fn a_template_that_was_there_before_becomes_the_newest_again() {
        let (meta, one, two) = (meta(), template("i:1"), template("i:2"));
        let Place::New(first) = place(&holder(&meta, &one, 0), &[]) else { panic!("it is new") };
        let first = Arc::new(first);
        assert_eq!(first.revision, 1);
        assert!(matches!(place(&holder(&meta, &one, 0), &[Arc::clone(&first)]), Place::Newest(_)));
        let Place::New(second) = place(&holder(&meta, &two, 0), &[Arc::clone(&first)]) else {
            panic!("it is new")
        };
        assert_eq!(second.revision, 2);
        assert_ne!(first.metadata.name, second.metadata.name);
        let history = [Arc::clone(&first), Arc::new(second)];
        let Place::Again(again) = place(&holder(&meta, &one, 0), &history) else { panic!("it was there") };
        assert_eq!((again.revision, again.metadata.name), (3, first.metadata.name.clone()));
    }

    #[test]
    fn a_revision_keeps_the_template_and_what_kubectl_needs_to_go_back() {
        let (meta, one) = (meta(), template("i:1"));
        let revision = new_revision(&holder(&meta, &one, 0), 1);
        assert_eq!(template_of(&revision).as_ref(), Some(&one));
        let data = &revision.data.as_ref().expect("data").0;
        assert_eq!(data["spec"]["template"]["$patch"], "replace");
        let name = revision.metadata.name.clone().expect("a name");
        assert_eq!(name, format!("web-{}", hash_of(&revision, "controller.kubernetes.io/hash")));
        let other = new_revision(&holder(&meta, &one, 1), 1);
        assert_ne!(Some(name), other.metadata.name, "after a collision it has another name");
    }

    #[test]
    fn the_hash_does_not_depend_on_the_order_of_keys() {
        let (a, b) = (
            json!({"a": [1, {"x": null, "y": "z"}], "b": true}),
            json!({"b": true, "a": [1, {"y": "z", "x": null}]}),
        );
        assert_eq!(hash(&a, 0), hash(&b, 0));
        assert_ne!(hash(&a, 0), hash(&json!({"a": [1], "b": true}), 0));
    }

    #[test]
    fn the_oldest_that_no_pod_uses_go() {
        let meta = meta();
        let revisions: Vec<_> = ["i:1", "i:2", "i:3", "i:4"]
            .iter()
            .zip(1..)
            .map(|(image, number)| Arc::new(new_revision(&holder(&meta, &template(image), 0), number)))
            .collect();
        let name = |index: usize| revisions[index].metadata.name.as_deref().expect("a name");
        let in_use = BTreeSet::from([name(0), name(3)]);
        let gone = surplus(&revisions, &in_use, Some(1));
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].metadata.name.as_deref(), Some(name(1)));
        assert!(surplus(&revisions, &in_use, None).is_empty());
    }
}
