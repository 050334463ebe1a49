//! Reads env files out of volumes. Everything in a volume is hostile: a container may write links, devices, FIFOs, and
//! swap directories while the file is read.
//!
//! - The path is resolved once, by one `openat2` below the volume's own handle, with `RESOLVE_IN_ROOT`,
//!   `RESOLVE_NO_MAGICLINKS` and `RESOLVE_NO_XDEV`: links stay inside the volume, and nothing outside is ever opened. What
//!   comes after works on the descriptor; the path is never used again.
//! - That open is `O_PATH`, which has no side effect on devices and cannot block on a FIFO. Only when `fstat` has shown a
//!   regular file on the volume's own device is it opened for reading, through `/proc/self/fd`, with `O_NONBLOCK`.
//! - Both opens happen in a short-lived thread that has the file-system identity of the container's user: `setfsuid`,
//!   `setfsgid` and `setgroups` change the thread alone, and the kernel then takes the overriding capabilities away by
//!   itself. So the kernel itself decides whether the user may search the directories and read the file, access control
//!   lists included. The real user of the thread stays root: no process of that user can signal or trace it.
//! - At most 64 KiB and one byte are read.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use environment::{EnvFileRefusal, EnvFileSource, SecretBytes};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Whom a container runs as, as far as files are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// A handle of a volume: what it shows was decided when it was opened.
#[derive(Debug)]
pub(crate) struct VolumeHandle {
    root: OwnedFd,
}

impl VolumeHandle {
    /// Opens the directory of a volume. The path up to it is the agent's own.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Self { root: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Reads the env file at `path`, relative to the volume (a leading `/` means the volume's root too), as `identity`
    /// could read it. Blocks for at most the time of reading 64 KiB.
    pub(crate) fn read_env_file(&self, path: &str, identity: &FileIdentity) -> EnvFileSource {
        let read = std::thread::scope(|scope| {
            let reader = std::thread::Builder::new()
                .name("env-file".to_owned())
                .spawn_scoped(scope, || self.read_as(path, identity));
            match reader {
                Ok(reader) => reader.join().unwrap_or_else(|_| Err(system(Errno::IO))),
                Err(_) => Err(system(Errno::AGAIN)),
            }
        });
        match read {
            Ok(bytes) => EnvFileSource::Content(SecretBytes::new(bytes)),
            Err(source) => source,
        }
    }

    /// Runs in a thread of its own, which ends right after.
    fn read_as(&self, path: &str, identity: &FileIdentity) -> Result<Vec<u8>, EnvFileSource> {
        assume(identity)?;
        let file = self.find(path, identity)?;
        let stat = rustix::fs::fstat(&file).map_err(system)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(EnvFileSource::Refused(EnvFileRefusal::NotRegular));
        }
        let root = rustix::fs::fstat(&self.root).map_err(system)?;
        if stat.st_dev != root.st_dev {
            return Err(EnvFileSource::Refused(EnvFileRefusal::Outside));
        }
        // Not a second resolution: the link leads to the very file that was looked at.
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let readable = match rustix::fs::open(itself, flags, Mode::empty()) {
            Ok(readable) => readable,
            Err(Errno::ACCESS | Errno::PERM) => {
                return Err(EnvFileSource::Refused(EnvFileRefusal::NotReadable { uid: identity.uid }));
            }
            Err(errno) => return Err(system(errno)),
        };
        let limit = envfile::MAX_FILE_BYTES;
        let mut bytes = Vec::new();
        File::from(readable)
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| system(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        if bytes.len() > limit {
            return Err(EnvFileSource::Refused(EnvFileRefusal::TooLarge { limit: limit as u64 }));
        }
        Ok(bytes)
    }

    fn find(&self, path: &str, identity: &FileIdentity) -> Result<OwnedFd, EnvFileSource> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        // The kernel gives up with EAGAIN when a rename races with a resolution that has `..` in it. A container that
        // renames without end gets an error, not a loop.
        for _ in 0..32 {
            return match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Ok(file) => Ok(file),
                Err(Errno::AGAIN) => continue,
                Err(Errno::NOENT | Errno::NOTDIR) if self.leads_out(path) => {
                    Err(EnvFileSource::Refused(EnvFileRefusal::Outside))
                }
                Err(Errno::NOENT | Errno::NOTDIR) => Err(EnvFileSource::NotFound),
                Err(Errno::LOOP | Errno::XDEV) => Err(EnvFileSource::Refused(EnvFileRefusal::Outside)),
                Err(Errno::ACCESS) => {
                    Err(EnvFileSource::Refused(EnvFileRefusal::NotReadable { uid: identity.uid }))
                }
                Err(errno) => Err(system(errno)),
            };
        }
        Err(system(Errno::AGAIN))
    }

    /// Whether a path that leads to no file has a link that leaves the volume. The kernel refuses such a link before it
    /// looks at where it leads, so that nothing is learnt of what is there.
    fn leads_out(&self, path: &str) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let path = path.trim_start_matches('/');
        let answer = rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve);
        matches!(answer, Err(Errno::XDEV))
    }
}

/// Takes on the file-system identity of `identity`, in this thread alone.
fn assume(identity: &FileIdentity) -> Result<(), EnvFileSource> {
    if !rustix::process::geteuid().is_root() {
        // An agent that is not root can only read what it may read itself.
        return Ok(());
    }
    let groups: Vec<rustix::process::Gid> =
        identity.groups.iter().map(|gid| rustix::process::Gid::from_raw(*gid)).collect();
    rustix::thread::set_thread_groups(&groups).map_err(system)?;
    nix::unistd::setfsgid(nix::unistd::Gid::from_raw(identity.gid));
    nix::unistd::setfsuid(nix::unistd::Uid::from_raw(identity.uid));
    // These two calls never fail visibly: a second one tells what is in force.
    let uid = nix::unistd::setfsuid(nix::unistd::Uid::from_raw(u32::MAX));
    let gid = nix::unistd::setfsgid(nix::unistd::Gid::from_raw(u32::MAX));
    if uid.as_raw() != identity.uid || gid.as_raw() != identity.gid {
        return Err(system(Errno::PERM));
    }
    Ok(())
}

fn system(errno: Errno) -> EnvFileSource {
    let name = nix::errno::Errno::from_raw(errno.raw_os_error());
    EnvFileSource::Refused(EnvFileRefusal::System(format!("{name:?}")))
}

#[cfg(test)]
mod tests;
