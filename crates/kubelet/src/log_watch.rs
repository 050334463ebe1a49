//! Waits until something is written in the directory of a log, so that a quiet log that is followed costs nothing.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Watches one directory.
#[derive(Debug)]
pub(crate) struct LogWatch {
    events: AsyncFd<OwnedFd>,
}

impl LogWatch {
    /// Begins to watch: what is written from now on is noticed. The kernel gives a user a limited number of these.
    pub(crate) fn new(dir: &Path) -> std::io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let wanted = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        inotify::add_watch(&events, dir, wanted)?;
        // The descriptor is owned and stays the same, which is all that the other constructor asks for, unsafely.
        #[expect(deprecated, reason = "its replacement is unsafe")]
        let events = AsyncFd::new(events)?;
        Ok(Self { events })
    }

    /// Answers when something was written since the last answer.
    pub(crate) async fn changed(&self) -> std::io::Result<()> {
        loop {
            let mut guard = self.events.readable().await?;
            let mut seen = false;
            let mut events = [0; 4096];
            loop {
                match rustix::io::read(self.events.get_ref(), &mut events).map_err(std::io::Error::from) {
                    Ok(_) => seen = true,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            guard.clear_ready();
            if seen {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::LogWatch;

    #[tokio::test]
    async fn a_quiet_log_that_is_followed_is_not_looked_at_until_something_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("0.log");
        std::fs::write(&log, "old\n").expect("written");
        let watch = LogWatch::new(dir.path()).expect("the kernel has inotify");
        for text in ["one\n", "two\n"] {
            assert!(watch.changed().now_or_never().is_none(), "nothing was written before {text:?}");
            std::fs::write(&log, text).expect("written");
            let changed = tokio::time::timeout(Duration::from_secs(30), watch.changed()).await;
            changed.expect("it is noticed").expect("the events can be read");
            while watch.changed().now_or_never().is_some() {}
        }
        std::fs::rename(&log, dir.path().join("0.log.1")).expect("rotated");
        let changed = tokio::time::timeout(Duration::from_secs(30), watch.changed()).await;
        changed.expect("a rotation is noticed").expect("the events can be read");
    }
}
