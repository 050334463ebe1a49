//! Users of a pod's own: a user namespace, and the network, host name and communication namespaces that belong to it.
//!
//! The shim itself stays in the node's user namespace, from which it may do everything in the others. The namespaces are made
//! by a child that is in the new one, and live on in the descriptors and in the shim when the child has ended.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nix::sched::CloneFlags;
use rustix::process::{Pid, WaitOptions};
use sys::{Forked, NewNamespaces};

use crate::protocol::OwnUsers;

/// Namespaces that are worth more with users of their own.
const NAMESPACES: [(&str, CloneFlags); 3] =
    [("net", CloneFlags::CLONE_NEWNET), ("uts", CloneFlags::CLONE_NEWUTS), ("ipc", CloneFlags::CLONE_NEWIPC)];

/// Makes the namespaces, enters all but the one of users, and answers that one.
pub(super) fn enter_namespaces_of(users: OwnUsers) -> io::Result<OwnedFd> {
    let (mut own, far) = UnixStream::pair()?;
    let new = NewNamespaces { user: true, ..NewNamespaces::default() };
    let child = match sys::fork_process(new).map_err(io::Error::other)? {
        Forked::Child => {
            drop(own);
            hold_namespaces(far)
        }
        Forked::Parent(child) => child,
    };
    drop(far);
    let made = read_word(&mut own).and_then(|()| take_namespaces(child.pid, users));
    // The end of the connection is the child's word to end.
    drop(own);
    let _ = rustix::process::waitpid(Some(child.pid), WaitOptions::empty());
    made
}

fn read_word(stream: &mut UnixStream) -> io::Result<()> {
    let mut word = [0u8];
    stream.read_exact(&mut word)
}

fn hold_namespaces(mut stream: UnixStream) -> ! {
    let all = NAMESPACES.iter().fold(CloneFlags::empty(), |all, (_, flag)| all | *flag);
    if nix::sched::unshare(all).is_ok() && stream.write_all(&[1]).is_ok() {
        // The shim has what it needs, or is gone.
        let _ = read_word(&mut stream);
    }
    sys::exit_now(0)
}

fn take_namespaces(child: Pid, users: OwnUsers) -> io::Result<OwnedFd> {
    let directory = format!("/proc/{}", child.as_raw_nonzero());
    let map = format!("0 {} {}\n", users.first, users.count);
    // One write each, as the kernel wants it.
    fs::write(format!("{directory}/uid_map"), &map)?;
    fs::write(format!("{directory}/gid_map"), &map)?;
    let namespace = OwnedFd::from(File::open(format!("{directory}/ns/user"))?);
    for (name, flag) in NAMESPACES {
        let other = File::open(format!("{directory}/ns/{name}"))?;
        nix::sched::setns(&other, flag)?;
    }
    Ok(namespace)
}
