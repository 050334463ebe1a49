//! Forking a single-threaded process straight into new namespaces.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use rustix::process::Pid;

/// Namespaces that a forked child begins in; the rest is shared with its parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewNamespaces {
    /// A process namespace of its own, in which the child is process 1.
    pub pid: bool,
    /// A mount namespace of its own.
    pub mount: bool,
    /// A user namespace of its own, in which nobody is known until its numbers are mapped.
    pub user: bool,
}

/// A child that was forked: its number, and a handle that can never mean another process.
#[derive(Debug)]
pub struct ChildProcess {
    /// The process number, as the caller's process namespace counts.
    pub pid: Pid,
    /// The process as a descriptor: readable once it ended.
    pub pidfd: OwnedFd,
}

/// Which of the two processes goes on after a fork.
#[derive(Debug)]
pub enum Forked {
    /// The caller.
    Parent(ChildProcess),
    /// The new process. It must end in `execve` or [`exit_now`], never by returning from `main`.
    Child,
}

/// Why no child was made.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The process has more than one thread: a lock of another thread could stay locked for ever in the child.
    #[error("a process with {threads} threads must not fork")]
    Threaded {
        /// How many threads there are.
        threads: usize,
    },
    /// The threads could not be counted.
    #[error("cannot count the threads of this process")]
    CountThreads(#[source] io::Error),
    /// The kernel refused.
    #[error("cannot fork")]
    Refused(#[source] io::Error),
}

#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Forks this process, which must have a single thread.
///
/// # Errors
///
/// See [`ForkError`]. Process number source: `clone3(2)`.
#[allow(unsafe_code)]
pub fn fork_process(namespaces: NewNamespaces) -> Result<Forked, ForkError> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(ForkError::CountThreads)?.count();
    if threads != 1 {
        return Err(ForkError::Threaded { threads });
    }
    let mut pidfd: libc::c_int = -1;
    let mut flags = libc::CLONE_PIDFD as u64;
    if namespaces.pid {
        flags |= libc::CLONE_NEWPID as u64;
    }
    if namespaces.mount {
        flags |= libc::CLONE_NEWNS as u64;
    }
    if namespaces.user {
        flags |= libc::CLONE_NEWUSER as u64;
    }
    let arguments = CloneArguments {
        flags,
        pidfd: std::ptr::from_mut(&mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..Default::default()
    };
    // SAFETY: without CLONE_VM the child gets a copy of the whole address space, as with fork(2); `arguments` and
    // `pidfd` outlive the call. The only thread is the calling one (checked above), so no lock of another thread can
    // stay locked in the child.
    // JUSTIFICATION: no safe wrapper makes a child in new namespaces together with its process descriptor.
    let answer = unsafe {
        libc::syscall(libc::SYS_clone3, std::ptr::from_ref(&arguments), size_of::<CloneArguments>())
    };
    match answer {
        0 => Ok(Forked::Child),
        child if child > 0 => {
            let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
            let pid = pid.expect("the kernel answers a positive process number");
            // SAFETY: the kernel stored a new descriptor that nobody else knows.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent(ChildProcess { pid, pidfd }))
        }
        _ => Err(ForkError::Refused(io::Error::last_os_error())),
    }
}

/// Ends this process at once: no destructors, no buffers flushed, nothing of the parent's state touched.
#[allow(unsafe_code)]
pub fn exit_now(status: u8) -> ! {
    // SAFETY: `_exit` has no preconditions and does not return.
    // JUSTIFICATION: a forked child must not run the parent's exit handlers, and std offers nothing else.
    unsafe { libc::_exit(i32::from(status)) }
}
