//! The end of a namespace: everything in it is deleted, pods first, and what keeps it is told in its conditions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use serde_json::{Value, json};
use store::{Key, Object, Purpose, Watch, WriteError};

use super::core;
use crate::deletion::{DeleteOptions, Propagation, delete_object};
use crate::kinds::Kind;
use crate::object::{self, encode, list, map_mut, text, tree};
use crate::server::Server;
use crate::status::ApiError;
use crate::strategy::namespace::FINALIZER;
use crate::timestamps::now_text;
use crate::writing::{Write, may_go};

/// When it is tried again after a deletion failed.
const AGAIN: Duration = Duration::from_secs(5);

/// Starts the task that empties a namespace and then removes it.
pub(crate) fn spawn_drain(server: &Arc<Server>, name: &str) {
    let closing = server.closing().clone();
    let (server, name) = (server.clone(), name.to_owned());
    tokio::spawn(async move {
        tokio::select! {
            outcome = drain(&server, &name) => {
                if let Err(error) = outcome {
                    tracing::error!(namespace = name, %error, "a namespace cannot be emptied");
                }
            }
            () = closing.cancelled() => {}
        }
    });
}

/// What is still in a namespace after everything was deleted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// How many objects, by `RESOURCE.GROUP`.
    objects: BTreeMap<String, usize>,
    /// How many objects, by the finalizer that keeps them.
    finalizers: BTreeMap<String, usize>,
    /// Why deletions failed.
    failures: Vec<String>,
}

impl Left {
    fn note(&mut self, kind: &Kind, objects: &[Arc<Object>]) {
        if objects.is_empty() {
            return;
        }
        // Core resources end in the dot, as upstream has it.
        let name = format!("{}.{}", kind.plural(), kind.group());
        *self.objects.entry(name).or_default() += objects.len();
        for object in objects {
            for finalizer in list(&tree(object), &["metadata", "finalizers"]) {
                let finalizer = finalizer.as_str().unwrap_or_default().to_owned();
                *self.finalizers.entry(finalizer).or_default() += 1;
            }
        }
    }
}

async fn drain(server: &Arc<Server>, name: &str) -> Result<(), ApiError> {
    loop {
        // Watches first: what happens while the content is being deleted wakes the loop again.
        let revision = server.store.revision();
        let kinds = || server.kinds.stored().filter(|kind| kind.namespaced());
        let mut watches: Vec<Watch> = kinds()
            .filter_map(|kind| server.store.watch(kind.collection(), Some(name), revision).ok())
            .collect();
        let mut left = Left::default();
        // What pods use stays until they are gone.
        let is_pods = |kind: &Kind| (kind.group(), kind.plural()) == ("", "pods");
        for kind in kinds().filter(|kind| is_pods(kind)) {
            empty(server, kind, name, &mut left).await?;
        }
        let waits_for_pods = !left.objects.is_empty();
        for kind in kinds().filter(|kind| !is_pods(kind)) {
            if waits_for_pods {
                left.note(kind, &stored(server, kind, name)?);
            } else {
                empty(server, kind, name, &mut left).await?;
            }
        }
        if left == Left::default() {
            return finish(server, name).await;
        }
        if !tell(server, name, &left).await? {
            return Ok(());
        }
        let changes = watches.iter_mut().map(|watch| Box::pin(watch.next()));
        let changed = select_all(changes);
        let pause = if left.failures.is_empty() { Duration::MAX } else { AGAIN };
        if let Ok(outcome) = tokio::time::timeout(pause, changed).await {
            match outcome.0.map_err(ApiError::from_read) {
                Ok(Some(_)) | Err(ApiError::Expired { .. }) => {}
                Ok(None) => return Ok(()),
                Err(other) => return Err(other),
            }
        }
    }
}

fn stored(server: &Arc<Server>, kind: &Kind, namespace: &str) -> Result<Vec<Arc<Object>>, ApiError> {
    let listing = server.store.list(kind.collection(), Some(namespace), None, None);
    listing.map(|listing| listing.objects).map_err(ApiError::from_read)
}

/// Deletes the objects of one kind and notes what is still there afterwards.
async fn empty(
    server: &Arc<Server>,
    kind: &Arc<Kind>,
    namespace: &str,
    left: &mut Left,
) -> Result<(), ApiError> {
    let write = Write::of_server(server, kind, namespace);
    // Nothing of the namespace stays, whatever its kinds do by default.
    let options = DeleteOptions::propagating(Propagation::Background);
    for object in stored(server, kind, namespace)? {
        match Box::pin(delete_object(&write, object.key().name(), &options)).await {
            Ok(_) | Err(ApiError::NotFound { .. }) => {}
            Err(error @ ApiError::StorageStopped { .. }) => return Err(error),
            Err(error) => left.failures.push(error.to_string()),
        }
    }
    left.note(kind, &stored(server, kind, namespace)?);
    Ok(())
}

