//! Fetches what the environment of a container is made from: ConfigMaps, Secrets and Services from the API, env files from
//! the pod's volumes.

use std::sync::Arc;

use environment::{
    Availability, ConfigMapSource, ContainerView, EnvFileKey, EnvFileRefusal, EnvFileSource, ImageConfig,
    Options, Requirements, SecretSource, ServiceSource, Services, Sources, Unavailable,
};
use informer::{Informer, ObjectKey};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::Api;
use kube::api::ListParams;

use crate::agent::Agent;
use crate::api_error::Brief;
use crate::env_files::{FileIdentity, VolumeHandle};
use crate::images::PresentImage;
use crate::volumes;

/// What the sources are fetched for.
pub(crate) struct SourceRequest<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a ContainerView<'a>,
    pub(crate) options: &'a Options,
    pub(crate) image: &'a PresentImage,
    pub(crate) identity: &'a FileIdentity,
    pub(crate) pod_ips: &'a [String],
}

/// Fetches all sources of a container. What is missing or cannot be had is part of the answer.
pub(crate) async fn fetch_sources(agent: &Agent, request: &SourceRequest<'_>) -> Sources {
    let required = environment::required(request.pod, request.container, request.options);
    let namespace = request.pod.metadata.namespace.as_deref().unwrap_or("default");
    let mut sources = Sources::of_node();
    fetch_config_maps(agent, namespace, &required, &mut sources).await;
    fetch_secrets(agent, namespace, &required, &mut sources).await;
    sources.services = known_services(agent, namespace, required.namespace_services).await;
    sources.pod_ips = Availability::Present(request.pod_ips.to_vec());
    sources.host_ips = Availability::Present(agent.config.addresses.clone());
    sources.node_allocatable = Availability::Present(agent.allocatable());
    sources.image = match &request.image.config {
        Some(config) => Availability::Present(ImageConfig {
            env: config.env.clone(),
            entrypoint: config.entrypoint.clone(),
            cmd: config.cmd.clone(),
        }),
        None => Availability::NotInInput,
    };
    let wanted: Vec<EnvFileKey> = required.env_files.into_keys().collect();
    if !wanted.is_empty() {
        read_env_files(agent, request, wanted, &mut sources).await;
    }
    sources
}

async fn fetch_config_maps(agent: &Agent, namespace: &str, required: &Requirements, sources: &mut Sources) {
    let api: Api<ConfigMap> = Api::namespaced(agent.client.clone(), namespace);
    for name in required.config_maps.keys() {
        let source = match api.get_opt(name).await {
            Ok(Some(object)) => Availability::Present(ConfigMapSource::from(&object)),
            Ok(None) => Availability::Absent,
            Err(error) => {
                tracing::warn!(error = %Brief(&error), config_map = name, "cannot be read");
                Availability::Unavailable(unavailable(agent))
            }
        };
        sources.config_maps.insert(name.clone(), source);
    }
}

async fn fetch_secrets(agent: &Agent, namespace: &str, required: &Requirements, sources: &mut Sources) {
    let api: Api<Secret> = Api::namespaced(agent.client.clone(), namespace);
    for name in required.secrets.keys() {
        let source = match api.get_opt(name).await {
            Ok(Some(object)) => Availability::Present(SecretSource::from(&object)),
            Ok(None) => Availability::Absent,
            Err(error) => {
                tracing::warn!(error = %Brief(&error), secret = name, "cannot be read");
                Availability::Unavailable(unavailable(agent))
            }
        };
        sources.secrets.insert(name.clone(), source);
    }
}

fn unavailable(agent: &Agent) -> Unavailable {
    if agent.has_api { Unavailable::NotSynced } else { Unavailable::NoClient }
}

/// The same as [`fetch_services`] from the cache that the node shares, so that a start does not read what the node knows.
async fn known_services(agent: &Agent, namespace: &str, links: bool) -> Services {
    match agent.config.services.as_ref().filter(|known| known.is_synced()) {
        Some(known) if !links || has_all(agent, known, namespace).await => {
            Services::Complete(in_cache(known, namespace, links))
        }
        Some(_) | None => fetch_services(agent, namespace, links).await,
    }
}

