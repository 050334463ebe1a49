//! Tables of manifests and what their containers get.

mod findings;
mod hostile;
mod states;
mod vectors;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value as Json, json};

use crate::{
    Availability, ConfigMapSource, Finding, Options, Resolved, Reveal, SecretBytes, SecretSource, Services,
    Sources, containers, resolve,
};

/// A pod with one container `c`.
fn pod_with(container: Json) -> Pod {
    let mut container = container;
    container["name"] = json!("c");
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns1", "uid": "u-1", "labels": {"app": "web"}},
        "spec": {"enableServiceLinks": true, "nodeName": "n1", "containers": [container]},
    });
    serde_json::from_value(pod).expect("a pod")
}

fn pod_with_env(env: Json) -> Pod {
    pod_with(json!({ "env": env }))
}

/// Everything was fetched, and there is nothing.
fn on_node() -> Sources {
    Sources { node_allocatable: Availability::UnknownUntilRun, ..Sources::of_node() }
}

fn config_map(data: &[(&str, &str)]) -> Availability<ConfigMapSource> {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Availability::Present(ConfigMapSource {
        resource_version: Some("7".to_owned()),
        data,
        ..Default::default()
    })
}

fn secret(data: &[(&str, &str)]) -> Availability<SecretSource> {
    let data =
        data.iter().map(|(key, value)| ((*key).to_owned(), SecretBytes::new(value.as_bytes()))).collect();
    Availability::Present(SecretSource { resource_version: Some("8".to_owned()), data })
}

/// Resolves the first container (in the order of [`containers`]).
fn resolved(pod: &Pod, sources: &Sources) -> Resolved {
    resolved_with(pod, sources, &Options::default())
}

fn resolved_with(pod: &Pod, sources: &Sources, options: &Options) -> Resolved {
    let views = containers(pod.spec.as_ref().expect("a spec"));
    resolve(pod, &views[0], sources, options)
}

/// `NAME=display` for each entry.
fn lines(resolved: &Resolved) -> Vec<String> {
    let entries = resolved.resolution.environment.entries();
    entries.iter().map(|entry| format!("{}={}", entry.name, entry.value.display(Reveal::Nothing))).collect()
}

fn errors(resolved: &Resolved) -> Vec<String> {
    resolved.errors.iter().map(|error| format!("{}: {error}", error.field_path)).collect()
}

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code.as_str()).collect()
}

fn complete(services: Json) -> Services {
    Services::Complete(vectors::services(&services))
}
