//! Reasons of events, of waiting and terminated containers, of pods and of conditions. Users search for these words.

/// Reasons of events that the node writes. Those not marked as Coracle's own are Kubernetes'.
pub mod event {
    /// An image is being pulled.
    pub const PULLING: &str = "Pulling";
    /// An image was pulled, or was there already.
    pub const PULLED: &str = "Pulled";
    /// A container could not be configured, created or started, or its image not be pulled.
    pub const FAILED: &str = "Failed";
    /// A container was created.
    pub const CREATED: &str = "Created";
    /// A container was started.
    pub const STARTED: &str = "Started";
    /// A container is being stopped.
    pub const KILLING: &str = "Killing";
    /// A restart or a pull waits for its back-off.
    pub const BACK_OFF: &str = "BackOff";
    /// The image is absent and the pull policy is `Never`.
    pub const ERR_IMAGE_NEVER_PULL: &str = "ErrImageNeverPull";
    /// The image reference cannot be read, or the image not be inspected.
    pub const INSPECT_FAILED: &str = "InspectFailed";
    /// The pod sandbox could not be created.
    pub const FAILED_CREATE_POD_SANDBOX: &str = "FailedCreatePodSandBox";
    /// The sandbox has changed or died and is made anew.
    pub const SANDBOX_CHANGED: &str = "SandboxChanged";
    /// A volume could not be set up.
    pub const FAILED_MOUNT: &str = "FailedMount";
    /// The pod could not be synced.
    pub const FAILED_SYNC: &str = "FailedSync";
    /// The pod could not be stopped.
    pub const FAILED_KILL_POD: &str = "FailedKillPod";
    /// A postStart hook failed.
    pub const FAILED_POST_START_HOOK: &str = "FailedPostStartHook";
    /// A preStop hook failed.
    pub const FAILED_PRE_STOP_HOOK: &str = "FailedPreStopHook";
    /// A preStart hook failed (Coracle's own).
    pub const FAILED_PRE_START_HOOK: &str = "FailedPreStartHook";
    /// A postRestart hook failed (Coracle's own).
    pub const FAILED_POST_RESTART_HOOK: &str = "FailedPostRestartHook";
    /// A hook runs for long (Coracle's own).
    pub const HOOK_RUNNING: &str = "HookRunning";
    /// A hook has ended as it should (Coracle's own).
    pub const HOOK_FINISHED: &str = "HookFinished";
    /// An HTTPS hook was answered in plain HTTP and repeated so.
    pub const LIFECYCLE_HTTP_FALLBACK: &str = "LifecycleHTTPFallback";
    /// A hook or probe names a host that it must not reach (Coracle's own).
    pub const HOST_REFUSED: &str = "HostRefused";
    /// The pod asks for a kernel setting that it may not have.
    pub const SYSCTL_FORBIDDEN: &str = "SysctlForbidden";
    /// A probe failed or could not be run.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// A probe succeeded with a remark.
    pub const PROBE_WARNING: &str = "ProbeWarning";
    /// No cluster DNS exists: the pod got the node's resolver.
    pub const MISSING_CLUSTER_DNS: &str = "MissingClusterDNS";
    /// Name servers or search domains had to be left out of the pod's resolver configuration.
    pub const DNS_CONFIG_FORMING: &str = "DNSConfigForming";
    /// The pod's host name had to be cut.
    pub const HOSTNAME_TRUNCATED: &str = "HostnameTruncated";
    /// The pod was active for longer than its deadline.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// A pull secret does not exist or cannot be read.
    pub const FAILED_TO_RETRIEVE_IMAGE_PULL_SECRET: &str = "FailedToRetrieveImagePullSecret";
    /// A container's environment holds references that stay literal (Coracle's own).
    pub const UNRESOLVED_REFERENCE: &str = "UnresolvedReference";
    /// Findings about a container's environment other than unresolved references (Coracle's own).
    pub const ENVIRONMENT_FINDINGS: &str = "EnvironmentFindings";
    /// The environment is larger than the kernel accepts (Coracle's own).
    pub const ENV_TOO_LARGE: &str = "EnvTooLarge";
    /// A state file could not be read and was put aside (Coracle's own).
    pub const STATE_QUARANTINED: &str = "StateQuarantined";
    /// The runtime has no longer the sandbox that it made for the pod (Coracle's own).
    pub const SANDBOX_LOST: &str = "SandboxLost";
    /// The runtime has no longer a container that it started (Coracle's own).
    pub const CONTAINER_LOST: &str = "ContainerLost";
    /// A file of the directory of static pods holds no valid pod (Coracle's own).
    pub const INVALID_STATIC_POD: &str = "InvalidStaticPod";
    /// Something that the machine lacks was left out (Coracle's own).
    pub const CLAMPED: &str = "Clamped";
    /// The scheduler bound the pod to a node.
    pub const SCHEDULED: &str = "Scheduled";
    /// The scheduler found no node.
    pub const FAILED_SCHEDULING: &str = "FailedScheduling";
    /// The node agent started.
    pub const STARTING: &str = "Starting";
    /// The node is ready.
    pub const NODE_READY: &str = "NodeReady";
    /// The node says nothing any more; of a pod: its node.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// A pod is ended, or not after all, because of a taint of its node.
    pub const TAINT_MANAGER_EVICTION: &str = "TaintManagerEviction";
    /// The pod was evicted.
    pub const EVICTED: &str = "Evicted";
}

