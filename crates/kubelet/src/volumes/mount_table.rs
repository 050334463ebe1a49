//! What is mounted below a directory, as the kernel lists it, and taking it down.

use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

/// Mount points at or below `dir`, in the order in which they were mounted. The kernel lists them without links.
pub(super) fn mounts_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = dir.canonicalize()?;
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(parse(&table).into_iter().filter(|point| point.starts_with(&dir)).collect())
}

/// Whether something is mounted at `dir` itself. The kernel is asked about this one directory: its table grows with every pod
/// of the node.
pub(super) fn is_mount_point(dir: &Path) -> io::Result<bool> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, dir, AtFlags::empty(), StatxFlags::BASIC_STATS);
    if let Ok(found) = found
        && found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
    {
        return Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // A kernel before 5.8 does not say; what cannot be found is an error of the look-up.
    let itself = dir.canonicalize()?;
    Ok(mounts_below(dir)?.contains(&itself))
}

/// Takes down everything that is mounted below `dir`, last mounted first.
pub(super) fn unmount_below(dir: &Path) -> io::Result<()> {
    let points = match mounts_below(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    for point in points.into_iter().rev() {
        // Detached: a process that still has a file open must not keep the pod from being cleared away.
        match rustix::mount::unmount(&point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn parse(table: &[u8]) -> Vec<PathBuf> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(std::ffi::OsString::from_vec(unescape(field))))
        .collect()
}

/// The kernel writes blanks, tabs, newlines and backslashes as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        if *byte == b'\\'
            && let Some(digits) = after.get(..3)
            && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
        {
            let value = digits.iter().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            text.push(u8::try_from(value & 0xff).unwrap_or(b'?'));
            rest = &after[3..];
        } else {
            text.push(*byte);
            rest = after;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::path::Path;

    #[test]
    fn mount_points_with_blanks_are_read() {
        let table = b"36 35 98:0 / /mnt/a\\040b rw,noatime master:1 - ext3 /dev/root rw\n";
        assert_eq!(parse(table), [Path::new("/mnt/a b")]);
    }
}
