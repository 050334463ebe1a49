//! Time as the decisions see it: a wall clock for what the API shows, and the machine's boot clock for every timer,
//! because a wall clock jumps.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Milliseconds since the machine was booted, suspended time included. Comparable within one boot only; what is kept
/// on disk is put right by [`crate::PodMemory::rebase`] after a reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime(pub u64);

impl BootTime {
    /// This time and `seconds` more; negative seconds count as none.
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)))
    }

    /// This time, `millis` earlier, but not before boot.
    pub fn minus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_sub(millis))
    }

    /// Milliseconds from `earlier` to this time; 0 when `earlier` is later.
    pub fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whole seconds from now to this time, rounded up; 0 when it has passed.
    pub fn seconds_from(self, now: Self) -> i64 {
        i64::try_from(self.0.saturating_sub(now.0).div_ceil(1000)).unwrap_or(i64::MAX)
    }
}

/// The moment of a decision on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, only for what is shown.
    pub wall: Timestamp,
    /// Boot clock, for every timer.
    pub boot: BootTime,
}

impl Now {
    /// The boot time at which something happened that the wall clock dates `at`. A wall clock that has jumped cannot
    /// move it into the future, nor further back than `at_most` milliseconds.
    pub fn boot_time_of(self, at: Option<Timestamp>, at_most: u64) -> BootTime {
        let age =
            at.map_or(0, |at| u64::try_from(self.wall.as_millisecond() - at.as_millisecond()).unwrap_or(0));
        self.boot.minus_millis(age.min(at_most))
    }
}
