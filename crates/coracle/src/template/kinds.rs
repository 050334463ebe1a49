//! Which collection an object lives in, and which collections there are: from our table of built-in kinds, else from the
//! API server's own discovery.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cluster::{Cluster, ClusterError, escaped};

/// A kind as an API server serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServedKind {
    /// `v1`, `apps/v1`.
    pub(super) group_version: String,
    /// `Service`.
    pub(super) kind: String,
    /// `services`.
    pub(super) plural: String,
    /// Whether its objects live in namespaces.
    pub(super) is_namespaced: bool,
}

impl ServedKind {
    /// The path of its collection.
    pub(super) fn collection(&self, namespace: &str) -> String {
        let root = if self.group_version.contains('/') { "apis" } else { "api" };
        let group_version: Vec<String> = self.group_version.split('/').map(escaped).collect();
        let group_version = group_version.join("/");
        if self.is_namespaced {
            format!("/{root}/{group_version}/namespaces/{}/{}", escaped(namespace), escaped(&self.plural))
        } else {
            format!("/{root}/{group_version}/{}", escaped(&self.plural))
        }
    }

    /// `service`, `deployment.apps`.
    pub(super) fn shown(&self) -> String {
        let kind = self.kind.to_lowercase();
        match self.group_version.split_once('/') {
            Some((group, _)) => format!("{kind}.{group}"),
            None => kind,
        }
    }
}

/// The kinds that have been asked for.
#[derive(Default)]
pub(super) struct Kinds {
    served: BTreeMap<String, Vec<ServedKind>>,
}

impl Kinds {
    /// The kind of an object.
    ///
    /// # Errors
    ///
    /// The server does not have it, or cannot be asked.
    pub(super) async fn find(
        &mut self,
        cluster: &Cluster,
        api_version: &str,
        kind: &str,
    ) -> Result<ServedKind, ClusterError> {
        if let Some(builtin) = builtin(api_version, kind) {
            return Ok(builtin);
        }
        if !self.served.contains_key(api_version) {
            let served = served(cluster, api_version).await?;
            self.served.insert(api_version.to_owned(), served);
        }
        let found = self.served[api_version].iter().find(|each| each.kind == kind);
        found.cloned().ok_or_else(|| ClusterError::NoKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }
}

/// A kind of our table.
pub(super) fn builtin(api_version: &str, kind: &str) -> Option<ServedKind> {
    let is_it = |entry: &&schema::Resource| entry.group_version == api_version && entry.kind == kind;
    // `bindings` and `processedtemplates` have kinds of other collections.
    let is_stored = |entry: &&schema::Resource| entry.verbs.contains(&"get");
    let entry = schema::resources().iter().find(|entry| is_it(entry) && is_stored(entry))?;
    Some(ServedKind {
        group_version: entry.group_version.to_owned(),
        kind: entry.kind.to_owned(),
        plural: entry.plural.to_owned(),
        is_namespaced: entry.namespaced,
    })
}

/// What is never a part of an application by itself: what the cluster makes of other objects.
const DERIVED: [&str; 3] = ["Event", "Endpoints", "EndpointSlice"];

/// Every kind whose objects live in namespaces and can be listed and deleted.
///
/// # Errors
///
/// The server cannot be asked.
pub(super) async fn namespaced(cluster: &Cluster) -> Result<Vec<ServedKind>, ClusterError> {
    let mut versions = vec!["v1".to_owned()];
    let groups = cluster.get("/apis", "the groups of the API").await?.unwrap_or_default();
    for group in groups["groups"].as_array().into_iter().flatten() {
        versions.extend(
            group.pointer("/preferredVersion/groupVersion").and_then(Value::as_str).map(str::to_owned),
        );
    }
    let mut kinds: Vec<ServedKind> = Vec::new();
    for version in versions {
        let found = served(cluster, &version).await?;
        kinds.extend(
            found.into_iter().filter(|kind| kind.is_namespaced && !DERIVED.contains(&kind.kind.as_str())),
        );
    }
    Ok(kinds)
}

async fn served(cluster: &Cluster, group_version: &str) -> Result<Vec<ServedKind>, ClusterError> {
    let path = match group_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", escaped(group), escaped(version)),
        None => format!("/api/{}", escaped(group_version)),
    };
    let list = cluster.get(&path, "the kinds of the API").await?.unwrap_or_default();
    let resources = list["resources"].as_array().cloned().unwrap_or_default();
    Ok(resources.iter().filter_map(|resource| of_discovery(group_version, resource)).collect())
}

fn of_discovery(group_version: &str, resource: &Value) -> Option<ServedKind> {
    let plural = resource["name"].as_str().filter(|name| !name.contains('/'))?;
    let has =
        |verb: &str| resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|each| each == verb));
    let is_harmless = |name: &str| !name.contains(|each: char| each.is_control());
    let kind = resource["kind"].as_str().unwrap_or_default();
    if !is_harmless(plural) || !is_harmless(kind) || !is_harmless(group_version) {
        return None;
    }
    (has("list") && has("delete") && has("create")).then(|| ServedKind {
        group_version: group_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        is_namespaced: resource["namespaced"] == true,
    })
}

/// The kind that a word of the command line means: `po`, `pods`, `pod`, `Pod`.
pub(super) fn kind_of_word(word: &str) -> String {
    let lower = word.to_lowercase();
    let is_meant = |entry: &&schema::Resource| {
        entry.plural == lower
            || entry.singular == lower
            || entry.kind.to_lowercase() == lower
            || entry.short_names.contains(&lower.as_str())
    };
    schema::resources().iter().find(is_meant).map_or_else(|| word.to_owned(), |entry| entry.kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_in_its_collection() {
        let path = |api_version, kind| builtin(api_version, kind).map(|kind| kind.collection("n"));
        assert_eq!(path("v1", "Pod").as_deref(), Some("/api/v1/namespaces/n/pods"));
        assert_eq!(path("apps/v1", "Deployment").as_deref(), Some("/apis/apps/v1/namespaces/n/deployments"));
        assert_eq!(path("v1", "Namespace").as_deref(), Some("/api/v1/namespaces"));
        assert_eq!(
            path("template.coracle.dev/v1", "Template").as_deref(),
            Some("/apis/template.coracle.dev/v1/namespaces/n/templates")
        );
        assert_eq!(path("example.com/v1", "Thing"), None);
        assert_eq!(
            builtin("apps/v1", "Deployment").map(|kind| kind.shown()).as_deref(),
            Some("deployment.apps")
        );
    }

    #[test]
    fn words_for_kinds_are_those_of_kubectl() {
        for (word, kind) in
            [("po", "Pod"), ("svc", "Service"), ("configmaps", "ConfigMap"), ("Thing", "Thing")]
        {
            assert_eq!(kind_of_word(word), kind);
        }
    }
}
