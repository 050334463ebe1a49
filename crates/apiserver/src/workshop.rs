//! Work that takes a processor for long: off the threads that answer requests, and only so much of it at once.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::status::ApiError;

/// Where such work is done. Clones share the places.
#[derive(Clone, Debug)]
pub(crate) struct Workshop(Arc<Semaphore>);

impl Workshop {
    pub(crate) fn new(places: usize) -> Workshop {
        Workshop(Arc::new(Semaphore::new(places)))
    }

    /// Does `work` on a thread of its own once there is a place. What is begun keeps its place until it is done, also
    /// when nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let gone = || ApiError::Internal { message: "the request handler panicked".to_owned() };
        let place = self.0.clone().acquire_owned().await.map_err(|_| gone())?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(|_| gone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn work_does_not_keep_the_only_thread_from_other_requests() {
        let workshop = Workshop::new(1);
        let (sender, receiver) = mpsc::channel();
        // The work ends only when the runtime's own thread has done something else.
        let work = workshop.run(move || receiver.recv());
        let other = async move { sender.send("answered") };
        let (done, sent) = tokio::join!(work, other);
        assert_eq!(done.expect("no panic"), Ok("answered"));
        assert_eq!(sent, Ok(()));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn no_more_is_done_at_once_than_there_are_places() {
        let workshop = Workshop::new(1);
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let workshop = workshop.clone();
            async move { workshop.run(move || (begin.send(()), ended.recv().is_ok())).await }
        });
        tokio::task::spawn_blocking(move || begun.recv()).await.expect("no panic").expect("begun");
        let mut second = Box::pin(workshop.run(|| "second"));
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(workshop.0.available_permits(), 0);
        end.send(()).expect("still running");
        assert!(first.await.expect("no panic").expect("a place").1);
        assert_eq!(second.await.expect("a place"), "second");
    }

    #[tokio::test]
    async fn work_that_panics_gives_its_place_back() {
        let workshop = Workshop::new(1);
        let failed = workshop.run(|| panic!("on purpose")).await;
        assert!(matches!(failed, Err::<(), _>(ApiError::Internal { .. })));
        assert_eq!(workshop.run(|| 1).await.expect("a place"), 1);
    }
}
