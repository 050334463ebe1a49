//! Process 1 of a process namespace that all containers of a pod share: it does nothing but reap.

use nix::sys::signal::{SigSet, Signal};
use rustix::process::WaitOptions;
use sys::{ChildProcess, ForkError, Forked, NewNamespaces};

/// Begins a process namespace. It ends with the returned process.
pub(super) fn spawn_pause() -> Result<ChildProcess, ForkError> {
    match sys::fork_process(NewNamespaces { pid: true, mount: false })? {
        Forked::Parent(child) => Ok(child),
        Forked::Child => pause(),
    }
}

fn pause() -> ! {
    let _ = sys::close_all_except(&[]);
    // The daemon waits for the end of the shim's standard output.
    if let Ok(null) = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()) {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    // It ends with the shim, and the kernel ends everything in its namespace with it.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    loop {
        // The shim has the signal blocked already, so none is lost between reaping and waiting.
        let _ = signals.wait();
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
}
