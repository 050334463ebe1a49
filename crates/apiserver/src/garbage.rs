//! Garbage collection: objects whose owners have gone go too, owners that wait for their dependents wait for them, and
//! owners that leave their dependents are forgotten by them.
//!
//! What depends on what follows from the stored objects alone: the index is derived anew at each start and then kept by the
//! store's changes, so nothing is lost when the process dies. Whether an owner is there is asked of the store at the moment
//! of the decision, never of the index. The rules are those of upstream's garbage collector; `decision` holds them as one
//! pure function.

mod decision;
mod facts;
mod index;

use std::collections::{BTreeSet, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use serde_json::{Value, json};
use store::{EventKind, Key, Object, ReadError, Watch};

use crate::deletion::{DeleteOptions, FOREGROUND, ORPHAN, delete_object};
use crate::identity::{Identity, MASTERS};
use crate::kinds::Kind;
use crate::object::list;
use crate::server::Server;
use crate::status::ApiError;
use crate::timestamps::now_text;
use crate::writing::{Candidate, Part, Write, create_object, update_object};

use decision::{OwnerState, Verdict, decide};
use facts::{Ending, Facts, Owner, OwnerPlace, may_matter};
use index::Index;

/// Who collects, as upstream calls it.
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
/// In whose name fields are written.
const MANAGER: &str = "kube-controller-manager";
/// How many objects are dealt with at the same time, so that they share commits.
const AT_ONCE: usize = 256;
/// How long an object rests that could not be dealt with for want of room on the disk.
const REST: Duration = Duration::from_secs(1);

/// Starts the task.
pub(crate) fn spawn_collector(server: &Arc<Server>) {
    let closing = server.closing().clone();
    let server = server.clone();
    tokio::spawn(async move {
        let mut collector = Collector::new(server);
        tokio::select! {
            () = collector.run() => {}
            () = closing.cancelled() => {}
        }
    });
}

/// What is done to one object.
type Step = Pin<Box<dyn Future<Output = (Key, Outcome)> + Send>>;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// What follows from it comes as a change.
    Done,
    /// Somebody else was quicker: what is to be done is decided again.
    Again,
    /// There was no room: later.
    Later,
}

/// One collection that is followed.
struct Followed {
    kind: Arc<Kind>,
    watch: Watch,
}

struct Collector {
    server: Arc<Server>,
    identity: Arc<Identity>,
    followed: Vec<Followed>,
    index: Index,
    /// Objects that have to be looked at.
    open: BTreeSet<Key>,
    /// Objects that are being dealt with.
    busy: HashSet<Key>,
    /// Dependent and owner of references that were told to lead into the wrong namespace.
    told: HashSet<(String, String)>,
}

impl Collector {
    fn new(server: Arc<Server>) -> Collector {
        Collector {
            server,
            identity: Arc::new(Identity::new(COLLECTOR, vec![MASTERS.to_owned()])),
            followed: Vec::new(),
            index: Index::default(),
            open: BTreeSet::new(),
            busy: HashSet::new(),
            told: HashSet::new(),
        }
    }

