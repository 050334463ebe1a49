//! The record of what each started container got: made from the resolution and from what the runtime says it really gave
//! the process, kept with the pod (0600), read back for whoever asks.

use cri::v1;
use environment::record::{
    ContainerRecord, FindingRecord, OriginRecord, PodRecord, SourceKind, VariableRecord,
};
use environment::{Reveal, RuntimeFacts, Services, Severity, State, compose_process_environment};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use kube::Api;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::agent::Agent;
use crate::container_config::ConfiguredContainer;
use crate::environment_sources::fetch_services;
use crate::files;
use crate::images::PresentImage;
use crate::sandbox;

/// What is kept for one container: the record as everybody may see it, and with the values of Secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptRecord {
    masked: ContainerRecord,
    revealed: ContainerRecord,
}

/// Keeps the record of a container that has just been started. A record that cannot be kept does not stop the container.
pub(crate) async fn save(
    agent: &Agent,
    pod: &Pod,
    container: &Container,
    id: &str,
    image: &PresentImage,
    configured: ConfiguredContainer,
) {
    let actual = process_environment(agent, id).await;
    let Some(kept) = compose(agent, pod, container, image, &configured, actual.as_deref()) else {
        return;
    };
    let dirs = agent.config.pod_dirs(pod.metadata.uid.as_deref().unwrap_or_default());
    let text = serde_json::to_vec(&kept).expect("a record is plain JSON");
    if let Err(error) = files::write_whole(&dirs.environment_record(&container.name), &text, 0o600) {
        tracing::warn!(%error, container = container.name, "the record of the environment was not kept");
    }
}

fn compose(
    agent: &Agent,
    pod: &Pod,
    container: &Container,
    image: &PresentImage,
    configured: &ConfiguredContainer,
    actual: Option<&[(String, String)]>,
) -> Option<KeptRecord> {
    let views = pod.spec.as_ref().map(environment::containers)?;
    let view = views.iter().find(|view| view.name == container.name)?;
    let facts = RuntimeFacts {
        hostname: sandbox::hostname(agent, pod).ok().map(|name| name.kernel),
        tty: view.tty,
        home: None,
    };
    let image_env = image.config.as_ref().map(|config| config.env.as_slice()).unwrap_or_default();
    let declared = configured.resolved.resolution.environment.clone();
    let composed = compose_process_environment(&facts, image_env, declared);
    let record = |reveal| ContainerRecord::new(view, &composed, &configured.resolved, reveal, |_| None);
    let mut kept = KeptRecord { masked: record(Reveal::Nothing), revealed: record(Reveal::Secrets) };
    if let Some(actual) = actual {
        correct(&mut kept, actual);
    }
    Some(kept)
}

/// How a value is shown that nobody may see.
const MASK: &str = "****";

/// What the process really has wins over what should have been: order, names and values are those of the runtime. A variable
/// that the resolution knows with that value keeps its origin; any other one is the runtime's own.
fn correct(kept: &mut KeptRecord, actual: &[(String, String)]) {
    let mut known: BTreeMap<String, (VariableRecord, VariableRecord)> = kept
        .revealed
        .environment
        .drain(..)
        .zip(kept.masked.environment.drain(..))
        .map(|(revealed, masked)| (revealed.name.clone(), (revealed, masked)))
        .collect();
    for (name, value) in actual {
        let (revealed, masked) = match known.remove(name) {
            Some((revealed, masked)) if revealed.value.as_ref() == Some(value) => (revealed, masked),
            // Never so far; but what came from a Secret stays hidden, whatever the runtime says of it.
            Some((revealed, masked)) if masked.state == State::Masked => {
                let shown = VariableRecord { value: Some(value.clone()), display: value.clone(), ..revealed };
                (shown, VariableRecord { display: MASK.to_owned(), ..masked })
            }
            Some(_) | None => {
                let own = VariableRecord {
                    name: name.clone(),
                    value: Some(value.clone()),
                    display: value.clone(),
                    state: State::Known,
                    origin: OriginRecord::Runtime,
                    references: Vec::new(),
                    shadowed: Vec::new(),
                    refused: false,
                    stale: false,
                };
                (own.clone(), own)
            }
        };
        kept.revealed.environment.push(revealed);
        kept.masked.environment.push(masked);
    }
}

/// The environment that the runtime gave the process, in order; `None` if it does not say.
async fn process_environment(agent: &Agent, id: &str) -> Option<Vec<(String, String)>> {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
    let answer = agent.runtime.container_status(request).await.ok()?.into_inner();
    let info: serde_json::Value = serde_json::from_str(answer.info.get("info")?).ok()?;
    let list = info.pointer("/runtimeSpec/process/env")?.as_array()?;
    Some(
        list.iter()
            .filter_map(|text| text.as_str()?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    )
}

/// A variable that a container got, for the node's own use.
#[derive(Clone)]
pub(crate) struct RecordedVariable {
    pub(crate) name: String,
    pub(crate) value: String,
    /// It comes from a Secret.
    pub(crate) secret: bool,
}

/// What a container got when it was started, in order; nothing if that is not known.
pub(crate) fn variables(agent: &Agent, pod: &Pod, container: &str) -> Vec<RecordedVariable> {
    let dirs = agent.config.pod_dirs(pod.metadata.uid.as_deref().unwrap_or_default());
    let text = std::fs::read(dirs.environment_record(container)).unwrap_or_default();
    let Ok(kept) = serde_json::from_slice::<KeptRecord>(&text) else {
        return Vec::new();
    };
    let variables = kept.revealed.environment.into_iter().zip(kept.masked.environment);
    variables
        .filter_map(|(revealed, masked)| {
            Some(RecordedVariable {
                name: revealed.name,
                value: revealed.value?,
                secret: masked.state == State::Masked,
            })
        })
        .collect()
}

/// What a container that is not created yet will get of the pod's own.
pub(crate) fn declared(configured: &ConfiguredContainer) -> Vec<RecordedVariable> {
    let entries = configured.resolved.resolution.environment.entries().iter();
    entries
        .filter_map(|entry| {
            let value = entry.value.exposed()?;
            let secret = value != entry.value.display(Reveal::Nothing);
            Some(RecordedVariable { name: entry.name.to_string(), value: value.into_owned(), secret })
        })
        .collect()
}

/// Whose record is read, and how.
#[derive(Clone, Debug)]
pub(crate) struct RecordRequest<'a> {
    pub(crate) pod: &'a Pod,
    /// One container only.
    pub(crate) container: Option<&'a str>,
    /// Values of Secrets in the clear.
    pub(crate) show_secrets: bool,
}

