//! A hash index over an ordered list of entries: lookups in constant time, while the list keeps the order.

use std::hash::{BuildHasher, RandomState};

use crate::Entry;

/// Maps names to places in a list that somebody else owns. Keyed hashing: names come from users.
#[derive(Default)]
pub(super) struct NameIndex {
    hasher: RandomState,
    /// `(hash, place + 1)`; a place of zero means free. The length is a power of two, at least twice `used`.
    buckets: Vec<(u32, u32)>,
    used: usize,
}

impl NameIndex {
    /// Room for `names` names without growing.
    pub(super) fn with_capacity(names: usize) -> Self {
        let mut index = Self::default();
        if names > 0 {
            index.buckets = vec![(0, 0); (names * 2).next_power_of_two().max(16)];
        }
        index
    }

    /// The place of `name` in `entries`.
    pub(super) fn find(&self, name: &str, entries: &[Entry]) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let hash = self.hash_of(name);
        let mask = self.buckets.len() - 1;
        let mut bucket = hash as usize & mask;
        loop {
            match self.buckets[bucket] {
                (_, 0) => return None,
                (found, place) if found == hash && entries[place as usize - 1].name == name => {
                    return Some(place as usize - 1);
                }
                _ => bucket = (bucket + 1) & mask,
            }
        }
    }

    /// Says that `name` is at `place`, and answers where it was before.
    /// `entries` must still hold the old entry of that name.
    pub(super) fn insert(&mut self, name: &str, place: usize, entries: &[Entry]) -> Option<usize> {
        if (self.used + 1) * 2 > self.buckets.len() {
            self.grow();
        }
        let hash = self.hash_of(name);
        let mask = self.buckets.len() - 1;
        let mut bucket = hash as usize & mask;
        // A list of 2^32 variables does not fit into the limits long before it fits into memory.
        let stored = place as u32 + 1;
        loop {
            match self.buckets[bucket] {
                (_, 0) => {
                    self.buckets[bucket] = (hash, stored);
                    self.used += 1;
                    return None;
                }
                (found, old) if found == hash && entries[old as usize - 1].name == name => {
                    self.buckets[bucket].1 = stored;
                    return Some(old as usize - 1);
                }
                _ => bucket = (bucket + 1) & mask,
            }
        }
    }

    fn hash_of(&self, name: &str) -> u32 {
        self.hasher.hash_one(name) as u32
    }

    fn grow(&mut self) {
        let size = (self.buckets.len() * 2).max(16);
        let old = std::mem::replace(&mut self.buckets, vec![(0, 0); size]);
        for (hash, place) in old.into_iter().filter(|(_, place)| *place != 0) {
            let mut bucket = hash as usize & (size - 1);
            while self.buckets[bucket].1 != 0 {
                bucket = (bucket + 1) & (size - 1);
            }
            self.buckets[bucket] = (hash, place);
        }
    }
}
