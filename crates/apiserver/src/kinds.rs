//! The table of kinds that are served. A kind is an entry here and a strategy file; everything else is generic.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use schema::{Resource, Type};
use store::Collection;

use crate::strategy::{
    Strategy, config_map, event, lease, namespace, node, pod, secret, service, service_account, template,
};

/// One resource that is served.
pub(crate) struct Kind {
    resource: &'static Resource,
    /// What its objects are in the store; differs from `resource` for a second path to the same objects.
    stored: &'static Resource,
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

    /// Whether this is a second path to objects that are another kind's, which discovery does not name.
    pub(crate) fn is_alias(&self) -> bool {
        self.resource.group != self.stored.group
    }

    /// The `apiVersion` that its objects have in the store.
    pub(crate) fn stored_group_version(&self) -> &'static str {
        self.stored.group_version
    }

    /// The bytes of a stored object as this path shows it.
    pub(crate) fn shown_bytes(&self, stored: &Bytes) -> Bytes {
        if !self.is_alias() {
            return stored.clone();
        }
        // `object::encode` writes the type first.
        let head = |version: &str| format!("{{\"kind\":\"{}\",\"apiVersion\":\"{version}\",", self.kind());
        let Some(rest) = stored.strip_prefix(head(self.stored.group_version).as_bytes()) else {
            return stored.clone();
        };
        let mut bytes = BytesMut::from(head(self.resource.group_version).as_bytes());
        bytes.extend_from_slice(rest);
        bytes.freeze()
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

const SERVED: &[(&str, &str, &str, &dyn Strategy)] = &[
    ("", "v1", "configmaps", &config_map::ConfigMaps),
    ("", "v1", "events", &event::Events),
    ("", "v1", "namespaces", &namespace::Namespaces),
    ("", "v1", "nodes", &node::Nodes),
    ("", "v1", "pods", &pod::Pods),
    ("", "v1", "secrets", &secret::Secrets),
    ("", "v1", "serviceaccounts", &service_account::ServiceAccounts),
    ("", "v1", "services", &service::Services),
    ("coordination.k8s.io", "v1", "leases", &lease::Leases),
    // In this order: for clients the last resource of a kind is the kind's own.
    ("template.coracle.dev", "v1", "processedtemplates", &template::ProcessedTemplates),
    ("template.coracle.dev", "v1", "templates", &template::Templates),
];

/// Second paths: group, version, plural, and the group under which the objects are stored. The paths of the template
/// proposal are the core group's; discovery names one group only, so that `kubectl get templates` is not ambiguous.
const ALIASES: &[(&str, &str, &str, &str)] = &[
    ("", "v1", "templates", "template.coracle.dev"),
    ("", "v1", "processedtemplates", "template.coracle.dev"),
];

impl KindTable {
    /// The table of this program.
    pub(crate) fn builtin() -> Result<KindTable, UnknownKind> {
        let mut table = KindTable { kinds: Vec::new(), by_path: BTreeMap::new() };
        for &(group, version, plural, strategy) in SERVED {
            table.add(group, version, plural, group, strategy)?;
        }
        for &(group, version, plural, stored) in ALIASES {
            let unknown = UnknownKind { group_version: stored, plural };
            let strategy = table.find(stored, version, plural).ok_or(unknown)?.strategy;
            table.add(group, version, plural, stored, strategy)?;
        }
        Ok(table)
    }

    fn add(
        &mut self,
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        stored: &str,
        strategy: &'static dyn Strategy,
    ) -> Result<(), UnknownKind> {
        let unknown =
            || UnknownKind { group_version: if group.is_empty() { version } else { group }, plural };
        let resource = schema::resource(group, version, plural).ok_or_else(unknown)?;
        let stored = schema::resource(stored, version, plural).ok_or_else(unknown)?;
        let ty = schema::builtin().type_for(resource.group_version, resource.kind).ok_or_else(unknown)?;
        let kind = Kind {
            resource,
            stored,
            ty,
            collection: Collection::new(stored.group, plural),
            strategy,
            list_kind: format!("{}List", resource.kind),
        };
        self.by_path.insert((group.to_owned(), version.to_owned(), plural.to_owned()), self.kinds.len());
        self.kinds.push(Arc::new(kind));
        Ok(())
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

    /// Every kind once: without second paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter().filter(|kind| !kind.is_alias())
    }
}