/// The records of a pod's containers that were started, in the order of the specification. Variables whose source has changed
/// since are marked.
pub(crate) async fn read(agent: &Agent, request: &RecordRequest<'_>) -> PodRecord {
    let pod = request.pod;
    let dirs = agent.config.pod_dirs(pod.metadata.uid.as_deref().unwrap_or_default());
    let mut containers = Vec::new();
    for container in lifecycle::all_containers(pod) {
        if request.container.is_some_and(|name| name != container.name()) {
            continue;
        }
        let Ok(text) = std::fs::read(dirs.environment_record(container.name())) else {
            continue;
        };
        match serde_json::from_slice::<KeptRecord>(&text) {
            Ok(kept) => containers.push(if request.show_secrets { kept.revealed } else { kept.masked }),
            Err(error) => {
                tracing::warn!(%error, container = container.name(), "the record of the environment is damaged");
                containers.extend(damaged_record(pod, container.name()));
            }
        }
    }
    let versions = current_versions(agent, pod, &containers).await;
    for container in &mut containers {
        container
            .mark_stale(|kind, name| versions.get(&(is_secret(kind), name.to_owned())).cloned().flatten());
    }
    mark_services(agent, pod, &mut containers).await;
    PodRecord {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        source: None,
        containers,
    }
}

/// Compares the variables of services with those that a start now would give. Services that cannot be read count as unchanged.
async fn mark_services(agent: &Agent, pod: &Pod, containers: &mut [ContainerRecord]) {
    if !agent.has_api || containers.is_empty() {
        return;
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
    match fetch_services(agent, namespace, links).await {
        Services::Complete(services) => {
            for container in containers {
                container.mark_services(&services, namespace, links);
            }
        }
        Services::Partial(_) | Services::NotYetRead | Services::Unavailable => {}
    }
}

/// What is said of a container whose record cannot be read. The file stays: it is replaced when the container starts again.
fn damaged_record(pod: &Pod, container: &str) -> Option<ContainerRecord> {
    let views = pod.spec.as_ref().map(environment::containers)?;
    let view = views.iter().find(|view| view.name == container)?;
    Some(ContainerRecord {
        name: container.to_owned(),
        kind: view.kind,
        environment: Vec::new(),
        command: None,
        args: None,
        absent_service_variables: Vec::new(),
        findings: vec![FindingRecord {
            code: "record-damaged".to_owned(),
            severity: Severity::Warning,
            field_path: format!("spec.{}[{}]", view.kind.list_name(), view.index),
            variable: None,
            message: "the node's record of what this container got is damaged and cannot be read".to_owned(),
            hint: "the container itself is not touched by that; a new record is kept when it starts again"
                .to_owned(),
            position: None,
        }],
    })
}

fn is_secret(kind: SourceKind) -> bool {
    match kind {
        SourceKind::ConfigMap => false,
        SourceKind::Secret => true,
    }
}

/// Resource versions as they are now, of all objects that the records name. One that cannot be read counts as unchanged, so
/// that an API server that is away does not make everything look stale.
async fn current_versions(
    agent: &Agent,
    pod: &Pod,
    containers: &[ContainerRecord],
) -> BTreeMap<(bool, String), Option<String>> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let config_maps: Api<ConfigMap> = Api::namespaced(agent.client.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(agent.client.clone(), namespace);
    let mut versions = BTreeMap::new();
    for variable in containers.iter().flat_map(|container| &container.environment) {
        let (kind, name, version) = match &variable.origin {
            OriginRecord::EnvFrom { source, name, resource_version, .. } => (*source, name, resource_version),
            OriginRecord::ConfigMapKeyRef { name, resource_version, .. } => {
                (SourceKind::ConfigMap, name, resource_version)
            }
            OriginRecord::SecretKeyRef { name, resource_version, .. } => {
                (SourceKind::Secret, name, resource_version)
            }
            OriginRecord::Runtime
            | OriginRecord::Image
            | OriginRecord::Service { .. }
            | OriginRecord::Value { .. }
            | OriginRecord::FieldRef { .. }
            | OriginRecord::ResourceFieldRef { .. }
            | OriginRecord::FileKeyRef { .. } => continue,
        };
        let key = (is_secret(kind), name.clone());
        if versions.contains_key(&key) {
            continue;
        }
        let current = match kind {
            SourceKind::ConfigMap => {
                config_maps.get_opt(name).await.map(|object| object.map(|object| object.metadata))
            }
            SourceKind::Secret => {
                secrets.get_opt(name).await.map(|object| object.map(|object| object.metadata))
            }
        };
        let current = match current {
            Ok(metadata) => metadata.and_then(|metadata| metadata.resource_version),
            Err(_) => version.clone(),
        };
        versions.insert(key, current);
    }
    versions
}