/// Writes the conditions of a namespace; false when it is gone.
async fn tell(server: &Arc<Server>, name: &str, left: &Left) -> Result<bool, ApiError> {
    let kind = core(server, "namespaces")?;
    let key = Key::new(kind.collection(), "", name);
    loop {
        let Some(stored) = server.store.get(&key) else { return Ok(false) };
        let mut namespace = tree(&stored);
        let conditions = conditions(list(&namespace, &["status", "conditions"]), left, &now_text());
        if list(&namespace, &["status", "conditions"]) == conditions {
            return Ok(true);
        }
        map_mut(&mut namespace, "status").insert("conditions".to_owned(), Value::Array(conditions));
        let draft = encode(&namespace);
        match server.store.update(key.clone(), stored.revision(), draft, Purpose::Removal).await {
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Missing { .. }) => return Ok(false),
            Err(error) => return Err(ApiError::from_write(kind, name, error)),
            Ok(_) => return Ok(true),
        }
    }
}

/// The conditions of a namespace that ends, in upstream's words; those that say the same keep their time.
fn conditions(old: &[Value], left: &Left, now: &str) -> Vec<Value> {
    let counted = |counts: &BTreeMap<String, usize>, has: &str, what: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {has} {count} {what}")).collect();
        parts.join(", ")
    };
    let mut failures = left.failures.clone();
    failures.sort();
    let failed =
        format!("Failed to delete all resource types, {} remaining: {}", failures.len(), failures.join(", "));
    let resources = counted(&left.objects, "has", "resource instances");
    let finalizers = counted(&left.finalizers, "in", "resource instances");
    // Type, whether it is so; reason and message of either.
    let table = [
        (
            "NamespaceDeletionDiscoveryFailure",
            false,
            ("", String::new()),
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            ("", String::new()),
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            !failures.is_empty(),
            ("ContentDeletionFailed", failed),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            !left.objects.is_empty(),
            ("SomeResourcesRemain", format!("Some resources are remaining: {resources}")),
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            !left.finalizers.is_empty(),
            (
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {finalizers}"),
            ),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ];
    table
        .into_iter()
        .map(|(kind, is_so, yes, no)| {
            let (status, reason, message) =
                if is_so { ("True", yes.0, yes.1) } else { ("False", no.0, no.1.to_owned()) };
            let since = old
                .iter()
                .find(|one| text(one, &["type"]) == kind && text(one, &["status"]) == status)
                .map_or_else(|| now.to_owned(), |one| text(one, &["lastTransitionTime"]).to_owned());
            json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
        })
        .collect()
}

/// Removes the namespace itself, unless somebody else's finalizers keep it.
async fn finish(server: &Arc<Server>, name: &str) -> Result<(), ApiError> {
    if !tell(server, name, &Left::default()).await? {
        return Ok(());
    }
    let kind = core(server, "namespaces")?;
    let key = Key::new(kind.collection(), "", name);
    loop {
        let Some(stored) = server.store.get(&key) else { return Ok(()) };
        let mut namespace = object::tree(&stored);
        if let Some(finalizers) = namespace.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        let written = if may_go(kind, &namespace) {
            server.store.delete(key.clone(), Some(stored.revision())).await
        } else {
            server.store.update(key.clone(), stored.revision(), encode(&namespace), Purpose::Removal).await
        };
        match written {
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Missing { .. }) | Ok(_) => return Ok(()),
            Err(error) => return Err(ApiError::from_write(kind, name, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_says_what_keeps_it() {
        let left = Left {
            objects: BTreeMap::from([("leases.coordination.k8s.io".to_owned(), 1), ("pods.".to_owned(), 2)]),
            finalizers: BTreeMap::from([("example.com/x".to_owned(), 1)]),
            failures: Vec::new(),
        };
        let first = conditions(&[], &left, "2026-01-01T00:00:00Z");
        let shown: Vec<(&str, &str, &str)> = first
            .iter()
            .map(|one| (text(one, &["status"]), text(one, &["reason"]), text(one, &["message"])))
            .collect();
        assert_eq!(shown[2].1, "ContentDeleted");
        assert_eq!(
            shown[3],
            (
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: leases.coordination.k8s.io has 1 resource instances, pods. has 2 resource instances"
            )
        );
        assert_eq!(
            shown[4],
            (
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances"
            )
        );
        let fewer = Left { objects: BTreeMap::from([("pods.".to_owned(), 1)]), ..Left::default() };
        let second = conditions(&first, &fewer, "2026-01-01T00:00:09Z");
        assert_eq!(second[3]["lastTransitionTime"], "2026-01-01T00:00:00Z", "still so");
        assert_eq!(second[4]["lastTransitionTime"], "2026-01-01T00:00:09Z", "no longer so");
        assert_eq!(conditions(&second, &fewer, "2026-01-01T00:00:20Z"), second);
    }
}
