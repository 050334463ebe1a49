//! How long a pod that failed is left before its controller makes it again: nothing the first time, then longer and longer, so
//! that one that cannot run here does not become a flood of pods.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// After the second failure; doubled by each further one.
const FIRST: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// Places that are remembered.
const REMEMBERED: usize = 4096;

/// The failures of one place.
#[derive(Clone, Debug)]
struct Failures {
    count: u32,
    last: Timestamp,
    /// The pod that failed last.
    pod: String,
}

/// The failures of all places. Pure.
#[derive(Debug, Default)]
pub(crate) struct FailureBackOff {
    places: BTreeMap<String, Failures>,
}

fn pause(count: u32) -> Duration {
    match count.checked_sub(2) {
        None => Duration::ZERO,
        Some(doublings) => {
            FIRST.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(LONGEST)
        }
    }
}

impl FailureBackOff {
    /// Notes that the pod of this UID failed at a place (a node, an ordinal); answers for how long it is still to be left.
    pub(crate) fn failed(&mut self, place: &str, pod: &str, now: Timestamp) -> Duration {
        if self.places.len() >= REMEMBERED && !self.places.contains_key(place) {
            let oldest = self.places.iter().min_by_key(|(_, failures)| failures.last);
            if let Some(oldest) = oldest.map(|(place, _)| place.clone()) {
                self.places.remove(&oldest);
            }
        }
        let since = |then: Timestamp| Duration::try_from(now.duration_since(then)).unwrap_or(Duration::ZERO);
        let failures = self.places.entry(place.to_owned()).or_insert_with(|| Failures {
            count: 0,
            last: now,
            pod: String::new(),
        });
        if failures.pod != pod {
            // What went well for so long is forgiven.
            let is_forgiven = since(failures.last) > 2 * LONGEST;
            failures.count = if is_forgiven { 1 } else { failures.count.saturating_add(1) };
            failures.last = now;
            pod.clone_into(&mut failures.pod);
        }
        pause(failures.count).saturating_sub(since(failures.last))
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_pod_that_fails_again_and_again_is_made_again_later_and_later() {
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let at = |seconds: i64| begin + SignedDuration::from_secs(seconds);
        let seconds = Duration::from_secs;
        let mut back_off = FailureBackOff::default();
        assert_eq!(back_off.failed("a", "1", at(0)), seconds(0));
        assert_eq!(back_off.failed("a", "2", at(5)), seconds(1));
        assert_eq!(back_off.failed("a", "2", at(6)), seconds(0), "it was left for long enough");
        assert_eq!(back_off.failed("a", "3", at(7)), seconds(2));
        assert_eq!(back_off.failed("b", "4", at(7)), seconds(0), "another place");
        for (number, pod) in (4..40).zip(["x", "y"].iter().cycle()) {
            back_off.failed("a", pod, at(number * 10));
        }
        assert_eq!(back_off.failed("a", "z", at(500)), LONGEST);
        assert_eq!(back_off.failed("a", "later", at(100_000)), seconds(0), "forgiven");
    }
}
