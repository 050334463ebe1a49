//! The reasons and fixed messages that [`crate::status`] writes, in Kubernetes' words.

/// Waiting: nothing has been tried yet.
pub const CONTAINER_CREATING: &str = "ContainerCreating";
/// Waiting: init containers run first.
pub const POD_INITIALIZING: &str = "PodInitializing";
/// Waiting: a restart waits for its back-off.
pub const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";
/// Waiting and terminated: all containers of the pod start again together.
pub const RESTARTING_ALL_CONTAINERS: &str = "RestartingAllContainers";
/// Message of [`RESTARTING_ALL_CONTAINERS`].
pub const RESTARTING_ALL_CONTAINERS_MESSAGE: &str =
    "The container is removed because RestartAllContainers in place";
/// Terminated: exit status 0.
pub const COMPLETED: &str = "Completed";
/// Terminated: any other exit status.
pub const ERROR: &str = "Error";
/// Terminated: the process could not be started.
pub const START_ERROR: &str = "StartError";
/// Terminated: the runtime no longer knows the container.
pub const CONTAINER_STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// Message of [`CONTAINER_STATUS_UNKNOWN`] while the pod lives.
pub const COULD_NOT_BE_LOCATED: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
/// Message of [`CONTAINER_STATUS_UNKNOWN`] of a container that had not ended when its pod had.
pub const COULD_NOT_BE_LOCATED_AT_END: &str =
    "The container could not be located when the pod was terminated";
/// Pod: active for longer than `activeDeadlineSeconds`.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// Message of [`DEADLINE_EXCEEDED`].
pub const DEADLINE_EXCEEDED_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
/// Pod: it took more of the node's disk than it may.
pub const EVICTED: &str = "Evicted";
/// Type of the condition of a pod that something outside it ends.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Condition: the node ends the pod.
pub const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";
/// Condition: some init containers have not completed.
pub const CONTAINERS_NOT_INITIALIZED: &str = "ContainersNotInitialized";
/// Condition: some containers are not ready.
pub const CONTAINERS_NOT_READY: &str = "ContainersNotReady";
/// Condition: a readiness gate is missing or false.
pub const READINESS_GATES_NOT_READY: &str = "ReadinessGatesNotReady";
/// Condition: a container ended whose rule makes all start again.
pub const CONTAINER_EXITED: &str = "ContainerExited";
/// Condition: the pod succeeded.
pub const POD_COMPLETED: &str = "PodCompleted";
/// Condition: the pod failed.
pub const POD_FAILED: &str = "PodFailed";
