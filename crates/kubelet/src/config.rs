//! How a node agent is set up: everything that a command line or a test may choose.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::FeatureGates;
use informer::Informer;
use k8s_openapi::api::core::v1::Service;

/// Which hosts hooks and probes may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookHosts {
    /// Any that the pod can reach, but link-local addresses.
    #[default]
    Any,
    /// The pod itself: its own addresses and its loopback.
    Pod,
}

/// The settings of one node agent.
#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// Name of the node and of its object.
    pub node_name: String,
    /// Directory of the agent's state: pods, volumes, logs. Created with mode 0700.
    pub root_dir: PathBuf,
    /// Where the directories are that answer claims. They stay when pods go.
    pub claims_dir: PathBuf,
    /// The node's addresses, the primary one first.
    pub addresses: Vec<String>,
    /// The ranges from which its pods get their addresses, in the same order; none where that is not known.
    pub pod_cidrs: Vec<String>,
    /// Where the node's HTTP interface is served, as its object says; [`crate::KubeletHandle::serve`] serves it.
    pub port: u16,
    /// Which optional behaviour is on.
    pub feature_gates: FeatureGates,
    /// How env files are read.
    pub env_file_syntax: envfile::Syntax,
    /// A container with an unresolved reference waits with `CreateContainerConfigError`.
    pub strict_references: bool,
    /// Containers get the runtime's default seccomp profile unless they say otherwise.
    pub seccomp_default: bool,
    /// Where the seccomp profiles of the node lie, which pods name by `localhostProfile`.
    pub seccomp_dir: PathBuf,
    /// Where hooks and probes may connect to.
    pub hook_hosts: HookHosts,
    /// Domain of the cluster, for host names.
    pub cluster_domain: String,
    /// Addresses of the cluster's DNS; empty while there is none.
    pub cluster_dns: Vec<String>,
    /// The node shows that it lives by renewing its lease with each heartbeat. Without, the lease is renewed only when the
    /// status is written: whoever watches over the node knows by other means.
    pub renews_lease: bool,
    /// How often the node's status is confirmed.
    pub heartbeat: Duration,
    /// How often a pod is looked at when nothing happens.
    pub resync: Duration,
    /// How often the disk that pods take is measured.
    pub usage_interval: Duration,
    /// All services of the cluster, kept by somebody else of this process; without, they are listed for each start.
    pub services: Option<Informer<Service>>,
    /// A directory of manifests whose pods run here whatever the API says.
    pub static_pod_dir: Option<PathBuf>,
    /// How often that directory is looked at.
    pub static_pod_interval: Duration,
}

impl KubeletConfig {
    /// Settings with defaults for a node of that name.
    pub fn new(node_name: impl Into<String>, root_dir: impl Into<PathBuf>) -> Self {
        let root_dir = root_dir.into();
        Self {
            node_name: node_name.into(),
            seccomp_dir: root_dir.join("seccomp"),
            claims_dir: root_dir.join("claims"),
            root_dir,
            addresses: vec!["127.0.0.1".to_owned()],
            pod_cidrs: Vec::new(),
            port: 10250,
            feature_gates: FeatureGates::default(),
            env_file_syntax: envfile::Syntax::default(),
            strict_references: false,
            seccomp_default: true,
            hook_hosts: HookHosts::default(),
            cluster_domain: "cluster.local".to_owned(),
            cluster_dns: Vec::new(),
            renews_lease: true,
            heartbeat: Duration::from_secs(10),
            resync: Duration::from_secs(60),
            usage_interval: Duration::from_secs(10),
            services: None,
            static_pod_dir: None,
            static_pod_interval: Duration::from_secs(1),
        }
    }

    /// Where everything of one pod is kept.
    pub(crate) fn pod_dirs(&self, uid: &str) -> PodDirs {
        PodDirs::new(&self.root_dir, uid)
    }

    /// Directory of a pod's logs, as the runtime gets it.
    pub(crate) fn log_dir(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.root_dir.join("logs").join(format!("{namespace}_{name}_{uid}"))
    }
}

/// The directories and files of one pod.
#[derive(Clone, Debug)]
pub(crate) struct PodDirs {
    root: PathBuf,
}

impl PodDirs {
    pub(crate) fn new(root_dir: &Path, uid: &str) -> Self {
        Self { root: root_dir.join("pods").join(uid) }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn state_file(&self) -> PathBuf {
        self.root.join("state.json")
    }

    pub(crate) fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.volumes().join(name)
    }

    pub(crate) fn sub_paths(&self) -> PathBuf {
        self.root.join("subpaths")
    }

    /// The pipes through which hooks that run are heard.
    pub(crate) fn hook_output(&self) -> PathBuf {
        self.root.join("hook-output")
    }

    pub(crate) fn hosts_file(&self) -> PathBuf {
        self.root.join("etc-hosts")
    }

    pub(crate) fn termination_message(&self, container: &str, attempt: u32) -> PathBuf {
        self.root.join("containers").join(container).join(format!("{attempt}.termination"))
    }

    pub(crate) fn environment_record(&self, container: &str) -> PathBuf {
        self.root.join("containers").join(container).join("environment.json")
    }
}
