//! The table of kinds that are served. A kind is an entry here and a strategy file; everything else is generic.

use std::collections::BTreeMap;
use std::sync::Arc;

use schema::{Resource, Type};
use store::Collection;

use crate::strategy::{
    Strategy, config_map, event, lease, namespace, node, pod, secret, service, service_account,
};

/// One resource that is served.
pub(crate) struct Kind {
    resource: &'static Resource,
    ty: Type,
    collection: Collection,
    strategy: &'static dyn Strategy,
    list_kind: String,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kind({} {})", self.resource.group_version, self.resource.kind)
    }
}

impl Kind {
    pub(crate) fn resource(&self) -> &'static Resource {
        self.resource
    }

    pub(crate) fn group(&self) -> &'static str {
        self.resource.group
    }

    /// `v1`, `coordination.k8s.io/v1`.
    pub(crate) fn group_version(&self) -> &'static str {
        self.resource.group_version
    }

    pub(crate) fn plural(&self) -> &'static str {
        self.resource.plural
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.resource.kind
    }

    pub(crate) fn list_kind(&self) -> &str {
        &self.list_kind
    }

    pub(crate) fn namespaced(&self) -> bool {
        self.resource.namespaced
    }

    pub(crate) fn ty(&self) -> Type {
        self.ty
    }

    pub(crate) fn collection(&self) -> &Collection {
        &self.collection
    }

    pub(crate) fn strategy(&self) -> &'static dyn Strategy {
        self.strategy
    }

    /// The subresources that are served.
    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.strategy.subresources().contains(&name)
    }
}

/// Every kind that is served, in the order of discovery.
#[derive(Debug)]
pub(crate) struct KindTable {
    kinds: Vec<Arc<Kind>>,
    by_path: BTreeMap<(String, String, String), usize>,
}

/// A kind that is to be served but that the schema does not know: a mistake in this file.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the schema has no resource {group_version}/{plural}")]
pub struct UnknownKind {
    /// Group and version.
    pub group_version: &'static str,
    /// Plural name.
    pub plural: &'static str,
}

const SERVED: [(&str, &str, &str, &dyn Strategy); 9] = [
    ("", "v1", "configmaps", &config_map::ConfigMaps),
    ("", "v1", "events", &event::Events),
    ("", "v1", "namespaces", &namespace::Namespaces),
    ("", "v1", "nodes", &node::Nodes),
    ("", "v1", "pods", &pod::Pods),
    ("", "v1", "secrets", &secret::Secrets),
    ("", "v1", "serviceaccounts", &service_account::ServiceAccounts),
    ("", "v1", "services", &service::Services),
    ("coordination.k8s.io", "v1", "leases", &lease::Leases),
];

impl KindTable {
    /// The table of this program.
    pub(crate) fn builtin() -> Result<KindTable, UnknownKind> {
        let mut table = KindTable { kinds: Vec::new(), by_path: BTreeMap::new() };
        for (group, version, plural, strategy) in SERVED {
            let unknown =
                || UnknownKind { group_version: if group.is_empty() { version } else { group }, plural };
            let resource = schema::resource(group, version, plural).ok_or_else(unknown)?;
            let ty = schema::builtin().type_for(resource.group_version, resource.kind).ok_or_else(unknown)?;
            let kind = Kind {
                resource,
                ty,
                collection: Collection::new(group, plural),
                strategy,
                list_kind: format!("{}List", resource.kind),
            };
            table
                .by_path
                .insert((group.to_owned(), version.to_owned(), plural.to_owned()), table.kinds.len());
            table.kinds.push(Arc::new(kind));
        }
        Ok(table)
    }

    /// The kind that a path names.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let index = self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))?;
        self.kinds.get(*index)
    }

    /// A kind of the core group that this program serves itself.
    pub(crate) fn core(&self, plural: &str) -> Option<&Arc<Kind>> {
        self.find("", "v1", plural)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter()
    }
}
