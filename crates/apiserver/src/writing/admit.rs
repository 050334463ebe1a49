//! What admission is told besides the object: gates, and for pods what their environment and identity need.

use std::collections::BTreeMap;

use admission::{AdmissionRequest, SourceLookup, SourceObjects, Warning};
use serde_json::Value;
use store::Key;

use super::Write;
use crate::authorize::may_read_secrets;
use crate::object::{self, text};
use crate::status::ApiError;
use crate::strategy::Hooks;

/// Marks a pod that stands for one of the node's own.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Gathers what admission needs for `value`.
pub(super) fn admission_request(write: &Write<'_>, value: &Value) -> Result<AdmissionRequest, ApiError> {
    let mut request = AdmissionRequest {
        gates: write.server.config.gates,
        env_file_mounts: write.server.config.env_file_mounts,
        ..AdmissionRequest::default()
    };
    match write.kind.strategy().hooks() {
        Hooks::Pods => {
            request.service_account = service_account(write, value)?;
            request.sources = sources(write, value);
        }
        Hooks::None | Hooks::Services | Hooks::Namespaces => {}
    }
    Ok(request)
}

fn core_object(write: &Write<'_>, plural: &str, namespace: &str, name: &str) -> Option<Value> {
    let kind = write.server.kinds.core(plural)?;
    let key = Key::new(kind.collection(), namespace, name);
    write.server.store.get(&key).map(|found| object::tree(&found))
}

fn service_account(write: &Write<'_>, pod: &Value) -> Result<Option<Value>, ApiError> {
    if pod.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(MIRROR).is_some()) {
        return Ok(None);
    }
    let name =
        [text(pod, &["spec", "serviceAccountName"]), text(pod, &["spec", "serviceAccount"]), "default"]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default();
    match core_object(write, "serviceaccounts", write.namespace, name) {
        Some(found) => Ok(Some(found)),
        // An update of a pod whose account went meanwhile is not the place to complain.
        None if !text(pod, &["metadata", "resourceVersion"]).is_empty() => Ok(None),
        None => Err(ApiError::forbidden(
            write.kind,
            object::name(pod),
            format!(
                "error looking up service account {}/{name}: serviceaccount \"{name}\" not found",
                write.namespace
            ),
        )),
    }
}

/// The sources of a pod's environment, as far as the caller may read them.
fn sources(write: &Write<'_>, pod: &Value) -> SourceObjects {
    let needed = admission::needed_sources(pod);
    let look_up = |plural: &str, names: Vec<String>| -> BTreeMap<String, SourceLookup> {
        names
            .into_iter()
            .map(|name| {
                let found = core_object(write, plural, write.namespace, &name);
                let lookup = found.map_or(SourceLookup::Absent, SourceLookup::Present);
                (name, lookup)
            })
            .collect()
    };
    let secrets = if may_read_secrets(write.identity, write.namespace) {
        look_up("secrets", needed.secrets)
    } else {
        BTreeMap::new()
    };
    SourceObjects {
        config_maps: look_up("configmaps", needed.config_maps),
        secrets,
        services: needed.services.then(|| services(write)),
    }
}

fn services(write: &Write<'_>) -> Vec<Value> {
    let Some(kind) = write.server.kinds.core("services") else { return Vec::new() };
    let listed = write.server.store.list(kind.collection(), Some(write.namespace), None, None);
    let mut found: Vec<Value> = listed
        .map(|listing| listing.objects.iter().map(|one| object::tree(one)).collect())
        .unwrap_or_default();
    if write.namespace != "default" {
        found.extend(core_object(write, "services", "default", "kubernetes"));
    }
    found
}

pub(super) fn warning_texts(warnings: Vec<Warning>) -> Vec<String> {
    warnings.into_iter().map(|warning| warning.0).collect()
}

/// Refuses objects that are too large to be stored.
pub(super) fn check_size(write: &Write<'_>, bytes: usize) -> Result<(), ApiError> {
    let limit = write.server.limits().object_bytes;
    if bytes > limit { Err(ApiError::TooLarge { limit }) } else { Ok(()) }
}
