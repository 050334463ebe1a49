//! How a controller runs: workers take objects from its queue, one look after the other; what fails is tried again later, and an
//! internal error in one look harms no other.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use informer::ObjectKey;

use crate::queue::Queue;

/// What a controller does about one object.
pub(crate) trait Reconciler: Send + Sync + 'static {
    /// Its name, for the log.
    const NAME: &'static str;

    /// Brings the world nearer to what the object asks for. The object may be gone.
    fn reconcile(&self, key: ObjectKey) -> impl Future<Output = Result<Next, ReconcileError>> + Send;
}

/// When to look at an object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// When something changes.
    Change,
    /// After this time, or when something changes.
    After(Duration),
}

/// Why a look could not be brought to its end; it will be tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// The API refused, or could not be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// Something else stands in the way.
    #[error("{0}")]
    Other(String),
}

/// Whether the API says that the object has changed since it was read.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict")
}

/// Whether the API says that an object of this name is another than the one that was meant, by its UID.
///
/// Source: the words of Kubernetes' API server about preconditions.
pub(crate) fn is_of_another(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let message = status.message.to_ascii_lowercase();
    status.code == 409
        && ["uid in the precondition", "uid in precondition"].iter().any(|words| message.contains(words))
}

/// Whether the API says that there is such an object already.
pub(crate) fn is_already_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

/// Whether the API says that there is no such object.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API says that the namespace of the object is going away: trying again is of no use.
pub(crate) fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// After how many failures in a row the log is told.
const WORTH_TELLING: u32 = 8;

/// Runs a controller until `shutdown`. Begins when `synced` says that the caches that it reads are filled.
pub(crate) async fn run<R: Reconciler>(
    reconciler: Arc<R>,
    queue: Arc<Queue>,
    workers: usize,
    synced: impl Future<Output = ()> + Send + 'static,
    shutdown: CancellationToken,
) {
    let work = async {
        synced.await;
        let work = |_| tokio::spawn(work(Arc::clone(&reconciler), Arc::clone(&queue), shutdown.clone()));
        for worker in (0..workers).map(work).collect::<Vec<_>>() {
            // A worker contains its panics.
            let _ = worker.await;
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = work => {}
    }
}

async fn work<R: Reconciler>(reconciler: Arc<R>, queue: Arc<Queue>, shutdown: CancellationToken) {
    loop {
        let key = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            key = queue.next() => key,
        };
        // A look that has begun is brought to its end: what it has created is to be learned of.
        match fault::contained(R::NAME, reconciler.reconcile(key.clone())).await {
            Some(Ok(next)) => {
                queue.succeeded(&key);
                match next {
                    Next::Change => {}
                    Next::After(wait) => queue.add_after(key.clone(), wait),
                }
            }
            Some(Err(error)) => {
                let failures = queue.failed(&key);
                let quietly = matches!(&error, ReconcileError::Api(error) if is_conflict(error));
                if failures.is_multiple_of(WORTH_TELLING) && !quietly {
                    tracing::warn!(controller = R::NAME, object = %key, failures, %error, "still failing");
                } else {
                    tracing::debug!(controller = R::NAME, object = %key, failures, %error, "failed; trying again");
                }
            }
            None => {
                queue.failed(&key);
            }
        }
        queue.done(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Panics at one object, fails at another once, and notes all looks.
    struct Touchy(Mutex<Vec<String>>, tokio::sync::Notify);

    impl Reconciler for Touchy {
        const NAME: &'static str = "touchy";

        async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
            let seen = {
                let mut looks = self.0.lock().expect("whole");
                looks.push(key.name.clone());
                looks.iter().filter(|name| **name == key.name).count()
            };
            self.1.notify_one();
            assert!(key.name != "panics" || seen > 1, "a test wants a panic");
            if key.name == "fails" && seen == 1 {
                return Err(ReconcileError::Other("not yet".to_owned()));
            }
            Ok(Next::Change)
        }
    }

    #[tokio::test]
    async fn a_panic_or_failure_at_one_object_keeps_no_other_from_its_turn_and_is_tried_again() {
        let touchy = Arc::new(Touchy(Mutex::default(), tokio::sync::Notify::new()));
        let queue = Arc::new(Queue::default());
        for name in ["panics", "fails", "fine"] {
            queue.add(ObjectKey::new("n", name));
        }
        let shutdown = CancellationToken::new();
        let controller = tokio::spawn(run(
            Arc::clone(&touchy),
            Arc::clone(&queue),
            1,
            std::future::ready(()),
            shutdown.clone(),
        ));
        while touchy.0.lock().expect("whole").len() < 5 {
            touchy.1.notified().await;
        }
        shutdown.cancel();
        controller.await.expect("it ends");
        let mut looks = touchy.0.lock().expect("whole").clone();
        assert_eq!(looks[..3], ["panics", "fails", "fine"]);
        looks.sort();
        assert_eq!(looks, ["fails", "fails", "fine", "panics", "panics"]);
    }
}
