//! Findings of the environment engine as warnings: the same answers as `coracle env`, at the moment of creation.

use std::sync::Arc;

use environment::{
    Availability, ConfigMapSource, ContainerView, Finding, FindingCode, Options, SecretSource, ServiceSource,
    Services, Sources,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::request::{AdmissionRequest, NeededSources, SourceLookup, Warning};

/// The ConfigMaps, Secrets and services that the environment of a pod reads.
pub(crate) fn needed(pod: &Value) -> NeededSources {
    let Some(pod) = typed::<Pod>(pod) else { return NeededSources::default() };
    let Some(spec) = &pod.spec else { return NeededSources::default() };
    let options = Options::default();
    let mut needed = NeededSources::default();
    for container in environment::containers(spec) {
        let required = environment::required(&pod, &container, &options);
        needed.config_maps.extend(required.config_maps.into_keys());
        needed.secrets.extend(required.secrets.into_keys());
        needed.services |= required.namespace_services;
    }
    for names in [&mut needed.config_maps, &mut needed.secrets] {
        names.sort();
        names.dedup();
    }
    needed
}

/// Warnings about the environment of a pod; `spec_path` is where its spec stands in the object.
pub(crate) fn warnings(pod: &Value, spec_path: &str, request: &AdmissionRequest) -> Vec<Warning> {
    let Some(pod) = typed::<Pod>(pod) else { return Vec::new() };
    let Some(spec) = &pod.spec else { return Vec::new() };
    let sources = sources(request);
    let options = Options {
        spec_path: spec_path.to_owned(),
        gates: environment::Gates {
            env_files: request.gates.env_files,
            relaxed_names: request.gates.relaxed_environment_variable_validation,
        },
        ..Options::default()
    };
    let mut warnings = Vec::new();
    for container in environment::containers(spec) {
        let is_open = reads_absent_source(&container, request);
        let resolved = environment::resolve(&pod, &container, &sources, &options);
        let told = resolved
            .findings()
            .into_iter()
            .filter(|finding| finding.belongs_in_warning_header() && !is_told_elsewhere(finding))
            .filter(|finding| !(is_open && finding.is_unresolved_reference()));
        warnings.extend(told.map(|finding| Warning(sentence(&finding))));
    }
    warnings
}

fn sentence(finding: &Finding) -> String {
    match &finding.hint {
        Some(hint) => format!("{}: {}; {hint}", finding.field_path, finding.message),
        None => format!("{}: {}", finding.field_path, finding.message),
    }
}

/// What validation has said already, as an error or as a warning of its own.
fn is_told_elsewhere(finding: &Finding) -> bool {
    matches!(
        finding.code,
        FindingCode::DuplicateName
            | FindingCode::EnvFileVolumeMounted
            | FindingCode::EnvFileVolume
            | FindingCode::ServiceLinksUnset
            | FindingCode::NameNotAccepted
            | FindingCode::NameInvalid
            | FindingCode::NoSource
            | FindingCode::FieldNotSupported
            | FindingCode::ResourceNotSupported
    )
}

/// Whether any variable may still come from a source that does not exist yet or that nobody looked at.
fn reads_absent_source(container: &ContainerView<'_>, request: &AdmissionRequest) -> bool {
    container.env_from.iter().any(|source| {
        let lookup = match (&source.config_map_ref, &source.secret_ref) {
            (Some(reference), _) => request.sources.config_maps.get(&reference.name),
            (None, Some(reference)) => request.sources.secrets.get(&reference.name),
            (None, None) => return false,
        };
        !matches!(lookup, Some(SourceLookup::Present(_)))
    })
}

/// What the caller looked up. An object that does not exist may be created any moment: it is only "not in the input".
fn sources(request: &AdmissionRequest) -> Sources {
    let mut sources = Sources::of_files();
    for (name, lookup) in &request.sources.config_maps {
        if let SourceLookup::Present(object) = lookup
            && let Some(object) = typed::<ConfigMap>(object)
        {
            let source = Availability::Present(ConfigMapSource::from(&object));
            sources.config_maps.insert(name.clone(), source);
        }
    }
    for (name, lookup) in &request.sources.secrets {
        if let SourceLookup::Present(object) = lookup
            && let Some(object) = typed::<Secret>(object)
        {
            sources.secrets.insert(name.clone(), Availability::Present(SecretSource::from(&object)));
        }
    }
    if let Some(services) = &request.sources.services {
        let live = services.iter().filter_map(typed::<Service>);
        sources.services =
            Services::Complete(live.map(|service| Arc::new(ServiceSource::from_live(&service))).collect());
    }
    sources
}

fn typed<T: DeserializeOwned>(object: &Value) -> Option<T> {
    T::deserialize(object).ok()
}

/// A pod as a template would make it, for the engine.
pub(crate) fn pod_of_template(template: &Value, namespace: &Value) -> Value {
    let mut metadata = template["metadata"].clone();
    if metadata.is_object() {
        metadata["namespace"] = namespace.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}
