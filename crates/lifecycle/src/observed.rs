//! What the runtime says of a pod, reduced to what decisions need, and what the probes say of its containers.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// What the runtime holds for one pod. Nothing here is remembered: it is read anew before each decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimePod {
    /// The pod's sandboxes, newest first.
    pub sandboxes: Vec<ObservedSandbox>,
    /// All instances of its containers, of all sandboxes, in any order.
    pub containers: Vec<ObservedContainer>,
}

impl RuntimePod {
    /// The newest sandbox, if it is ready.
    pub fn ready_sandbox(&self) -> Option<&ObservedSandbox> {
        self.sandboxes.first().filter(|sandbox| sandbox.ready)
    }

    /// The instance with that runtime identifier.
    pub fn container(&self, id: &str) -> Option<&ObservedContainer> {
        self.containers.iter().find(|container| container.id == id)
    }
}

/// A pod sandbox of the runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedSandbox {
    /// Identifier of the runtime.
    pub id: String,
    /// 0 for a pod's first sandbox.
    pub attempt: u32,
    /// Its namespaces exist.
    pub ready: bool,
    /// The pod's addresses as the runtime reports them.
    pub ips: Vec<String>,
}

/// An instance of a container in the runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedContainer {
    /// Identifier of the runtime.
    pub id: String,
    /// Name in the pod's specification.
    pub name: String,
    /// The sandbox that it belongs to.
    pub sandbox_id: String,
    /// 0 for the first instance; the restart count of this instance.
    pub attempt: u32,
    /// Hash of the specification that it was created from, if it is known.
    pub spec_hash: Option<String>,
    /// The image as the specification named it.
    pub image: String,
    /// The image's identifier.
    pub image_id: String,
    /// What it does.
    pub phase: ContainerPhase,
}

/// What an instance does.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerPhase {
    /// Created and not started.
    Created,
    /// Running.
    Running {
        /// Since when.
        started_at: Option<Timestamp>,
    },
    /// Ended.
    Exited {
        /// Exit status; 128 and the number for a signal.
        code: i32,
        /// The runtime's reason (`OOMKilled`, ...), empty if it gave none.
        reason: String,
        /// Termination message.
        message: String,
        /// When it began.
        started_at: Option<Timestamp>,
        /// When it ended.
        finished_at: Option<Timestamp>,
    },
    /// The runtime does not know.
    Unknown,
}

/// What probes found out, by runtime identifier. A container without an entry has not been probed yet.
pub type Health = BTreeMap<String, ContainerHealth>;

/// What probes found out about one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerHealth {
    /// Its startup probe has succeeded.
    pub started: bool,
    /// Its readiness probe succeeds.
    pub ready: bool,
    /// Its liveness or startup probe has failed: the sentence that explains the kill.
    pub failed: Option<String>,
    /// The grace that the failed probe names, in seconds.
    pub grace_seconds: Option<i64>,
    /// A volume of it that has failed, where the pod's hooks are to be told.
    pub lost_volume: Option<String>,
}
