//! A fault stays where it is: a panic in one task is told, and the task begins anew; nothing else ends.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

/// A task that met an internal error begins anew after this.
const PAUSE: Duration = Duration::from_secs(1);

/// Does something, and answers `None` if it met an internal error (a panic), which is told. What it worked on must bear being
/// left in the middle.
pub async fn contained<T>(what: &str, action: impl Future<Output = T>) -> Option<T> {
    match AssertUnwindSafe(action).catch_unwind().await {
        Ok(value) => Some(value),
        Err(_) => {
            tracing::error!(what, "met an internal error; everything else goes on");
            None
        }
    }
}

/// Carries out a task that has no end of its own; after an internal error it begins anew.
pub async fn carried_on<F: Future<Output = ()>>(what: &str, mut task: impl FnMut() -> F) {
    while contained(what, task()).await.is_none() {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Does something when it is dropped: also when the task that holds it panics.
pub struct AtEnd<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> AtEnd<F> {
    /// Does `action` at the end.
    pub fn new(action: F) -> Self {
        Self(Some(action))
    }
}

impl<F: FnOnce()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}
