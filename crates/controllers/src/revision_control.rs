//! Keeps the history of a StatefulSet or DaemonSet in the API: writes the revision of its template and removes old ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use informer::{Informer, Kind};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use crate::controller::is_already_there;
use crate::deletion::delete;
use crate::ownership::{claimed, controller_of};
use crate::revisions::{self, Holder, Place};
use crate::selector::chooses;

/// Where a template stands in its history.
pub(crate) struct Standing {
    /// Its revision.
    pub(crate) newest: Arc<ControllerRevision>,
    /// All revisions, the newest last.
    pub(crate) history: Vec<Arc<ControllerRevision>>,
    /// How many names of revisions were taken by others.
    pub(crate) collisions: Option<i32>,
}

/// Writes revisions.
pub(crate) struct RevisionControl {
    revisions: Informer<ControllerRevision>,
    client: kube::Client,
}

impl RevisionControl {
    /// Speaks with `client`.
    pub(crate) fn new(revisions: Informer<ControllerRevision>, client: kube::Client) -> RevisionControl {
        RevisionControl { revisions, client }
    }

    fn api(&self, namespace: Option<&str>) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), namespace.unwrap_or_default())
    }

    /// The revisions that are `owner`'s: those that it controls, and those that its selector chooses and nobody controls.
    ///
    /// # Errors
    ///
    /// When the API refuses.
    pub(crate) async fn of<O: Kind>(
        &self,
        owner: &O,
        owners: &Api<O>,
        selector: &LabelSelector,
    ) -> kube::Result<Vec<Arc<ControllerRevision>>> {
        let api = self.api(owner.meta().namespace.as_deref());
        let chosen =
            |revision: &ControllerRevision| chooses(Some(selector), revision.metadata.labels.as_ref());
        claimed(owner, &self.revisions, &api, owners, chosen).await
    }

    /// Sees to it that the template has a revision and that it is the newest. `holder` says whose history it is, given how many
    /// names were taken.
    ///
    /// # Errors
    ///
    /// When the API refuses.
    pub(crate) async fn stand<'h>(
        &self,
        mut recorded: Vec<Arc<ControllerRevision>>,
        mut collisions: Option<i32>,
        holder: impl Fn(i32) -> Holder<'h>,
    ) -> kube::Result<Standing> {
        revisions::sort(&mut recorded);
        let newest = loop {
            let holder = holder(collisions.unwrap_or(0));
            let api = self.api(holder.meta.namespace.as_deref());
            let written = match revisions::place(&holder, &recorded) {
                Place::Newest(newest) => break newest,
                Place::Again(again) => {
                    let name = again.metadata.name.clone().unwrap_or_default();
                    api.replace(&name, &PostParams::default(), &again).await?
                }
                Place::New(new) => match api.create(&PostParams::default(), &new).await {
                    Ok(created) => created,
                    Err(error) if is_already_there(&error) => {
                        let name = new.metadata.name.clone().unwrap_or_default();
                        let Some(found) = api.get_opt(&name).await? else { return Err(error) };
                        let ours = controller_of(&found.metadata)
                            .is_some_and(|owner| owner.uid == holder.reference.uid);
                        if !ours || !revisions::is_of(&found, holder.template) {
                            // The name is another's.
                            collisions = Some(collisions.unwrap_or(0).saturating_add(1));
                            continue;
                        }
                        found
                    }
                    Err(error) => return Err(error),
                },
            };
            fault::point("revision.written");
            self.revisions.learn(written.clone());
            recorded.retain(|revision| revision.metadata.name != written.metadata.name);
            recorded.push(Arc::new(written));
            revisions::sort(&mut recorded);
        };
        Ok(Standing { newest, history: recorded, collisions })
    }

    /// Removes what the history no longer keeps.
    ///
    /// # Errors
    ///
    /// When the API refuses.
    pub(crate) async fn clean(
        &self,
        history: &[Arc<ControllerRevision>],
        in_use: &BTreeSet<&str>,
        limit: Option<i32>,
    ) -> kube::Result<()> {
        for revision in revisions::surplus(history, in_use, limit) {
            let api = self.api(revision.metadata.namespace.as_deref());
            delete(&*revision, &api, &self.revisions, DeleteParams::default()).await?;
        }
        Ok(())
    }
}
