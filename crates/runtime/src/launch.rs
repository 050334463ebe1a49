//! What a container's first process is made from, and what it turned out to be.
//!
//! The runtime writes a [`LaunchSpec`] into the container's directory (mode 0600); the shim's child reads it there. So
//! variables of a pod never stand in the arguments or the environment of any process of ours. What the process really
//! got comes back as a [`ProcessRecord`]: commands executed in the container later start from it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// File names inside a container's directory.
pub(crate) mod files {
    pub(crate) const CONFIG: &str = "config.pb";
    pub(crate) const CONTAINER: &str = "container.json";
    pub(crate) const LAUNCH: &str = "launch.json";
    pub(crate) const PROCESS: &str = "process.json";
    pub(crate) const STARTED: &str = "started.json";
    pub(crate) const EXIT: &str = "exit.json";
}

/// One environment variable. Its debug output shows no value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}=…", self.name)
    }
}

/// Everything that the first process of a container needs to become itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaunchSpec {
    pub(crate) args: Vec<String>,
    /// In order, each name once; without `HOME` unless something set it.
    pub(crate) environment: Vec<Variable>,
    pub(crate) working_directory: String,
    pub(crate) user: UserRequest,
    pub(crate) capabilities: CapabilityBits,
    pub(crate) no_new_privileges: bool,
    /// Filters to stack, first to last; each instruction is code, jumps and operand.
    pub(crate) filters: Vec<Vec<(u16, u8, u8, u32)>>,
    pub(crate) oom_score_adj: i32,
    pub(crate) terminal: bool,
    pub(crate) stdin: bool,
    /// Standard input ends with the first client that attached to it.
    pub(crate) stdin_once: bool,
    pub(crate) root: RootSpec,
    pub(crate) mounts: Vec<VolumeMount>,
    pub(crate) masked_paths: Vec<String>,
    pub(crate) read_only_paths: Vec<String>,
    pub(crate) devices: Vec<DeviceSpec>,
    pub(crate) privileged: bool,
    pub(crate) pid_namespace: PidNamespace,
    pub(crate) host_ipc: bool,
    /// The node's number for user and group 0 of the container.
    #[serde(default)]
    pub(crate) first_user: u32,
    pub(crate) cgroup: String,
    pub(crate) resources: Resources,
    pub(crate) log: Option<LogSpec>,
}

/// Whom to run as: the pod's wish, and the image's word where the pod has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserRequest {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) name: Option<String>,
    /// `USER` of the image: `user`, `uid`, `user:group`, `uid:gid`, ...
    pub(crate) image_user: String,
    pub(crate) supplemental_groups: Vec<u32>,
    /// Groups that the image's /etc/group gives the user are added.
    pub(crate) merge_image_groups: bool,
}

/// Capability sets as the kernel's bits; permitted is the same as effective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CapabilityBits {
    pub(crate) bounding: u64,
    pub(crate) effective: u64,
    pub(crate) ambient: u64,
}

impl CapabilityBits {
    /// The same sets without some capabilities.
    pub(crate) fn without(self, bits: u64) -> Self {
        Self {
            bounding: self.bounding & !bits,
            effective: self.effective & !bits,
            ambient: self.ambient & !bits,
        }
    }
}

/// The root file system: read-only layers below a private writable one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RootSpec {
    /// Lowest first. For the host image the single layer `/`.
    pub(crate) layers: Vec<PathBuf>,
    /// The layer is the machine's own root.
    pub(crate) host: bool,
    /// Holds the writable layer and the mount point.
    pub(crate) directory: PathBuf,
    pub(crate) read_only: bool,
    /// Hidden whatever the pod says: paths of the host image that nobody may see.
    pub(crate) hidden: Vec<HiddenPath>,
}

/// A path that a container of the host image does not get to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HiddenPath {
    pub(crate) path: PathBuf,
    pub(crate) directory: bool,
}

/// How mounts travel between the node and the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MountPropagation {
    Private,
    HostToContainer,
    Bidirectional,
}

/// A file or directory of the node, shown inside the container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct VolumeMount {
    pub(crate) source: PathBuf,
    pub(crate) destination: String,
    pub(crate) read_only: bool,
    pub(crate) recursive_read_only: bool,
    pub(crate) propagation: MountPropagation,
}

/// A device node of the node, made inside the container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DeviceSpec {
    pub(crate) source: PathBuf,
    pub(crate) destination: String,
    /// Letters of `rwm`.
    pub(crate) access: String,
}

/// Whose processes the container sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PidNamespace {
    /// Its own.
    Own,
    /// Those of all containers of the pod.
    Pod,
    /// Those of the node.
    Node,
    /// Those of another container of the pod.
    Container(String),
}

/// Limits; absent means unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resources {
    /// Microseconds.
    pub(crate) cpu_period: Option<u64>,
    /// Microseconds per period; negative means unlimited.
    pub(crate) cpu_quota: Option<i64>,
    /// Relative weight, 2 to 262,144.
    pub(crate) cpu_shares: Option<u64>,
    /// Bytes.
    pub(crate) memory_limit: Option<i64>,
    /// Bytes of memory and swap together.
    pub(crate) memory_swap_limit: Option<i64>,
    pub(crate) cpuset_cpus: Option<String>,
    pub(crate) cpuset_mems: Option<String>,
    /// Page size and bytes.
    pub(crate) huge_pages: Vec<(String, u64)>,
    /// File name and content, cgroup v2 only.
    pub(crate) unified: BTreeMap<String, String>,
    pub(crate) pids: Option<u64>,
}

/// Where and how the output is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LogSpec {
    pub(crate) path: PathBuf,
    /// A file that reaches this size is rotated.
    pub(crate) max_bytes: u64,
    /// How many files are kept, the current one included.
    pub(crate) max_files: u32,
}

/// What the first process really is; the pattern for every command executed later.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProcessRecord {
    pub(crate) args: Vec<String>,
    pub(crate) environment: Vec<Variable>,
    pub(crate) working_directory: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) capabilities: CapabilityBits,
    pub(crate) no_new_privileges: bool,
    pub(crate) filters: Vec<Vec<(u16, u8, u8, u32)>>,
    pub(crate) oom_score_adj: i32,
    pub(crate) terminal: bool,
    /// The node's number for user and group 0 of the container.
    #[serde(default)]
    pub(crate) first_user: u32,
    pub(crate) cgroup: String,
}

/// When a container began to run, and as which process of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    /// Nanoseconds since 1970.
    pub(crate) started_at: i64,
    pub(crate) pid: i32,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    pub(crate) exit_code: i32,
    /// A CamelCase word, such as `Completed`, `Error`, `OOMKilled`.
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Nanoseconds since 1970.
    pub(crate) finished_at: i64,
}
