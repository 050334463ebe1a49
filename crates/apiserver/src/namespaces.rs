//! What every cluster has, what every namespace has, and how a namespace ends.

mod drain;
mod own_service;

use std::sync::Arc;

use futures::future::{try_join, try_join_all};
use serde_json::{Value, json};
use store::Key;

use crate::kinds::Kind;
use crate::object::{self, map_mut, text};
use crate::server::{Server, StartError};
use crate::status::ApiError;
pub(crate) use drain::spawn_drain;

use crate::writing::{Candidate, Part, Write, create_object, update_object};

/// The namespaces that every cluster has.
const STANDARD: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// The ConfigMap with the authority's certificate.
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

fn core<'s>(server: &'s Server, plural: &str) -> Result<&'s Arc<Kind>, ApiError> {
    server
        .kinds
        .core(plural)
        .ok_or_else(|| ApiError::Internal { message: format!("{plural} are not served") })
}

/// Creates an object on behalf of the server, unless it exists.
async fn ensure(server: &Arc<Server>, plural: &str, namespace: &str, value: Value) -> Result<(), ApiError> {
    ensure_of(server, core(server, plural)?, namespace, value).await
}

/// The same, of any kind.
pub(crate) async fn ensure_of(
    server: &Arc<Server>,
    kind: &Arc<Kind>,
    namespace: &str,
    value: Value,
) -> Result<(), ApiError> {
    let name = object::name(&value).to_owned();
    if server.store.get(&Key::new(kind.collection(), namespace, &name)).is_some() {
        return Ok(());
    }
    let write = Write::of_server(server, kind, namespace);
    let decoded = schema::decode_value(kind.ty(), &value, schema::FieldValidation::Strict)
        .map_err(|error| ApiError::Internal { message: error.to_string() })?;
    let mut value = decoded.value;
    crate::body::set_type(kind, &mut value);
    match Box::pin(create_object(&write, value)).await {
        Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
        // A quota of the namespace leaves no room: that is for its owner to mend, and no reason not to serve.
        Err(error @ ApiError::Forbidden { .. }) => {
            tracing::warn!(namespace, %error, "what every namespace has is missing");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Makes sure that everything is there that every cluster has, and takes up again what was going on.
pub(crate) async fn bootstrap(server: &Arc<Server>) -> Result<(), StartError> {
    own_service::note_all(server).map_err(|error| StartError::bootstrap("the list of services", &error))?;
    // All at once, so that they share commits.
    try_join_all(STANDARD.map(|name| async move {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(server, "namespaces", "", namespace)
            .await
            .map_err(|error| StartError::bootstrap(format!("namespace {name}"), &error))
    }))
    .await?;
    system_priorities(server).await?;
    own_service::ensure(server)
        .await
        .map_err(|error| StartError::bootstrap("service default/kubernetes", &error))?;
    let namespaces =
        core(server, "namespaces").map_err(|error| StartError::bootstrap("namespaces", &error))?;
    let listed = server.store.list(namespaces.collection(), None, None, None).map(|listing| listing.objects);
    let listed = listed.unwrap_or_default();
    try_join_all(listed.iter().map(|stored| async move {
        let name = stored.key().name();
        if is_ending(&object::tree(stored)) {
            spawn_drain(server, name);
            return Ok(());
        }
        fill(server, name)
            .await
            .map_err(|error| StartError::bootstrap(format!("the content of namespace {name}"), &error))
    }))
    .await?;
    Ok(())
}

/// The priority classes of the system's own pods.
async fn system_priorities(server: &Arc<Server>) -> Result<(), StartError> {
    let Some(kind) = server.kinds.find("scheduling.k8s.io", "v1", "priorityclasses") else { return Ok(()) };
    try_join_all(admission::SYSTEM_CLASSES.map(|(name, value, description)| async move {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description});
        ensure_of(server, kind, "", class)
            .await
            .map_err(|error| StartError::bootstrap(format!("priority class {name}"), &error))
    }))
    .await
    .map(drop)
}

/// Makes sure that a namespace has its service account and the authority's certificate.
pub(crate) async fn fill(server: &Arc<Server>, namespace: &str) -> Result<(), ApiError> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}});
    let account = ensure(server, "serviceaccounts", namespace, account);
    let Some(pem) = server.config.authority_pem.as_deref() else { return account.await };
    let certificate = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ROOT_CERTIFICATE, "namespace": namespace},
        "data": {"ca.crt": pem},
    });
    try_join(account, ensure(server, "configmaps", namespace, certificate)).await?;
    renew_certificate(server, namespace, pem).await
}

/// After a deletion: what every namespace has comes back, as long as the namespace itself stays.
pub(crate) async fn restore(write: &Write<'_>, name: &str) {
    let is_standard = matches!(
        (write.kind.group(), write.kind.plural(), name),
        ("", "configmaps", ROOT_CERTIFICATE) | ("", "serviceaccounts", "default")
    );
    let is_open =
        || find(write.server, write.namespace).ok().flatten().is_some_and(|found| !is_ending(&found));
    if is_standard
        && is_open()
        && let Err(error) = fill(write.server, write.namespace).await
    {
        tracing::warn!(namespace = write.namespace, name, %error, "cannot be restored");
    }
}

/// The authority may have been made anew since.
async fn renew_certificate(server: &Arc<Server>, namespace: &str, pem: &str) -> Result<(), ApiError> {
    let kind = core(server, "configmaps")?;
    let key = Key::new(kind.collection(), namespace, ROOT_CERTIFICATE);
    let current = server.store.get(&key).map(|stored| object::tree(&stored));
    if current.is_none_or(|current| text(&current, &["data", "ca.crt"]) == pem) {
        return Ok(());
    }
    let write = Write::of_server(server, kind, namespace);
    let make = |old: &Value| {
        let mut object = old.clone();
        map_mut(&mut object, "data").insert("ca.crt".to_owned(), json!(pem));
        Ok(Candidate { object, warnings: Vec::new(), keeps_version: false })
    };
    Box::pin(update_object(&write, ROOT_CERTIFICATE, Part::Main, make)).await.map(drop)
}

fn is_ending(namespace: &Value) -> bool {
    !text(namespace, &["metadata", "deletionTimestamp"]).is_empty()
}

fn find(server: &Server, name: &str) -> Result<Option<Value>, ApiError> {
    let kind = core(server, "namespaces")?;
    Ok(server.store.get(&Key::new(kind.collection(), "", name)).map(|stored| object::tree(&stored)))
}

/// Refuses new objects in a namespace that is not there or that ends.
pub(crate) fn check_open(write: &Write<'_>, name: &str) -> Result<(), ApiError> {
    let namespaces = core(write.server, "namespaces")?;
    match find(write.server, write.namespace)? {
        None => Err(ApiError::not_found(namespaces, write.namespace)),
        Some(namespace) if is_ending(&namespace) => Err(ApiError::NamespaceTerminating {
            group: write.kind.group().to_owned(),
            resource: write.kind.plural().to_owned(),
            name: name.to_owned(),
            namespace: write.namespace.to_owned(),
        }),
        Some(_) => Ok(()),
    }
}

/// After a creation: a namespace that went between the check and the write takes the new object with it.
pub(crate) async fn check_still_there(write: &Write<'_>, name: &str) -> Result<(), ApiError> {
    if find(write.server, write.namespace)?.is_some() {
        return Ok(());
    }
    let _ = write.server.store.delete(write.key(name), None).await;
    Err(ApiError::not_found(core(write.server, "namespaces")?, write.namespace))
}
