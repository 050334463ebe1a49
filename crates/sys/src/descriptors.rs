//! Closing what a forked child inherited and must not keep.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Closes every descriptor from 3 on, except those given.
///
/// Only a forked child that goes on with nothing but these may call this: owners of the closed descriptors are never
/// dropped there (it ends in `execve` or `exit_now`). Standard input, output and error stay open.
///
/// # Errors
///
/// What the kernel said (`close_range(2)`).
pub fn close_all_except(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    for_each_gap(keep, |first, last| close_range(first, last, 0))
}

/// Marks every descriptor from 3 on to be closed by `execve`.
///
/// # Errors
///
/// What the kernel said (`close_range(2)`).
pub fn mark_all_close_on_exec() -> io::Result<()> {
    close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn for_each_gap(
    keep: &[BorrowedFd<'_>],
    mut close: impl FnMut(u32, u32) -> io::Result<()>,
) -> io::Result<()> {
    let mut numbers: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    numbers.sort_unstable();
    let mut first = 3;
    for number in numbers {
        if number < first {
            continue;
        }
        if number > first {
            close(first, number - 1)?;
        }
        first = number + 1;
    }
    close(first, u32::MAX)
}

#[allow(unsafe_code)]
fn close_range(first: u32, last: u32, flags: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers only. That no live owner uses a closed descriptor afterwards is what
    // `close_all_except` demands of its caller.
    // JUSTIFICATION: no safe wrapper closes descriptors that are known by number only.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn gaps_lie_around_what_is_kept() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = u32::try_from(file.as_raw_fd()).unwrap();
        let mut gaps = Vec::new();
        for_each_gap(&[file.as_fd(), file.as_fd()], |first, last| {
            gaps.push((first, last));
            Ok(())
        })
        .unwrap();
        assert_eq!(gaps.last(), Some(&(number + 1, u32::MAX)));
        assert!(gaps.iter().all(|&(first, last)| !(first..=last).contains(&number)), "{gaps:?}");
    }
}
