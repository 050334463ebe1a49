//! The exponential back-off of restarts and image pulls: the first try is free, then 10 s, doubled up to 5 min, forgotten
//! after 10 quiet minutes. The state is kept on disk, so that a restart of the daemon does not shorten a wait.

use serde::{Deserialize, Serialize};

use crate::clock::BootTime;

const INITIAL_SECONDS: i64 = 10;
const CAP_SECONDS: i64 = 300;
const RESET_MILLIS: u64 = 600_000;

/// State of one back-off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Seconds to wait after the next failure; 0 before the first retry.
    pub delay_seconds: i64,
    /// When the delay was last raised.
    pub raised: BootTime,
}

impl Backoff {
    /// When the next try is due for something that failed at `failed`.
    pub fn due(&self, failed: BootTime) -> BootTime {
        failed.plus_seconds(self.delay_after(failed))
    }

    /// The wait, in seconds, that a failure at `failed` causes.
    pub fn delay_after(&self, failed: BootTime) -> i64 {
        if failed.millis_since(self.raised) > RESET_MILLIS { 0 } else { self.delay_seconds }
    }

    /// Notes that something that failed at `failed` is tried again at `now`: the next wait is longer. It is the failure
    /// that has to come late for the waits to begin anew; the wait itself does not count as quiet time.
    pub fn raise(&mut self, failed: BootTime, now: BootTime) {
        let expired = self.delay_seconds == 0 || failed.millis_since(self.raised) > RESET_MILLIS;
        self.delay_seconds =
            if expired { INITIAL_SECONDS } else { self.delay_seconds.saturating_mul(2).min(CAP_SECONDS) };
        self.raised = now;
    }

    /// The delay as Go prints a duration: `10s`, `1m20s`, `5m0s`.
    pub fn delay_text(seconds: i64) -> String {
        match seconds / 60 {
            0 => format!("{seconds}s"),
            minutes => format!("{minutes}m{}s", seconds % 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use crate::clock::BootTime;

    #[test]
    fn delays_double_from_ten_seconds_to_five_minutes() {
        let mut backoff = Backoff::default();
        let mut now = BootTime(1_000_000);
        assert_eq!(backoff.delay_after(now), 0, "the first restart is immediate");
        let mut delays = Vec::new();
        for _ in 0..7 {
            backoff.raise(now, now);
            now = now.plus_seconds(1);
            delays.push(Backoff::delay_text(backoff.delay_after(now)));
            now = backoff.due(now);
        }
        assert_eq!(delays, ["10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s"]);
    }

    #[test]
    fn a_container_that_ran_for_more_than_ten_minutes_starts_anew() {
        let mut backoff = Backoff { delay_seconds: 160, raised: BootTime(0) };
        let failed = BootTime(600_001);
        assert_eq!(backoff.due(failed), failed);
        backoff.raise(failed, failed);
        assert_eq!(backoff.delay_seconds, 10);
    }

    #[test]
    fn a_container_that_ran_for_ten_minutes_sharp_does_not() {
        let backoff = Backoff { delay_seconds: 160, raised: BootTime(0) };
        assert_eq!(backoff.delay_after(BootTime(600_000)), 160);
    }

    #[test]
    fn a_container_that_failed_after_nine_minutes_and_waited_five_goes_on_waiting_five() {
        let mut backoff = Backoff { delay_seconds: 300, raised: BootTime(0) };
        let failed = BootTime(540_000);
        let due = backoff.due(failed);
        assert_eq!(due, BootTime(840_000));
        backoff.raise(failed, due);
        assert_eq!(backoff.delay_seconds, 300);
    }
}
