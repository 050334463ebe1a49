//! What is in a namespace: found by discovery and lists, told to go object by object.
//!
//! Not by collections: two processes may empty the same namespace, and one of them must not delete what somebody has put into a new
//! namespace of the same name. So what was listed is deleted by UID, and only after the namespace was seen to be the same
//! still.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions};
use kube::core::discovery::ApiResource;

use super::decision::{Found, Left, Remaining, discovered, is_pods};
use crate::controller::{ReconcileError, is_not_found};

/// Objects of one page of a list.
const PAGE: u32 = 500;
/// Resources that are looked at at the same time.
const RESOURCES_AT_ONCE: usize = 4;
/// Objects of one resource that are deleted at the same time.
const OBJECTS_AT_ONCE: usize = 16;

/// What has become of the content.
#[derive(Debug, Default)]
pub(super) struct Emptied {
    pub(super) left: Left,
    /// What is left, resource by resource.
    pub(super) remaining: Vec<Remaining>,
    /// Whether something is there that was told nothing yet: who made it was on the way when the namespace began to end.
    pub(super) came_meanwhile: bool,
}

/// The content of a namespace.
pub(super) struct Content<'c> {
    client: &'c kube::Client,
    name: &'c str,
    uid: &'c str,
}

/// The objects of one resource, and the version of the list.
type Listed = (Vec<Found>, String);

impl<'c> Content<'c> {
    pub(super) fn of(client: &'c kube::Client, namespace: &'c Namespace) -> Content<'c> {
        let meta = &namespace.metadata;
        let text = |text: &'c Option<String>| text.as_deref().unwrap_or_default();
        Content { client, name: text(&meta.name), uid: text(&meta.uid) }
    }

    /// Tells everything to go, pods before what they use.
    pub(super) async fn empty(&self) -> Result<Emptied, ReconcileError> {
        let core = self.client.list_core_api_versions_aggregated().await?;
        let found = discovered(&core, &self.client.list_api_groups_aggregated().await?);
        let mut emptied = Emptied::default();
        emptied.left.unknown = found.failed;
        let (pods, others): (Vec<_>, Vec<_>) = found.resources.into_iter().partition(is_pods);
        for resource in pods {
            self.empty_of(resource).await?.add_to(&mut emptied);
        }
        let waits_for_pods = !emptied.remaining.is_empty();
        let looks = others.into_iter().map(|resource| async move {
            if waits_for_pods {
                let listed = self.list(&resource).await?;
                Ok(OfResource { resource, listed, failures: Vec::new() })
            } else {
                self.empty_of(resource).await
            }
        });
        let looks: Vec<OfResource> = stream::iter(looks).buffered(RESOURCES_AT_ONCE).try_collect().await?;
        for mut of_resource in looks {
            if waits_for_pods {
                // It is counted; what is waited for are the pods.
                emptied.left.note(&of_resource.resource, &of_resource.listed.0);
                of_resource.listed.0.clear();
            }
            of_resource.add_to(&mut emptied);
        }
        Ok(emptied)
    }

    /// Tells the objects of one resource to go, and looks what is left.
    async fn empty_of(&self, resource: ApiResource) -> Result<OfResource, ReconcileError> {
        let listed = self.list(&resource).await?;
        // A pod that is on its way needs no second word.
        let needs_word = |found: &&Found| !(is_pods(&resource) && found.leaving);
        let to_go: Vec<Found> = listed.0.iter().filter(needs_word).cloned().collect();
        if to_go.is_empty() {
            return Ok(OfResource { resource, listed, failures: Vec::new() });
        }
        self.check_same().await?;
        fault::point("namespace.content_due");
        let api = self.api(&resource);
        let deletions = to_go.into_iter().map(|found| delete(&api, found));
        let failures: Vec<Option<String>> =
            stream::iter(deletions).buffer_unordered(OBJECTS_AT_ONCE).try_collect().await?;
        fault::point("namespace.content_deleted");
        let listed = self.list(&resource).await?;
        Ok(OfResource { resource, listed, failures: failures.into_iter().flatten().collect() })
    }

    /// Everything that was listed so far belongs to this namespace, and not to another one of its name, if it is still there.
    async fn check_same(&self) -> Result<(), ReconcileError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let now = api.get_opt(self.name).await?;
        if now.is_some_and(|now| now.metadata.uid.as_deref() == Some(self.uid)) {
            return Ok(());
        }
        Err(ReconcileError::Other("the namespace went while it was emptied".to_owned()))
    }

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.name, resource)
    }

    async fn list(&self, resource: &ApiResource) -> Result<Listed, ReconcileError> {
        let api = self.api(resource);
        let mut params = ListParams::default().limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = match api.list_metadata(&params).await {
                Ok(page) => page,
                // It is no longer served, or never listed after all: nothing of it is there.
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 405 => {
                    return Ok((Vec::new(), String::new()));
                }
                Err(error) => return Err(error.into()),
            };
            found.extend(page.items.iter().map(|object| Found::of(&object.metadata)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((found, page.metadata.resource_version.unwrap_or_default())),
            }
        }
    }
}

/// What has become of the objects of one resource.
struct OfResource {
    resource: ApiResource,
    listed: Listed,
    failures: Vec<String>,
}

impl OfResource {
    fn add_to(self, emptied: &mut Emptied) {
        let (objects, version) = self.listed;
        emptied.left.failures.extend(self.failures);
        emptied.left.note(&self.resource, &objects);
        emptied.came_meanwhile |= objects.iter().any(|object| !object.leaving);
        if !objects.is_empty() {
            emptied.remaining.push(Remaining::new(self.resource, version, &objects));
        }
    }
}

/// Deletes an object; answers why it cannot be.
async fn delete(api: &Api<DynamicObject>, found: Found) -> kube::Result<Option<String>> {
    let preconditions = Preconditions { uid: Some(found.uid), resource_version: None };
    // Nothing of the namespace stays, whatever kinds do by default.
    let params = DeleteParams::background().preconditions(preconditions);
    match api.delete(&found.name, &params).await {
        Ok(_) => Ok(None),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message.clone())),
        Err(error) => Err(error),
    }
}
