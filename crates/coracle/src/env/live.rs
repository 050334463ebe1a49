//! What a cluster holds: an object that is to be explained, and the sources that pods refer to. Any Kubernetes cluster will do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use environment::{Availability, ConfigMapSource, SecretSource, ServiceSource};
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use manifest::Node;
use schema::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::workload::kind_has_pods;
use crate::cluster::{Cluster, ClusterError, escaped, tree};
use crate::input::{Input, InputError};

/// An argument `KIND/NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference<'r> {
    /// The kind.
    pub(super) resource: &'static Resource,
    /// The name.
    pub(super) name: &'r str,
}

/// The argument names nothing that has pods.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} names nothing that has containers: write pod/NAME, deployment/NAME, cronjob/NAME, ...")]
pub(super) struct NoReference(String);

impl<'r> Reference<'r> {
    /// Reads `KIND/NAME`; a kind is written as kubectl takes it: `deployment`, `deployments`, `deploy`, `deployment.apps`.
    ///
    /// # Errors
    ///
    /// It is none, or the kind has no pods.
    pub(super) fn parse(argument: &'r str) -> Result<Reference<'r>, NoReference> {
        let no_reference = || NoReference(argument.to_owned());
        let (kind, name) = argument.split_once('/').ok_or_else(no_reference)?;
        // Whatever a name may hold is harmless in a path.
        if names::DnsSubdomain::parse(name).is_err() {
            return Err(no_reference());
        }
        let (kind, group) = kind.split_once('.').map_or((kind, None), |(kind, group)| (kind, Some(group)));
        let kind = kind.to_ascii_lowercase();
        let is_named = |resource: &&'static Resource| {
            kind_has_pods(resource.group, resource.kind)
                && group.is_none_or(|group| group == resource.group)
                && (kind == resource.plural
                    || kind == resource.singular
                    || resource.short_names.contains(&kind.as_str()))
        };
        let resource = schema::resources().iter().find(is_named).ok_or_else(no_reference)?;
        Ok(Reference { resource, name })
    }

    /// Whether it names a pod.
    pub(super) fn is_pod(&self) -> bool {
        self.resource.kind == "Pod"
    }

    fn path(&self, namespace: &str) -> String {
        let root = if self.resource.group.is_empty() { "/api" } else { "/apis" };
        format!(
            "{root}/{}/namespaces/{}/{}/{}",
            self.resource.group_version,
            escaped(namespace),
            self.resource.plural,
            escaped(self.name)
        )
    }
}

/// Why an object of the cluster cannot be explained.
#[derive(Debug, thiserror::Error)]
pub(super) enum ObjectError {
    /// The server refuses or cannot be reached.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// What it gave is no object.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// The object as an input of its own, as `kubectl get -o yaml` would write it, without what its managers own. It is named
/// after the argument, so that findings say which object they are about.
///
/// # Errors
///
/// It is not there, or cannot be read.
pub(super) async fn object(
    cluster: &Cluster,
    reference: &Reference<'_>,
    argument: &str,
) -> Result<Input, ObjectError> {
    let answer = cluster
        .call(Method::GET, &reference.path(&cluster.namespace), "application/json", Vec::new())
        .await?;
    let mut root = tree(&answer.accepted(argument)?.bytes, argument)?;
    if let Some(entries) = root.get_mut("metadata").and_then(Node::entries_mut) {
        entries.retain(|entry| entry.key != "managedFields");
    }
    Ok(Input::of_text(argument, manifest::to_yaml(&root).into_bytes())?)
}

/// What pods of one namespace refer to, besides what the input holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// ConfigMaps by name.
    pub(super) config_maps: BTreeSet<String>,
    /// Secrets by name.
    pub(super) secrets: BTreeSet<String>,
    /// Whether a pod gets variables of the namespace's services.
    pub(super) services: bool,
}

/// What the cluster has of it.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Per namespace.
    pub(super) namespaces: BTreeMap<String, FetchedNamespace>,
    /// What could not be read, for people.
    pub(super) notes: Vec<String>,
}

/// Sources of one namespace.
#[derive(Debug, Default)]
pub(super) struct FetchedNamespace {
    pub(super) config_maps: BTreeMap<String, Availability<ConfigMapSource>>,
    pub(super) secrets: BTreeMap<String, Availability<SecretSource>>,
    /// All services that pods of the namespace get variables of; nothing when they could not be read.
    pub(super) services: Option<Vec<Arc<ServiceSource>>>,
}

