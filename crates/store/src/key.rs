//! How objects are addressed: typed parts that are never joined into a path, so that no name can reach another object.

use std::fmt;
use std::sync::Arc;

/// All objects of one resource, whatever the API version that they are read in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection {
    group: Arc<str>,
    resource: Arc<str>,
}

impl Collection {
    /// Names a collection by API group (empty for the core group) and plural resource name.
    pub fn new(group: &str, resource: &str) -> Collection {
        Collection { group: Arc::from(group), resource: Arc::from(resource) }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The plural resource name, such as `pods`.
    pub fn resource(&self) -> &str {
        &self.resource
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// One object of a collection. Ordered by collection, then namespace, then name, each by bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    collection: Collection,
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Key {
    /// A key; `namespace` is empty for objects of the whole cluster.
    pub fn new(collection: &Collection, namespace: &str, name: &str) -> Key {
        Key { collection: collection.clone(), namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    /// The collection that the object belongs to.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// The namespace; empty for objects of the whole cluster.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn place(&self) -> Place {
        Place { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.collection, self.name)?;
        if !self.namespace.is_empty() {
            write!(f, " in namespace \"{}\"", self.namespace)?;
        }
        Ok(())
    }
}

/// Where an object stands inside its collection; the order of lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}
