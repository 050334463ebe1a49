//! Keeps the index of roles and bindings as the store has them: before a decision it takes over what has changed, so that what
//! was acknowledged counts with the next request. Nothing polls; nothing runs in between.

use std::sync::{PoisonError, RwLock};

use store::{Collection, EventKind, Object, Store, Watch};

use super::GROUP;
use super::index::RoleIndex;
use crate::object::tree;

/// The collections that are watched.
const RESOURCES: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];

/// The index with its cursors into the store.
pub(crate) struct RoleKeeper {
    store: Store,
    kept: RwLock<Kept>,
}

struct Kept {
    index: RoleIndex,
    /// Empty when the index has to be made anew.
    watches: Vec<Watch>,
}

impl std::fmt::Debug for RoleKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RoleKeeper")
    }
}

impl RoleKeeper {
    /// The roles and bindings of `store`.
    pub(crate) fn new(store: &Store) -> RoleKeeper {
        let kept = Kept { index: RoleIndex::default(), watches: Vec::new() };
        RoleKeeper { store: store.clone(), kept: RwLock::new(kept) }
    }

    /// Looks something up in the index as it is now.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&RoleIndex) -> R) -> R {
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            if kept.is_current() {
                return look(&kept.index);
            }
        }
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.catch_up(&self.store);
        look(&kept.index)
    }
}

impl Kept {
    fn is_current(&self) -> bool {
        !self.watches.is_empty() && !self.watches.iter().any(Watch::has_changes)
    }

    fn catch_up(&mut self, store: &Store) {
        if !self.watches.is_empty() {
            let Kept { index, watches } = self;
            let is_complete = watches.iter_mut().all(|watch| advance(index, watch));
            if is_complete {
                return;
            }
        }
        *self = Kept::load(store);
    }

    fn load(store: &Store) -> Kept {
        let mut kept = Kept { index: RoleIndex::default(), watches: Vec::new() };
        for resource in RESOURCES {
            let collection = Collection::new(GROUP, resource);
            // A watch from the revision of the list misses nothing; without one, the next look begins anew.
            let Ok(listing) = store.list(&collection, None, None, None) else { continue };
            for object in &listing.objects {
                note(&mut kept.index, object, true);
            }
            if let Ok(watch) = store.watch(&collection, None, listing.revision) {
                kept.watches.push(watch);
            }
        }
        if kept.watches.len() < RESOURCES.len() {
            kept.watches.clear();
        }
        kept
    }
}

/// Takes over what has changed; false when changes were forgotten before they were seen.
fn advance(index: &mut RoleIndex, watch: &mut Watch) -> bool {
    loop {
        let Ok(events) = watch.advance() else { return false };
        if events.is_empty() {
            return true;
        }
        for event in events {
            note(index, &event.object, event.kind != EventKind::Deleted);
        }
    }
}

fn note(index: &mut RoleIndex, object: &Object, is_there: bool) {
    let key = object.key();
    let value = is_there.then(|| tree(object));
    match key.collection().resource() {
        "clusterroles" | "roles" => index.set_role(key.namespace(), key.name(), value.as_ref()),
        _ => index.set_binding(key.namespace(), key.name(), value.as_ref()),
    }
}
