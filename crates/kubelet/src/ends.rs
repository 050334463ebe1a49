//! Which pods are on their way out: an agent that ends in order waits for them a moment, so that no sandbox stays whose
//! containers have ended.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;

/// How long an agent that ends waits for them at most. A pod that needs longer goes on with the next agent.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The pods that are on their way out, by UID.
#[derive(Debug, Default)]
pub(crate) struct Ends(watch::Sender<BTreeSet<String>>);

impl Ends {
    /// Notes that a pod is on its way out, or that nothing of it is to be ended any more.
    pub(crate) fn note(&self, uid: &str, ending: bool) {
        self.0.send_if_modified(|ends| match (ending, ends.contains(uid)) {
            (true, false) => ends.insert(uid.to_owned()),
            (false, true) => ends.remove(uid),
            (true, true) | (false, false) => false,
        });
    }

    /// Waits until there are none, at most so long. Answers how many are left.
    pub(crate) async fn finished(&self, patience: Duration) -> usize {
        let mut ends = self.0.subscribe();
        // The sender is this very value.
        let _ = tokio::time::timeout(patience, ends.wait_for(BTreeSet::is_empty)).await;
        self.0.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Ends, PATIENCE};

    #[tokio::test]
    async fn it_waits_for_the_last_end_and_not_for_ever() {
        let ends = Ends::default();
        assert_eq!(ends.finished(PATIENCE).await, 0, "nothing ends");
        ends.note("a", true);
        ends.note("b", true);
        ends.note("a", true);
        let finish = async {
            tokio::task::yield_now().await;
            ends.note("a", false);
            tokio::task::yield_now().await;
            ends.note("b", false);
        };
        assert_eq!(tokio::join!(ends.finished(PATIENCE), finish).0, 0);
        ends.note("c", true);
        assert_eq!(ends.finished(Duration::ZERO).await, 1);
    }
}
