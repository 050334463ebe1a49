//! The objects of one kind, and what a list, a watch event or the answer to a write makes of them. Pure.
//!
//! Source of the order of resource versions: <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::{Change, Kind, ObjectKey};

/// Where an object lies and who of there controls it: who names a controller of another namespace is none of its.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Controller {
    namespace: String,
    /// None if nobody does.
    uid: Option<String>,
}

impl Controller {
    fn of<K: Kind>(object: &K) -> Controller {
        let meta = object.meta();
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true));
        Controller {
            namespace: meta.namespace.clone().unwrap_or_default(),
            uid: owner.map(|owner| owner.uid.clone()),
        }
    }
}

/// The number of a resource version; none for a server that counts in another way.
fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

fn version_of<K: Kind>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref().and_then(number)
}

/// All objects of a kind, as far as they are known.
#[derive(Debug)]
pub(crate) struct Cache<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    by_controller: BTreeMap<Controller, BTreeSet<ObjectKey>>,
    /// Up to where list and watch have told everything.
    told: u64,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Cache { objects: BTreeMap::new(), by_controller: BTreeMap::new(), told: 0 }
    }
}

impl<K: Kind> Cache<K> {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &Arc<K>> {
        self.objects.values()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        let first = ObjectKey::new(namespace, "");
        self.objects
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, object)| object)
    }

    pub(crate) fn controlled_by(&self, namespace: &str, uid: &str) -> impl Iterator<Item = &Arc<K>> {
        self.of_controller(Controller { namespace: namespace.to_owned(), uid: Some(uid.to_owned()) })
    }

    pub(crate) fn uncontrolled_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        self.of_controller(Controller { namespace: namespace.to_owned(), uid: None })
    }

    fn of_controller(&self, controller: Controller) -> impl Iterator<Item = &Arc<K>> + use<'_, K> {
        let keys = self.by_controller.get(&controller).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key))
    }

    /// What the watch says: an object is as given.
    pub(crate) fn apply(&mut self, object: K) -> Option<Change<K>> {
        let version = version_of(&object);
        self.tell(version);
        // What was learned may be ahead of the watch.
        let known = self.objects.get(&ObjectKey::of(&object)).and_then(|known| version_of(&**known));
        if known.zip(version).is_some_and(|(known, new)| known >= new) {
            return None;
        }
        Some(self.put(object))
    }

    /// What the watch says: an object is gone; it was as given.
    pub(crate) fn remove(&mut self, object: &K) -> Option<Change<K>> {
        let version = version_of(object);
        self.tell(version);
        let key = ObjectKey::of(object);
        let known = self.objects.get(&key).and_then(|known| version_of(&**known));
        // One of the same name may have been created, and learned, since.
        if known.zip(version).is_some_and(|(known, gone)| known > gone) {
            return None;
        }
        self.take(&key).map(Change::Removed)
    }

    /// What the watch says: everything up to this version was told.
    pub(crate) fn bookmark(&mut self, version: &str) {
        self.tell(number(version));
    }

    /// A list of everything, made at a version. What was learned after it stays.
    pub(crate) fn replace(&mut self, listed: Vec<K>, version: &str) -> Vec<Change<K>> {
        let version = number(version);
        let mut changes = Vec::new();
        if version.is_some_and(|version| version < self.told) {
            // The server began anew (its database was replaced): nothing of before counts.
            let keys: Vec<ObjectKey> = self.objects.keys().cloned().collect();
            changes.extend(keys.iter().filter_map(|key| self.take(key)).map(Change::Removed));
            self.told = 0;
        }
        let keys: BTreeSet<ObjectKey> = listed.iter().map(|object| ObjectKey::of(object)).collect();
        let gone: Vec<ObjectKey> = self
            .objects
            .iter()
            .filter(|(key, _)| !keys.contains(key))
            .filter(|(_, object)| {
                version_of(&***object).zip(version).is_none_or(|(known, list)| known <= list)
            })
            .map(|(key, _)| key.clone())
            .collect();
        changes.extend(gone.iter().filter_map(|key| self.take(key)).map(Change::Removed));
        for object in listed {
            let known = self.objects.get(&ObjectKey::of(&object)).and_then(|known| version_of(&**known));
            if known.zip(version_of(&object)).is_none_or(|(known, new)| known < new) {
                changes.push(self.put(object));
            }
        }
        self.tell(version);
        changes
    }

    /// What the answer to a write says.
    pub(crate) fn learn(&mut self, object: K) -> Option<Change<K>> {
        let version = version_of(&object)?;
        // What list and watch have told is the truth: this object, something newer, or that it is gone already.
        if version <= self.told {
            return None;
        }
        let known = self.objects.get(&ObjectKey::of(&object)).and_then(|known| version_of(&**known));
        (known.is_none_or(|known| known < version)).then(|| self.put(object))
    }

    /// What the answer to a deletion says.
    pub(crate) fn learn_deleted(&mut self, uid: &str, key: &ObjectKey) -> Option<Change<K>> {
        let known = self.objects.get(key)?;
        (known.meta().uid.as_deref() == Some(uid)).then(|| self.take(key)).flatten().map(Change::Removed)
    }

    fn tell(&mut self, version: Option<u64>) {
        self.told = self.told.max(version.unwrap_or(0));
    }

    fn put(&mut self, mut object: K) -> Change<K> {
        object.meta_mut().managed_fields = None;
        let key = ObjectKey::of(&object);
        let controller = Controller::of(&object);
        let now = Arc::new(object);
        let before = self.take(&key);
        self.by_controller.entry(controller).or_default().insert(key.clone());
        self.objects.insert(key, Arc::clone(&now));
        match before {
            // One of the same name that was deleted and created anew without our hearing of it is still told as a change: who
            // cares compares UIDs.
            Some(before) => Change::Changed { before, now },
            None => Change::Added(now),
        }
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        let object = self.objects.remove(key)?;
        let controller = Controller::of(&*object);
        if let Some(keys) = self.by_controller.get_mut(&controller) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_controller.remove(&controller);
            }
        }
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

    use super::*;

    fn pod(name: &str, version: u64, owner: Option<&str>) -> Pod {
        let owners = owner.map(|uid| {
            vec![OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() }]
        });
        Pod {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some("n".to_owned()),
                uid: Some(format!("uid-{name}")),
                resource_version: Some(version.to_string()),
                owner_references: owners,
                ..ObjectMeta::default()
            },
            ..Pod::default()
        }
    }

    /// What is known, as `name@version` in order.
    fn known(cache: &Cache<Pod>) -> String {
        let each = cache.all().map(|pod| {
            format!(
                "{}@{}",
                pod.metadata.name.as_deref().unwrap(),
                pod.metadata.resource_version.as_deref().unwrap()
            )
        });
        each.collect::<Vec<_>>().join(" ")
    }

    fn filled() -> Cache<Pod> {
        let mut cache = Cache::default();
        cache.replace(vec![pod("a", 3, None), pod("b", 5, Some("o"))], "10");
        cache
    }

    #[test]
    fn a_pod_that_was_just_created_is_known_before_the_watch_tells_of_it() {
        let mut cache = filled();
        assert!(matches!(cache.learn(pod("c", 12, Some("o"))), Some(Change::Added(_))));
        assert_eq!(cache.controlled_by("n", "o").count(), 2);
        assert!(cache.apply(pod("c", 12, Some("o"))).is_none(), "the watch brings nothing new");
        assert_eq!(known(&cache), "a@3 b@5 c@12");
    }

    #[test]
    fn an_answer_that_comes_after_the_watch_does_not_bring_the_gone_back() {
        let mut cache = filled();
        cache.apply(pod("c", 12, None));
        cache.remove(&pod("c", 14, None));
        assert!(cache.learn(pod("c", 12, None)).is_none());
        assert_eq!(known(&cache), "a@3 b@5");
    }

    #[test]
    fn what_the_watch_brings_late_does_not_undo_a_write() {
        let mut cache = filled();
        cache.learn(pod("a", 15, None));
        assert!(cache.apply(pod("a", 13, None)).is_none());
        assert!(cache.remove(&pod("a", 14, None)).is_none(), "that was the one before it");
        assert_eq!(known(&cache), "a@15 b@5");
        assert!(cache.remove(&pod("a", 16, None)).is_some());
    }

    #[test]
    fn a_pod_that_names_a_controller_of_another_namespace_is_not_counted_among_its() {
        let mut cache = filled();
        let mut stranger = pod("c", 12, Some("o"));
        stranger.metadata.namespace = Some("elsewhere".to_owned());
        cache.apply(stranger);
        assert_eq!(cache.controlled_by("n", "o").count(), 1);
        assert_eq!(cache.controlled_by("elsewhere", "o").count(), 1, "who asks there for it");
        assert_eq!(cache.uncontrolled_in("elsewhere").count(), 0);
    }

    #[test]
    fn a_new_list_keeps_what_was_learned_after_it_and_drops_what_it_does_not_hold() {
        let mut cache = filled();
        cache.learn(pod("early", 11, None));
        cache.learn(pod("late", 30, None));
        let changes = cache.replace(vec![pod("b", 20, None)], "25");
        assert_eq!(known(&cache), "b@20 late@30");
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert_eq!(cache.uncontrolled_in("n").count(), 2, "b lost its controller");
        assert_eq!(cache.controlled_by("n", "o").count(), 0);
    }

    #[test]
    fn a_server_that_began_anew_is_believed() {
        let mut cache = filled();
        cache.apply(pod("a", 40, None));
        cache.replace(vec![pod("a", 2, None)], "4");
        assert_eq!(known(&cache), "a@2");
        assert!(cache.learn(pod("c", 5, None)).is_some());
    }

    #[test]
    fn a_deletion_of_our_own_takes_only_the_object_that_it_meant() {
        let mut cache = filled();
        let key = ObjectKey::new("n", "a");
        assert!(cache.learn_deleted("another", &key).is_none());
        assert!(cache.learn_deleted("uid-a", &key).is_some());
        assert!(cache.apply(pod("a", 11, None)).is_some(), "one of the same name, created since");
    }

    #[test]
    fn objects_of_a_namespace_lie_together() {
        let mut cache = filled();
        let mut other = pod("a", 11, None);
        other.metadata.namespace = Some("m".to_owned());
        cache.apply(other);
        assert_eq!(cache.in_namespace("n").count(), 2);
        assert_eq!(cache.in_namespace("m").count(), 1);
        assert_eq!(cache.in_namespace("").count(), 0);
    }
}
