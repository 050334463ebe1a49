//! Signals of a child before it becomes another program.

use std::io;

/// Gives every signal its default action and blocks none, as a fresh program expects.
///
/// Rust ignores SIGPIPE, a shim blocks what it reads from a descriptor; both would be inherited through `execve`.
///
/// # Errors
///
/// What the kernel said.
#[allow(unsafe_code)]
pub fn reset_signals() -> io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        // KILL and STOP cannot be changed, and libc keeps the first two real-time signals to itself.
        if signal == libc::SIGKILL || signal == libc::SIGSTOP || (32..libc::SIGRTMIN()).contains(&signal) {
            continue;
        }
        // SAFETY: the default action runs no code of ours.
        // JUSTIFICATION: setting an action is unsafe in every wrapper, since handlers are.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    nix::sys::signal::SigSet::empty().thread_set_mask().map_err(io::Error::from)
}

/// Sends a signal, real-time ones included, to the process that a descriptor stands for.
///
/// # Errors
///
/// What the kernel said: `ESRCH` when the process ended, `EINVAL` when there is no such signal.
#[allow(unsafe_code)]
pub fn send_signal(process: std::os::fd::BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: numbers and a null pointer (no extra information); the descriptor is open.
    // JUSTIFICATION: the wrappers know no real-time signals, and images may ask to be stopped by one.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
