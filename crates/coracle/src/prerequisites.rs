//! What commands need first: root for those that make containers, a runtime for their tasks, and how those stay that stay.

use std::time::Duration;

use crate::failure::{CANNOT_START, Failure};

/// How often free memory is given back to the machine.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(30);
/// Free memory that is kept for what comes next, in bytes.
const SPARE: usize = 8 << 20;

/// The runtime of all tasks of a command.
///
/// # Errors
///
/// When threads cannot be made.
pub(crate) fn async_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    sys::bound_heap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(CANNOT_START, &error))?;
    // Ends with the runtime.
    runtime.spawn(give_back_memory());
    Ok(runtime)
}

/// What is still under way gets this long when a command that stays has ended.
const LAST_MOMENT: Duration = Duration::from_secs(5);

/// The whole of a command that stays until it is told to end: its Secrets are kept off the disk, it tells of its life in the log.
///
/// # Errors
///
/// Why it could not start, or what has ended it.
pub(crate) fn stay(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    crate::core_dumps::forbid();
    crate::logging::start("info");
    let runtime = async_runtime()?;
    let ended = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}

/// After many pods or a flood of requests the daemon becomes as small again as what it holds.
async fn give_back_memory() {
    let mut rounds = tokio::time::interval(GIVE_BACK_EVERY);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        if tokio::task::spawn_blocking(|| sys::give_back_heap(SPARE)).await.is_err() {
            return;
        }
    }
}

/// Containers need root.
///
/// # Errors
///
/// When the user is another.
pub(crate) fn require_root(command: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::text(CANNOT_START, format!("`coracle {command}` needs root to make containers"))
        .hint("run it as root; `coracle env -f FILE` explains the same file without"))
}
