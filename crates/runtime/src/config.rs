//! What a runtime is told when it is opened.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Configuration of a runtime.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// Holds sandboxes and containers; made when missing. Belongs to one runtime at a time.
    pub data_dir: PathBuf,
    /// What is executed as a pod's shim: a program that calls [`crate::reexec()`] first. This one when `None`.
    pub shim_program: Option<PathBuf>,
    /// Control group below which pods get theirs when the kubelet names none. From the data directory when `None`.
    pub cgroup_root: Option<String>,
    /// Most processes of a pod, all containers together; `None` for no limit.
    pub pod_max_pids: Option<u64>,
    /// A log file that reaches this many bytes is rotated.
    pub log_max_bytes: u64,
    /// How many log files of a container are kept, the current one included.
    pub log_max_files: u32,
    /// Directories of this node that containers of the host image must not see, besides the data directory.
    pub private_directories: Vec<PathBuf>,
    /// A container that names no seccomp profile gets the default one; otherwise none, as the interface has it.
    pub seccomp_default: bool,
    /// Where exec, attach and port-forward are served.
    pub streaming_address: SocketAddr,
}

impl RuntimeConfig {
    /// The usual configuration over a data directory.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            shim_program: None,
            cgroup_root: None,
            pod_max_pids: Some(4096),
            log_max_bytes: 10 * 1024 * 1024,
            log_max_files: 5,
            private_directories: Vec::new(),
            seccomp_default: false,
            streaming_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }
}
