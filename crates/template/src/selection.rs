//! Which pods of a template a selector selects.
//!
//! Pods are numbered, and sets of them are bits, so that many large selectors over many pods cost no more than their
//! text.

use std::collections::HashMap;

use manifest::Node;

use crate::kinds::{Kind, at, text};

/// The pods that a template's objects are or make, by their labels.
pub(crate) struct Pods {
    /// How many words a set has.
    words: usize,
    namespaces: HashMap<String, Set>,
    keys: HashMap<String, Set>,
    pairs: HashMap<String, HashMap<String, Set>>,
}

/// A set of pods; a pod is the place of its object.
type Set = Vec<u64>;

impl Pods {
    pub(crate) fn of(objects: &[Node]) -> Self {
        let mut pods = Self {
            words: objects.len().div_ceil(64),
            namespaces: HashMap::new(),
            keys: HashMap::new(),
            pairs: HashMap::new(),
        };
        for (index, object) in objects.iter().enumerate() {
            let Some(path) = Kind::of_object(object).and_then(|kind| kind.template) else { continue };
            let empty = vec![0; pods.words];
            let put = |set: &mut Set| set[index / 64] |= 1 << (index % 64);
            put(pods.namespaces.entry(namespace_of(object)).or_insert_with(|| empty.clone()));
            let labels = at(object, path).and_then(|pod| at(pod, &["metadata", "labels"]));
            for entry in labels.map(Node::entries).unwrap_or_default() {
                let Some(value) = entry.value.as_str() else { continue };
                put(pods.keys.entry(entry.key.clone()).or_insert_with(|| empty.clone()));
                let values = pods.pairs.entry(entry.key.clone()).or_default();
                put(values.entry(value.to_owned()).or_insert_with(|| empty.clone()));
            }
        }
        pods
    }

    /// The pods of the namespace of `object` that have all of `labels` and meet all of `expressions`.
    pub(crate) fn selected(&self, object: &Node, labels: &[manifest::Entry], expressions: &[Node]) -> Set {
        let none = vec![0; self.words];
        let mut selected = self.namespaces.get(&namespace_of(object)).unwrap_or(&none).clone();
        for entry in labels {
            let found = entry.value.as_str().and_then(|value| self.pairs.get(&entry.key)?.get(value));
            keep(&mut selected, found.unwrap_or(&none));
        }
        for expression in expressions {
            let key = text(expression, "key");
            let has_key = self.keys.get(key).unwrap_or(&none);
            match text(expression, "operator") {
                "In" => keep(&mut selected, &self.listed(key, expression)),
                "NotIn" => drop_from(&mut selected, &self.listed(key, expression)),
                "Exists" => keep(&mut selected, has_key),
                "DoesNotExist" => drop_from(&mut selected, has_key),
                // A requirement that is not understood says nothing.
                _ => {}
            }
        }
        selected
    }

    /// The pods whose label has one of the values of a requirement.
    fn listed(&self, key: &str, expression: &Node) -> Set {
        let mut listed = vec![0; self.words];
        let Some(values) = self.pairs.get(key) else { return listed };
        for value in expression.get("values").map(Node::items).unwrap_or_default() {
            if let Some(found) = value.as_str().and_then(|value| values.get(value)) {
                listed.iter_mut().zip(found).for_each(|(word, other)| *word |= other);
            }
        }
        listed
    }
}

/// Whether a set has the pod of an object.
pub(crate) fn has(set: &[u64], index: usize) -> bool {
    set.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
}

/// Whether a set has any pod.
pub(crate) fn has_any(set: &[u64]) -> bool {
    set.iter().any(|word| *word != 0)
}

fn keep(set: &mut Set, other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(word, other)| *word &= other);
}

fn drop_from(set: &mut Set, other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(word, other)| *word &= !other);
}

fn namespace_of(object: &Node) -> String {
    at(object, &["metadata", "namespace"]).and_then(Node::as_str).unwrap_or_default().to_owned()
}