    async fn run(&mut self) {
        let mut changes = self.server.store.changes();
        self.follow_all();
        let mut steps: FuturesUnordered<Step> = FuturesUnordered::new();
        let mut resting: FuturesUnordered<Pin<Box<dyn Future<Output = Key> + Send>>> =
            FuturesUnordered::new();
        loop {
            changes.borrow_and_update();
            self.catch_up();
            while steps.len() < AT_ONCE
                && let Some(key) = self.open.pop_first()
            {
                if let Some(step) = self.begin(&key) {
                    self.busy.insert(key);
                    steps.push(step);
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                Some((key, outcome)) = steps.next(), if !steps.is_empty() => {
                    self.busy.remove(&key);
                    match outcome {
                        // A change of it that came meanwhile found it busy.
                        Outcome::Done | Outcome::Again => { self.open.insert(key); }
                        Outcome::Later => resting.push(Box::pin(async move {
                            tokio::time::sleep(REST).await;
                            key
                        })),
                    }
                }
                Some(key) = resting.next(), if !resting.is_empty() => { self.open.insert(key); }
            }
        }
    }

    /// Begins with every collection whose objects can own or be owned.
    fn follow_all(&mut self) {
        let kinds: Vec<Arc<Kind>> = self.server.kinds.iter().filter(|kind| can_own(kind)).cloned().collect();
        for kind in kinds {
            let Ok(watch) = self.server.store.watch(kind.collection(), None, self.server.store.revision())
            else {
                continue;
            };
            self.followed.push(Followed { kind, watch });
        }
        for at in 0..self.followed.len() {
            self.read_again(at);
        }
    }

    /// Derives what is known of a collection from its objects.
    fn read_again(&mut self, at: usize) {
        let kind = self.followed[at].kind.clone();
        let store = &self.server.store;
        let Ok(listing) = store.list(kind.collection(), None, None, None) else { return };
        if let Ok(watch) = store.watch(kind.collection(), None, listing.revision) {
            self.followed[at].watch = watch;
        }
        let mut gone: HashSet<Key> = self.index.keys_of(kind.collection()).into_iter().collect();
        for object in &listing.objects {
            gone.remove(object.key());
            self.note(object);
        }
        for key in gone {
            let uid = self.index.facts(&key).map(|facts| facts.uid.clone()).unwrap_or_default();
            self.open.extend(self.index.remove(&key, &uid));
        }
        // An owner may have gone unseen: everything that has owners is looked at again.
        self.open.extend(self.index.keys().cloned());
    }

    /// Brings the index up to the store, so that what is decided next rests on everything that is there.
    fn catch_up(&mut self) {
        for at in 0..self.followed.len() {
            loop {
                match self.followed[at].watch.advance() {
                    Ok(events) if events.is_empty() => break,
                    Ok(events) => {
                        for event in events {
                            match event.kind {
                                EventKind::Added | EventKind::Modified => {
                                    let replaced = event.previous.as_deref();
                                    if may_matter(&event.object) || replaced.is_some_and(may_matter) {
                                        self.note(&event.object);
                                    }
                                }
                                EventKind::Deleted => self.forget(&event.object),
                            }
                        }
                    }
                    Err(ReadError::Expired { .. } | ReadError::Future { .. }) => {
                        self.read_again(at);
                        break;
                    }
                }
            }
        }
    }

    fn note(&mut self, object: &Object) {
        if !may_matter(object) && self.index.facts(object.key()).is_none() {
            return;
        }
        if let Some(facts) = facts::read(&self.server.kinds, object) {
            self.open.extend(self.index.set(object.key(), facts));
        }
    }

    fn forget(&mut self, object: &Object) {
        if self.index.is_empty() && self.index.facts(object.key()).is_none() {
            return;
        }
        if let Some(facts) = facts::read(&self.server.kinds, object) {
            self.open.extend(self.index.remove(object.key(), &facts.uid));
        }
    }

    /// Decides about one object and begins what has to be done.
    fn begin(&mut self, key: &Key) -> Option<Step> {
        if self.busy.contains(key) {
            return None;
        }
        let facts = self.index.facts(key)?.clone();
        let owners: Vec<OwnerState> = facts.owners.iter().map(|owner| self.state(owner)).collect();
        let verdict = decide(&facts, &owners, self.index.dependents(key, &facts));
        self.tell_about_references(key, &facts, &owners);
        let kind = self.followed.iter().find(|one| one.kind.collection() == key.collection())?.kind.clone();
        let (server, identity, key) = (self.server.clone(), self.identity.clone(), key.clone());
        match verdict {
            Verdict::Keep => None,
            Verdict::Release(positions) => {
                let let_go: Vec<Owner> =
                    positions.into_iter().map(|index| facts.owners[index].clone()).collect();
                Some(Box::pin(async move {
                    let outcome = release(&server, &kind, &identity, &key, &let_go).await;
                    (key, ended(outcome))
                }))
            }
            Verdict::Finish => {
                let finalizer = match facts.ending {
                    Ending::Orphaning => ORPHAN,
                    Ending::Foreground | Ending::Otherwise | Ending::No => FOREGROUND,
                };
                Some(Box::pin(async move {
                    let outcome = finish(&server, &kind, &identity, &key, &facts.uid, finalizer).await;
                    (key, ended(outcome))
                }))
            }
            Verdict::Delete(propagation) => {
                // What was decided is true of the version that the index knows, and of no other.
                let current = self.server.store.get(&key)?;
                if facts::read(&self.server.kinds, &current).as_ref() != Some(&facts) {
                    return None;
                }
                let options = DeleteOptions {
                    uid: Some(facts.uid),
                    resource_version: Some(current.revision().to_string()),
                    ..DeleteOptions::propagating(propagation)
                };
                Some(Box::pin(async move {
                    let write = write(&server, &kind, &identity, &key);
                    let outcome = delete_object(&write, key.name(), &options).await.map(drop);
                    (key, ended(outcome))
                }))
            }
        }
    }

    /// The state of an owner, as the store has it now.
    fn state(&self, owner: &Owner) -> OwnerState {
        let place = match &owner.place {
            OwnerPlace::At(place) => place,
            OwnerPlace::UnknownKind | OwnerPlace::NoNamespace => return OwnerState::Stays,
        };
        let Some(found) = self.server.store.get(place) else { return OwnerState::Gone };
        match facts::read(&self.server.kinds, &found) {
            Some(facts) if facts.uid == owner.uid => match facts.ending {
                Ending::Foreground => OwnerState::Waits,
                Ending::Orphaning => OwnerState::LetsGo,
                Ending::No | Ending::Otherwise => OwnerState::Stays,
            },
            Some(_) | None => OwnerState::Gone,
        }
    }

    /// References that can never lead anywhere are told, once: they are mistakes.
    fn tell_about_references(&mut self, key: &Key, facts: &Facts, owners: &[OwnerState]) {
        for (owner, state) in facts.owners.iter().zip(owners) {
            let is_wrong = match (&owner.place, state) {
                (OwnerPlace::NoNamespace, _) => true,
                (OwnerPlace::At(place), OwnerState::Gone) => self.is_elsewhere(place, &owner.uid),
                (OwnerPlace::At(_) | OwnerPlace::UnknownKind, _) => false,
            };
            if is_wrong && self.told.insert((facts.uid.clone(), owner.uid.clone())) {
                spawn_event(&self.server, &self.identity, key, facts, owner);
            }
        }
    }

    /// Whether the owner is an object of another namespace.
    fn is_elsewhere(&self, place: &Key, uid: &str) -> bool {
        if place.namespace().is_empty() {
            return false;
        }
        let Ok(namespaces) = self.server.store.list(&namespaces_of(&self.server), None, None, None) else {
            return false;
        };
        namespaces.objects.iter().any(|namespace| {
            let elsewhere = Key::new(place.collection(), namespace.key().name(), place.name());
            self.server
                .store
                .get(&elsewhere)
                .and_then(|found| facts::read(&self.server.kinds, &found))
                .is_some_and(|facts| facts.uid == uid)
        })
    }
}

fn namespaces_of(server: &Server) -> store::Collection {
    server
        .kinds
        .core("namespaces")
        .map_or_else(|| store::Collection::new("", "namespaces"), |kind| kind.collection().clone())
}

/// Events own nothing and nobody owns them, upstream too.
fn can_own(kind: &Kind) -> bool {
    kind.strategy().is_stored() && kind.plural() != "events"
}

fn write<'w>(
    server: &'w Arc<Server>,
    kind: &'w Arc<Kind>,
    identity: &'w Identity,
    key: &'w Key,
) -> Write<'w> {
    Write {
        server,
        kind,
        namespace: key.namespace(),
        identity,
        manager: MANAGER,
        dry_run: false,
        order: None,
    }
}

