//! How long a job waits after failures. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::pods::finish_time;

/// The wait after the first failure; doubled by each further one.
const FIRST: Duration = Duration::from_secs(10);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(600);

/// The wait after so many failures, the first being 1.
pub(crate) fn pause_after(failures: i32) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0);
    FIRST.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(LONGEST)
}

/// The failures of a job since its last success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    failures: i32,
    last: Option<Timestamp>,
}

impl Backoff {
    /// What is remembered after these have ended as well.
    pub(crate) fn after(&self, succeeded: &[&Arc<Pod>], failed: &[&Arc<Pod>]) -> Backoff {
        let last_success = succeeded.iter().filter_map(|pod| finish_time(pod)).max();
        let mut after = if succeeded.is_empty() { self.clone() } else { Backoff::default() };
        for time in failed.iter().filter_map(|pod| finish_time(pod)) {
            if last_success.is_none_or(|success| time > success) {
                after.failures = after.failures.saturating_add(1);
                after.last = after.last.max(Some(time));
            }
        }
        after
    }

    /// How long to wait before the next pod.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        let Some(last) = self.last.filter(|_| self.failures > 0) else { return Duration::ZERO };
        let passed = Duration::try_from(now.duration_since(last)).unwrap_or(Duration::ZERO);
        pause_after(self.failures).saturating_sub(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_from_ten_seconds_to_ten_minutes() {
        for (failures, seconds) in [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (100, 600)] {
            assert_eq!(pause_after(failures), Duration::from_secs(seconds), "{failures}");
        }
    }
}
