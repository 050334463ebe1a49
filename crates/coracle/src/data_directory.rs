//! What holds for every directory that this program keeps things in: where it is, that only its owner reads it, and what is
//! said when it cannot be used.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::time::Instant;

use crate::failure::{CANNOT_START, Failure};

/// Where everything lies when nobody says otherwise.
pub(crate) const DEFAULT: &str = "/var/lib/coracle";

/// Where the throwaway nodes have their directories, below the data directory whose images they share.
pub(crate) fn runs(base: &Path) -> PathBuf {
    base.join("runs")
}

/// Makes a directory, unless it is there, that nobody but its owner may enter.
///
/// # Errors
///
/// What the system says; and if there is something else of that name.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    if path.exists() && !path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "there is a file of that name"));
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// How a command ends whose directory cannot be used.
pub(crate) fn cannot_use(path: &Path, error: &io::Error) -> Failure {
    Failure::text(CANNOT_START, format!("cannot use the directory: {error}"))
        .place(path.display().to_string())
        .hint("choose another with --data-dir")
}

/// What the store of a node locks in its directory for as long as it lives.
pub(crate) const STORE: &[&str] = &["state.db"];
/// What its runtime and its network lock.
pub(crate) const RUNTIME: &[&str] = &["network/lock", "runtime/runtime.lock"];
/// What its node agent locks, if that is a process of its own.
pub(crate) const AGENT: &[&str] = &["kubelet.lock"];

/// How long whoever uses a directory may take to let it go. One that was killed is gone in that time, with what it was about to
/// start: until that runs, it holds what its parent held.
pub(crate) const RELEASE: Duration = Duration::from_secs(2);

/// Waits until nobody holds these of a node's directory, at most so long. Who then still does is told by the part that needs it.
pub(crate) async fn released(base: &Path, locked: &[&str], patience: Duration) {
    let until = Instant::now() + patience;
    let mut told = false;
    while let Some(file) = locked.iter().map(|name| base.join(name)).find(|file| is_locked(file)) {
        if Instant::now() >= until {
            return;
        }
        if !std::mem::replace(&mut told, true) {
            tracing::info!(file = %file.display(), "another process still uses the data directory; waiting for its end");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_locked(file: &Path) -> bool {
    // What is not there, or cannot be opened, is not in anybody's use.
    let Ok(file) = std::fs::File::open(file) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::{AGENT, FlockOperation, RELEASE, RUNTIME, STORE, flock, is_locked, released};
    use std::time::Duration;

    /// A start right after `kill -9` said that the store was in use.
    #[tokio::test]
    async fn a_directory_that_is_about_to_be_released_is_waited_for_and_another_one_is_not() {
        let place = tempfile::tempdir().expect("a directory");
        let all = [STORE, RUNTIME, AGENT].concat();
        released(place.path(), &all, Duration::ZERO).await;
        for name in &all {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            let held = std::fs::File::create(&path).expect("made");
            flock(&held, FlockOperation::LockExclusive).expect("locked");
            released(place.path(), &all, Duration::from_millis(30)).await;
            assert!(is_locked(&path), "it gave up");
            // A descriptor that a child has inherited holds the lock as well.
            let inherited = held.try_clone().expect("copied");
            drop(held);
            let release = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                drop(inherited);
            };
            tokio::join!(released(place.path(), &all, RELEASE), release);
            assert!(!is_locked(&path), "{name}");
        }
    }
}
