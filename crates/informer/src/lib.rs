//! What clients of the API know of it: a cache of all objects of one kind, kept true by list and watch, shared by all that
//! read it.
//!
//! **Nobody decides on less than it has done itself.** A watch lags behind writes. A controller that reads only what the watch
//! has brought would create a pod twice. So the answer to a write is put into the cache at once ([`Informer::learn`]), and what the
//! watch brings later about the same or an earlier state changes nothing. Whether an answer is newer than the cache is
//! decided by resource versions, which are numbers of one sequence
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>).
//!
//! Who manages which field of an object is not kept: it is nothing to a cache, and often larger than the rest.
//!
//! Tasks: one for each informer, until its token is cancelled. An interrupted watch goes on where it was; only when the server no longer
//! knows that place, everything is listed again.

mod cache;
mod follow;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use cache::Cache;

/// A kind that can be cached: the types of `k8s-openapi`.
pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// Namespace and name of an object. Keys are sorted by namespace, so that the objects of one lie together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; empty for kinds of the whole cluster.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// A key.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> ObjectKey {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(object: &impl Resource) -> ObjectKey {
        let meta = object.meta();
        ObjectKey {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// What happened to an object.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It was not known before.
    Added(Arc<K>),
    /// It is another than before.
    Changed {
        /// As it was.
        before: Arc<K>,
        /// As it is.
        now: Arc<K>,
    },
    /// It is gone; this is how it was known last. When the watch was interrupted, changes before the end may be missing from it.
    Removed(Arc<K>),
}

impl<K> Change<K> {
    /// The object as it is known last.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Change::Added(now) | Change::Changed { now, .. } | Change::Removed(now) => now,
        }
    }
}

type Handler<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// A cache of one kind. Cheap to clone; all clones are one cache.
pub struct Informer<K: Kind> {
    shared: Arc<Shared<K>>,
}

impl<K: Kind> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Informer { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Kind> Debug for Informer<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Informer").field("kind", &K::kind(&())).finish_non_exhaustive()
    }
}

struct Shared<K: Kind> {
    cache: RwLock<Cache<K>>,
    /// Held while a change is made and told: handlers hear changes one by one and in order.
    handlers: Mutex<Vec<Handler<K>>>,
    synced: watch::Sender<bool>,
}

impl<K: Kind> Informer<K> {
    /// A cache that nothing fills yet.
    pub fn idle() -> Informer<K> {
        Informer {
            shared: Arc::new(Shared {
                cache: RwLock::default(),
                handlers: Mutex::default(),
                synced: watch::Sender::new(false),
            }),
        }
    }

    /// Fills the cache from `api` until `shutdown`, and keeps it true. `fields` is a field selector, or empty. Call it once.
    pub async fn follow(self, api: Api<K>, fields: &'static str, shutdown: CancellationToken) {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = fault::carried_on("informer", || follow::follow(&self, &api, fields)) => {}
        }
    }

    /// Waits until the cache holds what the server had when it was first asked.
    pub async fn synced(&self) {
        // The sender lives in `self`.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Whether the cache was filled once.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Calls `handler` for each object that is known and for each change from now on, in order. It must be quick, and must
    /// not write to this cache; it may read it.
    pub fn on_change(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut handlers = self.handlers();
        let known: Vec<_> = self.cache().all().cloned().collect();
        for object in known {
            handler(&Change::Added(object));
        }
        handlers.push(Box::new(handler));
    }

    /// An object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.cache().get(key).cloned()
    }

    /// All objects, sorted by namespace and name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.cache().all().cloned().collect()
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.cache().all().len()
    }

    /// The objects of a namespace, sorted by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.cache().in_namespace(namespace).cloned().collect()
    }

    /// The objects of a namespace whose controller has this UID, sorted by name. Those of other namespaces that name it are none of
    /// its: anybody could write such a reference.
    pub fn controlled_by(&self, namespace: &str, uid: &str) -> Vec<Arc<K>> {
        self.cache().controlled_by(namespace, uid).cloned().collect()
    }

    /// The objects of a namespace that no controller owns, sorted by name.
    pub fn uncontrolled_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.cache().uncontrolled_in(namespace).cloned().collect()
    }

    /// Puts the answer to a write (create, update, patch, or a deletion that leaves the object for a while) into the cache.
    /// Without effect if the watch was quicker.
    pub fn learn(&self, object: K) {
        self.change(|cache| cache.learn(object).into_iter().collect());
    }

    /// Takes an object out that our own request has deleted. Without effect if the watch has brought another since.
    pub fn learn_deleted(&self, uid: &str, key: &ObjectKey) {
        self.change(|cache| cache.learn_deleted(uid, key).into_iter().collect());
    }

    /// Makes changes and tells the handlers of them.
    fn change(&self, make: impl FnOnce(&mut Cache<K>) -> Vec<Change<K>>) {
        let handlers = self.handlers();
        let changes = make(&mut self.cache_mut());
        for change in &changes {
            for handler in handlers.iter() {
                handler(change);
            }
        }
    }

    fn filled(&self) {
        self.shared.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }

    // No holder of these locks can panic half-way through a change of the cache.

    fn cache(&self) -> RwLockReadGuard<'_, Cache<K>> {
        self.shared.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache_mut(&self) -> RwLockWriteGuard<'_, Cache<K>> {
        self.shared.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Handler<K>>> {
        self.shared.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
