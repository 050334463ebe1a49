//! The agent's only readings of the clocks.

use jiff::Timestamp;
use lifecycle::{BootTime, Now};

/// The moment on both clocks.
pub(crate) fn now() -> Now {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
    let millis = u64::try_from(boot.tv_nsec).unwrap_or(0) / 1_000_000;
    Now { wall: Timestamp::now(), boot: BootTime(seconds * 1000 + millis) }
}

/// What tells one boot of the machine from another; empty where the kernel does not say.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// A CRI time (nanoseconds since 1970, 0 for none).
pub(crate) fn from_nanos(nanos: i64) -> Option<Timestamp> {
    if nanos <= 0 { None } else { Timestamp::from_nanosecond(i128::from(nanos)).ok() }
}