/// Fetches what is wanted. What the user may not read stays unknown, with a note.
///
/// # Errors
///
/// The server cannot be reached, or answers what makes no sense.
pub(super) async fn fetch(
    cluster: &Cluster,
    wanted: BTreeMap<String, Wanted>,
) -> Result<Fetched, ClusterError> {
    let mut fetched = Fetched::default();
    for (namespace, wanted) in wanted {
        let mut found = FetchedNamespace::default();
        for name in wanted.config_maps {
            let source =
                one::<ConfigMap>(cluster, &namespace, "configmaps", &name, &mut fetched.notes).await?;
            found.config_maps.insert(name, source.map(|config_map| ConfigMapSource::from(&config_map)));
        }
        for name in wanted.secrets {
            let source = one::<Secret>(cluster, &namespace, "secrets", &name, &mut fetched.notes).await?;
            found.secrets.insert(name, source.map(|secret| SecretSource::from(&secret)));
        }
        if wanted.services {
            found.services = services(cluster, &namespace, &mut fetched.notes).await?;
        }
        fetched.namespaces.insert(namespace, found);
    }
    Ok(fetched)
}

async fn one<T: DeserializeOwned>(
    cluster: &Cluster,
    namespace: &str,
    plural: &str,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<Availability<T>, ClusterError> {
    // A name that no object can have is not asked for.
    if names::DnsSubdomain::parse(name).is_err() {
        return Ok(Availability::Absent);
    }
    let what = format!("{plural} {namespace}/{name}");
    let path = format!("/api/v1/namespaces/{}/{plural}/{}", escaped(namespace), escaped(name));
    match cluster.get(&path, &what).await {
        Ok(None) => Ok(Availability::Absent),
        Ok(Some(value)) => read(value, &what).map(Availability::Present),
        Err(error) if error.is_refusal() => {
            notes.push(error.to_string());
            Ok(Availability::NotInInput)
        }
        Err(error) => Err(error),
    }
}

/// The services of a namespace and `default/kubernetes`, which every pod gets.
async fn services(
    cluster: &Cluster,
    namespace: &str,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<Arc<ServiceSource>>>, ClusterError> {
    let path = format!("/api/v1/namespaces/{}/services", escaped(namespace));
    let mut values = match cluster.list(&path, "").await {
        Ok(values) => values,
        Err(error) if error.is_refusal() => {
            notes.push(error.to_string());
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if namespace != "default" {
        let kubernetes =
            cluster.get("/api/v1/namespaces/default/services/kubernetes", "service default/kubernetes");
        match kubernetes.await {
            Ok(found) => values.extend(found),
            Err(error) if error.is_refusal() => notes.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    let services = values.into_iter().map(|value| read::<Service>(value, &path));
    let services: Vec<Service> = services.collect::<Result<_, _>>()?;
    Ok(Some(services.iter().map(|service| Arc::new(ServiceSource::from_live(service))).collect()))
}

fn read<T: DeserializeOwned>(value: Value, what: &str) -> Result<T, ClusterError> {
    // The cause of the error could quote a value of a Secret.
    serde_json::from_value(value).map_err(|_| ClusterError::Unexpected {
        what: what.to_owned(),
        message: "it is not what its kind says".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::Reference;

    #[test]
    fn kinds_are_named_as_kubectl_takes_them() {
        for (argument, path) in [
            ("pod/web", "/api/v1/namespaces/shop/pods/web"),
            ("po/web", "/api/v1/namespaces/shop/pods/web"),
            ("deployment/web", "/apis/apps/v1/namespaces/shop/deployments/web"),
            ("Deployments.apps/web", "/apis/apps/v1/namespaces/shop/deployments/web"),
            ("sts/db", "/apis/apps/v1/namespaces/shop/statefulsets/db"),
            ("cj/nightly", "/apis/batch/v1/namespaces/shop/cronjobs/nightly"),
            ("rc/old", "/api/v1/namespaces/shop/replicationcontrollers/old"),
        ] {
            let found = Reference::parse(argument).expect(argument);
            assert_eq!(found.path("shop"), path);
            assert_eq!(found.is_pod(), argument.starts_with("po"));
        }
        for argument in ["web", "service/web", "pod/", "pod/a/b", "pod/../x", "deployment.batch/x", "/x"] {
            assert!(Reference::parse(argument).is_err(), "{argument}");
        }
    }
}
