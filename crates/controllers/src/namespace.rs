//! Ends namespaces: deletes everything that is in one, pods first, says in its conditions what keeps it, and lets it go when
//! nothing does.
//!
//! What is in it is told by discovery. What is left (pods that end in their own time, objects with finalizers) is watched, so
//! that a namespace that cannot go for days wakes nobody.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/garbage-collection/> and
//! <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/namespace-v1/>.

mod content;
mod decision;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use informer::{Change, Informer, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::PostParams;

use crate::controller::{Next, ReconcileError, Reconciler, is_not_found, run};
use crate::queue::Queue;
use crate::{Speaker, Start};
use content::Content;
use decision::{finalized, is_to_be_emptied, news};
use waiting::Waiting;

/// Its name, and that of its service account.
const NAME: &str = "namespace-controller";
/// Namespaces that are emptied at the same time.
const WORKERS: usize = 4;
/// When it looks again after something has come while it looked.
const SOON: Duration = Duration::from_millis(50);
/// When it looks again at what it cannot watch.
const UNWATCHED: Duration = Duration::from_secs(5);

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let client = start.config.clients.client(Speaker::Controller(NAME));
    let namespaces = start.informers().namespaces.clone();
    let queue = Arc::new(Queue::default());
    let looks = Arc::clone(&queue);
    namespaces.on_change(move |change| {
        let ends = match change {
            Change::Added(now) => is_to_be_emptied(now),
            // What it says of itself is no news.
            Change::Changed { before, now } => is_to_be_emptied(now) && !is_to_be_emptied(before),
            // Nobody waits for its content any more.
            Change::Removed(before) => is_to_be_emptied(before),
        };
        if ends {
            looks.add(ObjectKey::of(&**change.object()));
        }
    });
    let waiting = Waiting::new(client.clone(), Arc::clone(&queue), start);
    let synced = {
        let namespaces = namespaces.clone();
        async move { namespaces.synced().await }
    };
    let controller = Namespaces { namespaces, client, waiting };
    start.task(run(Arc::new(controller), queue, WORKERS, synced, start.shutdown.clone()));
}

struct Namespaces {
    namespaces: Informer<Namespace>,
    client: kube::Client,
    waiting: Waiting,
}

impl Reconciler for Namespaces {
    const NAME: &'static str = NAME;

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        self.waiting.end(&key.name);
        if !self.namespaces.get(&key).is_some_and(|known| is_to_be_emptied(&known)) {
            return Ok(Next::Change);
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        let Some(namespace) = api.get_opt(&key.name).await? else { return Ok(Next::Change) };
        if !is_to_be_emptied(&namespace) {
            return Ok(Next::Change);
        }
        let emptied = Content::of(&self.client, &namespace).empty().await?;
        let namespace = match news(&namespace, &emptied.left, &now()) {
            None => namespace,
            Some(conditions) => {
                let mut told = namespace;
                let status = told.status.get_or_insert_default();
                status.phase = Some("Terminating".to_owned());
                status.conditions = Some(conditions);
                fault::point("namespace.status_due");
                let told = api.replace_status(&key.name, &PostParams::default(), &told).await?;
                fault::point("namespace.status_written");
                told
            }
        };
        if emptied.left.is_nothing() {
            return self.let_go(&api, &namespace).await;
        }
        let is_watched = self.waiting.begin(&key.name, emptied.remaining);
        if emptied.left.is_trouble() {
            // Later and later, or when something goes.
            let trouble: Vec<String> =
                emptied.left.failures.into_iter().chain(emptied.left.unknown).collect();
            return Err(ReconcileError::Other(trouble.join(", ")));
        }
        Ok(match (emptied.came_meanwhile, is_watched) {
            (true, _) => Next::After(SOON),
            (false, true) => Next::Change,
            (false, false) => Next::After(UNWATCHED),
        })
    }
}

impl Namespaces {
    /// Takes the finalizer off; with the last one the namespace goes.
    async fn let_go(&self, api: &Api<Namespace>, namespace: &Namespace) -> Result<Next, ReconcileError> {
        let key = ObjectKey::of(namespace);
        let params = PostParams::default();
        fault::point("namespace.finalize_due");
        let answer = api.replace_subresource("finalize", &key.name, &params, &finalized(namespace)).await;
        fault::point("namespace.finalized");
        match answer {
            Ok(_) => Ok(Next::Change),
            Err(error) if is_not_found(&error) => Ok(Next::Change),
            Err(error) => Err(error.into()),
        }
    }
}

/// Now, as objects tell the time.
fn now() -> Time {
    let now = Timestamp::now();
    Time(now.round(jiff::Unit::Second).unwrap_or(now))
}

#[cfg(test)]
mod tests;
