//! Which ConfigMaps and Secrets a pod is made from: one visitor over all containers and all volumes. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Pod, Volume};

/// A kind of object that pods read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKind {
    /// ConfigMap.
    ConfigMap,
    /// Secret.
    Secret,
}

/// Every ConfigMap and Secret that the pod names, in environments, volumes and pull secrets.
pub(crate) fn referenced_sources(pod: &Pod) -> BTreeSet<(SourceKind, String)> {
    let mut found = BTreeSet::new();
    let Some(spec) = &pod.spec else {
        return found;
    };
    for container in environment::containers(spec) {
        container.env.iter().for_each(|variable| of_variable(variable, &mut found));
        container.env_from.iter().for_each(|source| of_env_from(source, &mut found));
    }
    spec.volumes.iter().flatten().for_each(|volume| of_volume(volume, &mut found));
    for secret in spec.image_pull_secrets.iter().flatten() {
        found.insert((SourceKind::Secret, secret.name.clone()));
    }
    found
}

type Found = BTreeSet<(SourceKind, String)>;

fn of_variable(variable: &EnvVar, found: &mut Found) {
    let Some(source) = &variable.value_from else {
        return;
    };
    if let Some(key) = &source.config_map_key_ref {
        found.insert((SourceKind::ConfigMap, key.name.clone()));
    }
    if let Some(key) = &source.secret_key_ref {
        found.insert((SourceKind::Secret, key.name.clone()));
    }
}

fn of_env_from(source: &EnvFromSource, found: &mut Found) {
    if let Some(config_map) = &source.config_map_ref {
        found.insert((SourceKind::ConfigMap, config_map.name.clone()));
    }
    if let Some(secret) = &source.secret_ref {
        found.insert((SourceKind::Secret, secret.name.clone()));
    }
}

fn of_volume(volume: &Volume, found: &mut Found) {
    if let Some(config_map) = &volume.config_map {
        found.insert((SourceKind::ConfigMap, config_map.name.clone()));
    }
    if let Some(name) = volume.secret.as_ref().and_then(|secret| secret.secret_name.clone()) {
        found.insert((SourceKind::Secret, name));
    }
    let projections = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    for projection in projections {
        if let Some(config_map) = &projection.config_map {
            found.insert((SourceKind::ConfigMap, config_map.name.clone()));
        }
        if let Some(secret) = &projection.secret {
            found.insert((SourceKind::Secret, secret.name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SourceKind, referenced_sources};
    use serde_json::json;

    #[test]
    fn every_list_of_a_pod_is_visited() {
        let pod = serde_json::from_value(json!({"spec": {
            "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "c1"}}, {"secretRef": {"name": "s1"}}]}],
            "containers": [{"name": "a", "env": [
                {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c2", "key": "k"}}},
                {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}}]}],
            "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "s3"}}]}],
            "volumes": [{"name": "v1", "configMap": {"name": "c3"}}, {"name": "v2", "secret": {"secretName": "s4"}},
                {"name": "v3", "projected": {"sources": [{"configMap": {"name": "c4"}}, {"secret": {"name": "s5"}}]}}],
            "imagePullSecrets": [{"name": "s6"}],
        }}))
        .expect("a pod");
        let found = referenced_sources(&pod);
        let names =
            |kind| found.iter().filter(|one| one.0 == kind).map(|one| one.1.as_str()).collect::<Vec<_>>();
        assert_eq!(names(SourceKind::ConfigMap), ["c1", "c2", "c3", "c4"]);
        assert_eq!(names(SourceKind::Secret), ["s1", "s2", "s3", "s4", "s5", "s6"]);
    }
}
