//! The few system calls that the safe wrappers lack; the only crate with `unsafe`.
//!
//! Every function here is safe to call: what the kernel or Rust demands of the caller is either
//! checked (a fork is refused in a threaded process) or made impossible by the types. Everything
//! that `rustix` or `nix` offers as a safe function is used from there, not from here.

mod descriptors;
mod device_filter;
mod fork;
mod heap;
mod mount_attributes;
mod process_title;
mod seccomp_filter;
mod signals;

pub use descriptors::{close_all_except, mark_all_close_on_exec};
pub use device_filter::{DeviceAccess, DeviceFilterError, DeviceKind, DeviceRule, attach_device_filter};
pub use fork::{ChildProcess, ForkError, Forked, NewNamespaces, exit_now, fork_process};
pub use heap::{bound_heap, give_back_heap};
pub use mount_attributes::{MountAttributes, MountChange, Propagation, change_mount, map_owners};
pub use process_title::set_process_title;
pub use seccomp_filter::{FilterInstruction, InstallFilterError, install_filter};
pub use signals::{reset_signals, send_signal};
