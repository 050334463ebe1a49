//! Stored objects as trees, for decisions about others.

use std::sync::Arc;

use serde_json::Value;
use store::Key;

use crate::object::{self, text};
use crate::server::Server;

/// Every object of a kind of version `v1`, or of one of its namespaces; none where the kind is not served.
pub(crate) fn objects(
    server: &Arc<Server>,
    group: &str,
    plural: &str,
    namespace: Option<&str>,
) -> Vec<Value> {
    let Some(kind) = server.kinds.find(group, "v1", plural) else { return Vec::new() };
    let listed = server.store.list(kind.collection(), namespace, None, None);
    listed.map(|listing| listing.objects.iter().map(|one| object::tree(one)).collect()).unwrap_or_default()
}

/// One object of a kind of version `v1`; the namespace is empty for objects of the whole cluster.
pub(crate) fn find(
    server: &Arc<Server>,
    group: &str,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Option<Value> {
    let kind = server.kinds.find(group, "v1", plural)?;
    server.store.get(&Key::new(kind.collection(), namespace, name)).map(|found| object::tree(&found))
}

/// The name of the newest object that an annotation marks as the default of its kind; of those of one moment the first by
/// name.
pub(crate) fn newest_default(objects: &[Value], annotation: &str) -> Option<String> {
    objects
        .iter()
        .filter(|one| text(one, &["metadata", "annotations", annotation]) == "true")
        .max_by_key(|one| {
            (text(one, &["metadata", "creationTimestamp"]), std::cmp::Reverse(object::name(one)))
        })
        .map(|one| object::name(one).to_owned())
}