fn ended(outcome: Result<(), ApiError>) -> Outcome {
    match outcome {
        Ok(()) | Err(ApiError::NotFound { .. }) => Outcome::Done,
        Err(ApiError::Conflict { .. }) => Outcome::Again,
        Err(ApiError::StorageFull { .. }) => Outcome::Later,
        Err(error) => {
            tracing::warn!(%error, "garbage collection cannot deal with an object");
            Outcome::Later
        }
    }
}

/// Takes the references to `owners` out of an object.
async fn release(
    server: &Arc<Server>,
    kind: &Arc<Kind>,
    identity: &Identity,
    key: &Key,
    owners: &[Owner],
) -> Result<(), ApiError> {
    let without = |old: &Value| {
        let left: Vec<Value> = list(old, &["metadata", "ownerReferences"])
            .iter()
            .filter(|reference| !owners.iter().any(|owner| owner.is_named_by(reference)))
            .cloned()
            .collect();
        Ok(candidate(old, "ownerReferences", left))
    };
    update_object(&write(server, kind, identity, key), key.name(), Part::Main, without).await.map(drop)
}

/// Takes `finalizer` out of an object.
async fn finish(
    server: &Arc<Server>,
    kind: &Arc<Kind>,
    identity: &Identity,
    key: &Key,
    uid: &str,
    finalizer: &str,
) -> Result<(), ApiError> {
    let without = |old: &Value| {
        if crate::object::text(old, &["metadata", "uid"]) != uid {
            return Err(ApiError::not_found(kind, key.name()));
        }
        let left: Vec<Value> =
            list(old, &["metadata", "finalizers"]).iter().filter(|own| **own != finalizer).cloned().collect();
        Ok(candidate(old, "finalizers", left))
    };
    update_object(&write(server, kind, identity, key), key.name(), Part::Main, without).await.map(drop)
}

