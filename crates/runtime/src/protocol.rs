//! What the runtime and a pod's shim say to each other: closed lists, one reply for each request.

use serde::{Deserialize, Serialize};

use crate::launch::{ExitRecord, Variable};

/// A request, numbered so that replies find their asker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) call: Call,
}

/// What a shim can be asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Make a container from the launch file in its directory, up to the point before its program.
    Create { container: String },
    /// Let the program of a created container begin.
    Start { container: String },
    /// Send a signal, and kill everything after the timeout. Answered when the container has ended.
    Stop { container: String, signal: i32, timeout_ms: u64 },
    /// Forget an ended container.
    Forget { container: String },
    /// Execute a command. Descriptors: standard input, output, error; or with a terminal one socket that gets the console.
    Execute(ExecuteCall),
    /// Kill a command that was executed.
    KillExecuted { execution: u64 },
    /// Copy output to the descriptors that follow (as many as are true); the reply carries the input side, when wanted.
    Attach { container: String, stdin: bool, stdout: bool, stderr: bool },
    /// Close the log and open it again by name.
    ReopenLog { container: String },
    /// End. While a container runs this is refused, unless it is to be killed.
    Quit { kill: bool },
}

/// A command to execute in a running container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExecuteCall {
    pub(crate) container: String,
    /// Chosen by the asker, unique for the shim's life.
    pub(crate) execution: u64,
    pub(crate) args: Vec<String>,
    /// Variables besides the container's own.
    #[serde(default)]
    pub(crate) environment: Vec<Variable>,
    pub(crate) terminal: bool,
}

/// What a shim says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The answer to a request.
    Reply { number: u64, reply: Reply },
    /// A container ended; its exit record is on the disk already.
    ContainerExited { container: String, exit: ExitRecord },
    /// A command ended.
    Executed { execution: u64, exit_code: i32 },
}

/// How a request went.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Done.
    Done,
    /// The container waits to be started.
    Created {
        /// What the machine lacks.
        warnings: Vec<String>,
    },
    /// Done, and this many descriptors ride along.
    DoneWithDescriptors,
    /// Not done, for this reason.
    Failed { message: String },
    /// There is no such container or execution here.
    Unknown,
    /// The container is in a state in which this cannot be done.
    WrongState { state: String },
}

/// What the first process of a container tells the shim.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InitMessage {
    /// Everything is set up; the process record lies on the disk. With a terminal, its descriptor rides along.
    Ready {
        /// What the machine lacks.
        warnings: Vec<String>,
    },
    /// What failed, and why.
    Failed { message: String },
}

/// Written by a new shim on its standard output, once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ShimReady {
    /// The socket accepts; the number is the shim's process.
    Ready { pid: i32 },
    /// The sandbox could not be made.
    Failed { message: String },
}

/// Numbers of users and groups that a pod has to itself: its 0 is `first` for the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnUsers {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// What a shim needs to know of its sandbox; lies in the sandbox's directory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShimSpec {
    pub(crate) hostname: String,
    pub(crate) host_network: bool,
    pub(crate) host_ipc: bool,
    /// A process namespace for all containers.
    pub(crate) shared_pid: bool,
    pub(crate) sysctls: Vec<(String, String)>,
    /// User and group numbers of the pod's own; none: those of the node.
    #[serde(default)]
    pub(crate) users: Option<OwnUsers>,
    /// Bytes of /dev/shm.
    pub(crate) shm_bytes: u64,
}

/// File names inside a sandbox's directory.
pub(crate) mod files {
    pub(crate) const SPEC: &str = "shim.json";
    pub(crate) const SOCKET: &str = "shim.sock";
    pub(crate) const ERRORS: &str = "shim.log";
    pub(crate) const SHM: &str = "shm";
    pub(crate) const CONTAINERS: &str = "containers";
}
