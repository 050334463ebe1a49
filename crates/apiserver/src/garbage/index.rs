//! Who depends on whom. Objects without owners that are not on their way out are not in it.

use std::collections::{BTreeSet, HashMap, HashSet};

use store::Key;

use super::decision::Dependents;
use super::facts::{Ending, Facts, OwnerPlace};

/// An object as references name it: by place and uid.
type Identity = (Key, String);

/// Who depends on whom.
#[derive(Debug, Default)]
pub(super) struct Index {
    facts: HashMap<Key, Facts>,
    /// The objects that refer to an owner, whether it exists or not.
    dependents: HashMap<Identity, HashSet<Key>>,
}

impl Index {
    pub(super) fn facts(&self, key: &Key) -> Option<&Facts> {
        self.facts.get(key)
    }

    /// Whether nobody depends on anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.dependents.is_empty()
    }

    /// Every object that has to be looked at once, after a start.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.facts.keys()
    }

    /// The keys of one collection, for those that are read again.
    pub(super) fn keys_of(&self, collection: &store::Collection) -> Vec<Key> {
        self.facts.keys().filter(|key| key.collection() == collection).cloned().collect()
    }

    /// Takes over the newest facts of an object and says who has to be looked at again.
    pub(super) fn set(&mut self, key: &Key, facts: Facts) -> BTreeSet<Key> {
        let mut again = BTreeSet::new();
        if self.facts.get(key) == Some(&facts) {
            return again;
        }
        let old = self.facts.remove(key);
        if let Some(old) = &old {
            self.forget_references(key, old, &mut again);
        }
        for owner in &facts.owners {
            if let OwnerPlace::At(place) = &owner.place {
                let identity = (place.clone(), owner.uid.clone());
                self.dependents.entry(identity).or_default().insert(key.clone());
            }
        }
        again.insert(key.clone());
        let began = match facts.ending {
            Ending::Foreground | Ending::Orphaning => {
                old.as_ref().is_none_or(|old| old.uid != facts.uid || old.ending != facts.ending)
            }
            Ending::No | Ending::Otherwise => false,
        };
        if began {
            self.dependents_of(key, &facts.uid, &mut again);
            // Whoever waits for it may find that both wait for each other.
            self.owners_of(&facts, &mut again);
        }
        if facts.matters() {
            self.facts.insert(key.clone(), facts);
        }
        again
    }

    /// Forgets an object that is gone and says who has to be looked at again.
    pub(super) fn remove(&mut self, key: &Key, uid: &str) -> BTreeSet<Key> {
        let mut again = BTreeSet::new();
        if let Some(old) = self.facts.remove(key) {
            self.forget_references(key, &old, &mut again);
        }
        self.dependents_of(key, uid, &mut again);
        again
    }

    fn forget_references(&mut self, key: &Key, old: &Facts, again: &mut BTreeSet<Key>) {
        for owner in &old.owners {
            let OwnerPlace::At(place) = &owner.place else { continue };
            let identity = (place.clone(), owner.uid.clone());
            if let Some(dependents) = self.dependents.get_mut(&identity) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(&identity);
                }
            }
        }
        self.owners_of(old, again);
    }

    /// The owners that wait for something.
    fn owners_of(&self, facts: &Facts, again: &mut BTreeSet<Key>) {
        for owner in &facts.owners {
            if let OwnerPlace::At(place) = &owner.place
                && self.facts.get(place).is_some_and(|found| found.uid == owner.uid && waits(found))
            {
                again.insert(place.clone());
            }
        }
    }

    fn dependents_of(&self, key: &Key, uid: &str, again: &mut BTreeSet<Key>) {
        if let Some(dependents) = self.dependents.get(&(key.clone(), uid.to_owned())) {
            again.extend(dependents.iter().cloned());
        }
    }

    /// The dependents of an object, as they matter for its way out.
    pub(super) fn dependents(&self, key: &Key, facts: &Facts) -> Dependents {
        let Some(own) = self.dependents.get(&(key.clone(), facts.uid.clone())) else {
            return Dependents::None;
        };
        let blocks = |dependent: &&Key| self.blocks(dependent, key, &facts.uid);
        // Most often somebody blocks who does not wait himself: that is found at once.
        if own.iter().filter(blocks).any(|dependent| !self.is_foreground(dependent)) {
            return Dependents::Blocking;
        }
        if own.iter().filter(blocks).all(|dependent| self.waits_for(dependent, key)) {
            return Dependents::NotBlocking;
        }
        Dependents::Blocking
    }

    fn is_foreground(&self, key: &Key) -> bool {
        self.facts.get(key).is_some_and(|facts| facts.ending == Ending::Foreground)
    }

    fn blocks(&self, dependent: &Key, owner: &Key, uid: &str) -> bool {
        self.facts.get(dependent).is_some_and(|facts| {
            facts.owners.iter().any(|reference| {
                reference.blocks
                    && reference.uid == uid
                    && matches!(&reference.place, OwnerPlace::At(place) if place == owner)
            })
        })
    }

    /// Whether `from`, directly or through others that wait too, waits for `wanted`.
    fn waits_for(&self, from: &Key, wanted: &Key) -> bool {
        let mut seen: HashSet<&Key> = HashSet::new();
        let mut open = vec![from];
        while let Some(key) = open.pop() {
            if key == wanted {
                return true;
            }
            let Some((own, facts)) = self.facts.get_key_value(key) else { continue };
            if facts.ending != Ending::Foreground || !seen.insert(own) {
                continue;
            }
            if let Some(dependents) = self.dependents.get(&(own.clone(), facts.uid.clone())) {
                open.extend(dependents.iter().filter(|dependent| self.blocks(dependent, own, &facts.uid)));
            }
        }
        false
    }
}

