//! What hooks and exec probes see of their container's environment: the variables that they get besides it, references to it,
//! and the values that must not show in what is told of them.

use cri::v1;
use k8s_openapi::api::core::v1::{Container, Pod, Secret};
use kube::Api;
use lifecycle::{HookKey, HookReason};

use crate::agent::Agent;
use crate::environment_record::RecordedVariable;
use crate::hook_log::SecretValues;

/// Bytes of one expanded text; a longer one cannot be executed.
const TEXT: usize = 131_071;

/// Replaces references in a text by recorded variables. Others stay, as does a text that would be too long.
pub(crate) fn expand(text: &str, variables: &[RecordedVariable]) -> String {
    let lookup = |name: &str| {
        variables.iter().find(|variable| variable.name == name).map(|variable| variable.value.as_str())
    };
    expansion::expand(text, lookup, TEXT)
        .map_or_else(|_| text.to_owned(), |expanded| expanded.value.into_owned())
}

/// The variables of a hook besides its container's own. A variable of that name that the container has stays.
pub(crate) fn hook_variables(
    key: &HookKey,
    delivery: u32,
    reason: Option<HookReason>,
    variables: &[RecordedVariable],
) -> Vec<v1::KeyValue> {
    let mut own = vec![("HOOK_NAME", key.kind.as_str().to_owned()), ("HOOK_ATTEMPT", delivery.to_string())];
    own.extend(reason.map(|reason| ("HOOK_REASON", reason.as_str().to_owned())));
    own.into_iter()
        .filter(|(name, _)| !variables.iter().any(|variable| variable.name == *name))
        .map(|(name, value)| v1::KeyValue { key: name.to_owned(), value })
        .collect()
}

/// The values that a container's Secrets give it, in variables and in files.
pub(crate) async fn secret_values(
    agent: &Agent,
    pod: &Pod,
    container: &Container,
    variables: &[RecordedVariable],
) -> SecretValues {
    let mut values = SecretValues::of(variables);
    let secrets: Api<Secret> =
        Api::namespaced(agent.client.clone(), pod.metadata.namespace.as_deref().unwrap_or("default"));
    for name in mounted_secrets(pod, container) {
        // Without an API server its files may show; they never show in an event.
        if let Ok(Some(secret)) = secrets.get_opt(&name).await {
            for value in secret.data.into_iter().flatten().map(|(_, value)| value.0) {
                values.add(&String::from_utf8_lossy(&value));
            }
        }
    }
    let dirs = agent.config.pod_dirs(pod.metadata.uid.as_deref().unwrap_or_default());
    for (volume, path) in mounted_tokens(pod, container) {
        // Written by the node; no container can write there.
        if let Ok(token) = std::fs::read_to_string(dirs.volume(&volume).join(path)) {
            values.add(&token);
        }
    }
    values
}

/// Volumes and paths of the service account tokens that a container has as files.
fn mounted_tokens(pod: &Pod, container: &Container) -> Vec<(String, String)> {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter(|volume| mounts.iter().any(|mount| mount.name == volume.name))
        .flat_map(|volume| {
            let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
            sources.filter_map(|source| {
                let path = source.service_account_token.as_ref()?.path.clone();
                Some((volume.name.clone(), path))
            })
        })
        .collect()
}

/// Names of the Secrets that a container has as files.
fn mounted_secrets(pod: &Pod, container: &Container) -> Vec<String> {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut names = Vec::new();
    for volume in volumes.filter(|volume| mounts.iter().any(|mount| mount.name == volume.name)) {
        names.extend(volume.secret.as_ref().and_then(|secret| secret.secret_name.clone()));
        let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        names.extend(projected.filter_map(|source| Some(source.secret.as_ref()?.name.clone())));
    }
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::{expand, hook_variables, mounted_secrets};
    use crate::environment_record::RecordedVariable;
    use lifecycle::{HookKey, HookKind, HookReason};
    use serde_json::json;

    fn variable(name: &str, value: &str) -> RecordedVariable {
        RecordedVariable { name: name.to_owned(), value: value.to_owned(), secret: false }
    }

    #[test]
    fn references_are_replaced_by_what_the_container_got() {
        let variables = [variable("A", "1"), variable("B", "$(A)")];
        assert_eq!(expand("$(A) $(B) $(C) $$(A)", &variables), "1 $(A) $(C) $(A)");
        let long = [variable("A", &"x".repeat(100_000))];
        assert_eq!(expand("$(A)$(A)", &long), "$(A)$(A)");
    }

    #[test]
    fn a_variable_that_the_user_set_stays() {
        let key = HookKey { container: "c".to_owned(), attempt: 0, kind: HookKind::PreStop };
        let names = |variables: &[RecordedVariable]| -> Vec<String> {
            hook_variables(&key, 2, Some(HookReason::Delete), variables)
                .into_iter()
                .map(|variable| format!("{}={}", variable.key, variable.value))
                .collect()
        };
        assert_eq!(names(&[]), ["HOOK_NAME=preStop", "HOOK_ATTEMPT=2", "HOOK_REASON=Delete"]);
        assert_eq!(names(&[variable("HOOK_REASON", "mine")]), ["HOOK_NAME=preStop", "HOOK_ATTEMPT=2"]);
    }

    #[test]
    fn secrets_that_a_container_mounts_are_known_and_others_are_not_asked_for() {
        let pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "volumes": [
            {"name": "a", "secret": {"secretName": "one"}}, {"name": "b", "secret": {"secretName": "two"}},
            {"name": "c", "projected": {"sources": [{"secret": {"name": "three"}}, {"configMap": {"name": "no"}}]}},
        ]}}))
        .expect("a pod");
        let container = serde_json::from_value(json!({"name": "x", "volumeMounts": [
            {"name": "a", "mountPath": "/a"}, {"name": "c", "mountPath": "/c"}]}))
        .expect("a container");
        assert_eq!(mounted_secrets(&pod, &container), ["one", "three"]);
    }

    #[test]
    fn tokens_that_a_container_mounts_are_as_secret_as_secrets() {
        let projected = |path: &str| json!({"sources": [{"serviceAccountToken": {"path": path}}]});
        let pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "volumes": [
            {"name": "a", "projected": projected("token")}, {"name": "b", "projected": projected("other")},
        ]}}))
        .expect("a pod");
        let container =
            serde_json::from_value(json!({"name": "x", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}))
                .expect("a container");
        assert_eq!(super::mounted_tokens(&pod, &container), [("a".to_owned(), "token".to_owned())]);
    }
}
