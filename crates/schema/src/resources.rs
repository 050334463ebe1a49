//! The resource table: what discovery says about each built-in resource, and the columns that `kubectl get` prints.

use std::sync::OnceLock;

use crate::table;

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
    static RESOURCES: OnceLock<Vec<Resource>> = OnceLock::new();
    RESOURCES.get_or_init(read_resources)
}

fn read_resources() -> Vec<Resource> {
    let mut resources: Vec<Resource> = Vec::new();
    for row in table::resource_rows() {
        let name = table::string(row[3]);
        let (group, version) = (table::string(row[10]), table::string(row[11]));
        let verbs = table::list(row[9]).collect();
        let Some((parent, subresource)) = name.split_once('/') else {
            resources.push(Resource {
                group: table::string(row[0]),
                version: table::string(row[1]),
                group_version: table::string(row[2]),
                plural: name,
                singular: table::string(row[4]),
                kind: table::string(row[5]),
                namespaced: row[6] == 1,
                short_names: table::list(row[7]).collect(),
                categories: table::list(row[8]).collect(),
                verbs,
                subresources: Vec::new(),
            });
            continue;
        };
        let owner = resources.iter_mut().rev().find(|entry| entry.plural == parent);
        if let Some(owner) = owner {
            owner.subresources.push(Subresource {
                name: subresource,
                kind: table::string(row[5]),
                group,
                version,
                verbs,
            });
        }
    }
    resources
}

/// Every API group with its versions, the core group first.
#[must_use]
pub fn groups() -> &'static [Group] {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        table::group_rows()
            .map(|row| Group { name: table::string(row[0]), versions: table::list(row[1]).collect() })
            .collect()
    })
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
pub fn table_columns(group_version: &str, plural: &str) -> Vec<Column> {
    let wanted = (group_version, plural);
    table::column_rows()
        .filter(|row| table::string(row[0]).rsplit_once('/') == Some(wanted))
        .map(|row| Column {
            name: table::string(row[1]),
            kind: table::string(row[2]),
            format: table::string(row[3]),
            priority: i32::from(row[4]),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{groups, resource, resources, table_columns};

    #[test]
    fn pods_have_their_names_verbs_and_subresources() {
        let pods = resource("", "v1", "pods").expect("pods are built in");
        assert_eq!((pods.kind, pods.singular, pods.namespaced), ("Pod", "pod", true));
        assert_eq!(pods.short_names, ["po"]);
        assert_eq!(pods.categories, ["all"]);
        assert!(pods.verbs.contains(&"deletecollection"));
        let names: Vec<_> = pods.subresources.iter().map(|entry| entry.name).collect();
        for name in
            ["attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "status"]
        {
            assert!(names.contains(&name), "{name} is missing in {names:?}");
        }
        let eviction = pods.subresources.iter().find(|entry| entry.name == "eviction").expect("listed");
        assert_eq!((eviction.kind, eviction.group, eviction.version), ("Eviction", "policy", "v1"));
    }

    #[test]
    fn every_resource_has_a_type_or_is_known_to_lack_one() {
        let missing: Vec<_> = resources()
            .iter()
            .filter(|entry| crate::builtin().type_for(entry.group_version, entry.kind).is_none())
            .map(|entry| (entry.group_version, entry.kind))
            .collect();
        assert!(
            missing.iter().all(|entry| entry.0 == "resource.k8s.io/v1"
                || entry.1 == "ServiceCIDR"
                || entry.1 == "IPAddress"),
            "{missing:?}"
        );
    }

    #[test]
    fn the_core_group_comes_first_and_preferred_versions_lead() {
        assert_eq!(groups()[0].name, "");
        let autoscaling = groups().iter().find(|group| group.name == "autoscaling").expect("listed");
        assert_eq!(autoscaling.versions, ["v2", "v1"]);
    }

    #[test]
    fn columns_are_those_of_kubectl_get() {
        let columns = table_columns("v1", "pods");
        let names: Vec<_> =
            columns.iter().filter(|column| column.priority == 0).map(|column| column.name).collect();
        assert_eq!(names, ["Name", "Ready", "Status", "Restarts", "Age"]);
        assert_eq!(columns[0].format, "name");
        assert!(table_columns("v1", "bindings").is_empty());
    }
}
