//! What a container leaves behind when it ends: the file at its `terminationMessagePath`, or the end of its log.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use api::limits;
use rustix::fs::{Mode, OFlags};

use crate::files;
use crate::log_files;

/// Makes the file that is mounted into a container: empty, and open to every user.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        files::create_dirs(parent)?;
    }
    let file = File::create(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o666))
}

/// The message of an ended container. `from_runtime` is what the runtime itself has to say; it comes first.
pub(crate) fn message(path: &Path, log: Option<&Path>, exit_code: i32, from_runtime: &str) -> String {
    let mut message = read_end(path, limits::TERMINATION_MESSAGE).unwrap_or_default();
    if message.is_empty()
        && exit_code != 0
        && let Some(log) = log
    {
        message = log_files::last_lines(
            log,
            limits::TERMINATION_MESSAGE_LOG_LINES,
            limits::TERMINATION_MESSAGE_LOG,
        )
        .unwrap_or_default();
    }
    match (from_runtime.is_empty(), message.is_empty()) {
        (true, _) => message,
        (false, true) => from_runtime.to_owned(),
        (false, false) => format!("{from_runtime}: {message}"),
    }
}

/// The last bytes of a file that a container may have replaced by anything it can write into: never follows a link, never
/// blocks, reads regular files only.
fn read_end(path: &Path, limit: usize) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(String::new());
    }
    let start = metadata.len().saturating_sub(limit as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{create, message};

    #[test]
    fn the_last_bytes_of_the_file_are_the_message_and_the_log_stands_in_for_an_empty_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("containers/c/0.termination");
        create(&path).expect("made");
        let log = dir.path().join("0.log");
        let line = |text: &str| format!("2026-11-21T00:00:00.000000000Z stdout F {text}\n");
        std::fs::write(&log, format!("{}{}", line("one"), line("two"))).expect("written");
        assert_eq!(message(&path, Some(&log), 1, ""), "one\ntwo\n");
        assert_eq!(message(&path, Some(&log), 0, ""), "", "only a failure falls back to the log");
        assert_eq!(message(&path, None, 1, ""), "");
        std::fs::write(&path, format!("{}end", "x".repeat(5000))).expect("written");
        let text = message(&path, Some(&log), 1, "");
        assert_eq!((text.len(), text.ends_with("end")), (4096, true));
        assert!(message(&path, None, 1, "oom").starts_with("oom: xxx"));
        std::fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("linked");
        assert_eq!(message(&path, None, 1, ""), "", "a link is not followed");
    }
}
