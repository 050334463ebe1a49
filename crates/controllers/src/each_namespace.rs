//! What each namespace has from its beginning to its end: an object of one name, made again when it is gone, and set right when
//! somebody has changed what counts.

use std::sync::Arc;
use std::time::Duration;

use informer::{Change, Informer, Kind, ObjectKey};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::Serialize;

use crate::controller::{
    Next, ReconcileError, Reconciler, is_already_there, is_namespace_terminating, is_not_found, run,
};
use crate::queue::Queue;
use crate::{Speaker, Start};

/// Namespaces that are looked at at the same time.
const WORKERS: usize = 2;
/// What somebody has written is looked at after this time: two controllers that disagree must not write without end.
const CALM: Duration = Duration::from_secs(1);

/// An object that each namespace has.
pub(crate) trait Everywhere: Send + Sync + 'static {
    /// Its kind.
    type Object: Kind + Serialize + Resource<Scope = NamespaceResourceScope>;
    /// The controller of it, and the controller's service account.
    const CONTROLLER: &'static str;
    /// Its name.
    const NAME: &'static str;
    /// The field selector of that name.
    const FIELDS: &'static str;

    /// A new one.
    fn made(&self) -> Self::Object;

    /// What has to become of the one that is there; none when it is right.
    fn mended(&self, found: &Self::Object) -> Option<Self::Object>;
}

/// What is to be done in a namespace.
#[derive(Debug, PartialEq)]
pub(crate) enum Step<O> {
    Nothing,
    Create(O),
    Replace(O),
}

/// Decides it. A namespace that ends gets nothing any more, and keeps what it has.
pub(crate) fn decide<E: Everywhere>(
    object: &E,
    namespace: Option<&Namespace>,
    found: Option<&E::Object>,
) -> Step<E::Object> {
    match (namespace, found) {
        (None, _) => Step::Nothing,
        (Some(namespace), _) if namespace.metadata.deletion_timestamp.is_some() => Step::Nothing,
        (Some(_), None) => Step::Create(object.made()),
        (Some(_), Some(found)) => object.mended(found).map_or(Step::Nothing, Step::Replace),
    }
}

/// Starts the controller of an object, with a cache of its own of the objects of that name.
pub(crate) fn start<E: Everywhere>(start: &Start<'_>, object: E) {
    let namespaces = start.informers().namespaces.clone();
    let objects: Informer<E::Object> = Informer::idle();
    let reader = start.config.clients.client(Speaker::ControllerManager);
    start.task(objects.clone().follow(Api::all(reader), E::FIELDS, start.shutdown.clone()));
    let queue = Arc::new(Queue::default());
    let looks = Arc::clone(&queue);
    namespaces.on_change(move |change| match change {
        Change::Added(namespace) | Change::Changed { now: namespace, .. } => {
            looks.add(ObjectKey::of(&**namespace));
        }
        Change::Removed(_) => {}
    });
    let looks = Arc::clone(&queue);
    objects.on_change(move |change| {
        let namespace = ObjectKey::new("", ObjectKey::of(&**change.object()).namespace);
        match change {
            Change::Removed(_) => looks.add(namespace),
            Change::Added(_) | Change::Changed { .. } => looks.add_after(namespace, CALM),
        }
    });
    let synced = {
        let (namespaces, objects) = (namespaces.clone(), objects.clone());
        async move {
            namespaces.synced().await;
            objects.synced().await;
        }
    };
    let client = start.config.clients.client(Speaker::Controller(E::CONTROLLER));
    let controller = EachNamespace { object, namespaces, objects, client };
    start.task(run(Arc::new(controller), queue, WORKERS, synced, start.shutdown.clone()));
}

struct EachNamespace<E: Everywhere> {
    object: E,
    namespaces: Informer<Namespace>,
    objects: Informer<E::Object>,
    client: kube::Client,
}

impl<E: Everywhere> Reconciler for EachNamespace<E> {
    const NAME: &'static str = E::CONTROLLER;

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        let namespace = self.namespaces.get(&key);
        let found = self.objects.get(&ObjectKey::new(&key.name, E::NAME));
        let api: Api<E::Object> = Api::namespaced(self.client.clone(), &key.name);
        let params = PostParams::default();
        let answer = match decide(&self.object, namespace.as_deref(), found.as_deref()) {
            Step::Nothing => return Ok(Next::Change),
            Step::Create(object) => {
                fault::point("each_namespace.create_due");
                let answer = api.create(&params, &object).await;
                fault::point("each_namespace.created");
                answer
            }
            Step::Replace(object) => {
                fault::point("each_namespace.replace_due");
                let answer = api.replace(E::NAME, &params, &object).await;
                fault::point("each_namespace.replaced");
                answer
            }
        };
        match answer {
            Ok(object) => self.objects.learn(object),
            // The watch will tell of it, or of the end of the namespace.
            Err(error)
                if is_already_there(&error) || is_not_found(&error) || is_namespace_terminating(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Change)
    }
}
