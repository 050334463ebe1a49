//! Tells when somebody sets the clock of the machine, or it wakes from a long sleep: what waits for a time of day then looks again.
//!
//! Timers count the time that passes; a time of day may come sooner or later than that. The kernel says when, so nobody has to look.
//!
//! Source: `timerfd_create(2)`, `TFD_TIMER_CANCEL_ON_SET`.

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;

/// A time that does not come: in seconds, some hundred years away.
const NEVER: i64 = 1 << 34;

/// Calls `told` each time that the clock is set, until `shutdown`. On a kernel that does not tell, never.
pub(crate) async fn watch(told: impl Fn() + Send, shutdown: CancellationToken) {
    let watch = async {
        if let Err(error) = follow(&told).await {
            tracing::debug!(%error, "nobody tells when the clock is set");
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = watch => {}
    }
}

async fn follow(told: &impl Fn()) -> std::io::Result<()> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    // The descriptor is owned and stays the same, which is all that the other constructor asks for, unsafely.
    #[expect(deprecated, reason = "its replacement is unsafe")]
    let timer = AsyncFd::new(timerfd_create(TimerfdClockId::Realtime, flags)?)?;
    let at = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: NEVER, tv_nsec: 0 },
    };
    loop {
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &at)?;
        loop {
            let mut ready = timer.readable().await?;
            let mut count = [0; 8];
            match rustix::io::read(&timer, &mut count) {
                Err(Errno::AGAIN) => ready.clear_ready(),
                // Cancelled: somebody has set the clock. (Or the time has come.)
                Err(Errno::CANCELED) | Ok(_) => {
                    ready.clear_ready();
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        told();
    }
}