fn waits(facts: &Facts) -> bool {
    match facts.ending {
        Ending::Foreground | Ending::Orphaning => true,
        Ending::No | Ending::Otherwise => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use store::{Collection, Key};

    use super::super::decision::Dependents;
    use super::super::facts::{Ending, Facts, Owner, OwnerPlace, Wish};
    use super::Index;

    fn key(name: &str) -> Key {
        Key::new(&Collection::new("", "configmaps"), "a", name)
    }

    /// The uid of an object is its name.
    fn facts(name: &str, ending: Ending, owners: &[(&str, bool)]) -> Facts {
        let owners = owners
            .iter()
            .map(|(owner, blocks)| Owner {
                place: OwnerPlace::At(key(owner)),
                uid: (*owner).to_owned(),
                blocks: *blocks,
                shown: String::new(),
            })
            .collect();
        Facts { uid: name.to_owned(), owners, ending, wish: Wish::None }
    }

    fn names(again: BTreeSet<Key>) -> Vec<String> {
        again.iter().map(|key| key.name().to_owned()).collect()
    }

    #[test]
    fn whoever_a_change_concerns_is_looked_at_again() {
        let mut index = Index::default();
        assert_eq!(names(index.set(&key("d"), facts("d", Ending::No, &[("o", true)]))), ["d"]);
        assert!(index.set(&key("d"), facts("d", Ending::No, &[("o", true)])).is_empty(), "nothing new");
        assert_eq!(names(index.set(&key("o"), facts("o", Ending::Foreground, &[]))), ["d", "o"]);
        assert_eq!(names(index.set(&key("d"), facts("d", Ending::No, &[("o", false)]))), ["d", "o"]);
        assert_eq!(names(index.remove(&key("d"), "d")), ["o"], "the owner waits for it");
        assert!(index.is_empty());
        index.set(&key("e"), facts("e", Ending::No, &[("p", false)]));
        assert!(index.remove(&key("p"), "another").is_empty(), "an object of the same name is another one");
        assert_eq!(names(index.remove(&key("p"), "p")), ["e"], "its owner has gone");
    }

    #[test]
    fn circles_of_objects_that_wait_for_each_other_end() {
        let circle: &[(&str, &[(&str, bool)])] =
            &[("a", &[("c", true)]), ("b", &[("a", true)]), ("c", &[("b", true)])];
        let mut index = Index::default();
        for (name, owners) in circle {
            index.set(&key(name), facts(name, Ending::Foreground, owners));
        }
        for (name, _) in circle {
            let own = index.facts(&key(name)).expect("set").clone();
            assert_eq!(index.dependents(&key(name), &own), Dependents::NotBlocking, "{name}");
        }
        // One outside the circle that does not wait holds up only the one that it blocks.
        index.set(&key("x"), facts("x", Ending::No, &[("a", true)]));
        let state = |name: &str| index.dependents(&key(name), index.facts(&key(name)).expect("set"));
        assert_eq!(state("a"), Dependents::Blocking);
        assert_eq!(state("b"), Dependents::NotBlocking);
        let mut alone = Index::default();
        alone.set(&key("s"), facts("s", Ending::Foreground, &[("s", true)]));
        let own = alone.facts(&key("s")).expect("set").clone();
        assert_eq!(alone.dependents(&key("s"), &own), Dependents::NotBlocking, "an object that owns itself");
    }

    #[test]
    fn dependents_that_do_not_block_are_not_waited_for() {
        let mut index = Index::default();
        index.set(&key("o"), facts("o", Ending::Foreground, &[]));
        let state = |index: &Index| index.dependents(&key("o"), index.facts(&key("o")).expect("set"));
        assert_eq!(state(&index), Dependents::None);
        index.set(&key("d"), facts("d", Ending::No, &[("o", false)]));
        assert_eq!(state(&index), Dependents::NotBlocking);
        index.set(&key("e"), facts("e", Ending::Otherwise, &[("o", true)]));
        assert_eq!(state(&index), Dependents::Blocking);
        index.set(&key("e"), facts("e", Ending::Foreground, &[("o", true)]));
        assert_eq!(state(&index), Dependents::Blocking, "it waits for others, not for its owner");
    }
}