/// Reasons of `status.containerStatuses[].state.waiting`.
pub mod waiting {
    /// Nothing has been tried yet.
    pub const CONTAINER_CREATING: &str = "ContainerCreating";
    /// Init containers run first.
    pub const POD_INITIALIZING: &str = "PodInitializing";
    /// The configuration could not be made: a missing ConfigMap, Secret, key, env file, or a security rule.
    pub const CREATE_CONTAINER_CONFIG_ERROR: &str = "CreateContainerConfigError";
    /// The runtime refused to create the container.
    pub const CREATE_CONTAINER_ERROR: &str = "CreateContainerError";
    /// The runtime could not start the container.
    pub const RUN_CONTAINER_ERROR: &str = "RunContainerError";
    /// A preStart hook failed (Coracle's own).
    pub const PRE_START_HOOK_ERROR: &str = "PreStartHookError";
    /// A postStart hook failed.
    pub const POST_START_HOOK_ERROR: &str = "PostStartHookError";
    /// A restart waits for its back-off.
    pub const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";
    /// The image could not be pulled.
    pub const ERR_IMAGE_PULL: &str = "ErrImagePull";
    /// The next pull waits for its back-off.
    pub const IMAGE_PULL_BACK_OFF: &str = "ImagePullBackOff";
    /// The image could not be inspected.
    pub const IMAGE_INSPECT_ERROR: &str = "ImageInspectError";
    /// The image is absent and the pull policy is `Never`.
    pub const ERR_IMAGE_NEVER_PULL: &str = "ErrImageNeverPull";
    /// The image reference cannot be read.
    pub const INVALID_IMAGE_NAME: &str = "InvalidImageName";
    /// The registry cannot be reached.
    pub const REGISTRY_UNAVAILABLE: &str = "RegistryUnavailable";
    /// The environment is larger than the kernel accepts (Coracle's own).
    pub const ENV_TOO_LARGE: &str = "EnvTooLarge";
}

/// Reasons of `status.containerStatuses[].state.terminated`.
pub mod terminated {
    /// Exit status 0.
    pub const COMPLETED: &str = "Completed";
    /// Any other exit status.
    pub const ERROR: &str = "Error";
    /// Killed by the kernel for its memory.
    pub const OOM_KILLED: &str = "OOMKilled";
    /// The process could not be started (exit status 128).
    pub const START_ERROR: &str = "StartError";
    /// The runtime no longer knows the container.
    pub const CONTAINER_STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
}

/// Reasons of `status.reason` of a pod.
pub mod pod {
    /// The pod was active for longer than `activeDeadlineSeconds`.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// The pod was evicted.
    pub const EVICTED: &str = "Evicted";
    /// The node refuses the pod's shape.
    pub const UNSUPPORTED: &str = "UnsupportedPod";
}

/// Reasons of pod conditions.
pub mod condition {
    /// `ContainersReady`, `Ready`: some containers are not ready.
    pub const CONTAINERS_NOT_READY: &str = "ContainersNotReady";
    /// `Initialized`: some init containers have not completed.
    pub const CONTAINERS_NOT_INITIALIZED: &str = "ContainersNotInitialized";
    /// The pod succeeded.
    pub const POD_COMPLETED: &str = "PodCompleted";
    /// The pod failed.
    pub const POD_FAILED: &str = "PodFailed";
    /// `Ready`: a readiness gate is missing or false.
    pub const READINESS_GATES_NOT_READY: &str = "ReadinessGatesNotReady";
    /// `PodScheduled`: the scheduler found no node.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_reason_of_an_event_is_documented() {
        let source = include_str!("reasons.rs");
        let events = source.split("pub mod event {").nth(1).and_then(|rest| rest.split("\n}\n").next());
        let table = include_str!("../../../docs/events.md");
        for line in events.expect("the module of events").lines().filter(|line| line.contains("pub const")) {
            let reason = line.split('"').nth(1).expect("a reason");
            assert!(table.contains(&format!("| `{reason}` |")), "docs/events.md lacks {reason}");
        }
    }
}
