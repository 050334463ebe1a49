//! What every cluster has, what every namespace begins with, and what comes into none that ends.
//!
//! What namespaces have is brought back, and one that ends is emptied, by controllers (crate `controllers`).

mod own_service;

use std::sync::Arc;

use futures::future::{try_join, try_join_all};
use serde_json::{Value, json};
use store::Key;

use crate::kinds::Kind;
use crate::object::{self, text};
use crate::server::{Server, StartError};
use crate::status::ApiError;
use crate::writing::{Write, create_object, released};

/// The namespaces that every cluster has.
const STANDARD: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// The ConfigMap with the authority's certificate.
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
/// The service account of pods that name none.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

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

/// Makes sure that everything is there that every cluster has.
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

/// Gives a new namespace its service account and the authority's certificate, so that nobody who has made one has to wait for
/// them.
pub(crate) async fn fill(server: &Arc<Server>, namespace: &str) -> Result<(), ApiError> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace}});
    let account = ensure(server, "serviceaccounts", namespace, account);
    let Some(pem) = server.config.authority_pem.as_deref() else { return account.await };
    let certificate = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ROOT_CERTIFICATE, "namespace": namespace},
        "data": {"ca.crt": pem},
    });
    try_join(account, ensure(server, "configmaps", namespace, certificate)).await.map(drop)
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

/// After a creation: when the namespace began to end between the check and the write, the object goes again. So whoever empties
/// the namespace finds all that it will ever have.
pub(crate) async fn check_still_open(write: &Write<'_>, created: &Value) -> Result<(), ApiError> {
    let name = object::name(created);
    let checked = check_open(write, name);
    if checked.is_err() && write.server.store.delete(write.key(name), None).await.is_ok() {
        released(write, created);
    }
    checked
}
