//! The phases of the pods of a node, as a watch of its API tells them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Outcome;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The phase of each pod, by name. Clones share one watch, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Phases {
    seen: watch::Receiver<BTreeMap<String, String>>,
    _watching: Arc<JoinSet<()>>,
}

impl Phases {
    /// Watches pods from now on.
    #[must_use]
    pub fn of(pods: &Api<Pod>) -> Self {
        let (send, seen) = watch::channel(BTreeMap::new());
        let mut changes = watcher(pods.clone(), watcher::Config::default()).default_backoff().boxed();
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            while let Some(change) = changes.next().await {
                let Ok(change) = change else { continue };
                send.send_modify(|seen: &mut BTreeMap<String, String>| match change {
                    watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
                        seen.insert(pod.metadata.name.unwrap_or_default(), phase);
                    }
                    watcher::Event::Delete(pod) => {
                        seen.remove(&pod.metadata.name.unwrap_or_default());
                    }
                    watcher::Event::Init => seen.clear(),
                    watcher::Event::InitDone => {}
                });
            }
        });
        Self { seen, _watching: Arc::new(watching) }
    }

    /// The names of all pods.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.seen.borrow().keys().cloned().collect()
    }

    /// Waits until the phases are as wanted.
    ///
    /// # Errors
    ///
    /// When they are not within [`PATIENCE`].
    pub async fn until(&self, wanted: impl FnMut(&BTreeMap<String, String>) -> bool) -> Outcome<()> {
        tokio::time::timeout(PATIENCE, self.seen.clone().wait_for(wanted)).await??;
        Ok(())
    }
}
