//! Process 1 of a process namespace that all containers of a pod share: it does nothing but reap.

use std::path::Path;

use nix::sys::signal::{SigSet, Signal};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{DumpableBehavior, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets};
use sys::{ChildProcess, ForkError, Forked, NewNamespaces};

/// Begins a process namespace. It ends with the returned process.
pub(super) fn spawn_pause(directory: &Path) -> Result<ChildProcess, ForkError> {
    match sys::fork_process(NewNamespaces { pid: true, mount: true, user: false })? {
        Forked::Parent(child) => Ok(child),
        Forked::Child => pause(directory),
    }
}

/// Containers see this process: through it they must find nothing. It has no capability, cannot be traced by those who
/// have none to trace with, its arguments say nothing, and its root directory is empty.
fn become_harmless(directory: &Path) -> std::io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    rustix::mount::mount("empty", directory, "tmpfs", MountFlags::RDONLY, c"size=0,mode=0555")?;
    rustix::process::chdir(directory)?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}

fn pause(directory: &Path) -> ! {
    let _ = sys::close_all_except(&[]);
    // The daemon waits for the end of the shim's standard output.
    if let Ok(null) = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()) {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    // It ends with the shim, and the kernel ends everything in its namespace with it.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // The shim's arguments name directories of the machine, and containers see this process.
    if sys::set_process_title("coracle: pod").is_err() || become_harmless(directory).is_err() {
        sys::exit_now(1);
    }
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    loop {
        // The shim has the signal blocked already, so none is lost between reaping and waiting.
        let _ = signals.wait();
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
}
