//! Watches the API for this node's pods, and for the ConfigMaps and Secrets that pods are made from.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::pods::{PodsHandle, PodsMessage};
use crate::references::SourceKind;

/// Tells `pods` of every change of the pods of `node`, for ever.
pub(crate) async fn watch_pods(client: kube::Client, node: String, pods: PodsHandle) {
    let selector = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let api: Api<Pod> = Api::all(client);
    let mut events = std::pin::pin!(watcher::watcher(api, selector).default_backoff());
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.extend(pod.metadata.uid.clone());
                pods.tell(PodsMessage::Seen(Arc::new(without_managers(pod))));
            }
            Ok(Event::InitDone) => {
                pods.tell(PodsMessage::Listed { uids: std::mem::take(&mut listed) });
            }
            Ok(Event::Apply(pod)) => pods.tell(PodsMessage::Seen(Arc::new(without_managers(pod)))),
            Ok(Event::Delete(pod)) => {
                if let Some(uid) = pod.metadata.uid {
                    pods.tell(PodsMessage::Gone { uid });
                }
            }
            Err(error) => tracing::warn!(%error, "the watch of pods was interrupted"),
        }
    }
}

/// An object as a node keeps it: who set which field is nothing to it, and often as large as the rest.
pub(crate) fn without_managers<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

/// Tells `pods` of every change of ConfigMaps and Secrets, for ever.
pub(crate) async fn watch_sources(client: kube::Client, pods: PodsHandle) {
    tokio::join!(
        watch_source(Api::<ConfigMap>::all(client.clone()), SourceKind::ConfigMap, &pods),
        watch_source(Api::<Secret>::all(client), SourceKind::Secret, &pods),
    );
}

async fn watch_source<K>(api: Api<K>, kind: SourceKind, pods: &PodsHandle)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    let mut first = true;
    while let Some(event) = events.next().await {
        let object = match event {
            Ok(Event::Apply(object) | Event::Delete(object)) => object,
            // The first list is what pods read anyway; a later one may hold changes that were missed.
            Ok(Event::InitApply(object)) if !first => object,
            Ok(Event::InitDone) => {
                first = false;
                continue;
            }
            Ok(Event::Init | Event::InitApply(_)) => continue,
            Err(error) => {
                // Which object it was about must not be printed: it may be a Secret.
                tracing::warn!(?kind, "the watch of sources was interrupted: {}", brief(&error));
                continue;
            }
        };
        pods.tell(PodsMessage::SourceChanged {
            kind,
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        });
    }
}

fn brief(error: &watcher::Error) -> &'static str {
    match error {
        watcher::Error::InitialListFailed(_) => "the list failed",
        watcher::Error::WatchStartFailed(_) => "the watch did not start",
        watcher::Error::WatchError(_) => "the API server ended it",
        watcher::Error::WatchFailed(_) => "the connection failed",
        watcher::Error::NoResourceVersion => "the API server gave no resource version",
    }
}