fn candidate(old: &Value, field: &str, left: Vec<Value>) -> Candidate {
    let mut object = old.clone();
    let left = (!left.is_empty()).then_some(Value::Array(left));
    crate::object::set_metadata(&mut object, field, left);
    Candidate { object, warnings: Vec::new(), keeps_version: false }
}

/// Tells of a reference that leads into the wrong namespace.
fn spawn_event(server: &Arc<Server>, identity: &Arc<Identity>, key: &Key, facts: &Facts, owner: &Owner) {
    let Some(events) = server.kinds.core("events").cloned() else { return };
    let named = server.kinds.iter().find(|kind| kind.collection() == key.collection());
    let Some(kind) = named else { return };
    let namespace = if key.namespace().is_empty() { "default" } else { key.namespace() }.to_owned();
    let now = now_text();
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        // As upstream names events: the object, and a moment that no other event has.
        "metadata": {"name": format!("{}.{:x}", key.name(), Timestamp::now().as_nanosecond()), "namespace": namespace},
        "involvedObject": {
            "apiVersion": kind.group_version(), "kind": kind.kind(),
            "namespace": key.namespace(), "name": key.name(), "uid": facts.uid,
        },
        "reason": "OwnerRefInvalidNamespace",
        "message": format!("ownerRef {} does not exist in namespace {}", owner.shown, schema::go_quote(key.namespace())),
        "source": {"component": "garbage-collector-controller"},
        "reportingComponent": "garbage-collector-controller",
        "type": "Warning", "count": 1, "firstTimestamp": now, "lastTimestamp": now,
    });
    let (server, identity) = (server.clone(), identity.clone());
    tokio::spawn(async move {
        let place = Key::new(events.collection(), &namespace, "");
        let write = write(&server, &events, &identity, &place);
        let decoded = schema::decode_value(events.ty(), &event, schema::FieldValidation::Ignore);
        let Ok(mut decoded) = decoded else { return };
        crate::body::set_type(&events, &mut decoded.value);
        if let Err(error) = create_object(&write, decoded.value).await {
            tracing::debug!(%error, "an event of garbage collection is not stored");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::can_own;
    use crate::kinds::KindTable;

    #[test]
    fn every_kind_with_objects_is_followed_but_events() {
        let kinds = KindTable::builtin().expect("the schema has them");
        let left_out: Vec<&str> =
            kinds.iter().filter(|kind| !can_own(kind)).map(|kind| kind.plural()).collect();
        let expected: Vec<&str> = kinds
            .iter()
            .map(|kind| (kind.plural(), kind.strategy().is_stored()))
            .filter(|(plural, is_stored)| *plural == "events" || !is_stored)
            .map(|(plural, _)| plural)
            .collect();
        assert_eq!(left_out, expected);
        assert!(kinds.of_type("v1", "ConfigMap").is_some_and(|kind| can_own(kind)));
        assert!(kinds.of_type("v1", "Event").is_some_and(|kind| !can_own(kind)));
    }
}
