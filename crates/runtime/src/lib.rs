//! The container runtime: a CRI server over a shim for each pod.
//!
//! The daemon ([`Runtime`]) keeps the register and answers calls; one shim a pod ([`reexec()`]) holds the pod's namespaces,
//! forks the containers' first processes, writes logs and keeps exit codes; a forked child builds the container around
//! itself and becomes its program. The daemon may die at any moment: the next [`Runtime::open`] adopts what runs.
//!
//! Tasks: one for each shim's connection (`shim_link`), the streaming server's, one for each size of an attached terminal.
//! Errors: every call answers a `CallError`, which becomes a gRPC status in one place (`call_error`).
//!
//! Invariants: no variable of a pod is ever in the arguments or the environment of a process of ours; the daemon never
//! forks, changes a namespace or mounts; nothing here is printed.

mod adopt;
mod call_error;
mod capabilities;
mod cgroup;
mod compose;
mod config;
mod container;
mod containers;
mod execute;
mod image_service;
mod init;
mod launch;
mod measure;
mod process_environment;
mod protocol;
mod reexec;
mod runtime;
mod runtime_service;
mod sandbox;
mod sandboxes;
mod seccomp;
mod shim;
mod shim_link;
mod state_files;
mod stats;
mod status;
mod stop_signal;
mod streaming;
mod streams;
mod wire;

pub use config::RuntimeConfig;
pub use reexec::reexec;
pub use runtime::{OpenRuntimeError, Runtime};
