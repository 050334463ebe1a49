//! A terminal for a process inside a container, made from the container's own terminal file system.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mount::OpenTreeFlags;
use rustix::pty::OpenptFlags;

use super::error::{InitError, Step as _};
use super::targets::{TargetKind, attach, find, find_or_make};

/// Both ends of a terminal: ours, and the process'.
pub(super) struct Console {
    pub(super) controller: OwnedFd,
    pub(super) terminal: OwnedFd,
}

/// Makes a terminal in the terminal file system below `root`.
pub(super) fn open_console(root: BorrowedFd<'_>) -> Result<Console, InitError> {
    let terminals = find(root, "/dev/pts").step_path("open", "/dev/pts")?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let controller =
        rustix::fs::openat(&terminals, "ptmx", flags, Mode::empty()).step_path("open", "/dev/pts/ptmx")?;
    rustix::pty::unlockpt(&controller).step("unlock the terminal")?;
    // By descriptor, never by name: a name could be replaced between two steps.
    let terminal = rustix::pty::ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY)
        .step("open the terminal")?;
    Ok(Console { controller, terminal })
}

/// Gives the terminal to the user of its process, by the node's number; the group of terminals keeps it.
pub(super) fn give_console(terminal: impl AsFd, first_user: u32, uid: u32) -> Result<(), InitError> {
    match first_user.checked_add(uid) {
        None | Some(0) => Ok(()),
        Some(owner) => rustix::fs::fchown(terminal, Some(rustix::fs::Uid::from_raw(owner)), None)
            .step("give the terminal to its user"),
    }
}

/// Shows the terminal as `/dev/console` too.
pub(super) fn show_console(root: BorrowedFd<'_>, terminal: impl AsFd) -> Result<(), InitError> {
    let point = find_or_make(root, "/dev/console", TargetKind::File)?;
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let copy = rustix::mount::open_tree(terminal, "", flags).step_path("show", "/dev/console")?;
    attach(copy, point).step_path("show", "/dev/console")
}

/// Begins a session with the terminal in control of it, as standard input, output and error.
pub(super) fn take_console(terminal: BorrowedFd<'_>) -> Result<(), InitError> {
    rustix::process::ioctl_tiocsctty(terminal).step("take control of the terminal")?;
    rustix::stdio::dup2_stdin(terminal).step("use the terminal as standard input")?;
    rustix::stdio::dup2_stdout(terminal).step("use the terminal as standard output")?;
    rustix::stdio::dup2_stderr(terminal).step("use the terminal as standard error")
}
