//! ConfigMaps, Secrets and Services of the input, as sources of the pods beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use environment::{Availability, ConfigMapSource, SecretSource, ServiceSource, Services, Sources};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::live::Fetched;
use super::survey::DecodeMistake;
use crate::input::InputObject;

/// Namespace and name.
type ObjectKey = (String, String);

/// What the input, and a cluster behind it, offer to pods; of two objects of one name the later one counts, as with `apply`.
#[derive(Default)]
pub(super) struct InputSources {
    config_maps: BTreeMap<ObjectKey, ConfigMapSource>,
    secrets: BTreeMap<ObjectKey, SecretSource>,
    services: BTreeMap<ObjectKey, Arc<ServiceSource>>,
    /// What a cluster has of what the input lacks, if one was asked.
    fetched: Option<Fetched>,
}

impl InputSources {
    /// Takes an object in, if it is a source; `value` is what its kind makes of it.
    pub(super) fn take(
        &mut self,
        object: &InputObject,
        value: &Value,
        namespace: &str,
    ) -> Result<(), DecodeMistake> {
        if object.api_version != "v1" {
            return Ok(());
        }
        let key = (namespace.to_owned(), object.name.clone());
        match object.kind.as_str() {
            "ConfigMap" => {
                self.config_maps.insert(key, ConfigMapSource::from(&typed::<ConfigMap>(object, value)?));
            }
            "Secret" => {
                self.secrets.insert(key, SecretSource::from(&typed::<Secret>(object, value)?));
            }
            "Service" => {
                let mut service: Service = typed(object, value)?;
                service.metadata.namespace = Some(namespace.to_owned());
                self.services.insert(key, Arc::new(ServiceSource::from_manifest(&service)));
            }
            _ => {}
        }
        Ok(())
    }

    /// What a cluster has of what the input lacks.
    pub(super) fn add(&mut self, fetched: Fetched) {
        self.fetched = Some(fetched);
    }

    /// Whether the input itself holds a ConfigMap.
    pub(super) fn has_config_map(&self, namespace: &str, name: &str) -> bool {
        self.config_maps.contains_key(&(namespace.to_owned(), name.to_owned()))
    }

    /// Whether the input itself holds a Secret.
    pub(super) fn has_secret(&self, namespace: &str, name: &str) -> bool {
        self.secrets.contains_key(&(namespace.to_owned(), name.to_owned()))
    }

    /// The sources of a pod of a namespace; what is neither in the input nor fetched is said to be so.
    pub(super) fn of_namespace(&self, namespace: &str) -> Sources {
        let mut sources = self.of_input(namespace);
        let Some(fetched) = self.fetched.as_ref().and_then(|fetched| fetched.namespaces.get(namespace))
        else {
            return sources;
        };
        // What the input holds would replace what the cluster has.
        for (name, source) in &fetched.config_maps {
            sources.config_maps.entry(name.clone()).or_insert_with(|| source.clone());
        }
        for (name, source) in &fetched.secrets {
            sources.secrets.entry(name.clone()).or_insert_with(|| source.clone());
        }
        if let Some(services) = &fetched.services {
            let is_new = |service: &&Arc<ServiceSource>| {
                !self.services.contains_key(&(service.namespace.to_string(), service.name.to_string()))
            };
            let own = self.services.values().cloned();
            sources.services =
                Services::Complete(own.chain(services.iter().filter(is_new).cloned()).collect());
        }
        sources
    }

    fn of_input(&self, namespace: &str) -> Sources {
        let mut services: Vec<Arc<ServiceSource>> = self.services.values().cloned().collect();
        let kubernetes = ("default".to_owned(), "kubernetes".to_owned());
        if !self.services.contains_key(&kubernetes) {
            services.push(Arc::new(ServiceSource::kubernetes_before_run()));
        }
        Sources {
            config_maps: present(&self.config_maps, namespace),
            secrets: present(&self.secrets, namespace),
            services: Services::Partial(services),
            ..Sources::of_files()
        }
    }
}

fn typed<T: DeserializeOwned>(object: &InputObject, value: &Value) -> Result<T, DecodeMistake> {
    T::deserialize(value).map_err(|cause| DecodeMistake::unreadable(&object.document.root, cause.to_string()))
}

fn present<T: Clone>(objects: &BTreeMap<ObjectKey, T>, namespace: &str) -> BTreeMap<String, Availability<T>> {
    objects
        .iter()
        .filter(|((object_namespace, _), _)| object_namespace == namespace)
        .map(|((_, name), object)| (name.clone(), Availability::Present(object.clone())))
        .collect()
}