/// Whether as many services of a namespace are known as there are at this moment. A watch lags behind, and a pod must have the
/// variables of a service that was created before it, if only by an instant: one manifest often holds both.
async fn has_all(agent: &Agent, known: &Informer<Service>, namespace: &str) -> bool {
    let services: Api<Service> = Api::namespaced(agent.client.clone(), namespace);
    let Ok(page) = services.list_metadata(&ListParams::default().limit(1)).await else { return false };
    let beyond = page.metadata.remaining_item_count.unwrap_or(0);
    let known = known.in_namespace(namespace).len();
    i64::try_from(known).is_ok_and(|known| i64::try_from(page.items.len()).unwrap_or(0) + beyond == known)
}

fn in_cache(known: &Informer<Service>, namespace: &str, links: bool) -> Vec<Arc<ServiceSource>> {
    let mut services = if links { known.in_namespace(namespace) } else { Vec::new() };
    if !links || namespace != "default" {
        services.extend(known.get(&ObjectKey::new("default", "kubernetes")));
    }
    services.iter().map(|service| Arc::new(ServiceSource::from_live(service))).collect()
}

/// The services of the pod's namespace, if it wants their variables (`links`), and `default/kubernetes`, always.
pub(crate) async fn fetch_services(agent: &Agent, namespace: &str, links: bool) -> Services {
    let mut services = Vec::new();
    if !agent.has_api {
        // A static pod does not wait for services, and here are none.
        return Services::Complete(services);
    }
    if links {
        let api: Api<Service> = Api::namespaced(agent.client.clone(), namespace);
        match api.list(&ListParams::default()).await {
            Ok(list) => {
                services.extend(list.items.iter().map(|service| Arc::new(ServiceSource::from_live(service))));
            }
            Err(error) => {
                tracing::warn!(error = %Brief(&error), namespace, "services cannot be read");
                return Services::Unavailable;
            }
        }
    }
    if !links || namespace != "default" {
        let api: Api<Service> = Api::namespaced(agent.client.clone(), "default");
        match api.get_opt("kubernetes").await {
            Ok(service) => {
                services.extend(service.iter().map(|service| Arc::new(ServiceSource::from_live(service))));
            }
            Err(error) => {
                tracing::warn!(error = %Brief(&error), "the service default/kubernetes cannot be read");
                return Services::Unavailable;
            }
        }
    }
    Services::Complete(services)
}

async fn read_env_files(
    agent: &Agent,
    request: &SourceRequest<'_>,
    wanted: Vec<EnvFileKey>,
    sources: &mut Sources,
) {
    let dirs = agent.config.pod_dirs(request.pod.metadata.uid.as_deref().unwrap_or_default());
    let places: Vec<(EnvFileKey, Option<std::path::PathBuf>)> = wanted
        .into_iter()
        .map(|key| {
            let place = is_empty_dir(request.pod, &key.volume)
                .then(|| volumes::locate(&dirs, request.pod, &key.volume))
                .flatten();
            (key, place.map(|place| place.path))
        })
        .collect();
    let identity = request.identity.clone();
    let fallback: Vec<EnvFileKey> = places.iter().map(|(key, _)| key.clone()).collect();
    let read = tokio::task::spawn_blocking(move || {
        places
            .into_iter()
            .map(|(key, place)| {
                let source = match place {
                    None => EnvFileSource::VolumeNotFound,
                    Some(place) => match VolumeHandle::open(&place) {
                        Ok(handle) => handle.read_env_file(&key.path, &identity),
                        Err(_) => EnvFileSource::Refused(EnvFileRefusal::VolumeUnusable),
                    },
                };
                (key, source)
            })
            .collect::<Vec<_>>()
    })
    .await;
    match read {
        Ok(read) => sources.env_files.extend(read),
        Err(_) => {
            let failed = EnvFileSource::Refused(EnvFileRefusal::System("EIO".to_owned()));
            sources.env_files.extend(fallback.into_iter().map(|key| (key, failed.clone())));
        }
    }
}

/// Only an emptyDir may hold env files; admission says so, and an object that came another way is not trusted.
fn is_empty_dir(pod: &Pod, name: &str) -> bool {
    pod.spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
        .any(|volume| volume.name == name && volume.empty_dir.is_some())
}
