//! Who waits for what is left in namespaces that end: one task a namespace, with a watch of each resource of which something is
//! left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::select_all;
use informer::ObjectKey;
use kube::Api;
use kube::api::{DynamicObject, WatchEvent, WatchParams};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::decision::{Found, News, Remaining};
use crate::Start;
use crate::queue::Queue;

/// Namespaces that are waited for; others are looked at from time to time.
const PLACES: usize = 64;
/// Changes within this time are one reason for a look.
const GATHERED: Duration = Duration::from_secs(1);
/// The server ends a watch after this many seconds; it goes on where it was.
const WATCH_SECONDS: u32 = 290;

/// The tasks that wait.
pub(super) struct Waiting {
    client: kube::Client,
    queue: Arc<Queue>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    places: Arc<Semaphore>,
    running: Mutex<BTreeMap<String, CancellationToken>>,
}

impl Waiting {
    /// Nobody waits yet. Who does puts the namespace into `queue` when there is news.
    pub(super) fn new(client: kube::Client, queue: Arc<Queue>, start: &Start<'_>) -> Waiting {
        Waiting {
            client,
            queue,
            tasks: start.tasks.clone(),
            shutdown: start.shutdown.clone(),
            places: Arc::new(Semaphore::new(PLACES)),
            running: Mutex::default(),
        }
    }

    /// Nobody waits for this namespace any more.
    pub(super) fn end(&self, namespace: &str) {
        if let Some(task) = self.running().remove(namespace) {
            task.cancel();
        }
    }

    /// Waits for what is left in a namespace; false when there is nobody to do it.
    pub(super) fn begin(&self, namespace: &str, remaining: Vec<Remaining>) -> bool {
        if remaining.is_empty() {
            return false;
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return false };
        let end = self.shutdown.child_token();
        self.running().insert(namespace.to_owned(), end.clone());
        let (client, queue) = (self.client.clone(), Arc::clone(&self.queue));
        let namespace = namespace.to_owned();
        self.tasks.spawn(async move {
            let _place = place;
            tokio::select! {
                biased;
                () = end.cancelled() => {}
                () = wait(&client, &namespace, remaining) => queue.add(ObjectKey::new("", namespace)),
            }
        });
        true
    }

    /// No holder of the lock can panic half-way through a change.
    fn running(&self) -> MutexGuard<'_, BTreeMap<String, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves when it is time for another look.
async fn wait(client: &kube::Client, namespace: &str, remaining: Vec<Remaining>) {
    let changed = Notify::new();
    let watches = remaining.into_iter().map(|mut remaining| {
        let changed = &changed;
        Box::pin(async move {
            if let Err(error) = until_gone(client, namespace, &mut remaining, changed).await {
                tracing::debug!(namespace, resource = remaining.resource.plural, %error, "a watch was interrupted");
                tokio::time::sleep(GATHERED).await;
            }
        })
    });
    let gathered = async {
        changed.notified().await;
        tokio::time::sleep(GATHERED).await;
    };
    tokio::select! {
        _ = select_all(watches) => {}
        () = gathered => {}
    }
}

/// Resolves when nothing of the resource is left, or the watch is interrupted; tells of changes before that.
async fn until_gone(
    client: &kube::Client,
    namespace: &str,
    remaining: &mut Remaining,
    changed: &Notify,
) -> kube::Result<()> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &remaining.resource);
    let params = WatchParams::default().timeout(WATCH_SECONDS);
    loop {
        let mut events = std::pin::pin!(api.watch_metadata(&params, &remaining.version).await?);
        let began = remaining.version.clone();
        while let Some(event) = events.next().await {
            let news = match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    note(&mut remaining.version, object.metadata.resource_version.as_ref());
                    remaining.there(Found::of(&object.metadata))
                }
                WatchEvent::Deleted(object) => {
                    note(&mut remaining.version, object.metadata.resource_version.as_ref());
                    remaining.gone(&Found::of(&object.metadata))
                }
                WatchEvent::Bookmark(bookmark) => {
                    note(&mut remaining.version, Some(&bookmark.metadata.resource_version));
                    News::None
                }
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            match news {
                News::None => {}
                News::Some => changed.notify_one(),
                News::Gone => return Ok(()),
            }
        }
        if began == remaining.version {
            // A server that ends watches at once must not be asked again and again.
            tokio::time::sleep(GATHERED).await;
        }
    }
}

fn note(version: &mut String, told: Option<&String>) {
    if let Some(told) = told {
        told.clone_into(version);
    }
}
