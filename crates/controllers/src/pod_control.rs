//! Pods on behalf of a controller: made from its template, created and deleted, each with an event that says so.

use std::sync::Arc;

use events::{EventRecorder, EventType};
use informer::{Informer, ObjectKey};
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use crate::controller::is_namespace_terminating;
use crate::deletion::delete;

/// How a pod is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodName<'n> {
    /// By the server, beginning so.
    Beginning(&'n str),
    /// So.
    Exactly(&'n str),
}

/// The beginning of the names of pods that a controller of this name makes.
pub(crate) fn name_beginning(controller: &str) -> String {
    format!("{controller}-")
}

/// A pod from a template.
pub(crate) fn pod_from(
    template: &PodTemplateSpec,
    namespace: &str,
    name: PodName<'_>,
    controller: OwnerReference,
) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let (name, generate_name) = match name {
        PodName::Beginning(beginning) => (None, Some(beginning.to_owned())),
        PodName::Exactly(name) => (Some(name.to_owned()), None),
    };
    Pod {
        metadata: ObjectMeta {
            name,
            generate_name,
            namespace: Some(namespace.to_owned()),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Creates and deletes pods, tells of it, and lets the cache know at once.
#[derive(Clone, Debug)]
pub(crate) struct PodControl {
    pods: Informer<Pod>,
    client: DebugClient,
    events: EventRecorder,
}

/// A client has no `Debug`.
#[derive(Clone)]
struct DebugClient(kube::Client);

impl std::fmt::Debug for DebugClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl PodControl {
    /// Speaks with `client`, tells in `events`.
    pub(crate) fn new(pods: Informer<Pod>, client: kube::Client, events: EventRecorder) -> PodControl {
        PodControl { pods, client: DebugClient(client), events }
    }

    /// Pods of a namespace.
    pub(crate) fn api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.0.clone(), namespace)
    }

    /// Creates a pod for `owner`.
    ///
    /// # Errors
    ///
    /// What the API says, which the event has said already.
    pub(crate) async fn create(&self, owner: &ObjectReference, pod: &Pod) -> kube::Result<Arc<Pod>> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        fault::point("controller.pod_due");
        match self.api(namespace).create(&PostParams::default(), pod).await {
            Ok(created) => {
                fault::point("controller.pod_created");
                let name = created.metadata.name.clone().unwrap_or_default();
                self.tell(owner, EventType::Normal, "SuccessfulCreate", format!("Created pod: {name}"));
                self.pods.learn(created.clone());
                Ok(Arc::new(created))
            }
            Err(error) => {
                if !is_namespace_terminating(&error) {
                    let message = format!("Error creating: {}", said(&error));
                    self.tell(owner, EventType::Warning, "FailedCreate", message);
                }
                Err(error)
            }
        }
    }

    /// Deletes a pod for `owner`: that very pod, with its own grace period. One that is gone already is well deleted.
    ///
    /// # Errors
    ///
    /// What the API says, which the event has said already.
    pub(crate) async fn delete(&self, owner: &ObjectReference, pod: &Pod) -> kube::Result<()> {
        let key = ObjectKey::of(pod);
        fault::point("controller.pod_deletion_due");
        match delete(pod, &self.api(&key.namespace), &self.pods, DeleteParams::default()).await {
            Ok(is_ours) => {
                fault::point("controller.pod_deleted");
                if is_ours {
                    let message = format!("Deleted pod: {}", key.name);
                    self.tell(owner, EventType::Normal, "SuccessfulDelete", message);
                }
                Ok(())
            }
            Err(error) => {
                let message = format!("Error deleting: {}", said(&error));
                self.tell(owner, EventType::Warning, "FailedDelete", message);
                Err(error)
            }
        }
    }

    /// Creates `count` pods, `make` giving the n-th: one first, then two, four and so on at once, and no more after a failure, so
    /// that what is refused for all of them is refused once or twice. Answers those that are there, and the first error.
    pub(crate) async fn create_many(
        &self,
        owner: &ObjectReference,
        count: usize,
        make: impl Fn(usize) -> Pod,
    ) -> (Vec<Arc<Pod>>, Option<kube::Error>) {
        let mut created = Vec::new();
        let (mut begun, mut batch) = (0, 1);
        while begun < count {
            let until = (begun + batch).min(count);
            let pods: Vec<Pod> = (begun..until).map(&make).collect();
            let answers = futures::future::join_all(pods.iter().map(|pod| self.create(owner, pod))).await;
            let mut failure = None;
            for answer in answers {
                match answer {
                    Ok(pod) => created.push(pod),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            if failure.is_some() {
                return (created, failure);
            }
            (begun, batch) = (until, batch * 2);
        }
        (created, None)
    }

    fn tell(&self, owner: &ObjectReference, type_: EventType, reason: &'static str, message: String) {
        self.events.record(owner.clone(), type_, reason, message);
    }
}

/// What the API said, without what the client wraps around it.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
