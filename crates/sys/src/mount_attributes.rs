//! Changing attributes and propagation of a mount by descriptor (`mount_setattr(2)`).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Attributes that can be switched on and off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MountAttributes {
    /// Nothing can be written through this mount.
    pub read_only: bool,
    /// Set-user-id bits and file capabilities do not count.
    pub no_set_user_id: bool,
    /// Device nodes cannot be opened.
    pub no_devices: bool,
    /// Nothing can be executed.
    pub no_execute: bool,
}

impl MountAttributes {
    fn bits(self) -> u64 {
        const READ_ONLY: u64 = 1;
        const NO_SET_USER_ID: u64 = 2;
        const NO_DEVICES: u64 = 4;
        const NO_EXECUTE: u64 = 8;
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        bit(self.read_only, READ_ONLY)
            | bit(self.no_set_user_id, NO_SET_USER_ID)
            | bit(self.no_devices, NO_DEVICES)
            | bit(self.no_execute, NO_EXECUTE)
    }
}

/// How mounts below travel between mount namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Neither way.
    Private,
    /// From the other side to here.
    Slave,
    /// Both ways.
    Shared,
}

/// One change of one mount, or of a whole tree of mounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MountChange {
    /// Switched on.
    pub set: MountAttributes,
    /// Switched off.
    pub clear: MountAttributes,
    /// Changed when given.
    pub propagation: Option<Propagation>,
    /// Also for every mount below.
    pub recursive: bool,
}

#[repr(C)]
struct AttributeArguments {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Changes the mount whose root `mount` is.
///
/// # Errors
///
/// What the kernel said; `ENOSYS` before Linux 5.12.
#[allow(unsafe_code)]
pub fn change_mount(mount: BorrowedFd<'_>, change: MountChange) -> io::Result<()> {
    let propagation = match change.propagation {
        None => 0,
        Some(Propagation::Private) => libc::MS_PRIVATE,
        Some(Propagation::Slave) => libc::MS_SLAVE,
        Some(Propagation::Shared) => libc::MS_SHARED,
    };
    let arguments = AttributeArguments {
        set: change.set.bits(),
        clear: change.clear.bits(),
        propagation,
        user_namespace: 0,
    };
    const AT_RECURSIVE: libc::c_int = 0x8000;
    let flags = libc::AT_EMPTY_PATH | if change.recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: the path is empty and constant, `arguments` outlives the call and has the size given.
    // JUSTIFICATION: no safe wrapper of this call exists.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(&arguments),
            size_of::<AttributeArguments>(),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Shows the files of a mount that is attached nowhere yet with the owners that a user namespace knows: number 0 on the disk is
/// number 0 there.
///
/// # Errors
///
/// What the kernel said; `EINVAL` where the file system cannot do it.
#[allow(unsafe_code)]
pub fn map_owners(mount: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>, recursive: bool) -> io::Result<()> {
    const MAP_OWNERS: u64 = 0x0010_0000;
    let arguments = AttributeArguments {
        set: MAP_OWNERS,
        clear: 0,
        propagation: 0,
        user_namespace: u64::try_from(user_namespace.as_raw_fd())
            .expect("a borrowed descriptor is not negative"),
    };
    const AT_RECURSIVE: libc::c_int = 0x8000;
    let flags = libc::AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: the path is empty and constant, `arguments` outlives the call and has the size given; both descriptors are open.
    // JUSTIFICATION: no safe wrapper of this call exists.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(&arguments),
            size_of::<AttributeArguments>(),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
