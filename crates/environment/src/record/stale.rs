//! Which variables of a running container are no longer what a start now would give.
//!
//! A ConfigMap or Secret counts by its version. A service counts by where its variables lead: one that was created anew at the same
//! address, with the same ports, has changed nothing for the container.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{AbsentServiceRecord, ContainerRecord, FoundKind, OriginRecord, SourceKind, VariableRecord};
use crate::ServiceSource;
use crate::resolve::service_variables;

/// So many services are told of that a container does not know.
const MOST_ABSENT: usize = 1000;

/// A variable of a service: namespace and name of the service, and its own.
type Key<'k> = (&'k str, &'k str, &'k str);

impl ContainerRecord {
    /// Marks the variables whose object has another resource version by now, or is gone, and those whose values used them.
    /// `current` answers the version of the ConfigMap or Secret of that name as it is now; `None` when there is no such object.
    pub fn mark_stale(&mut self, mut current: impl FnMut(SourceKind, &str) -> Option<String>) {
        for variable in &mut self.environment {
            let (kind, name, version) = match &variable.origin {
                OriginRecord::EnvFrom { source, name, resource_version, .. } => {
                    (*source, name, resource_version)
                }
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
            if let Some(version) = version {
                variable.stale |= current(kind, name).as_ref() != Some(version);
            }
        }
        self.mark_users();
    }

    /// Marks the variables of services that lead elsewhere by now, or whose service is gone, and those whose values used them;
    /// and lists the variables that came later. `services` are those of now, of a pod in `namespace`; `links` says whether
    /// those of its own namespace give variables.
    pub fn mark_services(&mut self, services: &[Arc<ServiceSource>], namespace: &str, links: bool) {
        if self.environment.is_empty() {
            // What the container got is not known.
            return;
        }
        let now = service_variables(services, namespace, links);
        let known: BTreeMap<Key<'_>, &str> = now
            .iter()
            .map(|one| ((&*one.service.namespace, &*one.service.name, one.name.as_str()), one.value.as_str()))
            .collect();
        let leads_elsewhere = |origin: &OriginRecord, name: &str, value: Option<&String>| {
            service_of(origin).zip(value).is_some_and(|((namespace, service), value)| {
                known.get(&(namespace, service, name)) != Some(&value.as_str())
            })
        };
        let named = |name: &str, origin: &OriginRecord| {
            let service = service_of(origin);
            (name.to_owned(), service.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())))
        };
        // A reference may have found a service variable that a declared one hides from the process.
        let mut moved = BTreeSet::new();
        for variable in &mut self.environment {
            let name = variable.name.as_str();
            variable.stale |= leads_elsewhere(&variable.origin, name, variable.value.as_ref());
            let hidden = |shadowed: &&super::ShadowedRecord| {
                leads_elsewhere(&shadowed.origin, name, shadowed.value.as_ref())
            };
            if let Some(hidden) = variable.shadowed.iter().find(hidden) {
                moved.insert(named(name, &hidden.origin));
            }
        }
        for variable in &mut self.environment {
            let used = |name: &str, origin: &OriginRecord| moved.contains(&named(name, origin));
            let origins =
                variable.references.iter().filter_map(|one| Some((one.name.as_str(), one.origin.as_ref()?)));
            variable.stale |= origins.into_iter().any(|(name, origin)| used(name, origin));
        }
        self.mark_users();
        let names: BTreeSet<&str> = self.environment.iter().map(|variable| variable.name.as_str()).collect();
        let mut absent: Vec<AbsentServiceRecord> = Vec::new();
        for one in now.iter().filter(|one| !names.contains(one.name.as_str())) {
            let (namespace, name) = (&*one.service.namespace, &*one.service.name);
            let is_next = absent.last().is_none_or(|last| last.name != name || last.namespace != namespace);
            if is_next {
                if absent.len() == MOST_ABSENT {
                    break;
                }
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                absent.push(AbsentServiceRecord { namespace, name, variables: Vec::new() });
            }
            if let Some(last) = absent.last_mut() {
                last.variables.push(one.name.clone());
            }
        }
        self.absent_service_variables = absent;
    }

    /// What used a stale variable is stale: a reference only finds what stands above it.
    fn mark_users(&mut self) {
        let mut stale: BTreeMap<String, OriginRecord> = BTreeMap::new();
        for variable in &mut self.environment {
            variable.stale |= uses(variable, &stale);
            if variable.stale {
                stale.insert(variable.name.clone(), variable.origin.clone());
            }
        }
    }
}

/// Namespace and name of the service that a variable is of.
fn service_of(origin: &OriginRecord) -> Option<(&str, &str)> {
    match origin {
        OriginRecord::Service { namespace, name } => Some((namespace, name)),
        OriginRecord::Runtime
        | OriginRecord::Image
        | OriginRecord::EnvFrom { .. }
        | OriginRecord::Value { .. }
        | OriginRecord::FieldRef { .. }
        | OriginRecord::ResourceFieldRef { .. }
        | OriginRecord::ConfigMapKeyRef { .. }
        | OriginRecord::SecretKeyRef { .. }
        | OriginRecord::FileKeyRef { .. } => None,
    }
}

fn uses(variable: &VariableRecord, stale: &BTreeMap<String, OriginRecord>) -> bool {
    variable.references.iter().any(|reference| {
        reference.found == FoundKind::Variable
            && reference.origin.is_some()
            && stale.get(&reference.name) == reference.origin.as_ref()
    })
}
