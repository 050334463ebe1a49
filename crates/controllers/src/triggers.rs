//! Which changes of objects ask for a look at a controller. Pure.

use std::sync::Arc;

use informer::{Change, Informer, Kind, ObjectKey};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::ownership::{controller_key, controller_of};
use crate::pod_state::{condition, phase};
use crate::queue::Queue;

/// Whether a change of a controller asks for something else than before: its own status is no news to it.
pub(crate) fn asks_anew<K: Kind>(change: &Change<K>) -> bool {
    match change {
        Change::Added(_) | Change::Removed(_) => true,
        Change::Changed { before, now } => {
            let (before, now) = (before.meta(), now.meta());
            before.generation != now.generation
                || before.uid != now.uid
                || before.deletion_timestamp != now.deletion_timestamp
        }
    }
}

/// Whether a change of a pod can matter to who keeps a number of them.
pub(crate) fn pod_counts_anew(change: &Change<Pod>) -> bool {
    match change {
        Change::Added(_) | Change::Removed(_) => true,
        Change::Changed { before, now } => {
            let ready = |pod: &Pod| {
                condition(pod, "Ready")
                    .map(|ready| (ready.status.clone(), ready.last_transition_time.clone()))
            };
            let (was, is) = (&before.metadata, &now.metadata);
            was.uid != is.uid
                || was.labels != is.labels
                || was.owner_references != is.owner_references
                || was.deletion_timestamp != is.deletion_timestamp
                || phase(before) != phase(now)
                || ready(before) != ready(now)
        }
    }
}

/// Asks for a look at each object of a kind that comes, changes or goes.
pub(crate) fn each_change<K: Kind>(objects: &Informer<K>, queue: &Arc<Queue>) {
    let queue = Arc::clone(queue);
    objects.on_change(move |change| queue.add(ObjectKey::of(&**change.object())));
}

/// [`add_owners`] for each change of a kind.
pub(crate) fn owners_of_each_change<O: Kind, K: Kind>(
    objects: &Informer<K>,
    owners: &Informer<O>,
    queue: &Arc<Queue>,
    chooses: impl Fn(&O, &K) -> bool + Send + Sync + 'static,
) {
    let (queue, owners) = (Arc::clone(queue), owners.clone());
    objects.on_change(move |change| add_owners(&queue, change, &owners, &chooses));
}

/// Asks for a look at the controllers of kind `O` of an object before and after a change. When nobody controls it, those that choose
/// it may want it, or have waited for its name.
pub(crate) fn add_owners<O: Kind, K: Kind>(
    queue: &Queue,
    change: &Change<K>,
    owners: &Informer<O>,
    chooses: impl Fn(&O, &K) -> bool,
) {
    if let Change::Changed { before, now } = change
        && controller_of(before.meta()).map(|owner| &owner.uid)
            != controller_of(now.meta()).map(|owner| &owner.uid)
    {
        add_owner::<O>(queue, before.meta());
    }
    let object = change.object();
    if controller_of(object.meta()).is_some() {
        return add_owner::<O>(queue, object.meta());
    }
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    let choosers: Vec<Arc<O>> = owners.in_namespace(namespace);
    for owner in choosers.iter().filter(|owner| chooses(owner, object)) {
        queue.add(ObjectKey::of(&**owner));
    }
}

fn add_owner<O: Kind>(queue: &Queue, meta: &ObjectMeta) {
    if let Some(key) = controller_key::<O>(meta) {
        queue.add(key);
    }
}

/// Those of a kind whose selectors choose what another of the kind makes: both would take the same pods that nobody controls.
pub(crate) fn rivals<K: Kind>(
    of: &K,
    others: &[Arc<K>],
    chooses_its_pods: impl Fn(&K) -> bool,
) -> Vec<String> {
    let rivals = others.iter().filter(|other| {
        other.meta().uid != of.meta().uid && controller_of(other.meta()).is_none() && chooses_its_pods(other)
    });
    rivals.filter_map(|other| other.meta().name.clone()).collect()
}

/// What is said of rivals.
pub(crate) fn rivals_message(kind: &str, rivals: &[String]) -> String {
    format!(
        "Its pods also fit the selector of {kind} {}: each keeps its own, and of pods that nobody controls whoever comes first",
        rivals.join(", ")
    )
}
